/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/farewell.h"

#include "base/clock.h"
#include "base/prng.h"
#include "tests/sim/draw.h"
#include "tests/sim/swarm.h"

/* Everything arrives, and no acknowledgement of it: only the receiver knows. */
static void draw_silence(struct dt_scenario *s, struct dt_prng *prng, const struct dt_flow_options *flow)
{
    struct dt_chaos *loss = &s->chaos.list[s->chaos.count++];

    dt_swarm_draw_fault(s, prng, DT_CHAOS_LOSS, loss);
    loss->device = s->plugin.host[flow->side[DT_FLOW_RECEIVER].host].device_first;
    loss->ops = DT_FAULT_RESPONSES;
    loss->chance_ppm = 1000000;
    loss->duration_ns = dt_draw_log(prng, DT_NS_PER_MS, DT_NS_PER_S);
}

static void draw_break(struct dt_scenario *s, struct dt_prng *prng)
{
    struct dt_chaos *f = &s->chaos.list[s->chaos.count++];

    dt_swarm_draw_fault(s, prng, DT_CHAOS_CONTROL_BREAK, f);
    f->start_closed = 1;
    f->start_ns = dt_draw_one_in(prng, 2) ? 0 : dt_prng_below(prng, s->plugin.control_latency_ns + 1);
}

void dt_farewell_draw(struct dt_scenario *s)
{
    struct dt_flow_options *flow = &s->flow[0];
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1004);
    if (s->profile != DT_PROFILE_FAILOVER || !dt_draw_one_in(&prng, 12))
        return;
    s->is_doomed = false;
    for (uint32_t host = 0; host < DT_HOSTS; host++)
        s->settings[host].dead_ms = 60000;
    s->flow_count = 1;
    flow->side[DT_FLOW_RECEIVER].host = !flow->side[DT_FLOW_SENDER].host;
    flow->side[DT_FLOW_RECEIVER].device = 0;
    flow->closes_early = true;
    /* All of them may be open at once, so that the receiver has everything before the sender has a word. */
    flow->plan.message_count = (uint32_t)dt_prng_between(&prng, 1, flow->posted_max);
    flow->pause_ns_max = 0;
    s->chaos.count = 0;
    draw_silence(s, &prng, flow);
    draw_break(s, &prng);
}
