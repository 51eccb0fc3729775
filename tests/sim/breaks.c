/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/breaks.h"

#include "base/clock.h"
#include "base/prng.h"
#include "tests/sim/draw.h"
#include "tests/sim/mercy.h"

#define BREAKS_MAX 8

/* At one end of a connection, most often the receiver's. */
static void draw_break(struct dt_scenario *s, struct dt_prng *prng)
{
    const struct dt_flow_options *flow = &s->flow[dt_prng_below(prng, s->flow_count)];
    struct dt_chaos *cause = &s->chaos.list[s->chaos.count++];
    struct dt_chaos *failure = &s->chaos.list[s->chaos.count++];
    uint32_t side = dt_draw_one_in(prng, 4) ? DT_FLOW_SENDER : DT_FLOW_RECEIVER;
    uint32_t host = flow->side[side].host;

    *cause = (struct dt_chaos){
        .kind = dt_draw_one_in(prng, 2) ? DT_CHAOS_RECEIVES_LATE : DT_CHAOS_APP_STOP,
        .host = host,
        .device = s->plugin.host[host].device_first + (uint32_t)flow->side[side].device,
    };
    cause->start_packet = dt_prng_between(prng, 1, 600);
    cause->duration_ns = dt_draw_log(prng, 100 * DT_NS_PER_US, 5 * DT_NS_PER_MS);
    *failure = *cause;
    failure->kind = DT_CHAOS_QPS_FAIL;
    failure->start_packet +=
        dt_prng_between(prng, 1, 100); /* an end that does not call stops the other soon */
    failure->duration_ns = 1;
}

/* Many messages of many parts, without a pause: receives are posted again in batches. */
static void draw_traffic(struct dt_prng *prng, struct dt_flow_options *flow)
{
    flow->plan.parts_max = 8;
    flow->plan.message_count =
        (uint32_t)dt_prng_between(prng, DT_FLOW_MESSAGES_MAX / 4, DT_FLOW_MESSAGES_MAX);
    flow->plan.large_count = 0;
    flow->plan.bytes_max = 1000;
    flow->posted_max = DT_FLOW_POSTED_MAX;
    flow->pause_ns_max = flow->irecv_pause_ns_max = 0;
}

void dt_breaks_draw(struct dt_scenario *s)
{
    struct dt_prng prng;
    uint64_t count;

    dt_prng_init_stream(&prng, s->seed, 1016);
    if (s->profile != DT_PROFILE_FAILOVER || s->is_overlap || !dt_draw_one_in(&prng, 8))
        return;
    s->is_doomed = s->has_cut_at_setup = false;
    s->chaos.count = 0;
    s->plugin.qp_wr_max = 0; /* so that there are slots for all irecvs */
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        struct dt_host_settings *settings = &s->settings[host];

        settings->qps_per_path = 1;
        settings->hostpath_bytes = 0;
        settings->is_ordered = settings->is_held = false;
        settings->inject = "";
        settings->dead_ms = 60000;
        settings->idle_takeover_us = 5000; /* the completions of a host that does not call pile up */
    }
    for (uint32_t i = 0; i < s->flow_count; i++)
        draw_traffic(&prng, &s->flow[i]);
    count = dt_prng_between(&prng, BREAKS_MAX / 2, BREAKS_MAX);
    for (uint64_t i = 0; i < count; i++)
        draw_break(s, &prng);
    for (uint32_t i = 0; i < s->flow_count; i++) {
        s->flow[i].mercy = dt_mercy_for(s, &s->flow[i]);
        s->flow[i].may_miss_acks = dt_mercy_may_miss_acks(s);
    }
}
