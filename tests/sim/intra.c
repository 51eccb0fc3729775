/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/intra.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/intra_bound.h"
#include "tests/sim/pipeline_loop.h"

#define NEVER      INT64_MAX
#define STAGES_MAX DT_SIM_HOSTS_MAX
#define KINDS      4
#define SEARCH_US  20000 /* once, for the first schedule */
#define NODES      2000  /* of a search within an iteration: more find nothing better here */

struct model {
    struct detour_profile profile;
    struct detour_stage stages[STAGES_MAX];
    struct detour_link links[STAGES_MAX];
};

/* One direction of a link in an iteration. */
struct direction {
    int64_t busy_ns;  /* until then */
    int64_t last_ns;  /* arrival */
    int64_t total_ns; /* of all messages, from the end of their operations to their arrival */
    int64_t arrival_ns[DT_INTRA_MICROBATCHES_MAX]; /* in the order in which they were sent, as the next */
    int64_t delay_ns[DT_INTRA_MICROBATCHES_MAX];
    int32_t sent, arrived;
};

/* Times count from the begin of the iteration. */
struct intra {
    const struct dt_intra_options *o;
    struct dt_changing_links *delays;
    struct model healthy, planned, measured;
    struct detour_arena *first; /* has `order` and the first schedule */
    struct detour_arena *work;  /* has `planned_order` */
    struct dt_pipeline_loop *loop;
    struct detour_schedule *order; /* of this iteration; what has begun has its times */
    size_t started[STAGES_MAX];
    int64_t (*end_ns)[STAGES_MAX];   /* [kind * microbatches + microbatch][device]; NEVER: not begun */
    int64_t (*there_ns)[STAGES_MAX]; /* inputs from other devices: [backward * microbatches + microbatch] */
    struct direction direction[2][STAGES_MAX]; /* [backward][link] */
    const struct detour_schedule *next_order;  /* decided; NULL: none */
    int64_t used_from_ns;
    int64_t known_ns[2][STAGES_MAX]; /* [backward][link]: the delays that the planner goes by */
    bool has_news;                   /* they have changed since the last decision */
    int64_t began_ns;                /* this iteration, since the first one began */
    uint64_t replans;
};

static void set_model(const struct intra *x, struct model *model)
{
    const struct dt_intra_options *o = x->o;

    *model = (struct model){.profile = {.stage_count = o->devices,
                                        .microbatch_count = o->microbatches,
                                        .device_count = o->devices,
                                        .stages = model->stages,
                                        .links = model->links}};
    for (int32_t i = 0; i < o->devices; i++)
        model->stages[i] =
            (struct detour_stage){.f_ns = o->f_ns, .b_ns = o->b_ns, .w_ns = o->w_ns, .device = i};
}

static void set_link(const struct intra *x, struct model *model, int32_t link, int64_t forward_ns,
                     int64_t backward_ns)
{
    model->links[link] = (struct detour_link){.forward_ns = x->o->latency_ns + forward_ns,
                                              .backward_ns = x->o->latency_ns + backward_ns,
                                              .forward_serial_ns = x->o->serial_ns,
                                              .backward_serial_ns = x->o->serial_ns};
}

/* ---- operations ---- */

static int64_t *end_of(struct intra *x, int kind, int32_t microbatch, int32_t device)
{
    return &x->end_ns[kind * x->o->microbatches + microbatch][device];
}

static int64_t *there(struct intra *x, bool backward, int32_t microbatch, int32_t device)
{
    return &x->there_ns[backward * x->o->microbatches + microbatch][device];
}

static struct detour_op *next_op(struct intra *x, int32_t device)
{
    size_t at = x->order->first[device] + x->started[device];

    return at < x->order->first[device + 1] ? &x->order->ops[at] : NULL;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* When the device can begin its next operation; NEVER: that is not known yet, or there is none. */
static int64_t can_begin_ns(struct intra *x, int32_t device)
{
    const struct detour_op *op = next_op(x, device);
    int64_t at_ns = op && x->started[device] ? op[-1].finish_ns : 0;

    if (!op)
        return NEVER;
    switch ((enum detour_op_kind)op->kind) {
    case DETOUR_OP_F:
        return device ? later(at_ns, *there(x, false, op->microbatch, device)) : at_ns;
    case DETOUR_OP_B:
    case DETOUR_OP_BW:
        at_ns = later(at_ns, *end_of(x, DETOUR_OP_F, op->microbatch, device));
        return device + 1 < x->o->devices ? later(at_ns, *there(x, true, op->microbatch, device)) : at_ns;
    default:
        return later(at_ns, *end_of(x, DETOUR_OP_B, op->microbatch, device));
    }
}

/* A message to the next device, or (backward) to the one before; messages of a direction stay in order. */
static void send_message(struct intra *x, int32_t device, bool backward, int32_t microbatch, int64_t ready_ns)
{
    int32_t link = backward ? device - 1 : device;
    struct direction *direction = &x->direction[backward][link];
    int64_t delay_ns = dt_changing_links_delay_ns(x->delays, link, x->began_ns + ready_ns);

    direction->busy_ns = later(ready_ns, direction->busy_ns) + x->o->serial_ns;
    direction->last_ns = later(direction->last_ns, direction->busy_ns + x->o->latency_ns + delay_ns);
    direction->total_ns += direction->last_ns - ready_ns;
    direction->arrival_ns[direction->sent] = direction->last_ns;
    direction->delay_ns[direction->sent++] = delay_ns;
    *there(x, backward, microbatch, backward ? device - 1 : device + 1) = direction->last_ns;
}

static void begin_op(struct intra *x, int32_t device, int64_t now_ns)
{
    const struct detour_stage *stage = &x->healthy.stages[device];
    const int64_t takes_ns[KINDS] = {stage->f_ns, stage->b_ns, stage->w_ns, stage->b_ns + stage->w_ns};
    struct detour_op *op = next_op(x, device);

    op->start_ns = now_ns;
    op->finish_ns = now_ns + takes_ns[op->kind];
    *end_of(x, op->kind, op->microbatch, device) = op->finish_ns;
    x->started[device]++;
    if (op->kind == DETOUR_OP_F && device + 1 < x->o->devices)
        send_message(x, device, false, op->microbatch, op->finish_ns);
    if ((op->kind == DETOUR_OP_B || op->kind == DETOUR_OP_BW) && device > 0)
        send_message(x, device, true, op->microbatch, op->finish_ns);
}

/* ---- within an iteration ---- */

/* Takes the messages that have arrived; returns when the next one does. */
static int64_t receive(struct intra *x, int64_t now_ns)
{
    int64_t next_ns = NEVER;

    for (int32_t i = 0; i < 2 * (x->o->devices - 1); i++) {
        struct direction *direction = &x->direction[i % 2][i / 2];

        while (direction->arrived < direction->sent && direction->arrival_ns[direction->arrived] <= now_ns)
            direction->arrived++;
        if (direction->arrived < direction->sent && direction->arrival_ns[direction->arrived] < next_ns)
            next_ns = direction->arrival_ns[direction->arrived];
    }
    return next_ns;
}

/* Measured: the delay of the last message that has arrived; none in this iteration: that of the last one. */
static int64_t delay_to_know(struct intra *x, bool backward, int32_t link, int64_t now_ns)
{
    const struct direction *direction = &x->direction[backward][link];

    if (!x->o->measures)
        return dt_changing_links_delay_ns(x->delays, link, x->began_ns + now_ns);
    return direction->arrived ? direction->delay_ns[direction->arrived - 1] : x->known_ns[backward][link];
}

static void look(struct intra *x, int64_t now_ns)
{
    receive(x, now_ns);
    for (int32_t i = 0; i < 2 * (x->o->devices - 1); i++) {
        int64_t *known_ns = &x->known_ns[i % 2][i / 2];
        int64_t delay_ns = delay_to_know(x, i % 2, i / 2, now_ns);

        x->has_news |= *known_ns != delay_ns;
        *known_ns = delay_ns;
    }
}

/* The best order for the delays as they are known, if it promises more than the present one. */
static void decide(struct intra *x, int64_t now_ns)
{
    const struct detour_options options = {.node_budget = NODES};
    struct detour_plan *plan;
    int64_t present_ns;

    detour_arena_reset(x->work);
    for (int32_t i = 0; i + 1 < x->o->devices; i++)
        set_link(x, &x->measured, i, x->known_ns[false][i], x->known_ns[true][i]);
    enum detour_status status =
        detour_replan(x->work, &x->measured.profile, x->order, x->started, now_ns, &options, &plan, NULL);
    if (status == DETOUR_OK)
        status = detour_simulate_from(x->work, &x->measured.profile, x->order, x->started, now_ns,
                                      &present_ns, NULL);
    DT_CHECK(status == DETOUR_OK || status == DETOUR_LIMIT); /* a delay of minutes */
    x->has_news = false;
    if (status || plan->makespan_ns >= present_ns)
        return;
    x->next_order = plan->schedule;
    x->used_from_ns = now_ns + x->o->decision_ns;
    x->replans++;
}

/* What has not begun takes the decided order. */
static void use_decision(struct intra *x)
{
    for (int32_t d = 0; d < x->o->devices; d++) {
        size_t to = x->order->first[d] + x->started[d];

        for (size_t i = x->next_order->first[d]; i < x->next_order->first[d + 1]; i++) {
            const struct detour_op *op = &x->next_order->ops[i];

            if (*end_of(x, op->kind, op->microbatch, d) == NEVER)
                x->order->ops[to++] = *op;
        }
        DT_CHECK(to == x->order->first[d + 1]);
    }
    x->next_order = NULL;
}

/* At most one decision is under way. */
static void replan(struct intra *x, int64_t now_ns)
{
    look(x, now_ns);
    if (x->next_order && x->used_from_ns <= now_ns)
        use_decision(x);
    if (!x->next_order && x->has_news)
        decide(x, now_ns);
    if (x->next_order && x->used_from_ns <= now_ns)
        use_decision(x);
}

/* When replan() has something to do again. */
static int64_t next_replan_ns(struct intra *x, int64_t now_ns)
{
    int64_t next_ns = x->next_order ? x->used_from_ns : NEVER;
    int64_t news_ns =
        x->o->measures ? receive(x, now_ns) : dt_changing_links_change_ns(x->delays, x->began_ns + now_ns);

    if (news_ns != NEVER && !x->o->measures)
        news_ns -= x->began_ns;
    return news_ns < next_ns ? news_ns : next_ns;
}

/* Begins what can begin now; returns when there is something to do again, NEVER: nothing more. */
static int64_t turn_devices(struct intra *x, int64_t now_ns)
{
    int64_t next_ns = NEVER;

    for (bool moves = true; moves;) {
        moves = false;
        next_ns = NEVER;
        for (int32_t d = 0; d < x->o->devices; d++) {
            int64_t at_ns = can_begin_ns(x, d);

            if (at_ns <= now_ns) {
                begin_op(x, d, now_ns);
                moves = true;
            } else if (at_ns < next_ns) {
                next_ns = at_ns;
            }
        }
    }
    return next_ns;
}

static void clear(int64_t (*rows_ns)[STAGES_MAX], int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        for (int32_t device = 0; device < STAGES_MAX; device++)
            rows_ns[i][device] = NEVER;
}

/* Computes one iteration; returns how long it takes. */
static int64_t run_iteration(struct intra *x)
{
    int64_t now_ns = 0, end_ns = 0;

    memset(x->started, 0, sizeof x->started);
    memset(x->direction, 0, sizeof x->direction);
    clear(x->end_ns, KINDS * x->o->microbatches);
    clear(x->there_ns, 2 * x->o->microbatches);
    x->next_order = NULL;
    x->has_news = true; /* of an order that was made for other delays */
    for (;;) {
        if (x->o->replans)
            replan(x, now_ns);
        int64_t next_ns = turn_devices(x, now_ns);
        if (next_ns == NEVER)
            break;
        int64_t replan_ns = x->o->replans ? next_replan_ns(x, now_ns) : NEVER;
        now_ns = replan_ns < next_ns ? replan_ns : next_ns;
    }
    for (int32_t d = 0; d < x->o->devices; d++) {
        DT_CHECK(!next_op(x, d));
        end_ns = later(end_ns, x->order->ops[x->order->first[d + 1] - 1].finish_ns);
    }
    return end_ns;
}

/* ---- between iterations ---- */

static void set_order(struct intra *x, const struct detour_program *program)
{
    for (int32_t d = 0; d < x->o->devices; d++) {
        size_t to = x->order->first[d];

        for (size_t i = program->first[d]; i < program->first[d + 1]; i++) {
            const struct detour_action *action = &program->actions[i];

            if (action->kind < KINDS)
                x->order->ops[to++] = (struct detour_op){
                    .microbatch = action->microbatch, .stage = action->stage, .kind = action->kind};
        }
        DT_CHECK(to == x->order->first[d + 1]);
    }
}

static const struct detour_program *follow(struct intra *x, uint32_t iteration)
{
    struct dt_pipeline_sim_transit transit = {0};

    for (int32_t i = 0; i + 1 < x->o->devices; i++) {
        transit.forward_ns[i] = (uint64_t)(x->direction[false][i].total_ns / x->o->microbatches);
        transit.backward_ns[i] = (uint64_t)(x->direction[true][i].total_ns / x->o->microbatches);
    }
    return dt_pipeline_loop_after(x->loop, iteration, &transit);
}

static void run(struct intra *x, const struct detour_program *first, struct dt_intra_result *result)
{
    const struct detour_program *program = first;
    int64_t sum_ns = 0, bounds_ns = 0;

    for (uint32_t i = 0; i < x->o->iteration_count; i++) {
        int64_t bound_ns = dt_intra_bound_ns(x->o, x->delays, x->began_ns);

        set_order(x, program);
        int64_t takes_ns = run_iteration(x);
        DT_CHECK(takes_ns >= bound_ns);
        sum_ns += takes_ns;
        bounds_ns += bound_ns;
        x->began_ns += takes_ns;
        if (x->loop) {
            const struct detour_program *next = follow(x, i);

            program = next ? next : first;
        }
    }
    *result = (struct dt_intra_result){.mean_ns = sum_ns / x->o->iteration_count,
                                       .bound_ns = bounds_ns / x->o->iteration_count,
                                       .changes = x->loop ? dt_pipeline_loop_changes(x->loop) : 0,
                                       .replans = x->replans};
}

/* ---- life ---- */

static enum detour_status plan(struct intra *x, struct detour_program **program, struct detour_error *error)
{
    const struct detour_options options = {.algorithm = x->o->schedule,
                                           .node_budget = detour_node_budget(&x->planned.profile, SEARCH_US)};
    struct detour_plan *made;
    enum detour_status status = detour_generate(x->first, &x->planned.profile, &options, &made, error);

    if (status == DETOUR_OK)
        status = detour_program_create(x->first, &x->planned.profile, made->schedule, program, error);
    if (status)
        return status;
    status =
        detour_schedule_create(x->first, &x->planned.profile, made->schedule->op_count, &x->order, error);
    if (status)
        return status;
    memcpy(x->order->first, made->schedule->first, ((size_t)x->o->devices + 1) * sizeof *x->order->first);
    if (x->o->follows)
        x->loop = dt_pipeline_loop_create(&x->healthy.profile, &x->planned.profile, made->schedule);
    return x->o->follows && !x->loop ? DETOUR_NO_MEMORY : DETOUR_OK;
}

static bool allocate(struct intra *x)
{
    const struct dt_intra_options *o = x->o;

    x->first = detour_arena_create();
    x->work = detour_arena_create();
    x->delays = dt_changing_links_create(&o->rule, o->devices - 1, o->seed);
    x->end_ns = calloc(KINDS * (size_t)o->microbatches, sizeof *x->end_ns);
    x->there_ns = calloc(2 * (size_t)o->microbatches, sizeof *x->there_ns);
    return x->first && x->work && x->delays && x->end_ns && x->there_ns;
}

static void clean_up(struct intra *x)
{
    dt_pipeline_loop_destroy(x->loop);
    detour_arena_destroy(x->first);
    detour_arena_destroy(x->work);
    dt_changing_links_destroy(x->delays);
    free(x->end_ns);
    free(x->there_ns);
    free(x);
}

enum detour_status dt_intra_run(const struct dt_intra_options *options, struct dt_intra_result *result,
                                struct detour_error *error)
{
    enum detour_status status = DETOUR_NO_MEMORY;
    struct intra *x = calloc(1, sizeof *x);
    struct detour_program *program;

    DT_CHECK(options->devices >= 2 && options->devices <= STAGES_MAX && options->iteration_count > 0 &&
             options->microbatches <= DT_INTRA_MICROBATCHES_MAX);
    if (!x)
        return status;
    x->o = options;
    set_model(x, &x->healthy);
    set_model(x, &x->planned);
    set_model(x, &x->measured);
    for (int32_t i = 0; i + 1 < options->devices; i++) {
        set_link(x, &x->healthy, i, 0, 0);
        set_link(x, &x->planned, i, options->planned_ns, options->planned_ns);
        x->known_ns[false][i] = x->known_ns[true][i] = options->planned_ns;
    }
    if (allocate(x))
        status = plan(x, &program, error);
    if (status == DETOUR_OK)
        run(x, program, result);
    clean_up(x);
    return status;
}
