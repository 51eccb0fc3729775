/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/relief.h"

#include <string.h>

#include "base/util.h"
#include "sched/memory.h"
#include "sched/offload.h"
#include "sched/schedule.h"

/* An activation, followed through the time of its device. */
struct holding {
    struct detour_op *f;       /* that makes it */
    const struct detour_op *b; /* that needs it */
    bool held;                 /* on the device at the moment looked at */
    bool away;                 /* or, since this pass, on the host */
};

/* One pass over the events of one device. */
struct pass {
    const struct dt_problem *p;
    struct detour_schedule *s;
    struct holding *holdings; /* [cell] */
    int32_t device;
    int64_t bytes;
    int32_t *inflight; /* [stage] */
    bool helped;       /* this pass has offloaded an activation */
};

static struct holding *holding_of(const struct pass *pass, int32_t stage, int32_t microbatch)
{
    return &pass->holdings[dt_op_index(pass->p, DETOUR_OP_F, stage, microbatch)];
}

static void list_holdings(const struct pass *pass)
{
    for (size_t i = pass->s->first[pass->device]; i < pass->s->first[pass->device + 1]; i++) {
        struct detour_op *op = &pass->s->ops[i];
        if (op->kind == DETOUR_OP_F)
            *holding_of(pass, op->stage, op->microbatch) = (struct holding){.f = op};
        else if (dt_is_backward(op->kind))
            holding_of(pass, op->stage, op->microbatch)->b = op;
    }
}

/*
 * The activation to offload: of those that are held and could leave by `now_ns` and return after it, the
 * one needed last. `stage` >= 0: only of that stage; else any that takes memory.
 */
static struct holding *needed_last(const struct pass *pass, int32_t stage, int64_t now_ns)
{
    struct holding *best = NULL;

    for (size_t i = pass->s->first[pass->device]; i < pass->s->first[pass->device + 1]; i++) {
        const struct detour_op *op = &pass->s->ops[i];
        int64_t copy_ns = pass->p->profile->stages[op->stage].offload_ns;
        if (op->start_ns > now_ns)
            break;
        if (op->kind != DETOUR_OP_F || op->flags || !copy_ns || op->finish_ns + copy_ns > now_ns)
            continue;
        struct holding *holding = holding_of(pass, op->stage, op->microbatch);
        bool useful = stage < 0 ? pass->p->bytes_f[op->stage] > 0 : op->stage == stage;
        if (useful && holding->held && holding->b->start_ns - copy_ns >= now_ns &&
            (!best || holding->b->start_ns > best->b->start_ns))
            best = holding;
    }
    return best;
}

static void move_away(struct pass *pass, struct holding *holding)
{
    holding->f->flags |= DETOUR_OP_OFFLOADED;
    holding->held = false;
    holding->away = true;
    pass->bytes -= pass->p->bytes_f[holding->f->stage];
    pass->inflight[holding->f->stage]--;
    pass->helped = true;
}

static void follow(struct pass *pass, const struct dt_memory_event *event)
{
    struct holding *holding = holding_of(pass, event->stage, event->microbatch);

    if (holding->away) { /* its B is about to start */
        holding->away = false;
        holding->held = true;
        pass->bytes += pass->p->bytes_f[event->stage];
        pass->inflight[event->stage]++;
    }
    pass->bytes += event->bytes;
    pass->inflight[event->stage] += event->inflight;
    if (event->inflight)
        holding->held = event->inflight > 0;
}

/* Marks the activations to offload so that the limits hold after the event. */
static void relieve_moment(struct pass *pass, const struct dt_memory_event *event)
{
    for (;;) {
        bool bytes = pass->bytes > pass->p->capacity[pass->device];
        if (!bytes && pass->inflight[event->stage] <= pass->p->max_inflight[event->stage])
            return;
        struct holding *holding = needed_last(pass, bytes ? -1 : event->stage, event->time_ns);
        if (!holding)
            return;
        move_away(pass, holding);
    }
}

static enum detour_status relieve_device(struct dt_call *call, struct pass *pass)
{
    size_t op_count = pass->s->first[pass->device + 1] - pass->s->first[pass->device];
    struct dt_memory_event *events;
    struct dt_copies copies;

    if (!dt_arena_new(call->arena, events, 3 * op_count) ||
        !dt_arena_new(call->arena, pass->inflight, pass->p->stage_count) ||
        !dt_copies_init(call->arena, pass->p, &copies))
        return dt_fail_memory(call->error);
    size_t count = dt_memory_events(pass->s, pass->device, &copies, events);
    list_holdings(pass);
    for (size_t i = 0; i < count; i++) {
        follow(pass, &events[i]);
        relieve_moment(pass, &events[i]);
    }
    return DETOUR_OK;
}

/*
 * Copies take time and delay later operations, so a limit may be exceeded elsewhere after a pass; every
 * pass but the last offloads one more activation.
 */
enum detour_status dt_relieve(struct dt_call *call, const struct dt_problem *p,
                              struct detour_schedule *schedule, struct dt_times *times)
{
    struct dt_arena_mark whole = dt_arena_save(call->arena);
    struct holding *holdings;
    enum detour_status status = dt_simulate(call, p, schedule, NULL, NULL, times);
    bool again = true;

    if (!dt_arena_new(call->arena, holdings, dt_cell_count(p)))
        return dt_fail_memory(call->error);
    while (!status && again && !dt_call_node(call)) {
        again = false;
        for (int32_t d = 0; !status && d < p->device_count; d++) {
            struct pass pass = {.p = p, .s = schedule, .holdings = holdings, .device = d};
            struct dt_arena_mark mark = dt_arena_save(call->arena);
            status = relieve_device(call, &pass);
            dt_arena_rewind(call->arena, mark);
            again = again || pass.helped;
        }
        if (!status && again)
            status = dt_simulate(call, p, schedule, NULL, NULL, times);
    }
    dt_arena_rewind(call->arena, whole);
    return status ? status : dt_memory_check(call, p, schedule);
}

/* How far the planning exceeds the limits. */
struct relaxation {
    enum detour_algorithm algorithm;
    int32_t more;  /* microbatches on every stage that can offload */
    int32_t slope; /* and as many for each link behind it, as slack for delays needs them */
};

static enum detour_status relax(struct dt_call *call, const struct dt_problem *p, const struct relaxation *by,
                                struct dt_problem *relaxed)
{
    *relaxed = *p;
    if (!dt_arena_new(call->arena, relaxed->max_inflight, p->stage_count) ||
        !dt_arena_new(call->arena, relaxed->capacity, p->device_count))
        return dt_fail_memory(call->error);
    memcpy(relaxed->max_inflight, p->max_inflight, (size_t)p->stage_count * sizeof(*p->max_inflight));
    memcpy(relaxed->capacity, p->capacity, (size_t)p->device_count * sizeof(*p->capacity));
    for (int32_t i = 0; i < p->stage_count; i++) {
        int64_t wanted = by->more + (int64_t)by->slope * (p->stage_count - 1 - i);
        int32_t more = wanted < p->microbatch_count ? (int32_t)wanted : p->microbatch_count;
        int64_t *capacity = &relaxed->capacity[p->device[i]];
        int64_t bytes = more * p->bytes_f[i];
        if (!p->profile->stages[i].offload_ns)
            continue;
        if (relaxed->max_inflight[i] < INT32_MAX - more)
            relaxed->max_inflight[i] += more;
        *capacity = *capacity < INT64_MAX - bytes ? *capacity + bytes : INT64_MAX;
    }
    return DETOUR_OK;
}

static enum detour_status try_relaxed(struct dt_call *call, const struct dt_problem *p,
                                      const struct relaxation *by, struct dt_result *result,
                                      struct dt_times *times)
{
    struct dt_problem relaxed;
    enum detour_status status = relax(call, p, by, &relaxed);

    if (!status)
        status = dt_generate_with(call, &relaxed, by->algorithm, result);
    return status ? status : dt_relieve(call, p, result->schedule, times);
}

struct contest {
    struct relaxation winner; /* algorithm AUTO while there is none */
    struct dt_times times;
};

/* DETOUR_OK whether or not the candidate was better. */
static enum detour_status compete(struct dt_call *call, const struct dt_problem *p,
                                  const struct relaxation *by, struct contest *contest)
{
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    struct dt_result result;
    struct dt_times times;
    enum detour_status status = try_relaxed(call, p, by, &result, &times);

    dt_arena_rewind(call->arena, mark);
    if (!status && dt_times_compare(&times, &contest->times) < 0)
        *contest = (struct contest){*by, times};
    return status == DETOUR_NO_MEMORY ? status : DETOUR_OK;
}

enum detour_status dt_generate_relieved(struct dt_call *call, const struct dt_problem *p,
                                        struct dt_result *result)
{
    static const enum detour_algorithm algorithms[] = {DETOUR_ALGORITHM_ADAPTRA, DETOUR_ALGORITHM_ZB};
    struct contest contest = {.times = {.makespan_ns = INT64_MAX}};
    enum detour_status status = DETOUR_OK;

    for (int32_t step = 1; step < 2 * p->microbatch_count; step *= 2) {
        for (size_t a = 0; a < DT_COUNT_OF(algorithms); a++) {
            struct relaxation level = {algorithms[a], step, 0}, slope = {algorithms[a], 0, step};
            status = compete(call, p, &level, &contest);
            if (!status)
                status = compete(call, p, &slope, &contest);
            if (status)
                return status;
        }
    }
    if (contest.winner.algorithm == DETOUR_ALGORITHM_AUTO)
        return dt_fail(call, DETOUR_MEMORY_TOO_SMALL, "offloading to the host does not help in this memory");
    status = try_relaxed(call, p, &contest.winner, result, &contest.times);
    result->makespan_ns = contest.times.makespan_ns;
    result->longest_span_ns = contest.times.longest_span_ns;
    return status;
}
