/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cli/pipeline/replicas.h"

/* zb-v goes down and up again, interleaved goes round twice; the others have a stage per device. */
static int32_t stage_count(const struct dt_pipeline_options *options)
{
    bool is_double =
        options->algorithm == DETOUR_ALGORITHM_ZB_V || options->algorithm == DETOUR_ALGORITHM_INTERLEAVED;

    return options->devices * (is_double ? 2 : 1);
}

static int32_t device_of(const struct dt_pipeline_options *options, int32_t stage)
{
    if (stage < options->devices)
        return stage;
    return options->algorithm == DETOUR_ALGORITHM_ZB_V ? 2 * options->devices - 1 - stage
                                                       : stage - options->devices;
}

static void add_slowness(const struct dt_pipeline_options *options, int32_t replica, uint32_t iteration,
                         const struct detour_profile *profile, struct detour_stage *stages,
                         struct detour_link *links)
{
    for (int32_t i = 0; i < profile->stage_count; i++) {
        const struct dt_pipeline_position position = {stages[i].device, replica};
        int64_t permille = dt_pipeline_slow_permille(&options->slow, position, iteration);
        stages[i].f_ns = stages[i].f_ns * permille / 1000;
        stages[i].b_ns = stages[i].b_ns * permille / 1000;
        stages[i].w_ns = stages[i].w_ns * permille / 1000;
        stages[i].bw_ns = stages[i].bw_ns * permille / 1000;
    }
    for (int32_t i = 0; i + 1 < profile->stage_count; i++) {
        struct dt_pipeline_position a = {stages[i].device, replica}, b = {stages[i + 1].device, replica};

        for (size_t k = 0; k < options->slow.link_count; k++) {
            const struct dt_pipeline_slow_link *slow = &options->slow.links[k];

            if (!dt_pipeline_period_has(&slow->period, iteration) || !dt_pipeline_slow_link_joins(slow, a, b))
                continue;
            *(slow->serial ? &links[i].forward_serial_ns : &links[i].forward_ns) += slow->delay_ns;
            *(slow->serial ? &links[i].backward_serial_ns : &links[i].backward_ns) += slow->delay_ns;
        }
    }
}

/* As the files have it; the arrays are copied. */
static void copy_profile(const struct detour_profile *read, struct detour_profile *profile,
                         struct detour_stage *stages, struct detour_link *links)
{
    *profile = *read;
    memcpy(stages, read->stages, (size_t)read->stage_count * sizeof *stages);
    memcpy(links, read->links, (size_t)(read->stage_count - 1) * sizeof *links);
    profile->stages = stages;
    profile->links = links;
}

static void describe_profile(const struct dt_pipeline_options *options, int32_t count,
                             struct detour_profile *profile, struct detour_stage *stages,
                             struct detour_link *links)
{
    *profile = (struct detour_profile){.stage_count = count,
                                       .microbatch_count = options->microbatches,
                                       .device_count = options->devices,
                                       .stages = stages,
                                       .links = links};
    for (int32_t i = 0; i < count; i++)
        stages[i] = (struct detour_stage){.f_ns = options->f_ns,
                                          .b_ns = options->b_ns,
                                          .w_ns = options->w_ns,
                                          .device = device_of(options, i)};
}

/* The arrays of stages and links are malloc'ed and belong to the profile. */
static bool make_profile(const struct dt_pipeline_options *options, struct detour_profile *profile)
{
    const struct detour_profile *read = options->input ? options->input->profile : NULL;
    int32_t count = read ? read->stage_count : stage_count(options);
    struct detour_stage *stages = calloc((size_t)count, sizeof *stages);
    struct detour_link *links = calloc((size_t)count, sizeof *links);

    if (!stages || !links) {
        free(stages);
        free(links);
        return false;
    }
    if (read)
        copy_profile(read, profile, stages, links);
    else
        describe_profile(options, count, profile, stages, links);
    return true;
}

void dt_pipeline_profile_free(struct detour_profile *profile)
{
    free((void *)profile->stages);
    free((void *)profile->links);
    memset(profile, 0, sizeof *profile);
}

bool dt_pipeline_profile_make(const struct dt_pipeline_options *options, int32_t replica, uint32_t iteration,
                              struct detour_profile *profile)
{
    if (!make_profile(options, profile))
        return false;
    profile->microbatch_count = dt_pipeline_options_share(options, replica, iteration).count;
    add_slowness(options, replica, iteration, profile, (struct detour_stage *)profile->stages,
                 (struct detour_link *)profile->links);
    return true;
}

/* The schedule of --plan, or one that the algorithm makes. */
static bool make_schedule(struct dt_pipeline_plan *plan, struct detour_error *error)
{
    const struct dt_pipeline_input *input = plan->options->input;
    struct detour_options generate = {.algorithm = plan->options->algorithm};
    struct detour_plan *made;

    if (input && input->schedule) {
        plan->schedule = input->schedule;
        plan->algorithm = DETOUR_ALGORITHM_EXTERNAL;
        return true;
    }
    if (detour_generate(plan->arena, &plan->profile, &generate, &made, error))
        return false;
    plan->schedule = made->schedule;
    plan->algorithm = made->algorithm;
    return true;
}

static bool make_program(struct dt_pipeline_plan *plan, const struct detour_profile *profile,
                         const struct detour_schedule *schedule, struct detour_program **program,
                         struct detour_error *error)
{
    return !detour_program_create(plan->arena, profile, schedule, program, error) &&
           !detour_program_check(plan->arena, profile, *program, error);
}

static const struct dt_pipeline_variant *find_variant(const struct dt_pipeline_plan *plan,
                                                      int32_t microbatches)
{
    for (size_t i = 0; i < plan->variant_count; i++)
        if (plan->variants[i].profile.microbatch_count == microbatches)
            return &plan->variants[i];
    return NULL;
}

/* Names the number in the library's reason. */
static bool fail_variant(int32_t microbatches, struct detour_error *error)
{
    struct detour_error reason = *error;

    snprintf(error->text, sizeof error->text, "%" PRId32 " microbatches: %.*s", microbatches,
             (int)sizeof error->text - 32, reason.text);
    return false;
}

static bool add_variant(struct dt_pipeline_plan *plan, int32_t microbatches, struct detour_error *error)
{
    const struct detour_options generate = {.algorithm = plan->options->algorithm};
    struct dt_pipeline_variant *variant = &plan->variants[plan->variant_count];
    struct detour_plan *made;

    if (microbatches == plan->profile.microbatch_count || find_variant(plan, microbatches))
        return true;
    variant->profile = plan->profile;
    variant->profile.microbatch_count = microbatches;
    if (detour_generate(plan->arena, &variant->profile, &generate, &made, error))
        return fail_variant(microbatches, error);
    variant->schedule = made->schedule;
    plan->variant_count++;
    return make_program(plan, &variant->profile, variant->schedule, &variant->program, error);
}

/* A schedule for each number of --dp-microbatches. */
static bool make_variants(struct dt_pipeline_plan *plan, struct detour_error *error)
{
    const struct dt_pipeline_shares *shares = &plan->options->shares;
    size_t count = shares->set_count * (size_t)plan->options->replicas;
    bool made = true;

    if (count == 0)
        return true;
    plan->variants = calloc(count, sizeof *plan->variants);
    if (!plan->variants)
        return false;
    for (size_t i = 0; made && i < count; i++)
        made = add_variant(
            plan,
            shares->sets[i / (size_t)plan->options->replicas].counts[i % (size_t)plan->options->replicas],
            error);
    return made;
}

bool dt_pipeline_plan_vary(struct dt_pipeline_plan *plan, struct detour_error *error)
{
    free(plan->variants);
    plan->variants = NULL;
    plan->variant_count = 0;
    *error = (struct detour_error){.status = DETOUR_NO_MEMORY, .text = "out of memory"};
    return make_variants(plan, error);
}

struct dt_pipeline_variant dt_pipeline_plan_of(const struct dt_pipeline_plan *plan, int32_t replica,
                                               uint32_t iteration)
{
    const struct dt_pipeline_variant *variant =
        find_variant(plan, dt_pipeline_options_share(plan->options, replica, iteration).count);

    return variant ? *variant
                   : (struct dt_pipeline_variant){
                         .profile = plan->profile, .schedule = plan->schedule, .program = plan->program};
}

bool dt_pipeline_plan_make(struct dt_pipeline_plan *plan, const struct dt_pipeline_options *options,
                           struct detour_error *error)
{
    *plan = (struct dt_pipeline_plan){.options = options, .arena = detour_arena_create()};
    *error = (struct detour_error){.status = DETOUR_NO_MEMORY, .text = "out of memory"};
    return plan->arena && make_profile(options, &plan->profile) && make_schedule(plan, error) &&
           make_program(plan, &plan->profile, plan->schedule, &plan->program, error) &&
           make_variants(plan, error);
}

void dt_pipeline_plan_free(struct dt_pipeline_plan *plan)
{
    dt_pipeline_profile_free(&plan->profile);
    detour_arena_destroy(plan->arena);
    plan->arena = NULL;
    free(plan->variants);
    plan->variants = NULL;
    plan->variant_count = 0;
}

/* Simulates a replica; ended_ns: [device]. */
static bool simulate(const struct dt_pipeline_plan *plan, const struct detour_schedule *schedule,
                     int32_t replica, uint32_t iteration, int64_t *ended_ns)
{
    struct detour_arena *arena = detour_arena_create();
    struct detour_schedule copy = *schedule;
    const struct detour_op *ops = copy.ops;
    struct detour_report *report = NULL;
    struct detour_profile profile = {0};
    bool made = dt_pipeline_profile_make(plan->options, replica, iteration, &profile) && arena;

    copy.ops = malloc(copy.op_count * sizeof *copy.ops);
    if (made && copy.ops) {
        memcpy(copy.ops, ops, copy.op_count * sizeof *copy.ops);
        if (detour_simulate(arena, &profile, &copy, &report, NULL))
            report = NULL;
    }
    for (int32_t i = 0; report && i < profile.device_count; i++)
        ended_ns[i] = report->devices[i].last_finish_ns;
    free(copy.ops);
    dt_pipeline_profile_free(&profile);
    detour_arena_destroy(arena);
    return report;
}

int64_t dt_pipeline_plan_predict_ns(const struct dt_pipeline_plan *plan,
                                    const struct detour_schedule *const *schedules, uint32_t iteration)
{
    const struct dt_pipeline_options *options = plan->options;
    int64_t ended_ns[DT_PIPELINE_RANKS_MAX];

    DT_CHECK(options->replicas > 0 && options->replicas * options->devices <= DT_PIPELINE_RANKS_MAX);
    for (int32_t replica = 0; replica < options->replicas; replica++) {
        const struct detour_schedule *schedule =
            schedules ? schedules[replica] : dt_pipeline_plan_of(plan, replica, iteration).schedule;

        if (!simulate(plan, schedule, replica, iteration, &ended_ns[replica * options->devices]))
            return 0;
    }
    int64_t end_ns = dt_pipeline_replicas_end_ns(options, &plan->profile, iteration, ended_ns);
    return end_ns > 0 ? end_ns : 0;
}
