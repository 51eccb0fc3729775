/* SPDX-License-Identifier: Apache-2.0 */
/* A libFuzzer target: DETOUR_FUZZ is the function of format_fuzz.h or model_fuzz.h to call. Built by run.sh.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/planner/fuzz/model_fuzz.h"
#include "tests/sched/fuzz/format_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *problem = DETOUR_FUZZ((const char *)data, bytes);

    if (problem) {
        fprintf(stderr, "%s\n", problem);
        abort();
    }
    return 0;
}
