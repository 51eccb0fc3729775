/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/generator.h"

#include <inttypes.h>
#include <string.h>

#include "sched/memory.h"
#include "sched/simulate.h"

/* One row per algorithm, in the order of the enum. */
const struct dt_generator dt_generators[] = {
    {DETOUR_ALGORITHM_AUTO, "auto", "the best of all within the budget", dt_generate_auto},
    {DETOUR_ALGORITHM_GPIPE, "gpipe", "all forwards, then all backwards", dt_generate_gpipe},
    {DETOUR_ALGORITHM_1F1B, "1f1b", "one forward, one backward with W fused", dt_generate_1f1b},
    {DETOUR_ALGORITHM_INTERLEAVED, "interleaved", "1F1B for several stages per device, placed round robin",
     dt_generate_interleaved},
    {DETOUR_ALGORITHM_ZB_H1, "zb-h1", "Zero Bubble by hand, memory of 1F1B", dt_generate_zb_h1},
    {DETOUR_ALGORITHM_ZB_H2, "zb-h2", "Zero Bubble by hand, twice the memory of 1F1B", dt_generate_zb_h2},
    {DETOUR_ALGORITHM_ZB_V, "zb-v", "Zero Bubble for two stages per device, placed in a V", dt_generate_zb_v},
    {DETOUR_ALGORITHM_ZB, "zb", "Zero Bubble heuristic within the memory limits", dt_generate_zb},
    {DETOUR_ALGORITHM_ADAPTRA, "adaptra", "ADAPTRA dynamic adaptation to known delays", dt_generate_adaptra},
    {DETOUR_ALGORITHM_ADAPTRA_INITIAL, "adaptra-initial", "ADAPTRA initial planning for unknown delays",
     dt_generate_adaptra_initial},
    {DETOUR_ALGORITHM_BEAM, "beam", "beam search guided by the lower bound", dt_generate_beam},
    {DETOUR_ALGORITHM_EXACT, "exact", "branch and bound; proves optimality or gives its bound",
     dt_generate_exact},
    {DETOUR_ALGORITHM_HANAYO, "hanayo", "1F1B for an even number of stages per device, in waves",
     dt_generate_hanayo},
    {0},
};

const struct dt_generator *dt_generator_find(enum detour_algorithm algorithm)
{
    for (const struct dt_generator *row = dt_generators; row->name; row++)
        if (row->algorithm == algorithm)
            return row;
    return NULL;
}

const char *detour_algorithm_name(enum detour_algorithm algorithm)
{
    const struct dt_generator *row = dt_generator_find(algorithm);

    return row ? row->name : NULL;
}

const char *detour_algorithm_summary(enum detour_algorithm algorithm)
{
    const struct dt_generator *row = dt_generator_find(algorithm);

    return row ? row->summary : NULL;
}

bool detour_algorithm_find(const char *name, enum detour_algorithm *algorithm)
{
    for (const struct dt_generator *row = dt_generators; name && row->name; row++) {
        if (!strcmp(row->name, name)) {
            *algorithm = row->algorithm;
            return true;
        }
    }
    return false;
}

enum detour_status dt_generate_with(struct dt_call *call, const struct dt_problem *p,
                                    enum detour_algorithm algorithm, struct dt_result *result)
{
    const struct dt_generator *row = dt_generator_find(algorithm);
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    struct dt_result made = {.made_by = algorithm};
    struct dt_times times;

    if (!row)
        return dt_fail(call, DETOUR_INVALID, "there is no algorithm number %d", (int)algorithm);
    enum detour_status status = row->generate(call, p, &made);
    if (!status)
        status = dt_simulate(call, p, made.schedule, NULL, NULL, &times);
    if (!status)
        status = dt_memory_check(call, p, made.schedule);
    if (status) {
        dt_arena_rewind(call->arena, mark);
        /*
         * The details of an infeasible schedule are internal to the generator: the caller only learns that
         * it does not fit.
         */
        if (status != DETOUR_OVER_MEMORY)
            return status;
        if (call->error)
            call->error->status = DETOUR_MEMORY_TOO_SMALL;
        return DETOUR_MEMORY_TOO_SMALL;
    }
    made.makespan_ns = times.makespan_ns;
    made.longest_span_ns = times.longest_span_ns;
    *result = made;
    return DETOUR_OK;
}

struct detour_plan dt_result_plan(const struct dt_call *call, const struct dt_result *result)
{
    return (struct detour_plan){
        .schedule = result->schedule,
        .algorithm = result->made_by,
        .proven_optimal = result->makespan_ns == result->lower_bound_ns,
        .makespan_ns = result->makespan_ns,
        .longest_span_ns = result->longest_span_ns,
        .lower_bound_ns = result->lower_bound_ns,
        .nodes = call->node_count,
    };
}

enum detour_status detour_generate(struct detour_arena *arena, const struct detour_profile *profile,
                                   const struct detour_options *options, struct detour_plan **plan,
                                   struct detour_error *error)
{
    struct dt_problem *p;
    struct dt_result result;
    struct detour_plan *made;
    struct dt_call call;

    dt_call_init(&call, arena, error, options);
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (status)
        return status;
    if (!plan)
        return dt_fail(&call, DETOUR_INVALID, "plan is NULL");
    if (!dt_arena_new(arena, made, 1))
        return dt_fail_memory(error);
    status = dt_generate_with(&call, p, call.options->algorithm, &result);
    if (status)
        return status;
    *made = dt_result_plan(&call, &result);
    *plan = made;
    return DETOUR_OK;
}

enum detour_status dt_check_waves(struct dt_call *call, const struct dt_problem *p, const char *algorithm)
{
    int32_t devices = p->device_count;

    for (int32_t i = 0; i < p->stage_count; i++) {
        int32_t place = i % (2 * devices), device = place < devices ? place : 2 * devices - 1 - place;

        if (p->device[i] != device)
            return dt_fail(call, DETOUR_UNSUPPORTED,
                           "%s needs the stages placed down and up again: stage %" PRId32
                           " belongs on device %" PRId32 ", not %" PRId32,
                           algorithm, i, device, p->device[i]);
    }
    return DETOUR_OK;
}
