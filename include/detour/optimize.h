/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partition, placement and schedule of a model, searched together, after AdaPtis (arXiv 2509.23722,
 * section 4.3).
 *
 * detour_optimize() first makes the pipelines that are in use today (the baselines). From the best it repeats
 * the paper's tuning: the performance report says which part to change next, and a change that does not pay
 * is taken back. Then it leaves the paper: partitions and placements are changed together, an estimate that
 * no schedule undercuts dismisses almost all of them, and only the rest get a schedule. Baselines are
 * candidates, so the result is never worse than the best of them, and every result keeps the memory limits.
 * What is compared is the iteration, with the exchange between replicas where the model has them.
 *
 * Slow devices and slow links are part of the model, so that a slow link may end in another partition.
 *
 * The rules of detour/sched.h hold: int64 nanoseconds and bytes, results in the caller's arena, no global
 * state, no clock, no thread. The search is limited by a count of operations, so the same model gives the
 * same result on every machine.
 */
#ifndef DETOUR_OPTIMIZE_H
#define DETOUR_OPTIMIZE_H

#include "detour/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- lower bound ------------------------------------------------------------------------------------- */

/* No partition, placement and schedule of the model has a makespan below makespan_ns, the largest of its
 * parts, or an iteration below iteration_ns. */
struct detour_model_bound {
    int64_t makespan_ns;
    int64_t chain_ns;   /* one microbatch there and back */
    int64_t layer_ns;   /* the heaviest layer, with the layers before it */
    int64_t work_ns;    /* all work on all devices, each from when it can begin */
    int64_t packing_ns; /* layers are not divisible */
    int64_t memory_ns;  /* activations have to be held; 0 where a device has no limit */
    int64_t over_bytes; /* what one microbatch needs beyond all devices together: if positive, nothing fits */
    int32_t heaviest_layer; /* of layer_ns */
    int64_t iteration_ns;   /* with the exchange between replicas; without any, makespan_ns */
};

DETOUR_API enum detour_status detour_model_lower_bound(struct detour_arena *arena,
                                                       const struct detour_model *model,
                                                       struct detour_model_bound *bound,
                                                       struct detour_error *error);

/* ---- candidates -------------------------------------------------------------------------------------- */

enum detour_baseline {
    DETOUR_BASELINE_S_1F1B = 0, /* equal numbers of layers, one stage per device, 1F1B */
    DETOUR_BASELINE_I_1F1B =
        1,                    /* equal numbers of layers, interleaved; the best of 2 to 4 stages per device */
    DETOUR_BASELINE_ZB = 2,   /* equal numbers of layers, Zero Bubble within the memory limits */
    DETOUR_BASELINE_ZB_V = 3, /* equal numbers of layers, two stages per device in a V, ZB-V */
    DETOUR_BASELINE_HANAYO = 4, /* equal numbers of layers, waves; the best of one and two waves */
    DETOUR_BASELINE_MIST = 5,   /* the contiguous partition with the smallest largest stage that fits, 1F1B */
    DETOUR_BASELINE_COUNT = 6,
};

/* "S-1F1B", "I-1F1B", ...; NULL for other values. */
DETOUR_API const char *detour_baseline_name(enum detour_baseline baseline);

/* A pipeline; without a plan `problem` is the reason. */
struct detour_pipeline {
    struct detour_partition partition;
    const struct detour_profile *profile;         /* of the partition */
    struct detour_plan *plan;                     /* timed; its lower bound is that of the whole model */
    const struct detour_performance *performance; /* of the plan */
    char problem[DETOUR_ERROR_TEXT_BYTES];
};

/* ---- the search -------------------------------------------------------------------------------------- */

/* Which parts of a pipeline may be changed, or'ed; those that may not are as in S-1F1B. */
enum {
    DETOUR_TUNE_PARTITION = 1,
    DETOUR_TUNE_PLACEMENT = 2,
    DETOUR_TUNE_SCHEDULE = 4,
    DETOUR_TUNE_ALL = 7,
};

struct detour_optimize_progress {
    const char *phase; /* "baselines", "tuning", ... */
    int64_t best_ns;   /* so far; 0: none yet */
    int64_t lower_bound_ns;
    uint64_t effort; /* spent so far of the budget */
    uint64_t budget;
};

/* Called on the caller's thread, often; true means: finish with the best so far. */
typedef bool detour_optimize_progress_func(void *arg, const struct detour_optimize_progress *progress);

/* Zero is the default of every field. */
struct detour_optimize_options {
    int parts; /* DETOUR_TUNE_...; 0 means all */
    uint64_t
        budget; /* operations that the search may schedule; an estimate counts as a few. 0 means 12 million */
    detour_optimize_progress_func *progress; /* NULL: none */
    void *progress_arg;
};

struct detour_optimization {
    struct detour_pipeline baselines[DETOUR_BASELINE_COUNT];
    struct detour_pipeline tuned; /* phase by phase, as in the paper */
    struct detour_pipeline best;  /* of all; always has a plan */
    struct detour_model_bound bound;
    uint64_t estimated; /* partitions and placements that were looked at */
    uint64_t scheduled; /* those that got a schedule */
    uint64_t effort;    /* in the unit of the budget */
};

/*
 * Searches the best pipeline of the model. `options` may be NULL. DETOUR_MEMORY_TOO_SMALL if no pipeline was
 * found that fits, with the device that is over its limit and by how much.
 */
DETOUR_API enum detour_status detour_optimize(struct detour_arena *arena, const struct detour_model *model,
                                              const struct detour_optimize_options *options,
                                              struct detour_optimization **optimization,
                                              struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
