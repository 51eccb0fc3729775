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
#include "tests/sim/pipeline_work.h"

#define CONTROL_LATENCY_NS (50 * DT_NS_PER_US)
#define PATIENCE_NS        (1000 * DT_NS_PER_S) /* an iteration takes less */
#define COPY_START_NS      2000

struct device {
    struct dt_executor *executor;
    struct dt_gradients *gradients; /* NULL without replicas */
    struct dt_pipeline_end **end;   /* [flow]: those of the executor, then those of the gradients */
};

/* One direction of a pipeline link, or from a device to that of the next replica. */
struct connection {
    struct dt_cluster_connection c;
    int32_t link; /* is_dp: the device */
    int32_t replica;
    bool backward;
    bool is_dp;
};

struct run {
    const struct dt_pipeline_sim_options *options;
    const struct detour_program *program; /* of this iteration */
    struct dt_cluster *cluster;
    struct device *device;         /* [host] */
    struct connection *connection; /* in the order in which they are set up */
    uint32_t connection_count;
    uint64_t transfers; /* of this iteration, as the next */
    uint64_t sends;
    char *failure;
};

static int32_t replica_count(const struct run *run)
{
    return run->options->replicas ? run->options->replicas : 1;
}

/* Of one replica. */
static int32_t device_count(const struct run *run)
{
    return run->options->program->device_count;
}

static uint32_t host_count(const struct run *run)
{
    return (uint32_t)(device_count(run) * replica_count(run));
}

static uint32_t host_of(const struct run *run, int32_t device, int32_t replica)
{
    const struct dt_pipeline_position position = {device, replica % replica_count(run)};

    return dt_pipeline_rank_of(device_count(run), position);
}

static bool fail(struct run *run, const char *what, uint32_t host)
{
    char text[DT_EXECUTOR_TEXT_BYTES] = "set-up";

    if (run->device[host].gradients && dt_executor_is_done(run->device[host].executor))
        dt_gradients_text(run->device[host].gradients, text);
    else if (run->device[host].executor)
        dt_executor_text(run->device[host].executor, text);
    if (!run->failure[0])
        snprintf(run->failure, DT_PIPELINE_SIM_TEXT_BYTES, "device %" PRIu32 " at %s: %s", host, text, what);
    return false;
}

/* ---- connections ---- */

static void list_links(struct run *run, int32_t replica)
{
    const struct detour_profile *profile = run->options->profile;

    for (int32_t i = 0; i + 1 < profile->stage_count; i++) {
        uint32_t a = host_of(run, profile->stages[i].device, replica);
        uint32_t b = host_of(run, profile->stages[i + 1].device, replica);
        struct connection forward = {.c = {.from = a, .to = b}, .link = i, .replica = replica};
        struct connection backward = {
            .c = {.from = b, .to = a}, .link = i, .replica = replica, .backward = true};

        if (a == b)
            continue;
        run->connection[run->connection_count++] = forward;
        run->connection[run->connection_count++] = backward;
    }
}

static void list_rings(struct run *run)
{
    for (int32_t device = 0; device < device_count(run); device++) {
        for (int32_t replica = 0; replica < replica_count(run); replica++)
            run->connection[run->connection_count++] = (struct connection){
                .c = {.from = host_of(run, device, replica), .to = host_of(run, device, replica + 1)},
                .link = device,
                .replica = replica,
                .is_dp = true};
    }
}

static bool list_connections(struct run *run)
{
    size_t links = 2 * (size_t)run->options->profile->stage_count;

    run->connection =
        calloc((links + (size_t)device_count(run)) * (size_t)replica_count(run), sizeof *run->connection);
    for (int32_t replica = 0; run->connection && replica < replica_count(run); replica++)
        list_links(run, replica);
    if (run->connection && replica_count(run) > 1)
        list_rings(run);
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
    else if (slow->is_serial && slow->is_dp)
        length = snprintf(text, bytes, "connection=%u serial=%" PRIu64 "ns;", number,
                          dt_pipeline_sim_slice_delay_ns(o, slow));
    else if (slow->is_serial)
        length = snprintf(text, bytes, "connection=%u serial=%" PRIu64 "ns per=%" PRIu64 ";", number,
                          slow->delay_ns / pieces, slice);
    else
        length = snprintf(text, bytes, "connection=%u latency=%" PRIu64 "ns;", number, slow->delay_ns);
    DT_CHECK(length > 0 && (size_t)length < bytes);
    return (size_t)length;
}

/* A link between replicas is slow in both directions of the ring, which with two replicas are two
 * connections. */
static bool is_slow(const struct run *run, const struct connection *c,
                    const struct dt_pipeline_slow_link *slow)
{
    if (c->link != slow->link || c->is_dp != slow->is_dp)
        return false;
    if (!c->is_dp)
        return slow->replica == DT_PIPELINE_SIM_EVERY_REPLICA || slow->replica == c->replica;
    uint32_t a = host_of(run, slow->link, slow->replica), b = host_of(run, slow->link, slow->replica + 1);
    return (c->c.from == a && c->c.to == b) || (c->c.from == b && c->c.to == a);
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

            if (c->c.from == host && is_slow(run, c, slow))
                used += add_rule(run, c, slow, params->inject + used, sizeof params->inject - used);
        }
    }
}

/* ---- set-up ---- */

static void set_links(struct run *run)
{
    const struct dt_pipeline_sim_options *o = run->options;

    for (uint32_t i = 0; i < run->connection_count; i++) {
        const struct connection *c = &run->connection[i];
        const struct detour_link *of = &o->profile->links[c->link];
        int64_t serial_ns = c->backward ? of->backward_serial_ns : of->forward_serial_ns;
        struct dt_sim_link_options link = {.latency_ns =
                                               (uint64_t)(c->backward ? of->backward_ns : of->forward_ns)};

        if (serial_ns)
            link.rate_bytes_per_s = dt_max_u64(1, o->message_bytes * DT_NS_PER_S / (uint64_t)serial_ns);
        if (!c->is_dp)
            dt_cluster_set_link(run->cluster, c->c.from, c->c.to, &link);
    }
}

static bool start_cluster(struct run *run)
{
    const struct dt_pipeline_sim_options *o = run->options;
    struct dt_cluster_options options = {
        .seed = o->seed,
        .host_count = host_count(run),
        .link = {.latency_ns = o->latency_ns, .rate_bytes_per_s = o->rate_bytes_per_s},
        .segment_bytes_max = 1u << 30,
        .block_bytes = dt_pipeline_sim_stamp_bytes(o),
        .gpu = {.to_host_bytes_per_s = o->to_host_bytes_per_s,
                .to_gpu_bytes_per_s = o->to_gpu_bytes_per_s,
                .start_ns = COPY_START_NS,
                .block_bytes = dt_pipeline_sim_stamp_bytes(o)},
        .control_latency_ns = CONTROL_LATENCY_NS,
        .set = set_host,
        .set_arg = run,
    };

    run->cluster = dt_cluster_start(&options);
    if (run->cluster && o->has_own_links)
        set_links(run);
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

static size_t flow_count(const struct device *device)
{
    return dt_executor_flow_count(device->executor) + (device->gradients ? 2 : 0);
}

static bool add_end(struct run *run, struct connection *c, bool sends)
{
    struct device *device = &run->device[sends ? c->c.from : c->c.to];
    size_t first_of_ring = dt_executor_flow_count(device->executor);
    struct dt_pipeline_end_options options = {
        .cluster = run->cluster,
        .comm = sends ? c->c.send : c->c.recv,
        .host = sends ? c->c.from : c->c.to,
        .flow = c->is_dp ? first_of_ring + !sends : flow_of(device->executor, c, sends),
        .gradients = c->is_dp ? device->gradients : NULL,
        .sends = sends,
        .is_on_host = !sends && run->options->mode == DT_PIPELINE_DELEGATED,
        .message_bytes = c->is_dp ? DT_PIPELINE_SIM_SLICE_BYTES : run->options->message_bytes,
        .stamp_bytes = dt_pipeline_sim_stamp_bytes(run->options),
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

static bool create_gradients(struct run *run, uint32_t host)
{
    struct device *device = &run->device[host];
    struct dt_gradients_options options =
        dt_pipeline_sim_gradients(run->options, dt_pipeline_position_of(device_count(run), host));

    if (replica_count(run) == 1)
        return true;
    options.first_flow = dt_executor_flow_count(device->executor);
    device->gradients = dt_gradients_create(&options);
    return device->gradients;
}

static bool create_executors(struct run *run)
{
    const struct dt_pipeline_sim_options *o = run->options;
    struct detour_profile largest = *o->profile;

    largest.microbatch_count = dt_pipeline_shares_largest(&o->shares, largest.microbatch_count);
    for (uint32_t i = 0; i < host_count(run); i++) {
        struct dt_executor_options options = {.device = (int32_t)i % device_count(run),
                                              .mode = o->mode,
                                              .message_bytes = o->message_bytes,
                                              .slice_bytes = o->slice_bytes,
                                              .slots = o->slots,
                                              .launch = o->launch};

        struct device *device = &run->device[i];

        device->executor = dt_executor_create(&options, &largest);
        if (device->executor && create_gradients(run, i))
            device->end = calloc(flow_count(device), sizeof *device->end);
        if (!device->end)
            return fail(run, "out of memory", i);
    }
    return true;
}

/* ---- an iteration ---- */

static const char *add(struct run *run, struct device *device, const struct dt_executor_order *order)
{
    size_t flows = dt_executor_flow_count(device->executor);
    bool sends = order->flow < flows ? dt_executor_get_flow(device->executor, order->flow)->sends
                                     : order->flow == flows;

    run->transfers++;
    run->sends += sends;
    return dt_pipeline_end_add(device->end[order->flow], order,
                               sends && run->sends == run->options->spoiled_send);
}

static bool next_order(struct device *device, uint64_t now_ns, struct dt_executor_order *order)
{
    return dt_executor_next(device->executor, now_ns, order) ||
           (device->gradients &&
            dt_gradients_next(device->gradients, dt_executor_get_account(device->executor).end_ns > 0,
                              order));
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
        while (!problem && next_order(device, now_ns, &order))
            problem = add(run, device, &order);
        for (size_t i = 0; i < flow_count(device) && !problem; i++) {
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

    for (uint32_t i = 0; i < host_count(run); i++)
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

static bool is_done(const struct device *device)
{
    return dt_executor_is_done(device->executor) &&
           (!device->gradients || dt_gradients_is_done(device->gradients));
}

/* The first host that has not finished; host_count: all have. */
static uint32_t first_open(const struct run *run)
{
    uint32_t i = 0;

    while (i < host_count(run) && is_done(&run->device[i]))
        i++;
    return i;
}

static bool check_gradients(struct run *run)
{
    uint64_t wrong;

    for (uint32_t i = 0; i < host_count(run); i++)
        if (run->device[i].gradients && !dt_gradients_check(run->device[i].gradients, &wrong))
            return fail(run, "a gradient is not the sum over the replicas", i);
    return true;
}

static uint64_t next_due_ns(const struct run *run)
{
    uint64_t due_ns = DT_NEVER_NS;

    for (uint32_t i = 0; i < host_count(run); i++)
        due_ns = dt_earlier_ns(due_ns, dt_executor_due_ns(run->device[i].executor));
    return due_ns;
}

static void summarize(const struct run *run, uint64_t began_ns, struct dt_pipeline_sim_result *result)
{
    *result = (struct dt_pipeline_sim_result){.complete_ns = dt_cluster_now_ns(run->cluster) - began_ns,
                                              .transfers = run->transfers};
    for (uint32_t i = 0; i < host_count(run); i++) {
        const struct device *device = &run->device[i];
        struct dt_executor_account account = dt_executor_get_account(device->executor);
        uint64_t end_ns = device->gradients ? dt_gradients_end_ns(device->gradients) : account.end_ns;

        result->iteration_ns = dt_max_u64(result->iteration_ns, end_ns - began_ns);
        result->pipeline_ns = dt_max_u64(result->pipeline_ns, account.end_ns - began_ns);
        result->compute_ns += account.compute_ns;
        result->wait_ns += account.wait_ns;
        result->held_ns += account.held_ns;
    }
}

/* ---- between iterations ---- */

/* When a message of a stage was handled at a device: of a send or receive of this kind. */
static struct dt_executor_span span_of(const struct run *run, uint32_t device, int kind, int32_t stage,
                                       int32_t microbatch)
{
    const struct dt_executor_span *spans = dt_executor_spans(run->device[device].executor);
    const struct detour_program *program = run->program;

    for (size_t i = program->first[device]; i < program->first[device + 1]; i++) {
        const struct detour_action *action = &program->actions[i];

        if (action->kind == kind && action->stage == stage && action->microbatch == microbatch)
            return spans[i - program->first[device]];
    }
    DT_CHECK(false);
    return (struct dt_executor_span){0};
}

static uint64_t mean_transit_ns(const struct run *run, const struct connection *c)
{
    int32_t from = c->backward ? c->link + 1 : c->link, to = c->backward ? c->link : c->link + 1;
    int32_t count = run->options->profile->microbatch_count;
    uint64_t sum_ns = 0;

    for (int32_t i = 0; i < count; i++) {
        struct dt_executor_span sent =
            span_of(run, c->c.from, c->backward ? DETOUR_ACTION_SEND_B : DETOUR_ACTION_SEND_F, from, i);
        struct dt_executor_span received =
            span_of(run, c->c.to, c->backward ? DETOUR_ACTION_RECV_B : DETOUR_ACTION_RECV_F, to, i);

        sum_ns += received.end_ns - dt_max_u64(sent.start_ns, received.start_ns);
    }
    return sum_ns / (uint64_t)count;
}

static void choose_program(struct run *run, uint32_t iteration)
{
    struct dt_pipeline_sim_transit transit = {0};
    const struct detour_program *next;

    if (!run->options->after)
        return;
    for (uint32_t i = 0; i < run->connection_count; i++) {
        const struct connection *c = &run->connection[i];

        (c->backward ? transit.backward_ns : transit.forward_ns)[c->link] = mean_transit_ns(run, c);
    }
    next = run->options->after(run->options->after_arg, iteration, &transit);
    run->program = next ? next : run->options->program;
}

static bool run_iteration(struct run *run, uint32_t iteration, struct dt_pipeline_sim_result *result)
{
    uint64_t began_ns = dt_cluster_now_ns(run->cluster);
    uint32_t open;

    run->transfers = run->sends = 0;
    for (uint32_t i = 0; i < host_count(run); i++) {
        const struct dt_executor_work work = dt_pipeline_sim_work(run->options, run->program, i, iteration);

        if (run->device[i].gradients)
            dt_gradients_begin(run->device[i].gradients, iteration,
                               dt_pipeline_sim_share(run->options, i, iteration));
        if (!dt_executor_begin(run->device[i].executor, &work, began_ns))
            return fail(run, "out of memory", i);
        dt_cluster_wake(run->cluster, i);
    }
    while (run_hosts(run)) {
        open = first_open(run);
        if (open == host_count(run)) {
            summarize(run, began_ns, result);
            return check_gradients(run);
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
    for (uint32_t i = 0; run->device && i < host_count(run); i++) {
        struct device *device = &run->device[i];

        for (size_t k = 0; device->end && k < flow_count(device); k++)
            dt_pipeline_end_destroy(device->end[k]);
        free(device->end);
        dt_gradients_destroy(device->gradients);
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
    struct run run = {.options = options, .program = options->program, .failure = failure};
    bool is_good;

    failure[0] = 0;
    run.device = calloc(host_count(&run), sizeof *run.device);
    is_good = run.device && list_connections(&run) && create_executors(&run) && start_cluster(&run) &&
              connect_all(&run);
    for (uint32_t i = 0; is_good && i < options->iteration_count; i++) {
        is_good = run_iteration(&run, i, &results[i]);
        if (is_good)
            choose_program(&run, i);
    }
    if (!is_good && !failure[0])
        snprintf(failure, DT_PIPELINE_SIM_TEXT_BYTES, "the plugin does not start, or memory is short");
    clean_up(&run);
    return is_good;
}
