/* SPDX-License-Identifier: Apache-2.0 */
/* The libFuzzer target of rewind_fuzz.h. Built by run.sh. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/failover/fuzz/rewind_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *problem = dt_fuzz_rewind(data, bytes);

    if (problem) {
        fprintf(stderr, "%s\n", problem);
        abort();
    }
    return 0;
}
