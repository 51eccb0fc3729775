/* SPDX-License-Identifier: Apache-2.0 */
/* Where the slowness is, from the times of a validation: FALCON, section 4.3. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/util.h"
#include "detour/mitigate.h"
#include "sched/arena.h"
#include "sched/call.h"

enum { DEFAULT_THRESHOLD_PERMILLE = 1100, PERMILLE = 1000 };

struct diagnosis {
    struct detour_arena *arena;
    const struct detour_validation *validation;
    const struct detour_validation_times *times;
    const struct detour_validation *confirm;
    const int64_t *confirm_ns;
    int64_t threshold_permille;
    int64_t pair_reference_ns;
    int64_t compute_reference_ns;
    int32_t *pairs_of; /* [rank] */
    int32_t *slow_of;  /* [rank]: slow pairs */
    int64_t *rank_ns;  /* [rank]: to a healthy rank, where that is slow; else 0 */
    struct detour_slow *slow;
    int32_t slow_count;
    struct detour_error *error;
};

static bool is_above(const struct diagnosis *d, int64_t time_ns, int64_t reference_ns)
{
    return (__int128)time_ns * PERMILLE > (__int128)reference_ns * d->threshold_permille;
}

static bool is_slow_pair(const struct diagnosis *d, int32_t pair)
{
    return is_above(d, d->times->pair_ns[pair], d->pair_reference_ns);
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* The median, of an even number the smaller one: slow times are the larger ones. */
static enum detour_status find_median(const struct diagnosis *d, const int64_t *times_ns, int32_t count,
                                      int64_t *median_ns)
{
    struct dt_arena_mark mark = dt_arena_save(d->arena);
    int64_t *sorted;

    if (!dt_arena_new(d->arena, sorted, count))
        return dt_fail_memory(d->error);
    for (int32_t k = 0; k < count; k++)
        sorted[k] = times_ns[k];
    qsort(sorted, (size_t)count, sizeof(*sorted), compare);
    *median_ns = sorted[(count - 1) / 2];
    dt_arena_rewind(d->arena, mark);
    return DETOUR_OK;
}

static enum detour_status check_times(const char *name, const int64_t *times_ns, int32_t count,
                                      struct detour_error *error)
{
    for (int32_t k = 0; k < count; k++)
        if (times_ns[k] < 1 || times_ns[k] > DETOUR_TIME_MAX_NS)
            return dt_error_set(error, DETOUR_INVALID,
                                "%s[%" PRId32 "] is %" PRId64 "; it must be from 1 to %" PRId64, name, k,
                                times_ns[k], (int64_t)DETOUR_TIME_MAX_NS);
    return DETOUR_OK;
}

static enum detour_status check_pairs(const char *name, const struct detour_validation *validation,
                                      int32_t rank_count, struct detour_error *error)
{
    if (validation->rank_count != rank_count || rank_count < 2 || rank_count > DETOUR_RANKS_MAX ||
        validation->pair_count < 1)
        return dt_error_set(error, DETOUR_INVALID,
                            "%s has %" PRId32 " ranks and %" PRId32
                            " pairs; it must be a validation of 2 to %d ranks",
                            name, validation->rank_count, validation->pair_count, DETOUR_RANKS_MAX);
    for (int32_t k = 0; k < validation->pair_count; k++) {
        struct detour_rank_pair pair = validation->pairs[k];
        if (pair.from < 0 || pair.from >= rank_count || pair.to < 0 || pair.to >= rank_count ||
            pair.from == pair.to)
            return dt_error_set(error, DETOUR_INVALID,
                                "%s: pairs[%" PRId32 "] is %" PRId32 "-%" PRId32
                                "; it must be two ranks from 0 to %" PRId32,
                                name, k, pair.from, pair.to, rank_count - 1);
    }
    return DETOUR_OK;
}

static enum detour_status check(const struct diagnosis *d, const struct detour_diagnose_options *options)
{
    const struct detour_validation *v = d->validation;
    enum detour_status status = check_pairs("validation", v, v->rank_count, d->error);

    if (!status)
        status = check_times("pair_ns", d->times->pair_ns, v->pair_count, d->error);
    if (!status && d->times->compute_ns)
        status = check_times("compute_ns", d->times->compute_ns, v->rank_count, d->error);
    if (!status && d->confirm)
        status = check_pairs("confirm", d->confirm, v->rank_count, d->error);
    if (!status && d->confirm)
        status = check_times("confirm_ns", d->confirm_ns, d->confirm->pair_count, d->error);
    if (!status && (options->threshold_permille < 0 || options->pair_reference_ns < 0 ||
                    options->compute_reference_ns < 0))
        status = dt_error_set(d->error, DETOUR_INVALID, "a threshold or a reference is negative");
    return status;
}

static enum detour_status prepare(struct diagnosis *d, const struct detour_diagnose_options *options)
{
    size_t rank_count = (size_t)d->validation->rank_count;
    enum detour_status status = DETOUR_OK;

    d->threshold_permille =
        options->threshold_permille ? options->threshold_permille : DEFAULT_THRESHOLD_PERMILLE;
    d->pair_reference_ns = options->pair_reference_ns;
    d->compute_reference_ns = options->compute_reference_ns;
    if (!dt_arena_new(d->arena, d->slow, 2 * rank_count + (size_t)d->validation->pair_count) ||
        !dt_arena_new(d->arena, d->pairs_of, rank_count) || !dt_arena_new(d->arena, d->slow_of, rank_count) ||
        !dt_arena_new(d->arena, d->rank_ns, rank_count))
        return dt_fail_memory(d->error);
    if (!d->pair_reference_ns)
        status = find_median(d, d->times->pair_ns, d->validation->pair_count, &d->pair_reference_ns);
    if (!status && d->times->compute_ns && !d->compute_reference_ns)
        status = find_median(d, d->times->compute_ns, d->validation->rank_count, &d->compute_reference_ns);
    for (int32_t k = 0; !status && k < d->validation->pair_count; k++) {
        const int32_t ends[] = {d->validation->pairs[k].from, d->validation->pairs[k].to};
        for (size_t e = 0; e < DT_COUNT_OF(ends); e++) {
            d->pairs_of[ends[e]]++;
            d->slow_of[ends[e]] += is_slow_pair(d, k);
        }
    }
    return status;
}

static void add(struct diagnosis *d, enum detour_slow_kind kind, int32_t rank, int32_t peer, int64_t time_ns,
                int64_t reference_ns)
{
    __int128 factor = (__int128)time_ns * PERMILLE / reference_ns;

    d->slow[d->slow_count++] =
        (struct detour_slow){kind, rank, peer, factor < INT32_MAX ? (int32_t)factor : INT32_MAX};
}

static bool is_suspect(const struct diagnosis *d, int32_t rank)
{
    return d->pairs_of[rank] > 0 && d->slow_of[rank] == d->pairs_of[rank];
}

static bool is_healthy(const struct diagnosis *d, int32_t rank)
{
    return d->pairs_of[rank] > 0 && d->slow_of[rank] == 0;
}

/* Every suspect with a healthy rank. Passes are as large as the healthy ranks allow; sending suspects first.
 */
static enum detour_status make_confirm(const struct diagnosis *d, int32_t suspects, int32_t healthy,
                                       const struct detour_validation **confirm)
{
    int32_t pass_count = (suspects + healthy - 1) / healthy, count = 0, partner = 0;
    struct detour_validation *made;
    struct detour_rank_pair *pairs;
    int32_t *first;

    if (!dt_arena_new(d->arena, made, 1) || !dt_arena_new(d->arena, pairs, suspects) ||
        !dt_arena_new(d->arena, first, pass_count + 1))
        return dt_fail_memory(d->error);
    for (int32_t rank = 0; rank < d->validation->rank_count; rank++) {
        if (!is_suspect(d, rank))
            continue;
        if (count % healthy == 0) {
            first[count / healthy] = count;
            partner = 0;
        }
        while (!is_healthy(d, partner))
            partner++;
        pairs[count++] = (struct detour_rank_pair){rank, partner++};
    }
    first[pass_count] = count;
    *made = (struct detour_validation){d->validation->rank_count, pass_count, count, first, pairs};
    *confirm = made;
    return DETOUR_OK;
}

static void add_ranks(struct diagnosis *d)
{
    const int64_t *compute_ns = d->times->compute_ns;

    for (int32_t rank = 0; compute_ns && rank < d->validation->rank_count; rank++)
        if (is_above(d, compute_ns[rank], d->compute_reference_ns))
            add(d, DETOUR_SLOW_COMPUTE, rank, -1, compute_ns[rank], d->compute_reference_ns);
    for (int32_t k = 0; d->confirm && k < d->confirm->pair_count; k++)
        if (is_above(d, d->confirm_ns[k], d->pair_reference_ns))
            d->rank_ns[d->confirm->pairs[k].from] = d->confirm_ns[k];
    for (int32_t rank = 0; rank < d->validation->rank_count; rank++)
        if (d->rank_ns[rank])
            add(d, DETOUR_SLOW_NETWORK, rank, -1, d->rank_ns[rank], d->pair_reference_ns);
}

static int compare_links(const void *left, const void *right)
{
    const struct detour_slow *a = left, *b = right;

    return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank)
                              : (a->peer > b->peer) - (a->peer < b->peer);
}

static void add_links(struct diagnosis *d)
{
    int32_t ranks = d->slow_count;

    for (int32_t k = 0; k < d->validation->pair_count; k++) {
        struct detour_rank_pair pair = d->validation->pairs[k];
        int64_t explained_ns =
            d->rank_ns[pair.from] > d->rank_ns[pair.to] ? d->rank_ns[pair.from] : d->rank_ns[pair.to];
        if (is_slow_pair(d, k) && (!explained_ns || is_above(d, d->times->pair_ns[k], explained_ns)))
            add(d, DETOUR_SLOW_LINK, pair.from, pair.to, d->times->pair_ns[k], d->pair_reference_ns);
    }
    qsort(d->slow + ranks, (size_t)(d->slow_count - ranks), sizeof(*d->slow), compare_links);
}

enum detour_status detour_diagnose(struct detour_arena *arena, const struct detour_validation *validation,
                                   const struct detour_validation_times *times,
                                   const struct detour_validation *confirm, const int64_t *confirm_ns,
                                   const struct detour_diagnose_options *options,
                                   struct detour_diagnosis *diagnosis, struct detour_error *error)
{
    static const struct detour_diagnose_options defaults;
    struct diagnosis d = {.arena = arena,
                          .validation = validation,
                          .times = times,
                          .confirm = confirm_ns ? confirm : NULL,
                          .confirm_ns = confirm_ns,
                          .error = error};
    struct detour_diagnosis made = {0};
    int32_t suspects = 0, healthy = 0;

    options = options ? options : &defaults;
    enum detour_status status = check(&d, options);
    if (!status)
        status = prepare(&d, options);
    if (status)
        return status;
    for (int32_t rank = 0; rank < validation->rank_count; rank++) {
        suspects += is_suspect(&d, rank);
        healthy += is_healthy(&d, rank);
    }
    made.ambiguous = suspects && !healthy && !d.confirm;
    if (suspects && healthy && !d.confirm)
        status = make_confirm(&d, suspects, healthy, &made.confirm);
    if (status)
        return status;
    add_ranks(&d);
    add_links(&d);
    made.slow = d.slow;
    made.slow_count = d.slow_count;
    *diagnosis = made;
    return DETOUR_OK;
}
