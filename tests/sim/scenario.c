/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/scenario.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/prng.h"
#include "base/util.h"
#include "tests/sim/breaks.h"
#include "tests/sim/draw.h"
#include "tests/sim/farewell.h"
#include "tests/sim/ghosts.h"
#include "tests/sim/gone.h"
#include "tests/sim/mercy.h"
#include "tests/sim/orders.h"
#include "tests/sim/passing.h"
#include "tests/sim/returns.h"
#include "tests/sim/slow.h"
#include "tests/sim/swarm.h"

#define LINGER_MS 200000 /* longer than any fault, and than a connection waits for a path */

/* Room for what the receivers of a host have of GPU memory. */
#define REFUSALS_BYTES (64u << 20)
#define AHEAD_BYTES    (1ull << 18) /* of the host path, at least */

/* ---- draws ----------------------------------------------------------------------------------------------
 */

/* Each kind of fault is off in a third of the runs. */
static uint32_t draw_fault_ppm(struct dt_prng *prng, uint32_t ppm_max)
{
    return dt_draw_one_in(prng, 3) ? 0 : (uint32_t)dt_prng_below(prng, ppm_max + 1);
}

/* ---- what both profiles have ----------------------------------------------------------------------------
 */

/*
 * Half of the runs have less than the usual 64 slots, so that they are used again and again. `dv` queue pairs
 * need more room than such devices have.
 */
static void draw_queues(struct dt_scenario *s, struct dt_prng *prng)
{
    static const uint32_t for_slots[] = {200 /* 8 */, 264 /* 16 */, 392 /* 32 */};

    if (dt_draw_one_in(prng, 2))
        return;
    s->plugin.qp_wr_max = for_slots[dt_prng_below(prng, DT_COUNT_OF(for_slots))];
    for (uint32_t host = 0; host < DT_HOSTS; host++)
        s->settings[host].posting = "std";
}

static void draw_network(struct dt_scenario *s, struct dt_prng *prng, uint32_t ppm_max)
{
    struct dt_sim_options *o = &s->network;

    o->seed = s->seed;
    o->start_ns = DT_NS_PER_S;
    o->latency_ns = dt_prng_between(prng, 500, 20000);
    o->jitter_ns = dt_prng_below(prng, 20000);
    o->loss_ppm = draw_fault_ppm(prng, ppm_max);
    o->duplicate_ppm = draw_fault_ppm(prng, 50000);
    o->reorder_ppm = draw_fault_ppm(prng, 50000);
    o->reorder_ns = dt_prng_between(prng, 1000, 200000);
    o->segment_bytes_max = dt_draw_one_in(prng, 2) ? 0 : 4096u << dt_prng_below(prng, 7);
    o->link_packets_max = dt_draw_one_in(prng, 2) ? 0 : (uint32_t)dt_prng_between(prng, 4, 64);
}

/* A rule for each device, after those that there are. */
static void add_personality(const struct dt_host_settings *settings, char *rules, size_t bytes)
{
    for (uint32_t i = 0; settings->personality && i < settings->device_count; i++) {
        size_t used = strlen(rules);

        snprintf(rules + used, bytes - used, "%sdevice=soft%u personality=%s", used ? "; " : "",
                 settings->device_first + i, settings->personality);
    }
}

void dt_host_settings_apply(void *arg, struct dt_params *params)
{
    const struct dt_host_settings *settings = arg;

    params->paths = settings->paths;
    params->qps_per_path = settings->qps_per_path;
    params->split_data = settings->is_split;
    params->timeout_exponent = settings->timeout_exponent;
    params->retry_count = settings->retry_count;
    params->fence_ms = settings->fence_ms;
    params->late_ms = settings->late_ms;
    params->dead_ms = settings->dead_ms;
    params->stable_ms = settings->stable_ms;
    params->idle_takeover_us = settings->idle_takeover_us;
    params->adaptive_routing = settings->is_adaptive;
    params->ar_threshold = settings->ar_threshold;
    if (settings->hostpath_bytes > 0) {
        snprintf(params->hostpath, sizeof params->hostpath, "%s", settings->hostpath);
        params->hostpath_bytes = settings->hostpath_bytes;
        params->hostpath_queues = settings->hostpath_queues;
        params->linger_ms = LINGER_MS;
    }
    snprintf(params->posting, sizeof params->posting, "%s", settings->posting);
    snprintf(params->inject, sizeof params->inject, "%s", settings->inject);
    add_personality(settings, params->inject, sizeof params->inject);
}

static void draw_host(struct dt_scenario *s, struct dt_prng *prng, uint32_t host, uint32_t devices_min)
{
    struct dt_host_options *o = &s->plugin.host[host];
    struct dt_host_settings *settings = &s->settings[host];

    o->device_first = s->device_count;
    o->device_count = (uint32_t)dt_prng_between(prng, devices_min, DT_DEVICES_PER_HOST_MAX);
    s->device_count += o->device_count;
    o->chunk_bytes = dt_draw_one_in(prng, 2) ? 0 : 4096u << dt_prng_below(prng, 3);
    o->clock_offset_ns = dt_draw_one_in(prng, 2) ? 0 : dt_draw_log(prng, 1, 1000 * DT_NS_PER_S);
    o->clock_drift_ppm = dt_draw_one_in(prng, 2) ? 0 : (int64_t)dt_prng_below(prng, 2001) - 1000;
    o->set = dt_host_settings_apply;
    o->set_arg = settings;
    settings->qps_per_path = (uint32_t)dt_prng_between(prng, 1, 3);
    settings->posting = dt_draw_one_in(prng, 2) ? "dv" : "std";
    settings->timeout_exponent = 16;
    settings->retry_count = 6;
    settings->idle_takeover_us = 2000;
    settings->fence_ms = 1000;
    settings->late_ms = 10000;
    settings->dead_ms = 120000;
    settings->stable_ms = 1000;
}

static void draw_flow(struct dt_scenario *s, struct dt_prng *prng, uint32_t i)
{
    static const uint32_t bytes_max[] = {64, 1000, 9000, 40000};
    struct dt_flow_options *o = &s->flow[i];
    struct dt_plan_options *plan = &o->plan;

    plan->seed = s->seed;
    plan->id = i;
    plan->parts_max = dt_draw_one_in(prng, 2) ? 1 : (uint32_t)dt_prng_between(prng, 2, 8);
    plan->bytes_max = bytes_max[dt_prng_below(prng, 4)];
    plan->message_count = (uint32_t)dt_prng_between(prng, 1, 60);
    o->posted_max = (uint32_t)dt_prng_between(prng, 1, DT_FLOW_POSTED_MAX);
    for (int side = 0; side < DT_FLOW_SIDES; side++) {
        o->side[side].host = (uint32_t)dt_prng_below(prng, DT_HOSTS);
        o->side[side].device = (int)dt_prng_below(prng, s->plugin.host[o->side[side].host].device_count);
    }
    o->closes_early = dt_draw_one_in(prng, 2);
    o->is_gpu = dt_draw_one_in(prng, 4);
}

static void draw_lossy(struct dt_scenario *s, struct dt_prng *prng)
{
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        draw_host(s, prng, host, 1);
        s->settings[host].paths = (uint32_t)dt_prng_between(prng, 1, 3);
    }
    /* Seven losses in a row of one packet would end its queue pair, rightly: at 3 % that does not happen. */
    draw_network(s, prng, 30000);
    s->plugin.control_latency_ns = dt_prng_between(prng, 1000, 300000);
    draw_queues(s, prng);
    s->plugin.job_ns_max = dt_draw_one_in(prng, 2) ? 0 : dt_draw_log(prng, 1000, DT_NS_PER_MS);
    s->flow_count = (uint32_t)dt_prng_between(prng, 1, DT_FLOWS_MAX);
    for (uint32_t i = 0; i < s->flow_count; i++)
        draw_flow(s, prng, i);
    s->patience_ns = 60 * DT_NS_PER_S;
}

/* The queue pairs' timers are longer than a round trip, or nothing works even when all is well. */
static void fit_timers(struct dt_scenario *s)
{
    uint64_t wanted_ns = 10 * (s->network.latency_ns + s->network.jitter_ns);

    for (uint32_t host = 0; host < DT_HOSTS; host++)
        while (4096ull << s->settings[host].timeout_exponent < wanted_ns)
            s->settings[host].timeout_exponent++;
}

static void draw_failover(struct dt_scenario *s, struct dt_prng *prng)
{
    static const uint32_t exponents[] = {5, 7, 8, 10, 12, 14, 16};
    uint32_t exponent = exponents[dt_prng_below(prng, DT_COUNT_OF(exponents))];
    uint64_t span_ns = dt_draw_log(prng, 100 * DT_NS_PER_US, 500 * DT_NS_PER_MS);

    s->is_doomed = dt_draw_one_in(prng, 10);
    s->reuses_numbers = dt_draw_one_in(prng, 2);
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        struct dt_host_settings *settings = &s->settings[host];

        draw_host(s, prng, host, dt_draw_one_in(prng, 4) ? 1 : 2);
        settings->paths = (uint32_t)dt_prng_between(prng, 2, 4);
        settings->timeout_exponent = exponent;
        settings->retry_count = (uint32_t)dt_prng_between(prng, 0, 6);
        settings->idle_takeover_us = dt_draw_log(prng, 500, 20000);
        settings->fence_ms = dt_draw_log(prng, 1, 1000);
        settings->late_ms = dt_draw_log(prng, 1, 5000);
        settings->dead_ms = s->is_doomed ? dt_draw_log(prng, 100, 2000) : 60000;
        settings->stable_ms = dt_draw_one_in(prng, 4) ? 0 : dt_draw_log(prng, 1, 500);
    }
    draw_network(s, prng, dt_draw_one_in(prng, 2) ? 0 : 20000);
    fit_timers(s);
    s->plugin.control_latency_ns = dt_draw_log(prng, 1000, 2 * DT_NS_PER_MS);
    draw_queues(s, prng);
    s->plugin.job_ns_max = dt_draw_one_in(prng, 3) ? 0 : dt_draw_log(prng, 1000, 5 * DT_NS_PER_MS);
    s->flow_count = dt_draw_one_in(prng, 2) ? 1 : (uint32_t)dt_prng_between(prng, 2, DT_FLOWS_MAX);
    for (uint32_t i = 0; i < s->flow_count; i++) {
        struct dt_flow_options *o = &s->flow[i];

        draw_flow(s, prng, i);
        if (!dt_draw_one_in(prng, 8)) { /* else inside one host, as it came */
            o->side[1].host = !o->side[0].host;
            o->side[1].device = (int)dt_prng_below(prng, s->plugin.host[o->side[1].host].device_count);
        }
        o->plan.bytes_max = (uint32_t)dt_min_u64(o->plan.bytes_max, 9000);
        o->plan.message_count = (uint32_t)dt_prng_between(prng, 1, 40);
        o->plan.large_count = dt_draw_one_in(prng, 4) ? (uint32_t)dt_prng_between(prng, 1, 3) : 0;
        o->plan.large_bytes = (uint32_t)dt_draw_log(prng, 16384, 131072);
        o->pause_ns_max = dt_draw_one_in(prng, 4) ? 0 : 2 * span_ns / o->plan.message_count;
    }
    dt_swarm_draw(s, prng, span_ns);
    s->patience_ns = 300 * DT_NS_PER_S;
    s->may_warn = true;
}

/* What the exhaustive search strikes (exhaustive.h): 24 messages one way, 8 the other. */
static void make_script(struct dt_scenario *s)
{
    s->device_count = 4;
    s->network = (struct dt_sim_options){.seed = s->seed, .start_ns = DT_NS_PER_S, .latency_ns = 2000};
    s->plugin.control_latency_ns = 20 * DT_NS_PER_US;
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        s->settings[host] = (struct dt_host_settings){.paths = 2,
                                                      .qps_per_path = 1,
                                                      .posting = host ? "std" : "dv",
                                                      .timeout_exponent = 6,
                                                      .retry_count = 2,
                                                      .idle_takeover_us = 500,
                                                      .fence_ms = 20,
                                                      .late_ms = 50,
                                                      .dead_ms = 2000,
                                                      .stable_ms = 5};
        s->plugin.host[host] = (struct dt_host_options){.device_first = 2 * host,
                                                        .device_count = 2,
                                                        .set = dt_host_settings_apply,
                                                        .set_arg = &s->settings[host]};
    }
    s->flow_count = 2;
    for (uint32_t i = 0; i < s->flow_count; i++) {
        struct dt_flow_options *o = &s->flow[i];

        o->plan = (struct dt_plan_options){
            .seed = s->seed, .id = i, .message_count = i ? 8 : 24, .parts_max = 2, .bytes_max = 5000};
        o->posted_max = 8;
        o->side[0].host = i;
        o->side[1].host = !i;
        o->closes_early = true;
    }
    s->patience_ns = 300 * DT_NS_PER_S;
    s->may_warn = true;
    s->reuses_numbers = true;
}

/*
 * Delay rules of all kinds, for a third of the hosts. None takes so long that the run could not end in its
 * time. Drawn apart from the rest, so that they change nothing else of a run.
 */
static void draw_inject(struct dt_scenario *s)
{
    static const char *const rules[] = {
        "latency=uniform(0ms,2ms)",
        "latency=normal(1ms,1ms) every=uniform(2ms,5ms)",
        "latency=pareto(100us,1.5) to=20ms",
        "latency=3ms to=10ms; serial=exponential(200us)",
        "serial=50us per=1000 size=500..",
        "rate=1Gbit",
        "connection=1 latency=3ms",
        "latency=100us from=5ms; serial=100us to=30ms; rate=100Mbit size=..2000",
    };
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1000);
    for (uint32_t host = 0; host < DT_HOSTS; host++)
        s->settings[host].inject = s->profile != DT_PROFILE_SCRIPT && dt_draw_one_in(&prng, 3)
                                       ? rules[dt_prng_below(&prng, DT_COUNT_OF(rules))]
                                       : "";
}

/*
 * The host path at a third of the hosts, often with next to no memory. Drawn apart from the rest, like the
 * delays.
 */
static void draw_hostpath(struct dt_scenario *s)
{
    static const uint64_t bytes[] = {4096, 4096, 12288, 65536, 1 << 20};
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1001);
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        struct dt_host_settings *settings = &s->settings[host];

        if (s->profile != DT_PROFILE_SCRIPT && dt_draw_one_in(&prng, 3))
            settings->hostpath_bytes = bytes[dt_prng_below(&prng, DT_COUNT_OF(bytes))];
        settings->hostpath = dt_draw_one_in(&prng, 4) ? "auto" : "on";
        settings->hostpath_queues = dt_prng_between(&prng, 1, 3);
    }
}

/*
 * Receivers that are later than their senders, and grant memory to write ahead to: in a third of the runs.
 * Drawn apart, too.
 */
static void draw_ahead(struct dt_scenario *s)
{
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1008);
    if (s->profile == DT_PROFILE_SCRIPT || !dt_draw_one_in(&prng, 3))
        return;
    for (uint32_t host = 0; host < DT_HOSTS; host++)
        s->settings[host].hostpath_bytes = AHEAD_BYTES << dt_prng_below(&prng, 6);
    for (uint32_t i = 0; i < s->flow_count; i++) {
        struct dt_flow_options *flow = &s->flow[i];

        flow->irecv_pause_ns_max = dt_draw_log(&prng, s->network.latency_ns + 1000, 4 * DT_NS_PER_MS);
        flow->posted_max = (uint32_t)dt_prng_between(&prng, 1, flow->posted_max);
        if (dt_draw_one_in(&prng, 2))
            flow->pause_ns_max /= 8;
        if (!dt_draw_one_in(&prng, 4))
            flow->plan.parts_max = 1;
        if (!dt_draw_one_in(&prng, 4))
            flow->is_gpu = false;
    }
}

/*
 * In a quarter of the runs nearly everything is staged, of one part and longer than a write, so that faults
 * find messages of which a part is posted and the rest still being copied (transport/message/send_partial.c).
 * More flows than elsewhere are of a GPU, whose copies take time, except where passing.c excludes flushes.
 * Drawn apart, too.
 */
static void draw_overlap(struct dt_scenario *s)
{
    struct dt_prng prng;
    bool can_flush = true;

    for (uint32_t i = 0; i < s->chaos.count; i++)
        can_flush &= s->chaos.list[i].kind != DT_CHAOS_HALF_SILENT;
    dt_prng_init_stream(&prng, s->seed, 1007);
    s->is_overlap = s->profile != DT_PROFILE_SCRIPT && dt_draw_one_in(&prng, 4);
    if (!s->is_overlap)
        return;
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        s->settings[host].hostpath = "on";
        s->settings[host].hostpath_bytes = 1 << 20;
        s->settings[host].qps_per_path = 1;
        s->settings[host].inject = "";
        s->plugin.host[host].chunk_bytes = 4096;
    }
    for (uint32_t i = 0; i < s->flow_count; i++) {
        s->flow[i].plan.bytes_max = 40000;
        s->flow[i].plan.parts_max = 1;
        s->flow[i].is_gpu = s->flow[i].is_gpu || (can_flush && dt_draw_one_in(&prng, 2));
    }
}

/* A third of the hosts with a host path get orders to switch it. Drawn apart, too. */
static void draw_orders(struct dt_scenario *s)
{
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1009);
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        bool is_drawn = dt_draw_one_in(&prng, 3);

        s->settings[host].is_ordered =
            is_drawn && s->profile != DT_PROFILE_SCRIPT && s->settings[host].hostpath_bytes > 0;
    }
}

/* Holds in every fourth run, each host with two chances in three. Drawn apart, too. */
static void draw_holds(struct dt_scenario *s)
{
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1011);
    if (s->profile == DT_PROFILE_SCRIPT || !dt_draw_one_in(&prng, 4))
        return;
    for (uint32_t host = 0; host < DT_HOSTS; host++)
        s->settings[host].is_held = !dt_draw_one_in(&prng, 3);
}

static void mark_staged(struct dt_scenario *s)
{
    for (uint32_t i = 0; i < s->flow_count; i++) {
        struct dt_flow_options *flow = &s->flow[i];

        flow->is_staged = s->settings[flow->side[DT_FLOW_SENDER].host].hostpath_bytes > 0;
    }
}

/*
 * Devices that do not take the GPU memory of receivers, which then need the host path, with room for all of
 * it. Drawn apart, too.
 */
static void draw_refusals(struct dt_scenario *s)
{
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1003);
    for (uint32_t i = 0; i < s->flow_count; i++) {
        struct dt_flow_options *flow = &s->flow[i];
        struct dt_host_settings *settings = &s->settings[flow->side[DT_FLOW_RECEIVER].host];
        uint32_t mask = (uint32_t)dt_prng_below(&prng, 1u << s->device_count);

        if (!flow->is_gpu || !settings->hostpath_bytes || !dt_draw_one_in(&prng, 2))
            continue;
        flow->refusing_mask = mask;
        flow->registers_again = false; /* a refusal at a device's return is too late for host memory */
        settings->hostpath_bytes = REFUSALS_BYTES;
    }
}

/* A cable that is out from the beginning, in a quarter of the runs that can do without it. Drawn apart, too.
 */
static void draw_cut_at_setup(struct dt_scenario *s)
{
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1002);
    if (s->profile != DT_PROFILE_FAILOVER || !dt_draw_one_in(&prng, 4))
        return;
    s->cut_at_setup = (uint32_t)dt_prng_below(&prng, s->device_count);
    s->has_cut_at_setup = dt_mercy_can_do_without(s, s->cut_at_setup);
}

/* As on InfiniBand. The draws of the other members stay what they were. */
static void draw_adaptive(struct dt_scenario *s)
{
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1010);
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        s->settings[host].is_adaptive = dt_draw_one_in(&prng, 4);
        s->settings[host].ar_threshold = dt_draw_log(&prng, 64, 20000);
    }
}

/* Of the sender's host; the rest, as always, stays what it was. */
static void draw_split(struct dt_scenario *s)
{
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1013);
    for (uint32_t host = 0; host < DT_HOSTS; host++)
        s->settings[host].is_split = dt_draw_one_in(&prng, 2);
    if (s->profile == DT_PROFILE_SCRIPT || !dt_draw_one_in(&prng, 16))
        return;
    for (uint32_t host = 0; host < DT_HOSTS; host++) { /* more than a message is split over */
        if (s->settings[host].qps_per_path > 1)
            s->settings[host].qps_per_path = (uint32_t)dt_prng_between(&prng, 9, 12);
    }
}

void dt_scenario_draw(enum dt_profile profile, uint64_t seed, struct dt_scenario *s)
{
    struct dt_prng prng;

    memset(s, 0, sizeof *s);
    dt_prng_init_stream(&prng, seed, UINT64_MAX - (uint64_t)profile);
    s->seed = seed;
    s->profile = profile;
    s->plugin.seed = seed;
    if (profile == DT_PROFILE_LOSSY)
        draw_lossy(s, &prng);
    else if (profile == DT_PROFILE_FAILOVER)
        draw_failover(s, &prng);
    else if (profile == DT_PROFILE_SLOW)
        dt_slow_draw(s, &prng);
    else
        make_script(s);
    if (profile == DT_PROFILE_SLOW)
        return;
    draw_inject(s);
    draw_cut_at_setup(s);
    dt_ghosts_draw(s);
    dt_passing_draw(s);
    dt_farewell_draw(s);
    dt_orders_draw(s);
    dt_returns_draw(s);
    dt_gone_draw(s);
    /* Those may have moved a connection to the device, or left it fewer paths. */
    s->has_cut_at_setup = s->has_cut_at_setup && dt_mercy_can_do_without(s, s->cut_at_setup);
    for (uint32_t i = 0; profile == DT_PROFILE_FAILOVER && i < s->flow_count; i++) {
        s->flow[i].mercy = dt_mercy_for(s, &s->flow[i]);
        s->flow[i].may_miss_acks = dt_mercy_may_miss_acks(s);
    }
    draw_hostpath(s);
    draw_overlap(s);
    draw_ahead(s);
    draw_orders(s);
    draw_holds(s);
    draw_adaptive(s);
    draw_split(s);
    dt_breaks_draw(s);
    mark_staged(s);
    if (profile == DT_PROFILE_FAILOVER) /* in the others a warning, as each refusal is one, is a failure */
        draw_refusals(s);
}

/*
 * STOP is answered within DETOUR_FENCE_MS, or a message may be lost. Seeds draw DETOUR_FENCE_MS for the fence
 * alone, also below a round trip of the control network, which is no useful setting: here it is above two of
 * its longest round trips, of four latencies each. Where a fault can delay STOP further, a loss is allowed
 * once the wait for its answer has ended in vain (flow.c).
 */
static void fit_stop(struct dt_scenario *s)
{
    uint64_t wanted_ms = 1 + 10 * s->plugin.control_latency_ns / DT_NS_PER_MS;

    for (uint32_t host = 0; host < DT_HOSTS; host++)
        s->settings[host].fence_ms = dt_max_u64(s->settings[host].fence_ms, wanted_ms);
    s->may_miss_stop = dt_mercy_may_miss_stop(s);
    for (uint32_t i = 0; i < s->flow_count; i++)
        s->flow[i].may_miss_stop = s->may_miss_stop;
}

void dt_scenario_set_personality(struct dt_scenario *s, const char *personality)
{
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        struct dt_host_settings *settings = &s->settings[host];

        settings->personality = personality;
        settings->device_first = s->plugin.host[host].device_first;
        settings->device_count = s->plugin.host[host].device_count;
    }
    if (personality && strcmp(personality, "ionic") == 0)
        fit_stop(s);
}

/* ---- words ----------------------------------------------------------------------------------------------
 */

static const char *const profile_name[] = {"lossy", "script", "failover", "slow"};

bool dt_profile_find(const char *name, enum dt_profile *profile)
{
    for (size_t i = 0; i < DT_COUNT_OF(profile_name); i++) {
        if (strcmp(name, profile_name[i]) == 0) {
            *profile = (enum dt_profile)i;
            return true;
        }
    }
    return false;
}

const char *dt_profile_name(enum dt_profile profile)
{
    return profile_name[profile];
}
