/* SPDX-License-Identifier: Apache-2.0 */
/* How long messages wait for their copies out of a GPU (hostpath/staged/stage_late.h), for tests that hold
 * copies back, and for those that expect each to be made, however busy the machine is. */
#ifndef DETOUR_TESTS_PLUGIN_LATE_H
#define DETOUR_TESTS_PLUGIN_LATE_H

#include "hostpath/staged/stage_late.h"

#ifdef __cplusplus

namespace detour_test
{
inline void SetLate(void *send, uint64_t late_ns)
{
    dt_sender_of(static_cast<dt_connection *>(send))->stage->late_ns = late_ns;
}
} // namespace detour_test

#endif

#endif
