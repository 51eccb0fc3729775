/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/period.h"

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

uint32_t dt_period_vote(const uint32_t *votes, uint32_t count)
{
    uint32_t best = 0;

    for (uint32_t period = 1; period < count; period++) {
        if (votes[period] > (best ? votes[best] : 0))
            best = period;
    }
    return best;
}
