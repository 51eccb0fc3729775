/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

const char *dt_status_text(enum dt_status status)
{
    switch (status) {
#define DT_STATUS_CASE(name, value, text) \
    case name:                            \
        return text;
        DT_STATUS_LIST(DT_STATUS_CASE)
#undef DT_STATUS_CASE
    }
    return "unknown status";
}
