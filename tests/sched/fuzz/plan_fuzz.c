/* SPDX-License-Identifier: Apache-2.0 */
/* The library behind the readers: random profiles and damaged schedules through all of it. */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "detour/sched.h"
#include "tests/sched/fuzz/choices.h"
#include "tests/sched/fuzz/format_fuzz.h"

enum { STAGES_MAX = 5, MICROBATCHES_MAX = 8, NODE_BUDGET = 40 };

struct random_profile {
    struct detour_profile profile;
    struct detour_stage stages[STAGES_MAX];
    struct detour_link links[STAGES_MAX];
    struct detour_device devices[STAGES_MAX];
};

static void choose_links(struct dt_choices *choices, struct detour_link *links, int count)
{
    bool has_serial = dt_below(choices, 3) == 2;

    for (int i = 0; i < count; i++) {
        links[i] = (struct detour_link){.forward_ns = dt_a_time(choices), .backward_ns = dt_a_time(choices)};
        if (has_serial) {
            links[i].forward_serial_ns = dt_a_time(choices);
            links[i].backward_serial_ns = dt_a_time(choices);
        }
    }
}

/* One device each, a V, in turn, or wherever (which may leave a device without a stage: a profile to be
 * refused). */
static int choose_device(struct dt_choices *choices, int placement, int stage, int stages, int devices)
{
    switch (placement) {
    case 1:
        return stage < devices ? stage : 2 * devices - 1 - stage < 0 ? 0 : 2 * devices - 1 - stage;
    case 2:
        return stage % devices;
    case 3:
        return dt_below(choices, devices);
    default:
        return stage < stages ? stage : 0;
    }
}

static void choose_memory(struct dt_choices *choices, struct random_profile *random)
{
    int kind = dt_below(choices, 4); /* none, microbatches, bytes, both */
    bool has_offload = dt_below(choices, 3) == 2;

    random->profile.release = dt_below(choices, 2) ? DETOUR_RELEASE_W : DETOUR_RELEASE_B;
    for (int i = 0; i < random->profile.stage_count; i++) {
        struct detour_stage *stage = &random->stages[i];
        if (kind & 1)
            stage->max_inflight = dt_below(choices, MICROBATCHES_MAX);
        if (kind & 2) {
            stage->bytes_f = dt_below(choices, 9);
            stage->bytes_w = dt_below(choices, 9);
        }
        if (has_offload)
            stage->offload_ns = dt_a_time(choices);
    }
    for (int d = 0; kind & 2 && d < random->profile.device_count; d++)
        random->devices[d].capacity_bytes = dt_below(choices, 64);
}

static void choose_profile(struct dt_choices *choices, struct random_profile *random)
{
    int stages = 1 + dt_below(choices, STAGES_MAX), placement = dt_below(choices, 4);
    int devices = placement == 0 ? stages : placement == 1 ? (stages + 1) / 2 : 1 + dt_below(choices, stages);
    bool has_fused = dt_below(choices, 4) == 3;

    memset(random, 0, sizeof *random);
    random->profile = (struct detour_profile){.stage_count = stages,
                                              .microbatch_count = 1 + dt_below(choices, MICROBATCHES_MAX),
                                              .device_count = devices,
                                              .stages = random->stages,
                                              .links = random->links,
                                              .devices = random->devices};
    for (int i = 0; i < stages; i++) {
        struct detour_stage *stage = &random->stages[i];
        stage->f_ns = dt_a_time(choices);
        stage->b_ns = dt_a_time(choices);
        stage->w_ns = dt_a_time(choices);
        stage->bw_ns = has_fused ? dt_a_time(choices) : 0;
        stage->device = choose_device(choices, placement, i, stages, devices);
    }
    choose_links(choices, random->links, stages - 1);
    choose_memory(choices, random);
}

/* ------------------------------------------------------------------------------------------------------------
 * What must hold
 */
struct fuzz {
    struct detour_arena *arena;
    struct dt_choices choices;
    struct random_profile random;
    struct detour_error error;
    int64_t bound_ns;    /* the highest lower bound that anything claimed */
    int64_t makespan_ns; /* the lowest makespan of a valid schedule */
    struct detour_plan *plans[DETOUR_ALGORITHM_COUNT];
    int plan_count;
};

static bool is_told(const struct fuzz *fuzz, enum detour_status status)
{
    return fuzz->error.status == status && fuzz->error.text[0] && !strchr(fuzz->error.text, '\n');
}

static void see(struct fuzz *fuzz, int64_t bound_ns, int64_t makespan_ns)
{
    fuzz->bound_ns = bound_ns > fuzz->bound_ns ? bound_ns : fuzz->bound_ns;
    fuzz->makespan_ns = makespan_ns < fuzz->makespan_ns ? makespan_ns : fuzz->makespan_ns;
}

static bool is_offloaded(const struct detour_schedule *schedule)
{
    for (size_t i = 0; i < schedule->op_count; i++)
        if (schedule->ops[i].flags & DETOUR_OP_OFFLOADED)
            return true;
    return false;
}

/* A plan that the library made, for `profile`. */
static const char *check_plan(struct fuzz *fuzz, const struct detour_profile *profile,
                              const struct detour_plan *plan)
{
    struct detour_report *report;

    if (!plan->schedule->timed || detour_validate(fuzz->arena, profile, plan->schedule, &fuzz->error))
        return "a plan is not valid";
    if (detour_simulate(fuzz->arena, profile, plan->schedule, &report, &fuzz->error))
        return "a plan cannot be simulated";
    if (report->makespan_ns != plan->makespan_ns || report->longest_span_ns != plan->longest_span_ns)
        return "a plan is not as long as it says";
    if (plan->lower_bound_ns > plan->makespan_ns)
        return "a plan is below its lower bound";
    if (plan->proven_optimal && plan->lower_bound_ns != plan->makespan_ns)
        return "a plan is called optimal without a bound that says so";
    return NULL;
}

static const char *generate_one(struct fuzz *fuzz, enum detour_algorithm algorithm)
{
    struct detour_options options = {.algorithm = algorithm, .node_budget = NODE_BUDGET};
    struct detour_plan *plan;
    enum detour_status status =
        detour_generate(fuzz->arena, &fuzz->random.profile, &options, &plan, &fuzz->error);

    if (status)
        return (status == DETOUR_UNSUPPORTED || status == DETOUR_MEMORY_TOO_SMALL) && is_told(fuzz, status)
                   ? NULL
                   : "a generator fails on a good profile";
    see(fuzz, plan->lower_bound_ns, plan->makespan_ns);
    fuzz->plans[fuzz->plan_count++] = plan;
    return check_plan(fuzz, &fuzz->random.profile, plan);
}

static const char *generate_all(struct fuzz *fuzz)
{
    const char *problem = NULL;

    if (detour_lower_bound(fuzz->arena, &fuzz->random.profile, &fuzz->bound_ns, &fuzz->error))
        return "no lower bound for a good profile";
    for (int i = 0; i < DETOUR_ALGORITHM_COUNT && !problem; i++)
        if (detour_algorithm_name((enum detour_algorithm)i))
            problem = generate_one(fuzz, (enum detour_algorithm)i);
    if (!problem && !fuzz->plan_count)
        problem = "no generator makes anything of a good profile";
    return problem;
}

/* One damage: exchange, copy, another value, another place, another device. */
static void damage(struct dt_choices *choices, struct detour_schedule *s)
{
    size_t a = (size_t)dt_next(choices) % s->op_count, b = (size_t)dt_next(choices) % s->op_count;
    struct detour_op op = s->ops[a];

    switch (dt_below(choices, 9)) {
    case 0:
        s->ops[a] = s->ops[b];
        s->ops[b] = op;
        break;
    case 1:
        s->ops[a] = s->ops[b];
        break;
    case 2:
        s->ops[a].kind = (uint8_t)dt_next(choices);
        break;
    case 3:
        s->ops[a].microbatch = dt_next(choices) - 1;
        break;
    case 4:
        s->ops[a].stage = (int16_t)(dt_below(choices, STAGES_MAX + 2) - 1);
        break;
    case 5:
        s->ops[a].flags ^= DETOUR_OP_OFFLOADED;
        break;
    case 6:
        s->first[1 + dt_below(choices, s->device_count)] = a;
        break;
    case 7:
        s->ops[a].start_ns += dt_a_time(choices);
        break;
    default: /* to the place of b, which makes room */
        if (a < b)
            memmove(&s->ops[a], &s->ops[a + 1], (b - a) * sizeof op);
        else
            memmove(&s->ops[b + 1], &s->ops[b], (a - b) * sizeof op);
        s->ops[b] = op;
    }
}

static const char *check_tolerance(struct fuzz *fuzz, const struct detour_schedule *schedule,
                                   int64_t makespan_ns)
{
    const struct detour_profile *profile = &fuzz->random.profile;
    int directions = 1 + dt_below(&fuzz->choices, DETOUR_BOTH_WAYS);
    struct detour_curve *curve;
    int64_t *tolerable_ns;

    if (profile->stage_count < 2)
        return NULL;
    enum detour_status status =
        detour_tolerance(fuzz->arena, profile, schedule, directions, 1000, &tolerable_ns, &fuzz->error);
    if (status == DETOUR_LIMIT) /* the largest latency leaves no room for delays */
        return is_told(fuzz, status) ? NULL : "a refusal without one line";
    if (status ||
        detour_delay_curve(fuzz->arena, profile, schedule, 0, directions, 1000, &curve, &fuzz->error))
        return "a valid schedule has no tolerance";
    if (tolerable_ns[0] < 0 || tolerable_ns[0] > 1000 || curve->points[0].makespan_ns != makespan_ns)
        return "tolerance and simulation disagree";
    return NULL;
}

/* Adapts to new delays; a change must be worth it, and executable. */
static const char *check_adapt(struct fuzz *fuzz, const struct detour_profile *measured,
                               const struct detour_schedule *schedule)
{
    struct detour_adapt_options options = {.generate = {.node_budget = NODE_BUDGET},
                                           .allow_offload = dt_below(&fuzz->choices, 2)};
    struct detour_adapt_state state = {0};
    struct detour_adaptation *made;

    if (detour_adapt(fuzz->arena, &fuzz->random.profile, measured, schedule, &options, &state, &made,
                     &fuzz->error))
        return "adapt fails on a valid schedule";
    if (made->verdict != DETOUR_ADAPT_CHANGE)
        return made->plan ? "a plan without a change" : NULL;
    if (made->plan->makespan_ns >= made->present_makespan_ns)
        return "a change without a gain";
    return check_plan(fuzz, measured, made->plan);
}

/* Goes on from a moment of the timed schedule; under its own profile that cannot become longer. */
static const char *check_replan(struct fuzz *fuzz, const struct detour_profile *measured,
                                const struct detour_schedule *schedule, int64_t makespan_ns)
{
    struct detour_options options = {.node_budget = NODE_BUDGET};
    int64_t now_ns = makespan_ns / 16 * dt_below(&fuzz->choices, 17);
    size_t started[STAGES_MAX] = {0};
    struct detour_plan *plan;

    for (int32_t d = 0; d < schedule->device_count; d++)
        for (size_t i = schedule->first[d]; i < schedule->first[d + 1]; i++)
            started[d] += schedule->ops[i].start_ns < now_ns;
    enum detour_status status =
        detour_replan(fuzz->arena, measured, schedule, started, now_ns, &options, &plan, &fuzz->error);
    if (status)
        return status == DETOUR_UNSUPPORTED && is_told(fuzz, status) ? NULL : "replan fails";
    if (plan->lower_bound_ns > plan->makespan_ns)
        return "a continuation is below its lower bound";
    if (measured == &fuzz->random.profile && plan->makespan_ns > makespan_ns)
        return "a continuation is worse than going on";
    status = detour_validate(fuzz->arena, measured, plan->schedule, &fuzz->error);
    if (status && (status != DETOUR_TIMES || measured == &fuzz->random.profile))
        return "a continuation is not valid";
    return NULL;
}

/* What validate() accepts works everywhere. */
static const char *use_schedule(struct fuzz *fuzz, struct detour_schedule *schedule)
{
    struct detour_profile measured = fuzz->random.profile;
    struct detour_link links[STAGES_MAX] = {{0}};
    struct detour_program *program;
    struct detour_report *report;
    const char *problem;

    if (detour_simulate(fuzz->arena, &measured, schedule, &report, &fuzz->error))
        return "a valid schedule cannot be simulated";
    if (!is_offloaded(schedule)) /* the bounds know nothing of the host's memory */
        see(fuzz, 0, report->makespan_ns);
    if (detour_validate(fuzz->arena, &measured, schedule, &fuzz->error))
        return "a schedule is not valid with its own times";
    if (detour_program_create(fuzz->arena, &measured, schedule, &program, &fuzz->error) ||
        detour_program_check(fuzz->arena, &measured, program, &fuzz->error))
        return "a valid schedule cannot be sent";
    problem = check_tolerance(fuzz, schedule, report->makespan_ns);
    if (!problem)
        problem = check_replan(fuzz, &fuzz->random.profile, schedule, report->makespan_ns);
    choose_links(&fuzz->choices, links, measured.stage_count - 1);
    measured.links = links;
    if (!problem)
        problem = check_adapt(fuzz, &measured, schedule);
    if (!problem)
        problem = check_replan(fuzz, &measured, schedule, report->makespan_ns);
    return problem;
}

/* A schedule of any kind: refused, or one that gets to its end, with as many operations. */
static const char *check_repair(struct fuzz *fuzz, const struct detour_schedule *schedule)
{
    struct detour_schedule *repaired;
    struct detour_report *report;
    int32_t moved;
    enum detour_status status =
        detour_schedule_repair(fuzz->arena, &fuzz->random.profile, schedule, &repaired, &moved, &fuzz->error);

    if (status)
        return is_told(fuzz, status) ? NULL : "a repair is refused without one line";
    if (repaired->op_count != schedule->op_count)
        return "a repair loses operations";
    if (detour_simulate(fuzz->arena, &fuzz->random.profile, repaired, &report, &fuzz->error) ==
        DETOUR_DEADLOCK)
        return "a repaired schedule deadlocks";
    return NULL;
}

static const char *check_damaged(struct fuzz *fuzz)
{
    struct detour_schedule *schedule = fuzz->plans[dt_below(&fuzz->choices, fuzz->plan_count)]->schedule;

    schedule->timed = dt_below(&fuzz->choices, 2);
    for (int i = dt_below(&fuzz->choices, 4); i > 0; i--)
        damage(&fuzz->choices, schedule);
    enum detour_status status = detour_validate(fuzz->arena, &fuzz->random.profile, schedule, &fuzz->error);

    if (!status)
        return use_schedule(fuzz, schedule);
    if (!is_told(fuzz, status))
        return "a refusal without one line";
    schedule->timed = false;
    detour_simulate(fuzz->arena, &fuzz->random.profile, schedule, NULL, &fuzz->error);
    return check_repair(fuzz, schedule);
}

static const char *check_refused(struct fuzz *fuzz, enum detour_status status)
{
    struct detour_plan *plan = NULL;

    if (!is_told(fuzz, status))
        return "a profile is refused without one line";
    return detour_generate(fuzz->arena, &fuzz->random.profile, NULL, &plan, &fuzz->error) == status && !plan
               ? NULL
               : "a bad profile is not refused everywhere";
}

static const char *run(struct fuzz *fuzz)
{
    choose_profile(&fuzz->choices, &fuzz->random);
    enum detour_status status = detour_profile_check(&fuzz->random.profile, &fuzz->error);

    if (status)
        return check_refused(fuzz, status);
    const char *problem = generate_all(fuzz);

    if (!problem)
        problem = check_damaged(fuzz);
    if (!problem && fuzz->makespan_ns < fuzz->bound_ns)
        problem = "a makespan is below a lower bound";
    return problem;
}

const char *dt_fuzz_plan(const char *data, size_t bytes)
{
    struct fuzz fuzz = {.arena = detour_arena_create(),
                        .choices = {(const unsigned char *)data, bytes},
                        .makespan_ns = INT64_MAX};
    const char *problem = fuzz.arena ? run(&fuzz) : NULL;

    if (problem)
        fprintf(stderr, "last error: %s\n", fuzz.error.text);
    detour_arena_destroy(fuzz.arena);
    return problem;
}
