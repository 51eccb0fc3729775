/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/detect/trace.h"

#include <math.h>
#include <string.h>

#include "base/prng.h"

#define PI 3.14159265358979323846

static double uniform(struct dt_prng *prng, double low, double high)
{
    return low + (high - low) * ((double)(dt_prng_next(prng) >> 11) * 0x1p-53);
}

static double normal(struct dt_prng *prng)
{
    return sqrt(-2 * log(uniform(prng, 0x1p-53, 1))) * cos(2 * PI * uniform(prng, 0, 1));
}

static uint32_t between(struct dt_prng *prng, uint32_t low, uint32_t high)
{
    return (uint32_t)dt_prng_between(prng, low, high);
}

/* Multiplies the level of some iterations. */
static void raise_level(struct trace *trace, uint32_t begin, uint32_t end, double factor)
{
    for (uint32_t i = begin; i < end && i < trace->count; i++)
        trace->level[i] *= factor;
}

/* ---- what the level does ---- */

static void make_steps(struct trace *trace, struct dt_prng *prng, bool is_slow)
{
    uint32_t phases = between(prng, 1, 3);
    uint32_t at = TRACE_QUIET;

    for (uint32_t i = 0; i < phases; i++) {
        uint32_t begin = at + between(prng, 0, trace->count / 4);
        uint32_t end = begin + between(prng, TRACE_SLOW_RUN, trace->count / 3);

        raise_level(trace, begin, end, is_slow ? uniform(prng, 1.10, 2.00) : uniform(prng, 1.01, 1.09));
        at = end + 20;
    }
}

/* Up by steps of 3 to 9 %, then, maybe, down at once. Healthy: never above 1.09. */
static void make_ladder(struct trace *trace, struct dt_prng *prng, bool is_slow)
{
    uint32_t at = TRACE_QUIET + between(prng, 0, 60);
    uint32_t steps = is_slow ? between(prng, 3, 6) : between(prng, 1, 3);
    uint32_t last = dt_prng_chance(prng, 1, 2) ? trace->count : trace->count - between(prng, 0, 100);
    double level = 1;

    for (uint32_t i = 0; i < steps && at < last; i++) {
        double step = uniform(prng, 1.03, 1.09);

        if (!is_slow && level * step > 1.09)
            break;
        raise_level(trace, at, last, step);
        level *= step;
        at += between(prng, 10, 60);
    }
}

static void make_drift(struct trace *trace, struct dt_prng *prng, bool is_slow)
{
    uint32_t begin = TRACE_QUIET + between(prng, 0, 60);
    uint32_t length = between(prng, 60, 300);
    double rise = is_slow ? uniform(prng, 0.13, 0.60) : uniform(prng, 0.01, 0.09);

    for (uint32_t i = begin; i < trace->count; i++)
        trace->level[i] = 1 + rise * fmin(1, (double)(i - begin) / length);
}

static void make_sawtooth(struct trace *trace, struct dt_prng *prng, bool is_slow)
{
    uint32_t at = TRACE_QUIET + between(prng, 0, 100);
    uint32_t teeth = between(prng, 1, 3);

    for (uint32_t tooth = 0; tooth < teeth; tooth++, at += between(prng, 80, 200)) {
        double rise = is_slow ? uniform(prng, 0.25, 1.0) : uniform(prng, 0.02, 0.09);
        double fall = uniform(prng, 15, 60);

        for (uint32_t i = at; i < trace->count; i++)
            trace->level[i] = fmax(trace->level[i], 1 + rise * exp(-(double)(i - at) / fall));
    }
}

static void make_alternate(struct trace *trace, struct dt_prng *prng, bool is_slow)
{
    double factor = is_slow ? uniform(prng, 1.12, 1.8) : uniform(prng, 1.02, 1.08);
    uint32_t at = TRACE_QUIET + between(prng, 0, 60);

    while (at < trace->count) {
        uint32_t end = at + between(prng, 8, 20);

        raise_level(trace, at, end, factor);
        at = end + between(prng, 8, 20);
    }
}

/* ---- the rest ---- */

static void add_noise(struct trace *trace, struct dt_prng *prng, bool is_bait)
{
    double base = uniform(prng, 0.05, 5);
    double spread = uniform(prng, 0.01, 0.05);
    uint32_t tail = between(prng, 0, 20); /* of 1,000 */
    uint32_t period = dt_prng_chance(prng, 1, 2) ? between(prng, 50, 250) : 0;
    uint32_t bait_begin = trace->count / 3, bait_end = bait_begin + (is_bait ? trace->count / 3 : 0);

    for (uint32_t i = 0; i < trace->count; i++) {
        bool is_wild = i >= bait_begin && i < bait_end;
        double factor = exp((is_wild ? 2 : 1) * spread * normal(prng));

        if (dt_prng_chance(prng, tail, 1000))
            factor *= uniform(prng, 1.05, 2);
        if (period && i % period == period - 1)
            factor *= uniform(prng, 1.2, 4);
        trace->seconds[i] = base * trace->level[i] * factor;
    }
}

static void note_truth(struct trace *trace)
{
    uint32_t run = 0;

    trace->is_slow = false;
    for (uint32_t i = 0; i < trace->count && !trace->is_slow; i++) {
        run = trace->level[i] >= TRACE_SLOW_LEVEL ? run + 1 : 0;
        if (run == TRACE_SLOW_RUN) {
            trace->is_slow = true;
            trace->first_slow = i + 1 - TRACE_SLOW_RUN;
        }
    }
}

void trace_make(struct trace *trace, enum trace_family family, uint64_t seed)
{
    struct dt_prng prng;

    dt_prng_init_stream(&prng, seed, family);
    memset(trace, 0, sizeof *trace);
    trace->count = between(&prng, 300, TRACE_ITERATIONS_MAX);
    for (uint32_t i = 0; i < trace->count; i++)
        trace->level[i] = 1;
    bool is_slow = dt_prng_chance(&prng, 1, 2);
    if (family == TRACE_STEP)
        make_steps(trace, &prng, is_slow);
    else if (family == TRACE_LADDER)
        make_ladder(trace, &prng, is_slow);
    else if (family == TRACE_DRIFT)
        make_drift(trace, &prng, is_slow);
    else if (family == TRACE_SAWTOOTH)
        make_sawtooth(trace, &prng, is_slow);
    else if (family == TRACE_ALTERNATE)
        make_alternate(trace, &prng, is_slow);
    add_noise(trace, &prng, family == TRACE_STEADY && is_slow);
    note_truth(trace);
}

const char *trace_family_name(enum trace_family family)
{
    static const char *const names[] = {
#define TRACE_FAMILY_NAME(name, text, held_out) #name,
        TRACE_FAMILIES(TRACE_FAMILY_NAME)
#undef TRACE_FAMILY_NAME
    };

    return names[family];
}

bool trace_family_is_held_out(enum trace_family family)
{
    static const bool held_out[] = {
#define TRACE_FAMILY_HELD_OUT(name, text, is_held_out) is_held_out,
        TRACE_FAMILIES(TRACE_FAMILY_HELD_OUT)
#undef TRACE_FAMILY_HELD_OUT
    };

    return held_out[family];
}
