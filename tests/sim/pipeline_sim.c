/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/pipeline_sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/util.h"
#include "tests/sim/cluster.h"
#include "tests/sim/pipeline_end.h"

#define CONTROL_LATENCY_NS (50 * DT_NS_PER_US)
#define PATIENCE_NS        (1000 * DT_NS_PER_S) /* an iteration takes less */
#define COPY_START_NS      2000

struct device {
    struct dt_executor *executor;
    struct dt_pipeline_end **end; /* [flow of the executor] */
};

/* One direction of a pipeline link. */
struct connection {
    struct dt_cluster_connection c;
    int32_t link;
    bool backward;
};

struct run {
    const struct dt_pipeline_sim_options *options;
    struct dt_cluster *cluster;
    struct device *device;
    struct connection *connection; /* in the order in which they are set up */
    uint32_t connection_count;
    uint64_t transfers; /* of this iteration, as the next */
    uint64_t sends;
    char *failure;
};

static uint32_t device_count(const struct run *run)
{
    return (uint32_t)run->options->program->device_count;
}

static bool fail(struct run *run, const char *what, uint32_t device)
{
    char text[DT_EXECUTOR_TEXT_BYTES] = "set-up";

    if (run->device[device].executor)
        dt_executor_text(run->device[device].executor, text);
    if (!run->failure[0])
        snprintf(run->failure, DT_PIPELINE_SIM_TEXT_BYTES, "device %" PRIu32 " at %s: %s", device, text,
                 what);
    return false;
}

/* ---- connections ---- */

static bool list_connections(struct run *run)
{
    const struct detour_profile *profile = run->options->profile;

    run->connection = calloc(2 * (size_t)profile->stage_count, sizeof *run->connection);
    for (int32_t i = 0; run->connection && i + 1 < profile->stage_count; i++) {
        uint32_t a = (uint32_t)profile->stages[i].device, b = (uint32_t)profile->stages[i + 1].device;

        if (a == b)
            continue;
        run->connection[run->connection_count++] = (struct connection){{.from = a, .to = b}, i, false};
        run->connection[run->connection_count++] = (struct connection){{.from = b, .to = a}, i, true};
    }
    return run->connection;
}

/* ---- settings ---- */

/* The number that injection gives to this connection: that of the sender in its process. */
static uint32_t sender_number(const struct run *run, const struct connection *connection)
{
    uint32_t number = 0;

    for (const struct connection *c = run->connection; c != connection; c++)
        number += c->c.from == connection->c.from;
    return number;
}

static size_t add_rule(const struct run *run, const struct connection *connection,
                       const struct dt_pipeline_slow_link *slow, char *text, size_t bytes)
{
    const struct dt_pipeline_sim_options *o = run->options;
    uint64_t slice =
        o->mode == DT_PIPELINE_NCCL ? dt_min_u64(o->slice_bytes, o->message_bytes) : o->message_bytes;
    uint64_t pieces = (o->message_bytes + slice - 1) / slice;
    uint32_t number = sender_number(run, connection);
    int length;

    if (o->effect) /* with a seed per link, since each host numbers its rules from 1 */
        length = snprintf(text, bytes, "connection=%u %s seed=%d;", number, o->effect, slow->link + 1);
    else if (slow->is_serial)
        length = snprintf(text, bytes, "connection=%u serial=%" PRIu64 "ns per=%" PRIu64 ";", number,
                          slow->delay_ns / pieces, slice);
    else
        length = snprintf(text, bytes, "connection=%u latency=%" PRIu64 "ns;", number, slow->delay_ns);
    DT_CHECK(length > 0 && (size_t)length < bytes);
    return (size_t)length;
}

static void set_host(void *arg, uint32_t host, struct dt_params *params)
{
    const struct run *run = arg;
    size_t used = 0;

    if (run->options->mode != DT_PIPELINE_NCCL)
        snprintf(params->hostpath, sizeof params->hostpath, "on");
    params->hostpath_bytes = run->options->pool_bytes;
    for (uint32_t i = 0; i < run->options->slow_count; i++) {
        const struct dt_pipeline_slow_link *slow = &run->options->slow[i];

        for (uint32_t k = 0; k < run->connection_count; k++) {
            const struct connection *c = &run->connection[k];

            if (c->link == slow->link && c->c.from == host)
                used += add_rule(run, c, slow, params->inject + used, sizeof params->inject - used);
        }
    }
}

/* ---- set-up ---- */

static bool start_cluster(struct run *run)
{
    const struct dt_pipeline_sim_options *o = run->options;
    struct dt_cluster_options options = {
        .seed = o->seed,
        .host_count = device_count(run),
        .link = {.latency_ns = o->latency_ns, .rate_bytes_per_s = o->rate_bytes_per_s},
        .segment_bytes_max = 1u << 30,
        .block_bytes = DT_PIPELINE_STAMP_EVERY,
        .gpu = {.to_host_bytes_per_s = o->to_host_bytes_per_s,
                .to_gpu_bytes_per_s = o->to_gpu_bytes_per_s,
                .start_ns = COPY_START_NS,
                .block_bytes = DT_PIPELINE_STAMP_EVERY},
        .control_latency_ns = CONTROL_LATENCY_NS,
        .set = set_host,
        .set_arg = run,
    };

    run->cluster = dt_cluster_start(&options);
    return run->cluster;
}

static size_t flow_of(const struct dt_executor *executor, const struct connection *c, bool sends)
{
    for (size_t i = 0; i < dt_executor_flow_count(executor); i++) {
        const struct dt_executor_flow *flow = dt_executor_get_flow(executor, i);

        if (flow->link == c->link && flow->backward == c->backward && flow->sends == sends)
            return i;
    }
    DT_CHECK(false);
    return 0;
}

static bool add_end(struct run *run, struct connection *c, bool sends)
{
    struct device *device = &run->device[sends ? c->c.from : c->c.to];
    struct dt_pipeline_end_options options = {
        .cluster = run->cluster,
        .comm = sends ? c->c.send : c->c.recv,
        .host = sends ? c->c.from : c->c.to,
        .flow = flow_of(device->executor, c, sends),
        .sends = sends,
        .is_on_host = !sends && run->options->mode == DT_PIPELINE_DELEGATED,
        .message_bytes = run->options->message_bytes,
    };

    device->end[options.flow] = dt_pipeline_end_create(&options);
    return device->end[options.flow] ||
           fail(run, "no memory for messages, or it cannot be registered", options.host);
}

static bool connect_all(struct run *run)
{
    for (uint32_t i = 0; i < run->connection_count; i++) {
        struct connection *c = &run->connection[i];

        if (!dt_cluster_connect(run->cluster, c->c.from, c->c.to, &c->c))
            return fail(run, "no connection", c->c.from);
        if (!add_end(run, c, true) || !add_end(run, c, false))
            return false;
    }
    return true;
}

static bool create_executors(struct run *run)
{
    const struct dt_pipeline_sim_options *o = run->options;

    for (uint32_t i = 0; i < device_count(run); i++) {
        struct dt_executor_options options = {.device = (int32_t)i,
                                              .mode = o->mode,
                                              .message_bytes = o->message_bytes,
                                              .slice_bytes = o->slice_bytes,
                                              .slots = o->slots};

        struct device *device = &run->device[i];

        device->executor = dt_executor_create(&options, o->profile);
        if (device->executor)
            device->end = calloc(dt_executor_flow_count(device->executor), sizeof *device->end);
        if (!device->end)
            return fail(run, "out of memory", i);
    }
    return true;
}

/* ---- an iteration ---- */

static const char *add(struct run *run, struct device *device, const struct dt_executor_order *order)
{
    bool sends = dt_executor_get_flow(device->executor, order->flow)->sends;

    run->transfers++;
    run->sends += sends;
    return dt_pipeline_end_add(device->end[order->flow], order,
                               sends && run->sends == run->options->spoiled_send);
}

/* Reports what has completed, and posts what the executor orders, until neither brings anything new. */
static bool turn(struct run *run, uint32_t host, bool *has_posted)
{
    struct device *device = &run->device[host];
    uint64_t now_ns = dt_cluster_now_ns(run->cluster);
    struct dt_executor_order order;
    const char *problem = NULL;
    bool is_moving = true;

    *has_posted = false;
    while (is_moving && !problem) {
        is_moving = false;
        while (!problem && dt_executor_next(device->executor, now_ns, &order))
            problem = add(run, device, &order);
        for (size_t i = 0; i < dt_executor_flow_count(device->executor) && !problem; i++) {
            uint32_t posted = 0, completed = 0;

            problem = dt_pipeline_end_progress(device->end[i], device->executor, now_ns, &posted, &completed);
            *has_posted |= posted > 0;
            is_moving |= completed > 0;
        }
    }
    return problem ? fail(run, problem, host) : true;
}

static bool run_hosts(struct run *run)
{
    uint64_t now_ns = dt_cluster_now_ns(run->cluster);
    uint32_t host;
    bool has_posted;

    for (uint32_t i = 0; i < device_count(run); i++)
        if (dt_executor_due_ns(run->device[i].executor) <= now_ns)
            dt_cluster_wake(run->cluster, i);
    while (dt_cluster_take(run->cluster, &host)) {
        if (!turn(run, host, &has_posted))
            return false;
        if (has_posted)
            dt_cluster_wake(run->cluster, host); /* its threads have something to do */
    }
    return true;
}

/* The first device that has not finished; device_count: all have. */
static uint32_t first_open(const struct run *run)
{
    uint32_t i = 0;

    while (i < device_count(run) && dt_executor_is_done(run->device[i].executor))
        i++;
    return i;
}

static uint64_t next_due_ns(const struct run *run)
{
    uint64_t due_ns = DT_NEVER_NS;

    for (uint32_t i = 0; i < device_count(run); i++)
        due_ns = dt_earlier_ns(due_ns, dt_executor_due_ns(run->device[i].executor));
    return due_ns;
}

static void summarize(const struct run *run, uint64_t began_ns, struct dt_pipeline_sim_result *result)
{
    *result = (struct dt_pipeline_sim_result){.complete_ns = dt_cluster_now_ns(run->cluster) - began_ns,
                                              .transfers = run->transfers};
    for (uint32_t i = 0; i < device_count(run); i++) {
        struct dt_executor_account account = dt_executor_get_account(run->device[i].executor);

        result->iteration_ns = dt_max_u64(result->iteration_ns, account.end_ns - began_ns);
        result->compute_ns += account.compute_ns;
        result->wait_ns += account.wait_ns;
        result->held_ns += account.held_ns;
    }
}

static bool run_iteration(struct run *run, uint32_t iteration, struct dt_pipeline_sim_result *result)
{
    struct dt_executor_work work = {.profile = run->options->profile,
                                    .program = run->options->program,
                                    .iteration = iteration,
                                    .compute_permille = 1000};
    uint64_t began_ns = dt_cluster_now_ns(run->cluster);
    uint32_t open;

    run->transfers = run->sends = 0;
    for (uint32_t i = 0; i < device_count(run); i++) {
        if (!dt_executor_begin(run->device[i].executor, &work, began_ns))
            return fail(run, "out of memory", i);
        dt_cluster_wake(run->cluster, i);
    }
    while (run_hosts(run)) {
        open = first_open(run);
        if (open == device_count(run)) {
            summarize(run, began_ns, result);
            return true;
        }
        if (dt_cluster_now_ns(run->cluster) > began_ns + PATIENCE_NS)
            return fail(run, "does not end", open);
        dt_cluster_advance(run->cluster, dt_earlier_ns(next_due_ns(run), began_ns + PATIENCE_NS + 1));
    }
    return false;
}

/* ---- life ---- */

static void clean_up(struct run *run)
{
    for (uint32_t i = 0; run->device && i < device_count(run); i++) {
        struct device *device = &run->device[i];

        for (size_t k = 0; device->end && k < dt_executor_flow_count(device->executor); k++)
            dt_pipeline_end_destroy(device->end[k]);
        free(device->end);
        dt_executor_destroy(device->executor);
    }
    for (uint32_t i = 0; run->cluster && i < run->connection_count; i++)
        dt_cluster_close(run->cluster, &run->connection[i].c);
    dt_cluster_stop(run->cluster);
    free(run->device);
    free(run->connection);
}

bool dt_pipeline_sim_run(const struct dt_pipeline_sim_options *options,
                         struct dt_pipeline_sim_result *results, char failure[DT_PIPELINE_SIM_TEXT_BYTES])
{
    struct run run = {.options = options, .failure = failure};
    bool is_good;

    failure[0] = 0;
    run.device = calloc(device_count(&run), sizeof *run.device);
    is_good = run.device && list_connections(&run) && create_executors(&run) && start_cluster(&run) &&
              connect_all(&run);
    for (uint32_t i = 0; is_good && i < options->iteration_count; i++)
        is_good = run_iteration(&run, i, &results[i]);
    if (!is_good && !failure[0])
        snprintf(failure, DT_PIPELINE_SIM_TEXT_BYTES, "the plugin does not start, or memory is short");
    clean_up(&run);
    return is_good;
}
