/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/ghosts.h"

#include "base/clock.h"
#include "base/prng.h"
#include "tests/sim/draw.h"
#include "tests/sim/swarm.h"

/* The default device of one end of a connection. */
static uint32_t default_device(const struct dt_scenario *s, const struct dt_flow_options *flow, uint32_t side)
{
    return s->plugin.host[flow->side[side].host].device_first + (uint32_t)flow->side[side].device;
}

/*
 * The link of one end of a connection holds packets back, and fails meanwhile: once, while the other end may
 * be slow to fence, or as often as it takes to give its numbers out again.
 */
static void draw_ghost(struct dt_scenario *s, struct dt_prng *prng, uint64_t late_ns, bool is_flapping)
{
    const struct dt_flow_options *flow = &s->flow[dt_prng_below(prng, s->flow_count)];
    uint32_t side = dt_draw_one_in(prng, 3) ? DT_FLOW_SENDER : DT_FLOW_RECEIVER;
    struct dt_chaos *late = &s->chaos.list[s->chaos.count++];
    struct dt_chaos *failure = &s->chaos.list[s->chaos.count++];

    dt_swarm_draw_fault(s, prng, DT_CHAOS_LATE, late);
    late->device = default_device(s, flow, side);
    late->ops = dt_draw_one_in(prng, 2) ? DT_FAULT_OPS_ALL : DT_FAULT_OP(DT_PACKET_WRITE);
    late->chance_ppm = dt_draw_one_in(prng, 3) ? (uint32_t)dt_prng_between(prng, 10000, 1000000) : 1000000;
    late->delay_ns = dt_prng_between(prng, late_ns / 2, late_ns);
    late->duration_ns = dt_draw_log(prng, 10 * DT_NS_PER_US, DT_NS_PER_MS);
    late->start_ns = is_flapping || dt_draw_one_in(prng, 2) ? 0 : dt_prng_below(prng, 3 * late_ns);
    dt_swarm_draw_fault(s, prng, is_flapping ? DT_CHAOS_FLAP : DT_CHAOS_PORT_DOWN, failure);
    failure->device = late->device;
    failure->duration_ns = is_flapping ? dt_prng_between(prng, DT_NS_PER_MS, late_ns / 4)
                                       : dt_draw_log(prng, 10 * DT_NS_PER_US, late_ns / 4);
    failure->start_ns = late->start_ns + dt_prng_below(prng, late->duration_ns);
    if (!is_flapping && dt_draw_one_in(prng, 2)) {
        struct dt_chaos *hang = &s->chaos.list[s->chaos.count++];

        dt_swarm_draw_fault(s, prng, DT_CHAOS_HANG, hang);
        hang->device = default_device(s, flow, !side);
        hang->start_ns = failure->start_ns;
        hang->duration_ns = dt_prng_between(prng, late_ns / 2, 2 * late_ns);
    }
}

void dt_ghosts_draw(struct dt_scenario *s)
{
    struct dt_prng prng;
    uint64_t late_ns;
    uint32_t strikes;
    bool is_flapping;

    dt_prng_init_stream(&prng, s->seed, 1002);
    if (s->profile != DT_PROFILE_FAILOVER || !dt_draw_one_in(&prng, 2))
        return;
    is_flapping = dt_draw_one_in(&prng, 2);
    late_ns = is_flapping ? dt_draw_log(&prng, 16 * DT_NS_PER_MS, 64 * DT_NS_PER_MS)
                          : dt_draw_log(&prng, DT_NS_PER_MS, 64 * DT_NS_PER_MS);
    strikes = is_flapping ? 1 : (uint32_t)dt_prng_between(&prng, 1, 3);
    s->is_doomed = false;
    s->reuses_numbers = true;
    s->plugin.qp_wr_max = 200;
    s->plugin.job_ns_max =
        is_flapping || dt_draw_one_in(&prng, 2) ? 0 : dt_draw_log(&prng, 1000, 5 * DT_NS_PER_MS);
    s->network.loss_ppm = 0;
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        s->settings[host].posting = "std";
        s->settings[host].paths = 2;
        s->settings[host].stable_ms = 0;
        s->settings[host].late_ms = is_flapping ? 1 : dt_prng_between(&prng, 1, 1000);
        if (!is_flapping) { /* the queue pairs' own retries last longer */
            s->settings[host].timeout_exponent = 16;
            s->settings[host].retry_count = 6;
        }
        s->settings[host].dead_ms = 60000;
    }
    s->flow_count = is_flapping ? 1 : s->flow_count;
    for (uint32_t i = 0; i < s->flow_count; i++) {
        s->flow[i].plan.message_count = 40;
        s->flow[i].posted_max = DT_FLOW_POSTED_MAX;
        s->flow[i].pause_ns_max = late_ns / (is_flapping ? 4 : 10);
    }
    s->chaos.count = 0;
    for (uint32_t i = 0; i < strikes; i++)
        draw_ghost(s, &prng, late_ns, is_flapping);
}
