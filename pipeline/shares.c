/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/shares.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

/* Digits alone; *end is behind them. */
static bool read_number(const char *text, uint64_t max, uint64_t *value, char **end)
{
    if (*text < '0' || *text > '9')
        return false;
    *value = strtoull(text, end, 10);
    return *value <= max;
}

static bool read_set(const char *text, struct dt_pipeline_share_set *set)
{
    uint64_t value;
    char *end;

    *set = (struct dt_pipeline_share_set){0};
    for (;; text = end + 1) {
        if (set->replicas == DT_PIPELINE_SHARE_REPLICAS_MAX ||
            !read_number(text, DT_PIPELINE_SHARE_MICROBATCHES_MAX, &value, &end) || value == 0)
            return false;
        set->counts[set->replicas++] = (int32_t)value;
        if (*end != ',')
            break;
    }
    if (*end == '@') {
        if (!read_number(end + 1, UINT32_MAX, &value, &end))
            return false;
        set->from = (uint32_t)value;
    }
    return *end == '\0';
}

bool dt_pipeline_shares_add(struct dt_pipeline_shares *shares, const char *text)
{
    struct dt_pipeline_share_set *set = &shares->sets[shares->set_count];

    if (shares->set_count == DT_PIPELINE_SHARE_SETS_MAX || !read_set(text, set) ||
        (shares->set_count > 0 && set->from <= set[-1].from))
        return false;
    shares->set_count++;
    return true;
}

static int64_t sum_of(const struct dt_pipeline_share_set *set)
{
    int64_t sum = 0;

    for (int32_t i = 0; i < set->replicas; i++)
        sum += set->counts[i];
    return sum;
}

bool dt_pipeline_shares_find_wrong(const struct dt_pipeline_shares *shares, int32_t replicas,
                                   int32_t microbatches, uint32_t iterations,
                                   char text[DT_PIPELINE_SHARES_TEXT_BYTES])
{
    const int64_t total = (int64_t)replicas * microbatches;

    for (size_t i = 0; i < shares->set_count; i++) {
        const struct dt_pipeline_share_set *set = &shares->sets[i];
        bool is_wrong = true;

        if (set->replicas != replicas)
            snprintf(text, DT_PIPELINE_SHARES_TEXT_BYTES,
                     "%" PRId32 " counts from iteration %" PRIu32 " on, but there are %" PRId32 " replicas",
                     set->replicas, set->from, replicas);
        else if (sum_of(set) != total)
            snprintf(text, DT_PIPELINE_SHARES_TEXT_BYTES,
                     "the counts from iteration %" PRIu32 " on sum up to %" PRId64 "; %" PRId32
                     " replicas of %" PRId32 " microbatches have %" PRId64,
                     set->from, sum_of(set), replicas, microbatches, total);
        else if (set->from >= iterations)
            snprintf(text, DT_PIPELINE_SHARES_TEXT_BYTES, "@%" PRIu32 ": iterations are 0 to %" PRIu32,
                     set->from, iterations - 1);
        else
            is_wrong = false;
        if (is_wrong)
            return true;
    }
    return false;
}

static const struct dt_pipeline_share_set *set_of(const struct dt_pipeline_shares *shares, uint32_t iteration)
{
    const struct dt_pipeline_share_set *found = NULL;

    for (size_t i = 0; i < shares->set_count && shares->sets[i].from <= iteration; i++)
        found = &shares->sets[i];
    return found;
}

struct dt_pipeline_share dt_pipeline_share_of(const struct dt_pipeline_shares *shares, int32_t replicas,
                                              int32_t microbatches, int32_t replica, uint32_t iteration)
{
    const struct dt_pipeline_share_set *set = set_of(shares, iteration);
    struct dt_pipeline_share share = {.total = replicas * microbatches};

    DT_CHECK(replica >= 0 && replica < replicas && (!set || set->replicas == replicas));
    for (int32_t i = 0; i <= replica; i++) {
        share.first += share.count;
        share.count = set ? set->counts[i] : microbatches;
    }
    return share;
}

int32_t dt_pipeline_shares_largest(const struct dt_pipeline_shares *shares, int32_t microbatches)
{
    int32_t largest = microbatches;

    for (size_t i = 0; i < shares->set_count; i++)
        for (int32_t k = 0; k < shares->sets[i].replicas; k++)
            if (shares->sets[i].counts[k] > largest)
                largest = shares->sets[i].counts[k];
    return largest;
}
