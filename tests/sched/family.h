/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random problems of the families by which schedules are judged: 3 to 8 stages, one per device, 6 to 32
 * microbatches, and a limit on the microbatches in flight. C, so that the benchmark draws the same ones.
 */
#ifndef DETOUR_TESTS_FAMILY_H
#define DETOUR_TESTS_FAMILY_H

#include <stdint.h>
#include <string.h>

#include "base/prng.h"
#include "detour/sched.h"

enum family_limit {
    FAMILY_NO_LIMIT,
    FAMILY_TWICE,     /* 2 S - 1 microbatches per stage, released at B */
    FAMILY_ONCE,      /* S, released at B */
    FAMILY_RELEASE_W, /* S, released at W */
    FAMILY_COUNT
};

enum { FAMILY_STAGES_MAX = 8 };

struct family_problem {
    struct detour_profile profile; /* its arrays are below: do not copy */
    struct detour_stage stages[FAMILY_STAGES_MAX];
    struct detour_link links[FAMILY_STAGES_MAX];
};

static inline const char *family_name(int limit)
{
    static const char *const names[FAMILY_COUNT] = {"no limit", "M = 2S-1", "M = S", "M = S, release at W"};

    return names[limit];
}

/*
 * Times as in ADAPTRA's simulations: F, B and W each uniform in [t, 2t] with t in 10..30 ms, latencies up to
 * 20 ms. A third of the problems each: stages alike but for 3 ms either way and all links alike; the same
 * with one link at three times the latency and the others at a tenth; every stage on its own. `stages` and
 * `microbatches` 0: drawn.
 */
static inline void family_make(struct family_problem *problem, int limit, uint64_t seed, int32_t stages,
                               int32_t microbatches)
{
    const int64_t ms = 1000000;
    struct dt_prng prng;
    int64_t mean_ns[3];

    dt_prng_init_stream(&prng, seed, (uint64_t)limit);
    int32_t stage_count = (int32_t)dt_prng_between(&prng, 3, FAMILY_STAGES_MAX);
    int32_t microbatch_count = (int32_t)dt_prng_between(&prng, 6, 32);
    stage_count = stages ? stages : stage_count;
    int style = (int)dt_prng_below(&prng, 3);
    int64_t base_ns = (int64_t)dt_prng_between(&prng, 10, 30) * ms;
    for (int kind = 0; kind < 3; kind++)
        mean_ns[kind] = (int64_t)dt_prng_between(&prng, (uint64_t)base_ns, (uint64_t)(2 * base_ns));
    int64_t latency_ns = (int64_t)dt_prng_between(&prng, 0, (uint64_t)(20 * ms));
    int32_t slow_link = (int32_t)dt_prng_below(&prng, (uint64_t)stage_count - 1);

    memset(problem, 0, sizeof(*problem));
    for (int32_t i = 0; i < stage_count; i++) {
        int64_t ns[3];
        for (int kind = 0; kind < 3; kind++)
            ns[kind] = style == 2
                           ? (int64_t)dt_prng_between(&prng, (uint64_t)base_ns, (uint64_t)(2 * base_ns))
                           : mean_ns[kind] + (int64_t)dt_prng_between(&prng, 0, (uint64_t)(6 * ms)) - 3 * ms;
        struct detour_stage *stage = &problem->stages[i];
        stage->f_ns = ns[0];
        stage->b_ns = ns[1];
        stage->w_ns = ns[2];
        stage->device = i;
        stage->max_inflight = limit == FAMILY_NO_LIMIT ? 0
                              : limit == FAMILY_TWICE  ? 2 * stage_count - 1
                                                       : stage_count;
        problem->links[i].forward_ns = problem->links[i].backward_ns = style != 1       ? latency_ns
                                                                       : i == slow_link ? 3 * latency_ns
                                                                                        : latency_ns / 10;
    }
    problem->profile.stage_count = problem->profile.device_count = stage_count;
    problem->profile.microbatch_count = microbatches ? microbatches : microbatch_count;
    problem->profile.release = limit == FAMILY_RELEASE_W ? DETOUR_RELEASE_W : DETOUR_RELEASE_B;
    problem->profile.stages = problem->stages;
    problem->profile.links = problem->links;
}

#endif
