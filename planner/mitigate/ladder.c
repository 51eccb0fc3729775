/* SPDX-License-Identifier: Apache-2.0 */
/* When a step is taken: FALCON, section 5.2 and algorithm 1. */
#include <string.h>

#include "base/check.h"
#include "base/util.h"
#include "detour/mitigate.h"

enum { PERMILLE = 1000, DEFAULT_NOISE_PERMILLE = 100, DEFAULT_CONFIRM_COUNT = 3 };
#define DEFAULT_TIMEOUT_NS 3600000000000
#define LOST_MAX_NS        (INT64_MAX / 4)

enum input {
    INPUT_SLOW,      /* incidents are open */
    INPUT_RECOVERED, /* none is open */
    INPUT_TAKE,      /* a step begins */
    INPUT_SETTLED,   /* it has ended: nothing slow, no remedy */
    INPUT_KEPT,      /* it has ended: nothing slow, a remedy in force */
    INPUT_STILL,     /* it has ended: something is slow */
    INPUT_COUNT,
};

enum {
    NEVER = -1,
    Q = DETOUR_LADDER_QUIET,
    O = DETOUR_LADDER_OPEN,
    R = DETOUR_LADDER_REMEDIED,
    T = DETOUR_LADDER_TAKING
};

/* From REMEDIED to QUIET only a step back leads. RECOVERED from OPEN ends in QUIET or, by enter(), REMEDIED.
 */
static const signed char transitions[DETOUR_LADDER_STATE_COUNT][INPUT_COUNT] = {
    /*                           SLOW  RECOVERED  TAKE   SETTLED  KEPT   STILL */
    [DETOUR_LADDER_QUIET] = {O, Q, NEVER, NEVER, NEVER, NEVER},
    [DETOUR_LADDER_OPEN] = {O, Q, T, NEVER, NEVER, NEVER},
    [DETOUR_LADDER_REMEDIED] = {O, R, T, NEVER, NEVER, NEVER},
    [DETOUR_LADDER_TAKING] = {T, T, NEVER, Q, R, O},
};

const char *detour_ladder_state_name(enum detour_ladder_state state)
{
    static const char *const names[] = {"quiet", "open", "remedied", "taking"};

    return (size_t)state < DT_COUNT_OF(names) ? names[state] : NULL;
}

static void enter(struct detour_ladder *ladder, enum input input)
{
    int next = transitions[ladder->state][input];

    DT_CHECK(next != NEVER);
    if (next == DETOUR_LADDER_QUIET && ladder->current != DETOUR_STEP_S1)
        next = DETOUR_LADDER_REMEDIED;
    ladder->state = (enum detour_ladder_state)next;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void forget_losses(struct detour_ladder *ladder)
{
    ladder->is_verified = false;
    memset(ladder->lost_ns, 0, sizeof(ladder->lost_ns));
}

void detour_ladder_init(struct detour_ladder *ladder, const struct detour_ladder_options *options,
                        int64_t now_ns)
{
    *ladder = (struct detour_ladder){.began_ns = now_ns};
    if (options)
        ladder->options = *options;
    if (ladder->options.noise_permille <= 0)
        ladder->options.noise_permille = DEFAULT_NOISE_PERMILLE;
    if (ladder->options.confirm_count <= 0)
        ladder->options.confirm_count = DEFAULT_CONFIRM_COUNT;
    if (ladder->options.timeout_ns <= 0)
        ladder->options.timeout_ns = DEFAULT_TIMEOUT_NS;
    for (int step = 0; step < DETOUR_STEP_COUNT; step++)
        ladder->steps[step].iteration_ns = INT64_MAX;
}

void detour_ladder_change(struct detour_ladder *ladder, int32_t incidents, int64_t healthy_ns,
                          const struct detour_ladder_step *steps)
{
    memcpy(ladder->steps, steps, sizeof(ladder->steps));
    ladder->healthy_ns = healthy_ns;
    ladder->slow_ns = ladder->slow_count = 0;
    if ((incidents > 0) != (ladder->incidents > 0)) {
        ladder->is_first = incidents > 0;
        ladder->calm_count = 0;
    }
    ladder->incidents = incidents > 0 ? incidents : 0;
    enter(ladder, incidents > 0 ? INPUT_SLOW : INPUT_RECOVERED);
}

static bool is_calm(const struct detour_ladder *ladder)
{
    return ladder->incidents == 0 && ladder->calm_count >= ladder->options.confirm_count;
}

/*
 * What the step would have saved of an iteration, negative where it would have cost more; 0 for a difference
 * that plans do not resolve. An incident counts once it is verified, and without incidents only the way back,
 * once the recovery is confirmed.
 */
static int64_t gain_ns(const struct detour_ladder *ladder, enum detour_step step, int64_t iteration_ns)
{
    int64_t target_ns = ladder->steps[step].iteration_ns, gain = iteration_ns - target_ns;
    bool counts = ladder->incidents > 0 ? ladder->is_verified : step == DETOUR_STEP_S1 && is_calm(ladder);

    if (!counts || target_ns == INT64_MAX || (step == ladder->current && !ladder->steps[step].is_other))
        return 0;
    __int128 size = gain < 0 ? -(__int128)gain : gain;

    return size * PERMILLE <= (__int128)target_ns * DETOUR_SAVING_NOISE_PERMILLE ? 0 : gain;
}

/* The mean iteration since what is slow changed. The one in which it changed was healthy in part: it counts
 * by itself alone. */
static void verify(struct detour_ladder *ladder, int64_t iteration_ns, bool is_first)
{
    int64_t slow_ns = ladder->slow_ns + iteration_ns, count = ladder->slow_count + 1;

    if (ladder->incidents > 0 &&
        (__int128)slow_ns * PERMILLE >
            (__int128)ladder->healthy_ns * count * (PERMILLE + ladder->options.noise_permille))
        ladder->is_verified = true;
    if (is_first)
        return;
    ladder->slow_ns = slow_ns;
    ladder->slow_count = count;
}

/* The step that one more iteration would make due; of several, the one that saves most. NEVER: none. */
static int find_due(const struct detour_ladder *ladder, int64_t iteration_ns)
{
    int64_t best_ns = 0;
    int due = NEVER;

    for (int step = 0; step < DETOUR_STEP_COUNT; step++) {
        int64_t gain = gain_ns(ladder, (enum detour_step)step, iteration_ns);
        if (gain > best_ns && ladder->lost_ns[step] + gain >= ladder->steps[step].cost_ns) {
            best_ns = gain;
            due = step;
        }
    }
    return due;
}

static void add_losses(struct detour_ladder *ladder, int64_t iteration_ns)
{
    for (int step = 0; step < DETOUR_STEP_COUNT; step++) {
        int64_t lost_ns = ladder->lost_ns[step] +
                          smaller(gain_ns(ladder, (enum detour_step)step, iteration_ns), LOST_MAX_NS);
        ladder->lost_ns[step] = lost_ns < 0 ? 0 : smaller(lost_ns, LOST_MAX_NS);
    }
}

/* Iterations since all incidents have recovered. */
static void count_calm(struct detour_ladder *ladder)
{
    if (ladder->incidents > 0 || is_calm(ladder))
        return;
    ladder->calm_count++;
    if (is_calm(ladder))
        forget_losses(ladder);
}

bool detour_ladder_boundary(struct detour_ladder *ladder, int64_t now_ns, enum detour_step *step)
{
    int64_t iteration_ns = now_ns - ladder->began_ns;
    bool is_first = ladder->is_first;

    if (ladder->state == DETOUR_LADDER_TAKING)
        return false;
    ladder->began_ns = now_ns;
    ladder->is_first = false;
    count_calm(ladder);
    if (ladder->state == DETOUR_LADDER_QUIET || iteration_ns <= 0)
        return false;
    verify(ladder, iteration_ns, is_first);
    if (!is_first)
        add_losses(ladder, iteration_ns);
    int due = find_due(ladder, iteration_ns);
    if (due == NEVER)
        return false;
    ladder->taking = *step = (enum detour_step)due;
    enter(ladder, INPUT_TAKE);
    return true;
}

bool detour_ladder_done(struct detour_ladder *ladder, int64_t now_ns, bool success)
{
    enum detour_step taken = ladder->taking;

    if (ladder->state != DETOUR_LADDER_TAKING)
        return false;
    ladder->began_ns = now_ns;
    ladder->lost_ns[taken] = 0;
    if (success) {
        ladder->taken[taken]++;
        ladder->current = taken;
        ladder->steps[taken].is_other = false;
        for (int step = 0; step < (int)taken; step++) /* the cheaper ones have to be paid for anew */
            ladder->lost_ns[step] = 0;
    }
    if (success && taken == DETOUR_STEP_S4) {
        ladder->current = DETOUR_STEP_S1;
        ladder->incidents = 0;
        forget_losses(ladder);
    }
    if (ladder->incidents > 0)
        enter(ladder, INPUT_STILL);
    else
        enter(ladder, ladder->current == DETOUR_STEP_S1 ? INPUT_SETTLED : INPUT_KEPT);
    return true;
}

int64_t detour_ladder_deadline_ns(const struct detour_ladder *ladder)
{
    if (ladder->state != DETOUR_LADDER_TAKING)
        return INT64_MAX;
    return ladder->began_ns < INT64_MAX - ladder->options.timeout_ns
               ? ladder->began_ns + ladder->options.timeout_ns
               : INT64_MAX;
}
