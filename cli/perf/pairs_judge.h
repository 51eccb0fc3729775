/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times of a validation (FALCON, section 4.3) and the diagnosis that follows from them. A pure function
 * of its arguments: the ranks and the launcher of `detour perf --pairs` call it with the same times and
 * agree.
 */
#ifndef DETOUR_CLI_PERF_PAIRS_JUDGE_H
#define DETOUR_CLI_PERF_PAIRS_JUDGE_H

#include <stdint.h>

#include "detour/mitigate.h"
#include "job/job.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PERF_PAIRS_MAX (2 * DT_JOB_RANKS_MAX) /* of a plan for DT_JOB_RANKS_MAX ranks */

#define DT_PERF_PAIRS_TEXT_BYTES 192

/* Of all ranks; pairs in the order of their plan. Also a frame's payload, from rank 0 to the launcher. */
struct dt_perf_pairs_times {
    uint32_t pair_count;
    uint32_t confirm_count; /* 0: no further validation has been made yet, or none is needed */
    int64_t pair_ns[DT_PERF_PAIRS_MAX];
    int64_t confirm_ns[DT_PERF_PAIRS_MAX];
    int64_t compute_ns[DT_JOB_RANKS_MAX];
    uint32_t is_gemm;                            /* 1: on GPUs (gemm.h); 0: a loop on the processor */
    char compute_text[DT_PERF_PAIRS_TEXT_BYTES]; /* the library; why it is not the GPU */
    int64_t setup_ns;                            /* connections and computing */
    int64_t exchange_ns;                         /* all passes */
};

struct dt_perf_pairs_result {
    const struct detour_validation *plan;
    const struct detour_validation *confirm; /* the further validation; NULL: not needed */
    struct detour_diagnosis diagnosis;
};

/*
 * The diagnosis of the times of `plan` (a known name, cli/validation.h) for `ranks` ranks; above
 * slow_permille of the median a time is slow. With confirm_count of 0 and a result that has `confirm`, the
 * diagnosis is not final. Plans and diagnosis are the arena's.
 */
enum detour_status dt_perf_pairs_judge(struct detour_arena *arena, const char *plan, unsigned ranks,
                                       int32_t slow_permille, const struct dt_perf_pairs_times *times,
                                       struct dt_perf_pairs_result *result, struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
