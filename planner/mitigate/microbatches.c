/* SPDX-License-Identifier: Apache-2.0 */
/* S2: the numbers of microbatches of slow and fast replicas; FALCON, section 5.3, equation 1. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "detour/mitigate.h"
#include "sched/arena.h"
#include "sched/call.h"
#include "sched/heap.h"

#define FIXED_MAX_NS (DETOUR_TIME_MAX_NS * DETOUR_STAGES_MAX)
/* The common time is computed in doubles: this much less of it is never too much. */
#define CAUTION 1e-9

/* A replica by the time of its first microbatch. */
struct entry {
    int64_t first_ns;
    int32_t replica;
};

struct assignment {
    const struct detour_replica *replicas;
    int32_t replica_count;
    int32_t microbatch_count;
    struct entry *slowest; /* in descending order of first_ns */
    double *rate;          /* [k]: microbatches per ns of slowest[k..] */
    double *fixed;         /* [k]: microbatches that their fixed times would have been */
    int32_t *counts;
};

static int64_t load_ns(const struct assignment *a, int32_t replica, int32_t count)
{
    return a->replicas[replica].fixed_ns + count * a->replicas[replica].microbatch_ns;
}

static int compare(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    if (a->first_ns != b->first_ns)
        return a->first_ns < b->first_ns ? 1 : -1;
    return a->replica < b->replica ? -1 : 1;
}

static enum detour_status check(const struct assignment *a, struct detour_error *error)
{
    if (a->replica_count < 1 || a->replica_count > DETOUR_REPLICAS_MAX)
        return dt_error_set(error, DETOUR_LIMIT, "replica_count is %" PRId32 "; it must be from 1 to %d",
                            a->replica_count, DETOUR_REPLICAS_MAX);
    if (a->microbatch_count < a->replica_count)
        return dt_error_set(error, DETOUR_INVALID,
                            "microbatch_count is %" PRId32 " for %" PRId32
                            " replicas; every replica needs at least one microbatch",
                            a->microbatch_count, a->replica_count);
    if (a->microbatch_count > DETOUR_CELLS_MAX)
        return dt_error_set(error, DETOUR_LIMIT, "microbatch_count is %" PRId32 "; at most %d are possible",
                            a->microbatch_count, DETOUR_CELLS_MAX);
    for (int32_t r = 0; r < a->replica_count; r++) {
        if (a->replicas[r].microbatch_ns < 1 || a->replicas[r].microbatch_ns > DETOUR_TIME_MAX_NS)
            return dt_error_set(error, DETOUR_INVALID,
                                "replicas[%" PRId32 "].microbatch_ns is %" PRId64
                                "; it must be from 1 to %" PRId64,
                                r, a->replicas[r].microbatch_ns, (int64_t)DETOUR_TIME_MAX_NS);
        if (a->replicas[r].fixed_ns < 0 || a->replicas[r].fixed_ns > FIXED_MAX_NS)
            return dt_error_set(error, DETOUR_INVALID,
                                "replicas[%" PRId32 "].fixed_ns is %" PRId64
                                "; it must be from 0 to %" PRId64,
                                r, a->replicas[r].fixed_ns, (int64_t)FIXED_MAX_NS);
    }
    return DETOUR_OK;
}

/* From the fastest to the slowest, so that no sum is a difference of large ones. */
static void sum_up(struct assignment *a)
{
    for (int32_t r = 0; r < a->replica_count; r++)
        a->slowest[r] = (struct entry){load_ns(a, r, 1), r};
    qsort(a->slowest, (size_t)a->replica_count, sizeof(*a->slowest), compare);
    for (int32_t k = a->replica_count - 1; k >= 0; k--) {
        const struct detour_replica *replica = &a->replicas[a->slowest[k].replica];
        double per_ns = 1 / (double)replica->microbatch_ns;
        a->rate[k] = a->rate[k + 1] + per_ns;
        a->fixed[k] = a->fixed[k + 1] + (double)replica->fixed_ns * per_ns;
    }
}

/* Replicas that take longer for one microbatch than the others for their parts keep one; the others get
 * whole parts of a common time that no assignment undercuts. Returns how many microbatches that leaves. */
static int32_t relax(struct assignment *a)
{
    int32_t pinned = 0, left = a->microbatch_count;
    double common_ns = 0;

    for (; pinned < a->replica_count; pinned++) {
        common_ns = (left - pinned + a->fixed[pinned]) / a->rate[pinned];
        if ((double)a->slowest[pinned].first_ns <= common_ns)
            break;
    }
    common_ns *= 1 - CAUTION;
    for (int32_t k = 0; k < a->replica_count; k++) {
        int32_t r = a->slowest[k].replica;
        const struct detour_replica *replica = &a->replicas[r];
        double part = (common_ns - (double)replica->fixed_ns) / (double)replica->microbatch_ns;
        a->counts[r] = k >= pinned && part >= 1 ? (int32_t)part : 1;
        left -= a->counts[r];
    }
    DT_CHECK(left >= 0);
    return left;
}

enum detour_status detour_microbatches_assign(struct detour_arena *arena,
                                              const struct detour_replica *replicas, int32_t replica_count,
                                              int32_t microbatch_count, struct detour_microbatches *assigned,
                                              struct detour_error *error)
{
    struct assignment a = {replicas, replica_count, microbatch_count, NULL, NULL, NULL, NULL};
    enum detour_status status = check(&a, error);
    int64_t time_ns = 0;
    struct dt_heap heap;
    double *weights;

    if (status)
        return status;
    if (!dt_arena_new(arena, a.counts, replica_count) || !dt_arena_new(arena, weights, replica_count))
        return dt_fail_memory(error);
    struct dt_arena_mark mark = dt_arena_save(arena);
    if (!dt_arena_new(arena, a.slowest, replica_count) || !dt_arena_new(arena, a.rate, replica_count + 1) ||
        !dt_arena_new(arena, a.fixed, replica_count + 1) || !dt_heap_init(arena, replica_count, &heap))
        return dt_fail_memory(error);
    sum_up(&a);
    int32_t left = relax(&a);
    for (int32_t r = 0; r < replica_count; r++)
        dt_heap_set(&heap, r, load_ns(&a, r, a.counts[r] + 1));
    for (; left > 0; left--) {
        int32_t r = heap.devices[0];
        a.counts[r]++;
        dt_heap_set(&heap, r, load_ns(&a, r, a.counts[r] + 1));
    }
    dt_arena_rewind(arena, mark);
    for (int32_t r = 0; r < replica_count; r++) {
        int64_t load = load_ns(&a, r, a.counts[r]);
        time_ns = load > time_ns ? load : time_ns;
        weights[r] = (double)a.counts[r] / microbatch_count;
    }
    *assigned = (struct detour_microbatches){time_ns, a.counts, weights};
    return DETOUR_OK;
}
