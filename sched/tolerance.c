/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The effect of a link's delay on a schedule whose order is fixed. Start times are maxima of sums in which
 * the delay occurs with integer factors, so the makespan is convex and piecewise linear in it: where two
 * tangents meet on the curve, there is no further corner between them.
 */
#include <inttypes.h>

#include "sched/schedule.h"
#include "sched/simulate.h"

struct probe {
    struct dt_call *call;
    struct dt_problem *p; /* a private copy whose latencies are changed */
    struct detour_schedule *scratch;
    int32_t link;
    int directions;
    int64_t forward_ns; /* the link's own latencies */
    int64_t backward_ns;
};

static enum detour_status makespan_at(struct probe *probe, int64_t delay_ns, int64_t *makespan_ns)
{
    struct dt_problem *p = probe->p;
    struct dt_times times;
    bool sent = p->device[probe->link] != p->device[probe->link + 1];

    if (sent && probe->directions & DETOUR_FORWARD)
        p->forward_ns[probe->link] = probe->forward_ns + delay_ns;
    if (sent && probe->directions & DETOUR_BACKWARD)
        p->backward_ns[probe->link] = probe->backward_ns + delay_ns;
    enum detour_status status = dt_simulate(probe->call, p, probe->scratch, NULL, NULL, &times);
    p->forward_ns[probe->link] = probe->forward_ns;
    p->backward_ns[probe->link] = probe->backward_ns;
    *makespan_ns = times.makespan_ns;
    return status;
}

static void aim(struct probe *probe, int32_t link, int directions)
{
    probe->link = link;
    probe->directions = directions;
    probe->forward_ns = probe->p->forward_ns[link];
    probe->backward_ns = probe->p->backward_ns[link];
}

/* A point of the curve with the growth to the next and from the last nanosecond. */
struct sample {
    int64_t delay_ns;
    int64_t makespan_ns;
    int64_t growth;      /* f(delay + 1) - f(delay) */
    int64_t growth_back; /* f(delay) - f(delay - 1) */
};

static enum detour_status take_sample(struct probe *probe, int64_t delay_ns, struct sample *sample)
{
    int64_t before_ns = 0, after_ns = 0;
    enum detour_status status = makespan_at(probe, delay_ns, &sample->makespan_ns);

    if (!status)
        status = makespan_at(probe, delay_ns + 1, &after_ns);
    if (!status && delay_ns > 0)
        status = makespan_at(probe, delay_ns - 1, &before_ns);
    sample->delay_ns = delay_ns;
    sample->growth = after_ns - sample->makespan_ns;
    sample->growth_back = delay_ns > 0 ? sample->makespan_ns - before_ns : 0;
    return status;
}

static enum detour_status add_point(struct probe *probe, struct detour_curve *curve, size_t *room,
                                    const struct sample *sample)
{
    if (curve->point_count && curve->points[curve->point_count - 1].slope == sample->growth)
        return DETOUR_OK;
    if (curve->point_count == *room) {
        struct detour_curve_point *grown;
        if (!dt_arena_new(probe->call->arena, grown, 2 * *room))
            return dt_fail_memory(probe->call->error);
        for (size_t i = 0; i < curve->point_count; i++)
            grown[i] = curve->points[i];
        curve->points = grown;
        *room *= 2;
    }
    curve->points[curve->point_count++] =
        (struct detour_curve_point){sample->delay_ns, sample->makespan_ns, sample->growth};
    return DETOUR_OK;
}

/*
 * Where the tangents from the two ends of an interval meet, rounded down, and strictly inside if there is a
 * nanosecond inside. The interval is not linear, so the tangents have different slopes.
 */
static int64_t meeting_point(const struct sample *low, const struct sample *high)
{
    int64_t width = high->delay_ns - low->delay_ns;
    int64_t rise = high->makespan_ns - low->makespan_ns - low->growth * width;
    int64_t back = rise / (high->growth_back - low->growth);

    if (back < 1)
        back = 1;
    if (back > width - 1)
        back = width - 1;
    return high->delay_ns - back;
}

static bool is_linear(const struct sample *low, const struct sample *high)
{
    return high->makespan_ns - low->makespan_ns == low->growth * (high->delay_ns - low->delay_ns);
}

/*
 * Appends the corners in [low, high). Depth first with a stack of upper ends; each meeting point is a corner
 * or shows a slope that was not known yet, so the work is proportional to the number of corners. The stack
 * only saves samples: when it is full all but the lowest entry, the end of the curve, are forgotten.
 */
static enum detour_status trace(struct probe *probe, const struct sample *first, const struct sample *last,
                                struct detour_curve *curve, size_t *room)
{
    enum { STACK_MAX = 64 };
    struct sample low = *first, *stack;
    size_t depth = 0;
    enum detour_status status = DETOUR_OK;

    if (!dt_arena_new(probe->call->arena, stack, STACK_MAX))
        return dt_fail_memory(probe->call->error);
    stack[depth++] = *last;
    while (!status && depth) {
        struct sample *high = &stack[depth - 1];
        if (is_linear(&low, high) || high->delay_ns - low.delay_ns < 2) {
            status = add_point(probe, curve, room, &low);
            low = *high;
            depth--;
            continue;
        }
        int64_t between_ns = meeting_point(&low, high);
        depth = depth == STACK_MAX ? 1 : depth;
        status = take_sample(probe, between_ns, &stack[depth++]);
    }
    return status;
}

static enum detour_status check_arguments(struct dt_call *call, const struct dt_problem *p, int directions,
                                          int64_t delay_ns_max)
{
    int64_t latency_ns_max = 0;

    if (directions < DETOUR_FORWARD || directions > DETOUR_BOTH_WAYS)
        return dt_fail(call, DETOUR_INVALID,
                       "directions is %d; it must be forward (1), backward (2) or both (3)", directions);
    for (int32_t i = 0; i + 1 < p->stage_count; i++) {
        int64_t slower_ns = p->forward_ns[i] > p->backward_ns[i] ? p->forward_ns[i] : p->backward_ns[i];
        latency_ns_max = slower_ns > latency_ns_max ? slower_ns : latency_ns_max;
    }
    if (delay_ns_max < 1 || delay_ns_max >= DETOUR_TIME_MAX_NS - latency_ns_max)
        return dt_fail(call, DETOUR_LIMIT,
                       "delay_ns_max is %" PRId64 "; it must be at least 1 and below %" PRId64
                       " (the limit of a latency, less the largest in the profile)",
                       delay_ns_max, DETOUR_TIME_MAX_NS - latency_ns_max);
    return DETOUR_OK;
}

static enum detour_status prepare(struct dt_call *call, const struct detour_profile *profile,
                                  const struct detour_schedule *schedule, int directions,
                                  int64_t delay_ns_max, struct probe *probe)
{
    enum detour_status status = dt_problem_create(call, profile, &probe->p);

    probe->call = call;
    if (!status)
        status = check_arguments(call, probe->p, directions, delay_ns_max);
    if (!status)
        status = dt_schedule_check_ops(call, probe->p, schedule);
    return status ? status : dt_schedule_copy(call, schedule, &probe->scratch);
}

enum detour_status detour_delay_curve(struct detour_arena *arena, const struct detour_profile *profile,
                                      const struct detour_schedule *schedule, int32_t link, int directions,
                                      int64_t delay_ns_max, struct detour_curve **curve,
                                      struct detour_error *error)
{
    struct detour_curve *made;
    struct sample first, last;
    struct probe probe;
    struct dt_call call;
    size_t room = 16;

    dt_call_init(&call, arena, error, NULL);
    if (!curve)
        return dt_fail(&call, DETOUR_INVALID, "curve is NULL");
    enum detour_status status = prepare(&call, profile, schedule, directions, delay_ns_max, &probe);
    if (status)
        return status;
    if (link < 0 || link + 1 >= profile->stage_count)
        return dt_fail(&call, DETOUR_INVALID, "link is %" PRId32 "; there are %" PRId32 " links, from 0",
                       link, profile->stage_count - 1);
    if (!dt_arena_new(arena, made, 1) || !dt_arena_new(arena, made->points, room))
        return dt_fail_memory(error);
    aim(&probe, link, directions);
    status = take_sample(&probe, 0, &first);
    if (!status)
        status = take_sample(&probe, delay_ns_max, &last);
    if (!status)
        status = trace(&probe, &first, &last, made, &room);
    if (!status)
        *curve = made;
    return status;
}

/* The growth less the delay is convex and 0 without delay, so it is positive from one delay on, or nowhere.
 */
static enum detour_status find_tolerable(struct probe *probe, int64_t delay_ns_max, int64_t *tolerable_ns)
{
    int64_t without_ns, with_ns, low = 0, high = delay_ns_max + 1;
    enum detour_status status = makespan_at(probe, 0, &without_ns);

    while (!status && high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        status = makespan_at(probe, middle, &with_ns);
        if (with_ns - without_ns <= middle)
            low = middle;
        else
            high = middle;
    }
    *tolerable_ns = low;
    return status;
}

enum detour_status detour_tolerance(struct detour_arena *arena, const struct detour_profile *profile,
                                    const struct detour_schedule *schedule, int directions,
                                    int64_t delay_ns_max, int64_t **tolerable_ns, struct detour_error *error)
{
    struct probe probe;
    struct dt_call call;
    int64_t *made;

    dt_call_init(&call, arena, error, NULL);
    if (!tolerable_ns)
        return dt_fail(&call, DETOUR_INVALID, "tolerable_ns is NULL");
    enum detour_status status = prepare(&call, profile, schedule, directions, delay_ns_max, &probe);
    if (status)
        return status;
    if (!dt_arena_new(arena, made, profile->stage_count))
        return dt_fail_memory(error);
    for (int32_t link = 0; !status && link + 1 < profile->stage_count; link++) {
        aim(&probe, link, directions);
        status = find_tolerable(&probe, delay_ns_max, &made[link]);
    }
    if (!status)
        *tolerable_ns = made;
    return status;
}
