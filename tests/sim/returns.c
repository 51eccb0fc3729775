/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/returns.h"

#include "base/clock.h"
#include "base/prng.h"
#include "tests/sim/draw.h"

#define REMOVALS_MAX 3

static void remove_one(struct dt_scenario *s, uint32_t device, uint64_t start_ns, uint64_t duration_ns)
{
    if (s->chaos.count < DT_CHAOS_MAX - 2) /* what gone.c adds */
        s->chaos.list[s->chaos.count++] = (struct dt_chaos){
            .kind = DT_CHAOS_REMOVED, .device = device, .start_ns = start_ns, .duration_ns = duration_ns};
}

/* A device of an end of a connection, or all of that host at about the same time. */
static void draw_removal(struct dt_scenario *s, struct dt_prng *prng, uint64_t span_ns)
{
    const struct dt_flow_options *flow = &s->flow[dt_prng_below(prng, s->flow_count)];
    uint64_t side = dt_prng_below(prng, DT_FLOW_SIDES);
    const struct dt_host_options *host = &s->plugin.host[flow->side[side].host];
    uint64_t start_ns = dt_prng_below(prng, span_ns);
    bool is_all = dt_draw_one_in(prng, 3);

    for (uint32_t i = 0; i < host->device_count; i++) {
        uint64_t late_ns = dt_draw_log(prng, 1, 10 * DT_NS_PER_MS);
        uint64_t duration_ns = dt_draw_log(prng, 10 * DT_NS_PER_US, 500 * DT_NS_PER_MS);

        if (is_all || i == (uint32_t)flow->side[side].device)
            remove_one(s, host->device_first + i, start_ns + late_ns, duration_ns);
    }
}

void dt_returns_draw(struct dt_scenario *s)
{
    struct dt_prng prng;
    uint64_t span_ns;
    uint32_t count;

    dt_prng_init_stream(&prng, s->seed, 1015);
    if (s->profile != DT_PROFILE_FAILOVER || !dt_draw_one_in(&prng, 16))
        return;
    span_ns = dt_draw_log(&prng, 10 * DT_NS_PER_MS, 500 * DT_NS_PER_MS);
    count = (uint32_t)dt_prng_between(&prng, 1, REMOVALS_MAX);
    for (uint32_t i = 0; i < s->flow_count; i++) {
        struct dt_flow_options *flow = &s->flow[i];

        flow->registers_again = true;
        flow->pause_ns_max = dt_max_u64(flow->pause_ns_max, 2 * span_ns / flow->plan.message_count);
    }
    for (uint32_t i = 0; i < count; i++)
        draw_removal(s, &prng, span_ns);
}
