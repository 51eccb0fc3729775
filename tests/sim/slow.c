/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/slow.h"

#include "base/clock.h"

/* Two hosts, as the defaults of the settings are. */
static void draw_hosts(struct dt_scenario *s, struct dt_prng *prng, uint32_t devices)
{
    s->device_count = DT_HOSTS * devices;
    s->network = (struct dt_sim_options){.seed = s->seed,
                                         .start_ns = DT_NS_PER_S,
                                         .latency_ns = dt_prng_between(prng, 500, 20000),
                                         .segment_bytes_max = 4096};
    s->plugin.control_latency_ns = dt_prng_between(prng, 20, 1000) * DT_NS_PER_US;
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        s->settings[host] = (struct dt_host_settings){.paths = 2,
                                                      .qps_per_path = (uint32_t)dt_prng_between(prng, 1, 2),
                                                      .posting = dt_prng_chance(prng, 1, 2) ? "dv" : "std",
                                                      .timeout_exponent = 16,
                                                      .retry_count = 6,
                                                      .idle_takeover_us = 2000,
                                                      .fence_ms = 1000,
                                                      .late_ms = 10000,
                                                      .dead_ms = 120000,
                                                      .stable_ms = 1000,
                                                      .inject = ""};
        s->plugin.host[host] = (struct dt_host_options){.device_first = host * devices,
                                                        .device_count = devices,
                                                        .set = dt_host_settings_apply,
                                                        .set_arg = &s->settings[host]};
    }
    s->patience_ns = 300 * DT_NS_PER_S;
}

static struct dt_flow_options *add_flow(struct dt_scenario *s, uint32_t messages, uint32_t bytes)
{
    struct dt_flow_options *o = &s->flow[s->flow_count];

    o->plan = (struct dt_plan_options){.seed = s->seed,
                                       .id = s->flow_count++,
                                       .message_count = messages,
                                       .parts_max = 1,
                                       .bytes_max = 64,
                                       .large_count = messages,
                                       .large_bytes = bytes};
    o->posted_max = 8;
    o->side[DT_FLOW_RECEIVER].host = 1;
    return o;
}

/* Each message takes as long as 1 GiB at 1 Gb/s: 8.6 s. */
static void slow_link(struct dt_scenario *s, struct dt_prng *prng)
{
    draw_hosts(s, prng, 2);
    s->rate_bytes_per_s = 1000000000 / 8 / 1024;
    add_flow(s, 7, 1 << 20);
    s->must_not_switch = true;
}

/* Messages wait for one another, 60 ms for each 4 KiB, for a minute. */
static void serial_delay(struct dt_scenario *s, struct dt_prng *prng)
{
    draw_hosts(s, prng, 2);
    s->settings[0].inject = "serial=60ms per=4096";
    for (uint32_t i = 0; i < DT_FLOWS_MAX; i++)
        add_flow(s, DT_FLOW_MESSAGES_MAX, 8192);
    s->must_not_switch = true;
}

/* The only port of one host has no link for 20 s, in the middle of traffic. */
static void long_flap(struct dt_scenario *s, struct dt_prng *prng)
{
    draw_hosts(s, prng, 1);
    add_flow(s, 100, 4096)->pause_ns_max = 100 * DT_NS_PER_MS;
    s->chaos.list[s->chaos.count++] = (struct dt_chaos){.kind = DT_CHAOS_PORT_DOWN,
                                                        .device = (uint32_t)dt_prng_below(prng, DT_HOSTS),
                                                        .start_ns = dt_prng_below(prng, 3 * DT_NS_PER_S),
                                                        .duration_ns = 20 * DT_NS_PER_S};
    s->chaos.control_latency_ns = s->plugin.control_latency_ns;
}

void dt_slow_draw(struct dt_scenario *s, struct dt_prng *prng)
{
    static void (*const kind[])(struct dt_scenario * s, struct dt_prng * prng) = {slow_link, serial_delay,
                                                                                  long_flap};

    kind[s->seed % 3](s, prng);
}
