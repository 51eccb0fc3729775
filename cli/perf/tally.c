/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/tally.h"

#include <stdarg.h>
#include <stdio.h>

void dt_perf_tally_add(struct dt_perf_tally *tally, enum dt_perf_wrong kind, uint64_t count,
                       const char *format, ...)
{
    va_list args;

    if (!count)
        return;
    if (!dt_perf_tally_total(tally)) {
        va_start(args, format);
        vsnprintf(tally->first, sizeof tally->first, format, args);
        va_end(args);
    }
    tally->count[kind] += count;
}

uint64_t dt_perf_tally_total(const struct dt_perf_tally *tally)
{
    uint64_t total = 0;

    for (int kind = 0; kind < DT_PERF_WRONG_KINDS; kind++)
        total += tally->count[kind];
    return total;
}
