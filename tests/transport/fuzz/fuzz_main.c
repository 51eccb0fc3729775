/* SPDX-License-Identifier: Apache-2.0 */
/* The libFuzzer target DETOUR_FUZZ of door_fuzz.h. Built by run.sh. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "tests/transport/fuzz/door_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Refused input is also logged; the log is discarded here. */
static void discard(void *arg, enum dt_log_level level, const char *file, int line, const char *text)
{
    (void)arg;
    (void)level;
    (void)file;
    (void)line;
    (void)text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dt_log_set_sink(discard, NULL, DT_LOG_TRACE);
    const char *problem = DETOUR_FUZZ(data, bytes);

    if (problem) {
        fprintf(stderr, "%s\n", problem);
        abort();
    }
    return 0;
}
