/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/period.h"

#include <stdlib.h>

uint32_t dt_period_find(const double *values, uint32_t count)
{
    double mean = 0, variance = 0;

    if (count < DT_PERIOD_REPEATS_MIN)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        mean += values[i] / count;
    for (uint32_t i = 0; i < count; i++)
        variance += (values[i] - mean) * (values[i] - mean) / count;
    /* Sizes are integers: smaller values are rounding errors. */
    if (variance <= 1e-18 * mean * mean)
        return 1;
    for (uint32_t lag = 1; lag <= count / DT_PERIOD_REPEATS_MIN; lag++) {
        double sum = 0;

        for (uint32_t i = 0; i + lag < count; i++)
            sum += (values[i] - mean) * (values[i + lag] - mean);
        if (sum / (count - lag) >= DT_PERIOD_THRESHOLD * variance)
            return lag;
    }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, two = *(const uint32_t *)b;

    return one < two ? -1 : one > two;
}

uint32_t dt_period_vote(uint32_t *periods, uint32_t count)
{
    uint32_t best = 0, best_votes = 0;

    if (count == 0)
        return 0;
    qsort(periods, count, sizeof *periods, by_value);
    for (uint32_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && periods[end] == periods[first];)
            end++;
        if (periods[first] && end - first > best_votes) {
            best = periods[first];
            best_votes = end - first;
        }
    }
    return best;
}
