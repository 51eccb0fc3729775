/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "tests/sim/driver_sim.h"
#include "tests/sim/flow.h"
#include "tests/sim/plugin_sim.h"

#define FLOWS_MAX      4
#define DEVICES_MAX    4
#define VIRTUAL_NS_MAX (60 * DT_NS_PER_S)
#define REST_NS        (DT_NS_PER_S)

struct world {
    struct dt_prng prng;
    struct dt_sim_options network;
    struct dt_plugin_sim_options plugin;
    uint32_t device_count;
    uint32_t flow_count;
    const ncclNet_v8_t *net;
    struct dt_flow *flows[FLOWS_MAX];
    struct dt_flow_options flow_options[FLOWS_MAX];
    uint64_t wanted_ns; /* when the plugin wants to be called again */
};

/* ---- what the seed draws --------------------------------------------------------------------------------
 */

/* Each kind of fault is off in a third of the runs, so that runs differ in character, not only in detail. */
static uint32_t draw_fault_ppm(struct world *w, uint32_t ppm_max)
{
    return dt_prng_chance(&w->prng, 1, 3) ? 0 : (uint32_t)dt_prng_below(&w->prng, ppm_max + 1);
}

static void draw_network(struct world *w, uint64_t seed)
{
    struct dt_sim_options *o = &w->network;

    o->seed = seed;
    o->start_ns = DT_NS_PER_S;
    o->latency_ns = dt_prng_between(&w->prng, 500, 20000);
    o->jitter_ns = dt_prng_below(&w->prng, 20000);
    /* Seven losses in a row of one packet would end its queue pair, rightly: at 3 % that does not happen. */
    o->loss_ppm = draw_fault_ppm(w, 30000);
    o->duplicate_ppm = draw_fault_ppm(w, 50000);
    o->reorder_ppm = draw_fault_ppm(w, 50000);
    o->reorder_ns = dt_prng_between(&w->prng, 1000, 200000);
    o->segment_bytes_max = dt_prng_chance(&w->prng, 1, 2) ? 0 : 4096u << dt_prng_below(&w->prng, 7);
    o->link_packets_max = dt_prng_chance(&w->prng, 1, 2) ? 0 : (uint32_t)dt_prng_between(&w->prng, 4, 64);
}

static void draw_plugin(struct world *w, uint64_t seed)
{
    struct dt_plugin_sim_options *o = &w->plugin;

    o->seed = seed;
    o->paths = (uint32_t)dt_prng_between(&w->prng, 1, dt_min_u64(w->device_count, 3));
    o->qps_per_path = (uint32_t)dt_prng_between(&w->prng, 1, 3);
    o->posting = dt_prng_chance(&w->prng, 1, 2) ? "dv" : "std";
    o->chunk_bytes = dt_prng_chance(&w->prng, 1, 2) ? 0 : 4096u << dt_prng_below(&w->prng, 3);
    o->control_latency_ns = dt_prng_between(&w->prng, 1000, 300000);
}

static void draw_flow(struct world *w, uint32_t i, uint64_t seed)
{
    static const uint32_t bytes_max[] = {64, 1000, 9000, 40000};
    struct dt_flow_options *o = &w->flow_options[i];

    o->seed = seed;
    o->id = i;
    o->message_count = (uint32_t)dt_prng_between(&w->prng, 1, 60);
    o->parts_max = dt_prng_chance(&w->prng, 1, 2) ? 1 : (uint32_t)dt_prng_between(&w->prng, 2, 8);
    o->bytes_max = bytes_max[dt_prng_below(&w->prng, 4)];
    o->posted_max = (uint32_t)dt_prng_between(&w->prng, 1, DT_FLOW_POSTED_MAX);
    o->send_device = (int)dt_prng_below(&w->prng, w->device_count);
    o->recv_device = (int)dt_prng_below(&w->prng, w->device_count);
}

static void draw(struct world *w, uint64_t seed, struct dt_world_report *report)
{
    memset(w, 0, sizeof *w);
    dt_prng_init_stream(&w->prng, seed, UINT64_MAX);
    w->device_count = (uint32_t)dt_prng_between(&w->prng, 1, DEVICES_MAX);
    w->flow_count = (uint32_t)dt_prng_between(&w->prng, 1, FLOWS_MAX);
    draw_network(w, seed);
    draw_plugin(w, seed);
    for (uint32_t i = 0; i < w->flow_count; i++)
        draw_flow(w, i, seed);
    snprintf(
        report->drawn, sizeof report->drawn,
        "%u devices, %u connections, %u paths x %u QPs (%s), latency %.1f+%.1f us, loss %.2f %%, duplicates "
        "%.2f %%, reordering %.2f %%, segments %" PRIu64 ", chunk %u",
        w->device_count, w->flow_count, w->plugin.paths, w->plugin.qps_per_path, w->plugin.posting,
        (double)w->network.latency_ns / 1e3, (double)w->network.jitter_ns / 1e3,
        (double)w->network.loss_ppm / 1e4, (double)w->network.duplicate_ppm / 1e4,
        (double)w->network.reorder_ppm / 1e4, w->network.segment_bytes_max, w->plugin.chunk_bytes);
}

/* ---- running --------------------------------------------------------------------------------------------
 */

static void advance_to(struct world *w, uint64_t until_ns)
{
    dt_sim_run_until(dt_driver_sim_network(), until_ns);
    w->wanted_ns = dt_plugin_sim_progress(until_ns);
}

/* Time passes: a little, or, now and then and when nobody has anything to do, up to the next thing that
 * happens. */
static void pass_time(struct world *w)
{
    struct dt_sim *sim = dt_driver_sim_network();
    uint64_t now_ns = dt_sim_now_ns(sim);
    uint64_t next_ns = dt_earlier_ns(dt_sim_next_ns(sim), w->wanted_ns);

    next_ns = dt_earlier_ns(next_ns, dt_plugin_sim_next_ns());
    if (dt_prng_chance(&w->prng, 1, 2))
        next_ns = now_ns + dt_prng_below(&w->prng, 3000);
    else if (next_ns == DT_NEVER_NS || next_ns <= now_ns)
        next_ns = now_ns + DT_NS_PER_US;
    advance_to(w, next_ns);
}

static bool is_finished(const struct world *w)
{
    for (uint32_t i = 0; i < w->flow_count; i++)
        if (!dt_flow_is_finished(w->flows[i]))
            return false;
    return true;
}

static bool run_flows(struct world *w, struct dt_world_report *report)
{
    uint64_t end_ns = w->network.start_ns + VIRTUAL_NS_MAX;

    while (!is_finished(w)) {
        uint32_t i = (uint32_t)dt_prng_below(&w->prng, w->flow_count);

        for (uint64_t calls = dt_prng_below(&w->prng, 6); calls; calls--) {
            if (!dt_flow_act(w->flows[i])) {
                snprintf(report->failure, sizeof report->failure, "%s", dt_flow_failure(w->flows[i]));
                return false;
            }
        }
        pass_time(w);
        if (dt_sim_now_ns(dt_driver_sim_network()) > end_ns) {
            while (dt_flow_is_finished(w->flows[i]))
                i = (i + 1) % w->flow_count;
            snprintf(report->failure, sizeof report->failure, "did not finish: %s",
                     dt_flow_failure(w->flows[i]));
            return false;
        }
    }
    return true;
}

/* Everything under way arrives; then all buffers must still hold what was reported. */
static bool settle(struct world *w, struct dt_world_report *report)
{
    advance_to(w, dt_sim_now_ns(dt_driver_sim_network()) + REST_NS);
    for (uint32_t i = 0; i < w->flow_count; i++) {
        if (!dt_flow_settle(w->flows[i])) {
            snprintf(report->failure, sizeof report->failure, "late write: %s", dt_flow_failure(w->flows[i]));
            return false;
        }
    }
    return true;
}

static void count_device(uint32_t index, struct dt_world_report *report)
{
    struct dt_rnic_counters counters;

    if (!dt_driver_sim_counters(index, &counters))
        return;
    report->retransmissions += counters.retransmissions;
    report->duplicates += counters.duplicates;
    report->out_of_sequence += counters.out_of_sequence;
    report->bytes += counters.payload_bytes_landed;
}

static bool start(struct world *w, struct dt_world_report *report)
{
    if (!dt_driver_sim_start(&w->network, w->device_count)) {
        snprintf(report->failure, sizeof report->failure, "no memory for the network");
        return false;
    }
    w->net = dt_plugin_sim_start(&w->plugin);
    if (!w->net) {
        snprintf(report->failure, sizeof report->failure, "the plugin does not start");
        return false;
    }
    for (uint32_t i = 0; i < w->flow_count; i++) {
        w->flows[i] = dt_flow_create(w->net, &w->flow_options[i]);
        if (!w->flows[i]) {
            snprintf(report->failure, sizeof report->failure, "no memory for a connection");
            return false;
        }
        report->messages += w->flow_options[i].message_count;
    }
    return true;
}

/* Also after a failure: everything must go away in order, whatever state it is in. */
static void stop(struct world *w)
{
    for (uint32_t i = 0; i < w->flow_count; i++)
        if (w->flows[i])
            dt_flow_destroy(w->flows[i]);
    if (dt_driver_sim_network() && w->net)
        advance_to(w, dt_sim_now_ns(dt_driver_sim_network()) + REST_NS);
    if (w->net)
        dt_plugin_sim_stop();
    if (dt_driver_sim_network())
        dt_driver_sim_stop();
}

bool dt_world_run(uint64_t seed, struct dt_world_report *report)
{
    struct world w;

    memset(report, 0, sizeof *report);
    draw(&w, seed, report);
    bool is_good = start(&w, report) && run_flows(&w, report) && settle(&w, report);
    if (dt_driver_sim_network())
        report->virtual_ns = dt_sim_now_ns(dt_driver_sim_network()) - w.network.start_ns;
    for (uint32_t i = 0; i < w.device_count; i++)
        count_device(i, report);
    stop(&w);
    return is_good;
}
