/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "plugin/plugin.h"
#include "tests/sim/draw.h"
#include "tests/sim/driver_sim.h"
#include "tests/sim/gpu_writes.h"
#include "tests/sim/trace.h"

#define REST_NS   (3 * DT_NS_PER_S)  /* late packets come within that */
#define NOTICE_NS (10 * DT_NS_PER_S) /* a death of a process that can be detected, all other trouble over */
#define STEP_NS   3000

struct world {
    struct dt_scenario *scenario;
    struct dt_world_report *report;
    struct dt_prng prng;
    struct dt_prng orders;
    struct dt_prng holds;
    uint32_t hold_count; /* so far */
    const ncclNet_v8_t *net;
    struct dt_flow *flows[DT_FLOWS_MAX];
    bool is_calm;
    uint64_t calm_ns;             /* since then */
    uint64_t wanted_ns[DT_HOSTS]; /* when the host's threads want to be called again */
};

static uint64_t now_ns(void)
{
    return dt_sim_now_ns(dt_driver_sim_network());
}

static bool fail(struct world *w, const char *what, uint32_t flow)
{
    if (!w->report->failure[0])
        snprintf(w->report->failure, sizeof w->report->failure, "%s%s", what,
                 w->flows[flow] ? dt_flow_failure(w->flows[flow]) : "");
    return false;
}

/* ---- what the network shows -----------------------------------------------------------------------------
 */

static void landed(void *arg, struct dt_wire *at, const struct dt_packet *packet, const void *to,
                   uint64_t bytes)
{
    struct world *w = arg;

    (void)packet;
    for (uint32_t i = 0; i < w->scenario->device_count; i++)
        if (dt_driver_sim_port(i) == at)
            dt_gpu_writes_landed(i, to, bytes);
    for (uint32_t i = 0; i < w->scenario->flow_count; i++)
        if (dt_flow_landed(w->flows[i], to, bytes))
            return;
}

static bool leaves(void *arg, struct dt_wire *from, const struct dt_packet *packet)
{
    static const char *const op[] = {"SEND", "WRITE", "READ", "RESPONSE", "ACK"};
    struct world *w = arg;

    (void)from;
    if (dt_trace_level() >= DT_TRACE_PACKETS)
        dt_trace_line(
            "    %-8s %u > %u psn %u+%u%s%s imm %#x, %" PRIu64 " bytes to %#" PRIx64 ", syndrome %#x",
            op[packet->op], packet->src_qpn, packet->dst_qpn, packet->psn, packet->psn_count,
            packet->flags & DT_PACKET_FIRST ? " first" : "", packet->flags & DT_PACKET_LAST ? " last" : "",
            packet->imm, packet->payload_bytes, packet->remote_addr, packet->syndrome);
    return dt_chaos_packet(&w->scenario->chaos, now_ns());
}

/* ---- time -----------------------------------------------------------------------------------------------
 */

static bool is_stopped(const struct world *w, uint32_t host)
{
    return w->scenario->chaos.stopped_until_ns[host] > now_ns();
}

static bool is_app_stopped(const struct world *w, uint32_t host)
{
    return is_stopped(w, host) || w->scenario->chaos.app_stopped_until_ns[host] > now_ns();
}

/* Detour's threads on the host have something to do. */
static bool is_due(const struct world *w, uint32_t host)
{
    return !is_stopped(w, host) && (w->wanted_ns[host] <= now_ns() || dt_plugin_sim_has_some(host));
}

/* They are called when they asked for it, soon after something has come for them, and in between. */
static bool run_threads(struct world *w)
{
    bool is_any_due = false;

    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        bool due = is_due(w, host);

        is_any_due |= due;
        if (!is_stopped(w, host) && dt_prng_chance(&w->prng, due ? 3 : 1, 4))
            w->wanted_ns[host] = dt_plugin_sim_progress(host);
    }
    return is_any_due;
}

static void advance_to(struct world *w, uint64_t until_ns)
{
    dt_sim_run_until(dt_driver_sim_network(), until_ns);
    dt_sim_network_set_now(dt_plugin_sim_control(), until_ns);
    dt_chaos_progress(&w->scenario->chaos, until_ns);
}

/* The next thing that happens by itself. */
static uint64_t next_ns(const struct world *w)
{
    const struct dt_chaos_run *chaos = &w->scenario->chaos;
    uint64_t next_ns = dt_sim_next_ns(dt_driver_sim_network());

    next_ns = dt_earlier_ns(next_ns, dt_plugin_sim_next_ns());
    next_ns = dt_earlier_ns(next_ns, dt_chaos_next_ns(chaos));
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        next_ns =
            dt_earlier_ns(next_ns, is_stopped(w, host) ? chaos->stopped_until_ns[host] : w->wanted_ns[host]);
        if (chaos->app_stopped_until_ns[host] > now_ns())
            next_ns = dt_earlier_ns(next_ns, chaos->app_stopped_until_ns[host]);
    }
    for (uint32_t i = 0; i < w->scenario->flow_count; i++)
        next_ns = dt_earlier_ns(next_ns, dt_flow_next_ns(w->flows[i], now_ns()));
    return next_ns;
}

/* Time passes: a little, or up to the next thing that happens. */
static void pass_time(struct world *w, bool is_busy)
{
    uint64_t now = now_ns(), to_ns = next_ns(w);

    if (to_ns == DT_NEVER_NS || to_ns <= now || dt_prng_chance(&w->prng, is_busy ? 3 : 2, 4))
        to_ns = now + 1 + dt_prng_below(&w->prng, STEP_NS);
    advance_to(w, to_ns);
}

/* ---- running --------------------------------------------------------------------------------------------
 */

static bool act(struct world *w)
{
    const struct dt_scenario *s = w->scenario;
    uint32_t i = (uint32_t)dt_prng_below(&w->prng, s->flow_count);
    enum dt_flow_side side = (enum dt_flow_side)dt_prng_below(&w->prng, DT_FLOW_SIDES);

    if (is_app_stopped(w, s->flow[i].side[side].host))
        return true;
    for (uint64_t calls = dt_prng_below(&w->prng, 6); calls; calls--)
        if (!dt_flow_act(w->flows[i], side))
            return fail(w, "", i);
    return true;
}

/* In one step of 64: one sender of a host, or all, send from now on directly, staged, or as they decide. */
static bool give_order(struct world *w)
{
    static const char *const modes[] = {"on", "off", "auto"};
    uint32_t host = (uint32_t)dt_prng_below(&w->orders, DT_HOSTS);
    char order[40], answer[200];
    enum dt_status status;

    if (!dt_draw_one_in(&w->orders, 64) || !w->scenario->settings[host].is_ordered || is_stopped(w, host))
        return true;
    snprintf(order, sizeof order, "%s", modes[dt_prng_below(&w->orders, DT_COUNT_OF(modes))]);
    if (!dt_draw_one_in(&w->orders, 3))
        snprintf(order + strlen(order), sizeof order - strlen(order), " connection=%u",
                 (unsigned)dt_prng_below(&w->orders, DT_FLOWS_MAX));
    dt_plugin_sim_enter(host);
    status = dt_net_hostpath_command(dt_plugin_current()->net, order, answer, sizeof answer);
    dt_say("order '%s': %s", order, answer);
    if (status != DT_OK && status != DT_NOT_FOUND)
        snprintf(w->report->failure, sizeof w->report->failure, "order '%s': %s", order, answer);
    return status == DT_OK || status == DT_NOT_FOUND;
}

#define HOLDS_MAX 200 /* of a run: it must end */

/* In one step of 64: the messages of one sender of a host, or of all, are parked for a time, or released. */
static bool give_hold(struct world *w)
{
    uint32_t host = (uint32_t)dt_prng_below(&w->holds, DT_HOSTS);
    bool is_release = dt_draw_one_in(&w->holds, 3), is_one = dt_draw_one_in(&w->holds, 2);
    uint64_t for_ns = dt_draw_log(&w->holds, DT_NS_PER_US, 50 * DT_NS_PER_MS);
    char scope[32] = "", order[80], answer[200];
    enum dt_status status;

    if (!dt_draw_one_in(&w->holds, 64) || !w->scenario->settings[host].is_held || is_stopped(w, host) ||
        w->hold_count >= HOLDS_MAX)
        return true;
    if (is_one)
        snprintf(scope, sizeof scope, "connection=%u", (unsigned)dt_prng_below(&w->holds, DT_FLOWS_MAX));
    snprintf(order, sizeof order, "%s for=%" PRIu64 "ns", scope, for_ns);
    w->hold_count++;
    dt_plugin_sim_enter(host);
    status = is_release ? dt_net_release_command(dt_plugin_current()->net, scope, answer, sizeof answer)
                        : dt_net_hold_command(dt_plugin_current()->net, order, answer, sizeof answer);
    dt_say("%s '%s': %s", is_release ? "release" : "hold", is_release ? scope : order, answer);
    if (status != DT_OK && !(is_release && status == DT_NOT_FOUND))
        snprintf(w->report->failure, sizeof w->report->failure, "hold '%s': %s", order, answer);
    return status == DT_OK || (is_release && status == DT_NOT_FOUND);
}

/* Of each flow that a dead process has left behind. */
static void bereave(struct world *w)
{
    for (uint32_t host = 0; host < DT_HOSTS; host++)
        for (uint32_t i = 0; w->scenario->chaos.is_killed[host] && i < w->scenario->flow_count; i++)
            dt_flow_bereave(w->flows[i], host);
}

/* The control network reports it at once; an end without a report waits until no path is left. */
static bool is_death_unnoticed(const struct world *w, uint32_t flow)
{
    const struct dt_chaos_run *chaos = &w->scenario->chaos;

    for (uint32_t host = 0; host < DT_HOSTS; host++)
        if (chaos->is_killed_silently[host] || chaos->is_control_gone)
            return false;
    return w->is_calm && dt_flow_is_bereaved(w->flows[flow]) && now_ns() - w->calm_ns > NOTICE_NS;
}

static bool is_wrong(struct world *w)
{
    for (uint32_t i = 0; i < w->scenario->flow_count; i++)
        if (dt_flow_is_wrong(w->flows[i]))
            return !fail(w, "", i);
    return false;
}

static void tell_closed(struct world *w)
{
    uint32_t ends = 0;

    for (uint32_t i = 0; i < w->scenario->flow_count; i++)
        for (int side = 0; side < DT_FLOW_SIDES; side++)
            ends += dt_flow_is_closed(w->flows[i], (enum dt_flow_side)side);
    dt_chaos_closed(&w->scenario->chaos, ends, now_ns());
}

/* The first flow that has not ended; flow_count: all have. */
static uint32_t first_open(const struct world *w)
{
    for (uint32_t i = 0; i < w->scenario->flow_count; i++)
        for (int side = 0; side < DT_FLOW_SIDES; side++)
            if (!dt_flow_is_closed(w->flows[i], (enum dt_flow_side)side))
                return i;
    return w->scenario->flow_count;
}

static bool all_connected(const struct world *w)
{
    for (uint32_t i = 0; i < w->scenario->flow_count; i++)
        if (!dt_flow_is_connected(w->flows[i]))
            return false;
    return true;
}

static void start_chaos(struct world *w)
{
    if (w->scenario->has_cut_at_setup)
        dt_chaos_cut_off(w->scenario->cut_at_setup, false);
    dt_trace_set_origin(now_ns());
    dt_say("all are connected");
    dt_chaos_start(&w->scenario->chaos, now_ns());
}

/* All faults are over: from now on the network does not lose, double or hold back anything either. */
static void calm_network(struct world *w)
{
    for (uint32_t i = 0; i < w->scenario->device_count; i++)
        dt_faults_clear(dt_sim_faults(dt_driver_sim_port(i)));
    w->is_calm = true;
    w->calm_ns = now_ns();
    dt_say("** all faults are over");
}

static bool run_flows(struct world *w)
{
    struct dt_chaos_run *chaos = &w->scenario->chaos;
    uint64_t deadline_ns = now_ns() + w->scenario->patience_ns;
    uint32_t open;

    while ((open = first_open(w)) < w->scenario->flow_count) {
        bool is_busy;

        if (!act(w) || !give_order(w) || !give_hold(w))
            return false;
        if (!chaos->origin_ns && all_connected(w))
            start_chaos(w);
        tell_closed(w);
        is_busy = run_threads(w);
        pass_time(w, is_busy);
        bereave(w);
        if (is_wrong(w))
            return false;
        if (dt_chaos_next_ns(chaos) != DT_NEVER_NS)
            deadline_ns = now_ns() + w->scenario->patience_ns;
        else if (chaos->count && chaos->origin_ns && !w->is_calm)
            calm_network(w);
        open = first_open(w);
        if (open < w->scenario->flow_count && is_death_unnoticed(w, open))
            return fail(w, "a dead peer is not noticed: ", open);
        if (now_ns() > deadline_ns && open < w->scenario->flow_count)
            return fail(w, "did not finish: ", open);
    }
    return true;
}

/* Everything under way arrives; then all buffers must still hold what was reported. */
static bool settle(struct world *w)
{
    uint64_t end_ns = now_ns() + REST_NS;

    while (dt_sim_next_ns(dt_driver_sim_network()) <= end_ns)
        dt_sim_step(dt_driver_sim_network());
    for (uint32_t i = 0; i < w->scenario->flow_count; i++)
        if (!dt_flow_settle(w->flows[i]))
            return fail(w, "", i);
    if (w->scenario->must_not_switch && dt_trace_switches()) {
        snprintf(w->report->failure, sizeof w->report->failure, "a path that is only slow was given up");
        return false;
    }
    if (!w->scenario->may_warn && dt_trace_take_warnings()) {
        snprintf(w->report->failure, sizeof w->report->failure, "a warning in Detour's log");
        return false;
    }
    return true;
}

static bool start(struct world *w)
{
    struct dt_scenario *s = w->scenario;
    struct dt_sim_watch watch = {.arg = w, .leaves = leaves, .landed = landed};

    if (!dt_driver_sim_start(&s->network, s->device_count)) {
        snprintf(w->report->failure, sizeof w->report->failure, "no memory for the network");
        return false;
    }
    dt_driver_sim_reuse_numbers(s->reuses_numbers);
    dt_driver_sim_set_rate(s->rate_bytes_per_s);
    dt_trace_count(s->must_not_switch || s->may_miss_stop);
    dt_trace_set_origin(now_ns());
    w->net = dt_plugin_sim_start(&s->plugin);
    if (!w->net) {
        snprintf(w->report->failure, sizeof w->report->failure, "the plugin does not start");
        return false;
    }
    for (uint32_t i = 0; i < s->flow_count; i++) {
        w->flows[i] = dt_flow_create(w->net, &s->flow[i]);
        if (!w->flows[i]) {
            snprintf(w->report->failure, sizeof w->report->failure, "no memory for a connection");
            return false;
        }
        w->report->messages += s->flow[i].plan.message_count;
    }
    dt_sim_set_watch(dt_driver_sim_network(), &watch);
    if (s->has_cut_at_setup)
        dt_chaos_cut_off(s->cut_at_setup, true);
    return true;
}

static void count_device(uint32_t index, struct dt_world_report *report)
{
    struct dt_rnic_counters counters;

    if (!dt_driver_sim_counters(index, &counters))
        return;
    report->retransmissions += counters.retransmissions;
    report->duplicates += counters.duplicates;
    report->bytes += counters.payload_bytes_landed;
}

static void count(struct world *w)
{
    w->report->packets = w->scenario->chaos.packets;
    w->report->personality_actions = dt_plugin_sim_personality_actions();
    w->report->virtual_ns = now_ns() - w->scenario->network.start_ns;
    for (uint32_t i = 0; i < w->scenario->device_count; i++)
        count_device(i, w->report);
    for (uint32_t i = 0; i < w->scenario->flow_count; i++)
        for (int side = 0; w->flows[i] && side < DT_FLOW_SIDES; side++)
            w->report->ends_failed += dt_flow_has_failed(w->flows[i], (enum dt_flow_side)side);
}

/* Also after a failure: everything must go away in order, whatever state it is in. */
static void stop(struct world *w)
{
    struct dt_sim_watch none = {0};

    dt_sim_set_watch(dt_driver_sim_network(), &none);
    for (uint32_t i = 0; i < w->scenario->flow_count; i++)
        if (w->flows[i])
            dt_flow_destroy(w->flows[i]);
    if (w->net)
        dt_plugin_sim_stop();
    dt_driver_sim_stop();
}

bool dt_world_run(struct dt_scenario *scenario, struct dt_world_report *report)
{
    struct world w = {.scenario = scenario, .report = report};
    bool is_good;

    memset(report, 0, sizeof *report);
    dt_trace_take_warnings();
    dt_prng_init_stream(&w.prng, scenario->seed, 3);
    dt_prng_init_stream(&w.orders, scenario->seed, 1010);
    dt_prng_init_stream(&w.holds, scenario->seed, 1012);
    is_good = start(&w) && run_flows(&w) && settle(&w);
    if (dt_driver_sim_network()) {
        count(&w);
        stop(&w);
    }
    return is_good;
}
