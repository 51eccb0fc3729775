/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/passing.h"

#include "base/clock.h"
#include "base/prng.h"
#include "tests/sim/draw.h"
#include "tests/sim/mercy.h"
#include "tests/sim/swarm.h"

static struct dt_chaos *add(struct dt_scenario *s, struct dt_prng *prng, enum dt_chaos_kind kind)
{
    struct dt_chaos *f = &s->chaos.list[s->chaos.count++];

    *f = (struct dt_chaos){.kind = kind, .host = (uint32_t)dt_prng_below(prng, DT_HOSTS)};
    f->start_ns = dt_draw_log(prng, DT_NS_PER_US, 200 * DT_NS_PER_MS);
    return f;
}

/* The process alone, whose devices go on, or all of its machine. */
static void draw_stop(struct dt_scenario *s, struct dt_prng *prng)
{
    struct dt_chaos *f = add(s, prng, dt_draw_one_in(prng, 2) ? DT_CHAOS_STOP : DT_CHAOS_FREEZE);

    f->duration_ns = dt_draw_log(prng, DT_NS_PER_MS, 20 * DT_NS_PER_S);
}

static void draw_death(struct dt_scenario *s, struct dt_prng *prng)
{
    struct dt_chaos *f = add(s, prng, DT_CHAOS_KILL);

    f->duration_ns = dt_draw_log(prng, 1, 100 * DT_NS_PER_MS);
    f->stream_death = (enum dt_stream_death)dt_prng_below(prng, DT_STREAM_DEATHS);
    f->is_device_first = dt_draw_one_in(prng, 2);
}

/* A path from it to itself: then both ends are silent, and neither knows. */
static bool is_at_both_ends(const struct dt_scenario *s, uint32_t device)
{
    for (uint32_t i = 0; i < s->flow_count; i++) {
        const struct dt_flow_options *flow = &s->flow[i];
        uint32_t receiver = flow->side[DT_FLOW_RECEIVER].host;
        const struct dt_host_options *host = &s->plugin.host[receiver];

        if (flow->side[DT_FLOW_SENDER].host == receiver && device - host->device_first < host->device_count)
            return true;
    }
    return false;
}

/*
 * Every connection has a path without the device. A flush whose completion does not come is not noticed
 * (docs/failover.md), so there is no GPU memory.
 */
static void draw_silence(struct dt_scenario *s, struct dt_prng *prng)
{
    uint32_t device = (uint32_t)dt_prng_below(prng, s->device_count);

    for (uint32_t i = 0; i < s->chaos.count; i++)
        if (dt_swarm_is_death(&s->chaos.list[i]))
            return;
    if (is_at_both_ends(s, device) || !dt_mercy_can_do_without(s, device))
        return;
    for (uint32_t i = 0; i < s->flow_count; i++)
        s->flow[i].is_gpu = false;
    add(s, prng, DT_CHAOS_HALF_SILENT)->device = device;
}

void dt_passing_draw(struct dt_scenario *s)
{
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1003);
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        s->chaos.devices[host].first = s->plugin.host[host].device_first;
        s->chaos.devices[host].count = s->plugin.host[host].device_count;
    }
    if (s->profile != DT_PROFILE_FAILOVER)
        return;
    if (dt_draw_one_in(&prng, 4))
        draw_stop(s, &prng);
    if (dt_draw_one_in(&prng, 6))
        draw_death(s, &prng);
    if (dt_draw_one_in(&prng, 4))
        draw_silence(s, &prng);
}
