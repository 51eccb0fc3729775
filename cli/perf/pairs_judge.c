/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/pairs_judge.h"

#include "cli/validation.h"

enum detour_status dt_perf_pairs_judge(struct detour_arena *arena, const char *plan, unsigned ranks,
                                       int32_t slow_permille, const struct dt_perf_pairs_times *times,
                                       struct dt_perf_pairs_result *result, struct detour_error *error)
{
    const struct detour_validation_times measured = {times->pair_ns, times->compute_ns};
    const struct detour_diagnose_options how = {.threshold_permille = slow_permille};
    enum detour_status status = dt_validation_make(arena, plan, (int32_t)ranks, &result->plan, error);

    if (status == DETOUR_OK)
        status = detour_diagnose(arena, result->plan, &measured, NULL, NULL, &how, &result->diagnosis, error);
    if (status != DETOUR_OK)
        return status;
    result->confirm = result->diagnosis.confirm;
    if (times->confirm_count == 0 || !result->confirm)
        return DETOUR_OK;
    return detour_diagnose(arena, result->plan, &measured, result->confirm, times->confirm_ns, &how,
                           &result->diagnosis, error);
}
