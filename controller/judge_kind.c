/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/judge_kind.h"

#include <math.h>
#include <string.h>

#include "base/util.h"

#define SLOW_EVERY   8             /* rounds between two looks at the spreads of a kind */
#define CHANGE_NS    5000000000ull /* or 4 spans, 3 periods of its reports: an older value is past */
#define ERROR_MIN    1e-6          /* a measured error is not 0, which means that it is unknown */
#define SCALE_MEDIAN 1.4826

/* Hoare's selection; reorders the values. */
static double select_value(double *values, uint32_t count, uint32_t wanted)
{
    uint32_t low = 0, high = count - 1;

    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        uint32_t i = low, j = high;

        for (;;) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i >= j)
                break;
            double value = values[i];
            values[i++] = values[j];
            values[j--] = value;
        }
        if (j < wanted)
            low = j + 1;
        else
            high = j;
    }
    return values[wanted];
}

double dt_judge_median(double *values, uint32_t count)
{
    return select_value(values, count, count / 2);
}

enum quantity { CHANGE, LEVEL, SPREAD };

/*
 * Long before the last report of its kind: the last value of an unused link is no change of the kind. By when
 * reports came, not by their own times: those of a host whose clock was set back are older.
 */
static bool is_past(const struct dt_judge *judge, const struct dt_judge_member *member)
{
    return member->seen_ns + dt_max_u64(CHANGE_NS, dt_max_u64(4 * judge->span_ns, 3 * member->gap_ns)) <
           judge->kinds[member->kind].seen_ns;
}

/* Of the learned members of a kind with recent reports, into `scratch`; returns how many. */
static uint32_t collect(struct dt_judge *judge, uint32_t kind, enum quantity quantity)
{
    bool is_rank = judge->kinds[kind].is_rank;
    uint32_t count = 0, end = is_rank ? judge->link_count + judge->rank_count : judge->link_count;

    for (uint32_t i = is_rank ? judge->link_count : 0; i < end; i++) {
        const struct dt_judge_member *member = dt_judge_member_at(judge, i);
        const struct dt_series *series = &member->series;

        if (member->kind != kind || !dt_series_is_learned(series) || !dt_judge_is_recent(judge, member) ||
            (quantity == CHANGE && is_past(judge, member)))
            continue;
        judge->scratch[count++] = quantity == CHANGE  ? member->last - series->reference
                                  : quantity == LEVEL ? series->reference
                                                      : fabs(series->reference - judge->kinds[kind].level);
    }
    return count;
}

static bool window_mean(const struct dt_judge *judge, const struct dt_judge_member *member, uint32_t window,
                        double *mean)
{
    return member && dt_judge_is_recent(judge, member) && !member->series.is_slow &&
           dt_series_window(&member->series, window, mean);
}

/*
 * How far the means of equal windows lie apart: the standard error of such a mean, with all noise that there
 * is. `is_both`: of the two directions of each link, which may share noise.
 */
static double window_error(struct dt_judge *judge, uint32_t kind, uint32_t window, bool is_both)
{
    bool is_rank = judge->kinds[kind].is_rank;
    uint32_t count = 0, end = is_rank ? judge->link_count + judge->rank_count : judge->link_count;

    for (uint32_t i = is_rank ? judge->link_count : 0; i < end; i++) {
        const struct dt_judge_member *member = dt_judge_member_at(judge, i);
        double mean, back_mean = 0;

        if (member->kind != kind || !window_mean(judge, member, window, &mean))
            continue;
        if (is_both && !window_mean(judge, dt_judge_back(judge, i), window, &back_mean))
            continue;
        judge->scratch[count++] = fabs(is_both ? (mean + back_mean) / 2 : mean);
    }
    return count < DT_JUDGE_KIND_MIN ? 0
                                     : fmax(SCALE_MEDIAN * dt_judge_median(judge->scratch, count), ERROR_MIN);
}

void dt_judge_kind_measure(struct dt_judge *judge, uint32_t at)
{
    struct dt_judge_kind *kind = &judge->kinds[at];

    if (!kind->is_news)
        return;
    kind->count = collect(judge, at, CHANGE);
    if (kind->count < DT_JUDGE_KIND_MIN) {
        kind->change = 0;
        memset(&kind->errors, 0, sizeof kind->errors);
        return;
    }
    kind->change = dt_judge_median(judge->scratch, kind->count);
    if (kind->rounds++ % SLOW_EVERY != 0)
        return;
    for (uint32_t w = kind->is_spiky; w < DT_SERIES_WINDOWS; w++)
        kind->errors.one[w] = window_error(judge, at, w, false);
    for (uint32_t w = 1; w < DT_SERIES_WINDOWS && !kind->is_rank; w++)
        kind->errors.both[w] = window_error(judge, at, w, true);
    kind->level = dt_judge_median(judge->scratch, collect(judge, at, LEVEL));
    kind->spread = SCALE_MEDIAN * dt_judge_median(judge->scratch, collect(judge, at, SPREAD));
}
