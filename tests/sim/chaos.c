/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/chaos.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/util.h"
#include "softrnic/softrnic.h"
#include "tests/sim/driver_sim.h"
#include "tests/sim/executor_sim.h"
#include "tests/sim/trace.h"
#include "tests/sim/verbs_sim.h"

static const char *const kind_name[] = {
    [DT_CHAOS_CUT] = "cut",
    [DT_CHAOS_LOSS] = "loss",
    [DT_CHAOS_DROP] = "drop",
    [DT_CHAOS_LATE] = "late packets",
    [DT_CHAOS_PORT_DOWN] = "port down",
    [DT_CHAOS_FLAP] = "flapping port",
    [DT_CHAOS_DEATH] = "device dies",
    [DT_CHAOS_DEATH_BLIND] = "device dies with completions unseen",
    [DT_CHAOS_HANG] = "verbs hang",
    [DT_CHAOS_MODIFY_FAILS] = "modify_qp fails",
    [DT_CHAOS_MODIFY_LIES] = "modify_qp lies",
    [DT_CHAOS_MODIFY_DENIES] = "modify_qp works and reports failure",
    [DT_CHAOS_CREATE_FAILS] = "create_qp fails",
    [DT_CHAOS_NO_FLUSH] = "no flush completions",
    [DT_CHAOS_CQ_SILENT] = "completion queues silent",
    [DT_CHAOS_EVENTS_HELD] = "asynchronous events held back",
    [DT_CHAOS_STOP] = "process stopped",
    [DT_CHAOS_APP_STOP] = "NCCL does not call",
    [DT_CHAOS_CONTROL_HOLD] = "control network cut",
    [DT_CHAOS_CONTROL_SLOW] = "control network slow",
    [DT_CHAOS_CONTROL_BREAK] = "control channel broken",
    [DT_CHAOS_FREEZE] = "machine stopped",
    [DT_CHAOS_HALF_SILENT] = "half of the completion queues silent",
    [DT_CHAOS_KILL] = "process dies",
    [DT_CHAOS_MIGRATE] = "drained by the operator",
    [DT_CHAOS_CONTROL_GONE] = "control network gone for good",
    [DT_CHAOS_REMOVED] = "device removed",
    [DT_CHAOS_QPS_FAIL] = "queue pairs fail",
    [DT_CHAOS_RECEIVES_LATE] = "completions of receives late",
};

static const char *stream_fault_name(enum dt_stream_fault fault)
{
    static const char *const name[] = {"reset", "timed out", "half closed"};

    return name[fault];
}

static const char *stream_death_name(enum dt_stream_death death)
{
    static const char *const name[] = {"in order", "by a reset", "silently"};

    return name[death];
}

void dt_chaos_describe(const struct dt_chaos *f, char *text, size_t bytes)
{
    int used = snprintf(text, bytes, "%s", kind_name[f->kind]);
    char *at = text + used;
    size_t room = bytes - (size_t)used;

    if (f->kind == DT_CHAOS_CUT && f->other != f->device)
        snprintf(at, room, ", soft%u %s%s soft%u", f->device, f->is_in ? "<" : "", f->is_out ? ">" : "",
                 f->other);
    else if (f->kind == DT_CHAOS_CUT)
        snprintf(at, room, ", soft%u%s%s", f->device, f->is_in ? " in" : "", f->is_out ? " out" : "");
    else if (f->kind == DT_CHAOS_LOSS)
        snprintf(at, room, ", soft%u, %.1f %% of %#x", f->device, f->chance_ppm / 1e4, f->ops);
    else if (f->kind == DT_CHAOS_DROP)
        snprintf(at, room, ", soft%u, %u after %u of %#x", f->device, f->count, f->skip, f->ops);
    else if (f->kind == DT_CHAOS_LATE)
        snprintf(at, room, ", soft%u, %.1f %% by %.3f ms", f->device, f->chance_ppm / 1e4,
                 (double)f->delay_ns / 1e6);
    else if (f->kind == DT_CHAOS_FLAP)
        snprintf(at, room, ", soft%u, %u times", f->device, f->count);
    else if (f->kind == DT_CHAOS_CONTROL_SLOW)
        snprintf(at, room, ", %.3f ms", (double)f->delay_ns / 1e6);
    else if (f->kind == DT_CHAOS_CONTROL_BREAK)
        snprintf(at, room, ", %s", stream_fault_name(f->stream_fault));
    else if (f->kind == DT_CHAOS_KILL)
        snprintf(at, room, ", host %u, its channels end %s%s", f->host, stream_death_name(f->stream_death),
                 f->is_device_first ? " after its devices" : "");
    else if (f->kind == DT_CHAOS_STOP || f->kind == DT_CHAOS_APP_STOP || f->kind == DT_CHAOS_FREEZE)
        snprintf(at, room, ", host %u", f->host);
    else if (f->kind != DT_CHAOS_CONTROL_HOLD && f->kind != DT_CHAOS_CONTROL_GONE)
        snprintf(at, room, ", soft%u", f->device);
}

/* ---- carrying out ---------------------------------------------------------------------------------------
 */

static void cut(const struct dt_chaos *f, bool is_cut)
{
    struct dt_wire *device = dt_driver_sim_port(f->device);

    for (uint32_t i = 0; i < dt_driver_sim_device_count(); i++) {
        if (i == f->device || (f->other != f->device && f->other != i))
            continue;
        if (f->is_out)
            dt_sim_cut(device, dt_driver_sim_port(i), is_cut);
        if (f->is_in)
            dt_sim_cut(dt_driver_sim_port(i), device, is_cut);
    }
}

void dt_chaos_cut_off(uint32_t device, bool is_cut)
{
    const struct dt_chaos all = {.device = device, .other = device, .is_in = true, .is_out = true};

    cut(&all, is_cut);
}

static uint32_t add_rule(const struct dt_chaos *f)
{
    struct dt_fault_rule rule = {
        .action = f->kind == DT_CHAOS_LATE ? DT_FAULT_DELAY : DT_FAULT_DROP,
        .ops = f->ops,
        .skip = f->skip,
        .count = f->count,
        .chance_ppm = f->chance_ppm,
        .delay_ns = f->delay_ns,
    };

    return dt_faults_add(dt_sim_faults(dt_driver_sim_port(f->device)), &rule);
}

static void set_link(uint32_t device, bool is_up)
{
    struct dt_rnic *rnic = dt_driver_sim_rnic(device);

    if (rnic)
        dt_rnic_set_link(rnic, is_up);
}

static uint32_t verbs_fault(enum dt_chaos_kind kind)
{
    switch (kind) {
    case DT_CHAOS_DEATH_BLIND:
        return DT_VERBS_CQ_LOST;
    case DT_CHAOS_MODIFY_FAILS:
        return DT_VERBS_MODIFY_FAILS;
    case DT_CHAOS_MODIFY_LIES:
        return DT_VERBS_MODIFY_LIES;
    case DT_CHAOS_MODIFY_DENIES:
        return DT_VERBS_MODIFY_DENIES;
    case DT_CHAOS_CREATE_FAILS:
        return DT_VERBS_CREATE_FAILS;
    case DT_CHAOS_NO_FLUSH:
        return DT_VERBS_NO_FLUSH;
    case DT_CHAOS_CQ_SILENT:
        return DT_VERBS_CQ_SILENT;
    case DT_CHAOS_EVENTS_HELD:
        return DT_VERBS_EVENTS_HELD;
    case DT_CHAOS_HALF_SILENT:
        return DT_VERBS_HALF_SILENT;
    case DT_CHAOS_RECEIVES_LATE:
        return DT_VERBS_RECEIVES_LATE;
    default:
        return 0;
    }
}

static void set_verbs(const struct dt_chaos *f, bool is_on)
{
    uint32_t mask = verbs_fault(f->kind), faults = dt_verbs_sim_get(f->device);

    dt_verbs_sim_set(f->device, is_on ? faults | mask : faults & ~mask);
}

static void die(struct dt_chaos_run *run, uint32_t device)
{
    struct dt_rnic *rnic = dt_driver_sim_rnic(device);

    run->is_device_dead[device] = true;
    if (rnic)
        dt_rnic_set_fatal(rnic);
}

/* Out of the list of devices, and back as a new one that has nothing; a dead one does not return. */
static void remove_device(const struct dt_chaos_run *run, uint32_t device, bool is_removed)
{
    struct dt_rnic *rnic = dt_driver_sim_rnic(device);
    char name[16];

    if (is_removed && rnic)
        dt_rnic_set_fatal(rnic);
    if (is_removed || run->is_device_dead[device])
        return;
    snprintf(name, sizeof name, "soft%u", device);
    dt_soft_device_control(name, DT_SOFT_CONTROL_PLUG, 0);
}

static void stop(struct dt_chaos_run *run, uint32_t host, uint64_t until_ns)
{
    run->stopped_until_ns[host] = dt_max_u64(run->stopped_until_ns[host], until_ns);
}

static void freeze(struct dt_chaos_run *run, const struct dt_chaos *f, bool is_frozen)
{
    for (uint32_t i = 0; i < run->devices[f->host].count; i++)
        dt_chaos_cut_off(run->devices[f->host].first + i, is_frozen);
}

/* The first half of a process's end, and the second. */
static void kill_part(struct dt_chaos_run *run, const struct dt_chaos *f, bool is_first)
{
    run->is_killed[f->host] = true;
    run->is_killed_silently[f->host] |= f->stream_death == DT_STREAM_SILENT;
    stop(run, f->host, DT_NEVER_NS);
    if (f->is_device_first != is_first) {
        dt_sim_network_kill(dt_plugin_sim_control(), f->host, f->stream_death);
        return;
    }
    for (uint32_t i = 0; i < run->devices[f->host].count; i++)
        die(run, run->devices[f->host].first + i);
}

/* The operator's order; a process that has ended gets none. */
static void drain(const struct dt_chaos_run *run, const struct dt_chaos *f, bool is_drained)
{
    if (!run->is_killed[f->host])
        dt_plugin_sim_drain(f->host, f->device, is_drained);
}

static void begin(struct dt_chaos_run *run, uint32_t i, uint64_t now_ns)
{
    const struct dt_chaos *f = &run->list[i];
    char device[16];

    switch (f->kind) {
    case DT_CHAOS_CUT:
        cut(f, true);
        break;
    case DT_CHAOS_LOSS:
    case DT_CHAOS_DROP:
    case DT_CHAOS_LATE:
        run->state[i].rule = add_rule(f);
        break;
    case DT_CHAOS_PORT_DOWN:
    case DT_CHAOS_FLAP:
        set_link(f->device, false);
        break;
    case DT_CHAOS_DEATH:
        die(run, f->device);
        break;
    case DT_CHAOS_REMOVED:
        remove_device(run, f->device, true);
        break;
    case DT_CHAOS_QPS_FAIL:
        dt_verbs_sim_fail_qps(f->device);
        break;
    case DT_CHAOS_HANG:
        snprintf(device, sizeof device, "soft%u", f->device);
        dt_executor_sim_hang(device, now_ns + f->duration_ns);
        break;
    case DT_CHAOS_STOP:
        stop(run, f->host, now_ns + f->duration_ns);
        break;
    case DT_CHAOS_FREEZE:
        stop(run, f->host, now_ns + f->duration_ns);
        dt_sim_network_hold(dt_plugin_sim_control(), now_ns + f->duration_ns);
        freeze(run, f, true);
        break;
    case DT_CHAOS_KILL:
        kill_part(run, f, true);
        break;
    case DT_CHAOS_MIGRATE:
        drain(run, f, true);
        break;
    case DT_CHAOS_APP_STOP:
        run->app_stopped_until_ns[f->host] = now_ns + f->duration_ns;
        break;
    case DT_CHAOS_CONTROL_HOLD:
        dt_sim_network_hold(dt_plugin_sim_control(), now_ns + f->duration_ns);
        break;
    case DT_CHAOS_CONTROL_GONE:
        run->is_control_gone = true;
        dt_sim_network_hold(dt_plugin_sim_control(), DT_NEVER_NS);
        break;
    case DT_CHAOS_CONTROL_SLOW:
        dt_sim_network_set_latency(dt_plugin_sim_control(), f->delay_ns);
        break;
    case DT_CHAOS_CONTROL_BREAK:
        dt_sim_network_break(dt_plugin_sim_control(), f->which, f->stream_fault);
        break;
    default:
        set_verbs(f, true);
    }
}

static void end(struct dt_chaos_run *run, uint32_t i)
{
    const struct dt_chaos *f = &run->list[i];

    switch (f->kind) {
    case DT_CHAOS_CUT:
        cut(f, false);
        break;
    case DT_CHAOS_LOSS:
    case DT_CHAOS_DROP:
    case DT_CHAOS_LATE:
        dt_faults_remove(dt_sim_faults(dt_driver_sim_port(f->device)), run->state[i].rule);
        break;
    case DT_CHAOS_PORT_DOWN:
    case DT_CHAOS_FLAP:
        set_link(f->device, true);
        break;
    case DT_CHAOS_DEATH_BLIND:
        die(run, f->device);
        break;
    case DT_CHAOS_REMOVED:
        remove_device(run, f->device, false);
        break;
    case DT_CHAOS_FREEZE:
        freeze(run, f, false);
        break;
    case DT_CHAOS_KILL:
        kill_part(run, f, false);
        break;
    case DT_CHAOS_MIGRATE:
        drain(run, f, false);
        break;
    case DT_CHAOS_CONTROL_SLOW:
        dt_sim_network_set_latency(dt_plugin_sim_control(), run->control_latency_ns);
        break;
    case DT_CHAOS_HALF_SILENT: /* for good */
    case DT_CHAOS_CONTROL_GONE:
    case DT_CHAOS_QPS_FAIL:
        break;
    default:
        set_verbs(f, false);
    }
}

/* ---- time -----------------------------------------------------------------------------------------------
 */

void dt_chaos_start(struct dt_chaos_run *run, uint64_t now_ns)
{
    run->origin_ns = now_ns;
    for (uint32_t i = 0; i < run->count; i++) {
        run->state[i].step = 0;
        run->state[i].next_ns = run->list[i].start_packet || run->list[i].start_closed
                                    ? DT_NEVER_NS
                                    : now_ns + run->list[i].start_ns;
    }
}

uint64_t dt_chaos_next_ns(const struct dt_chaos_run *run)
{
    uint64_t next_ns = DT_NEVER_NS;

    for (uint32_t i = 0; run->origin_ns && i < run->count; i++)
        next_ns = dt_earlier_ns(next_ns, run->state[i].next_ns);
    return next_ns;
}

/* A flapping port goes down and up `count` times; everything else once. */
static uint32_t steps_of(const struct dt_chaos *fault)
{
    return fault->kind == DT_CHAOS_FLAP ? 2 * fault->count : 2;
}

static void note(const struct dt_chaos *fault, const char *what)
{
    char text[128];

    if (dt_trace_level() < DT_TRACE_EVENTS)
        return;
    dt_chaos_describe(fault, text, sizeof text);
    dt_trace_line("** %s: %s", what, text);
}

static void step(struct dt_chaos_run *run, uint32_t i, uint64_t now_ns)
{
    const struct dt_chaos *fault = &run->list[i];
    bool is_end = run->state[i].step & 1;

    note(fault, is_end ? "over" : "FAULT");
    if (is_end)
        end(run, i);
    else
        begin(run, i, now_ns);
    if (++run->state[i].step < steps_of(fault))
        run->state[i].next_ns = dt_deadline_ns(now_ns, fault->duration_ns);
    else
        run->state[i].next_ns = DT_NEVER_NS;
}

void dt_chaos_progress(struct dt_chaos_run *run, uint64_t now_ns)
{
    for (uint32_t i = 0; run->origin_ns && i < run->count; i++)
        if (run->state[i].next_ns <= now_ns)
            step(run, i, now_ns);
}

bool dt_chaos_packet(struct dt_chaos_run *run, uint64_t now_ns)
{
    bool is_lost = false;

    run->packets += run->origin_ns != 0;
    for (uint32_t i = 0; run->origin_ns && i < run->count; i++) {
        const struct dt_chaos *fault = &run->list[i];

        if (fault->start_packet != run->packets)
            continue;
        if (fault->kind == DT_CHAOS_CUT) {
            step(run, i, now_ns);
        } else if (fault->kind == DT_CHAOS_DROP) {
            note(fault, "FAULT");
            is_lost = true;
        } else {
            run->state[i].next_ns = now_ns;
        }
    }
    return !is_lost;
}

void dt_chaos_closed(struct dt_chaos_run *run, uint32_t ends, uint64_t now_ns)
{
    for (uint32_t i = 0; run->origin_ns && i < run->count; i++) {
        const struct dt_chaos *fault = &run->list[i];

        if (fault->start_closed && ends >= fault->start_closed && run->state[i].step == 0)
            run->state[i].next_ns = dt_earlier_ns(run->state[i].next_ns, now_ns + fault->start_ns);
    }
}
