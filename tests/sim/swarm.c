/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/swarm.h"

#include "base/clock.h"
#include "base/util.h"
#include "tests/sim/draw.h"

#define DATA_OPS (DT_FAULT_OP(DT_PACKET_SEND) | DT_FAULT_OP(DT_PACKET_WRITE))

static uint32_t draw_ops(struct dt_prng *prng)
{
    static const uint32_t ops[] = {DT_FAULT_OPS_ALL, DATA_OPS, DT_FAULT_REQUESTS, DT_FAULT_OP(DT_PACKET_ACK),
                                   DT_FAULT_RESPONSES};

    return ops[dt_prng_below(prng, DT_COUNT_OF(ops))];
}

static void draw_cut(const struct dt_scenario *s, struct dt_prng *prng, struct dt_chaos *f)
{
    uint64_t ways = dt_prng_between(prng, 1, 3);

    f->other = dt_draw_one_in(prng, 2) ? f->device : (uint32_t)dt_prng_below(prng, s->device_count);
    f->is_in = ways & 1;
    f->is_out = ways & 2;
}

void dt_swarm_draw_fault(struct dt_scenario *s, struct dt_prng *prng, enum dt_chaos_kind kind,
                         struct dt_chaos *f)
{
    *f = (struct dt_chaos){.kind = kind};
    f->device = (uint32_t)dt_prng_below(prng, s->device_count);
    f->host = (uint32_t)dt_prng_below(prng, DT_HOSTS);
    f->duration_ns = dt_draw_log(prng, DT_NS_PER_US, 2 * DT_NS_PER_S);
    switch (kind) {
    case DT_CHAOS_CUT:
        draw_cut(s, prng, f);
        break;
    case DT_CHAOS_LOSS:
        f->ops = draw_ops(prng);
        f->chance_ppm = dt_draw_one_in(prng, 3) ? 1000000 : (uint32_t)dt_prng_between(prng, 1, 1000000);
        break;
    case DT_CHAOS_DROP:
        f->ops = draw_ops(prng);
        f->count = (uint32_t)dt_draw_log(prng, 1, 32);
        f->skip = (uint32_t)dt_prng_below(prng, 20);
        break;
    case DT_CHAOS_LATE:
        f->ops = draw_ops(prng);
        f->chance_ppm = (uint32_t)dt_prng_between(prng, 10000, 500000);
        f->delay_ns = dt_draw_log(prng, 100 * DT_NS_PER_US, 2 * DT_NS_PER_S);
        break;
    case DT_CHAOS_FLAP:
        f->count = (uint32_t)dt_prng_between(prng, 2, 8);
        f->duration_ns = dt_draw_log(prng, 10 * DT_NS_PER_US, 200 * DT_NS_PER_MS);
        break;
    case DT_CHAOS_DEATH_BLIND:
        f->duration_ns = dt_draw_log(prng, DT_NS_PER_US, DT_NS_PER_MS);
        break;
    case DT_CHAOS_CONTROL_SLOW:
        f->delay_ns = dt_draw_log(prng, DT_NS_PER_MS, 300 * DT_NS_PER_MS);
        break;
    case DT_CHAOS_CONTROL_BREAK:
        f->which = dt_prng_next(prng);
        f->stream_fault = (enum dt_stream_fault)dt_prng_below(prng, DT_STREAM_FAULTS);
        break;
    default:
        break;
    }
}

bool dt_swarm_is_death(const struct dt_chaos *f)
{
    return f->kind == DT_CHAOS_DEATH || f->kind == DT_CHAOS_DEATH_BLIND || f->kind == DT_CHAOS_HALF_SILENT;
}

/* One device may die for good, unless the run is doomed. */
static bool is_survivable(const struct dt_scenario *s, const struct dt_chaos *f)
{
    if (s->is_doomed || !dt_swarm_is_death(f))
        return true;
    for (uint32_t i = 0; i < s->chaos.count; i++)
        if (dt_swarm_is_death(&s->chaos.list[i]))
            return false;
    return true;
}

/* The kinds that this run has: none of them, a few, or many. */
static uint32_t draw_kinds(struct dt_prng *prng)
{
    uint32_t wanted = (uint32_t)dt_prng_between(prng, 1, 5), mask = 0;

    for (uint32_t i = 0; i < wanted; i++)
        mask |= 1u << dt_prng_below(prng, DT_CHAOS_SWARM_KINDS);
    /* Something that brings a path down, in most runs. */
    if (!dt_draw_one_in(prng, 5))
        mask |= 1u << dt_prng_below(prng, DT_CHAOS_DEATH);
    return mask;
}

static enum dt_chaos_kind draw_kind(struct dt_prng *prng, uint32_t mask)
{
    uint64_t n = dt_prng_below(prng, (uint64_t)__builtin_popcount(mask));

    while (n--)
        mask &= mask - 1;
    return (enum dt_chaos_kind)__builtin_ctz(mask);
}

void dt_swarm_draw(struct dt_scenario *s, struct dt_prng *prng, uint64_t span_ns)
{
    uint32_t wanted = (uint32_t)dt_prng_between(prng, 1, 8);
    uint32_t kinds = draw_kinds(prng);
    uint64_t last_ns = 0;

    s->chaos.control_latency_ns = s->plugin.control_latency_ns;
    for (uint32_t i = 0; i < wanted; i++) {
        struct dt_chaos *f = &s->chaos.list[s->chaos.count];

        dt_swarm_draw_fault(s, prng, draw_kind(prng, kinds), f);
        /* Often close to the one before: inside its timeouts, or its recovery. */
        f->start_ns = dt_prng_below(prng, span_ns);
        if (dt_draw_one_in(prng, 2))
            f->start_ns = last_ns + dt_draw_log(prng, DT_NS_PER_US, dt_max_u64(span_ns, 2 * DT_NS_PER_US));
        last_ns = f->start_ns;
        s->chaos.count += is_survivable(s, f);
    }
}
