/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/courier.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/exit.h"

/* A transfer of the iteration. */
struct transfer {
    struct dt_executor_order order;
    void *request; /* NULL: not posted, or complete */
};

/* A flow's transfers, in order: completed <= posted <= ordered <= the iteration's total. */
struct lane {
    struct transfer *transfers;
    uint64_t total;
    uint64_t ordered;
    uint64_t posted;
    uint64_t completed;
};

struct dt_pipeline_courier {
    struct dt_pipeline_courier_options options;
    size_t flow_count; /* of the executor; those of the gradients follow */
    size_t lane_count;
    struct lane *lanes; /* [flow] */
    struct dt_job_connection *connections;
};

static unsigned rank_at(const struct dt_pipeline_courier_options *options,
                        struct dt_pipeline_position position)
{
    unsigned number = dt_pipeline_rank_of(options->devices, position);

    return options->ranks ? options->ranks[number] : number;
}

/* A connection to another device of the replica. */
static struct dt_job_connection describe_link(const struct dt_pipeline_courier_options *options, size_t flow)
{
    const struct dt_executor_flow *end = dt_executor_get_flow(options->executor, flow);
    const struct dt_pipeline_position peer = {end->peer, options->position.replica};

    return (struct dt_job_connection){
        .peer = rank_at(options, peer),
        .channel = 2 * (unsigned)end->link + end->backward,
        .sends = end->sends,
        .buffer_bytes = options->message_bytes * (size_t)options->microbatches,
    };
}

/* A connection to the same device of another replica. */
static struct dt_job_connection describe_ring(const struct dt_pipeline_courier_options *options, bool sends)
{
    const struct dt_pipeline_position peer = {options->position.device,
                                              dt_gradients_peer(options->gradients, sends)};

    return (struct dt_job_connection){
        .peer = rank_at(options, peer),
        .sends = sends,
        .buffer_bytes = options->gradient_slice_bytes * options->gradient_slots,
    };
}

static bool is_gradient(const struct dt_pipeline_courier *courier, size_t flow)
{
    return flow >= courier->flow_count;
}

static bool open_lane(struct dt_pipeline_courier *courier, size_t flow)
{
    const struct dt_pipeline_courier_options *options = &courier->options;
    struct lane *lane = &courier->lanes[flow];

    if (is_gradient(courier, flow)) {
        courier->connections[flow] = describe_ring(options, flow == courier->flow_count);
        lane->total = dt_gradients_transfers(options->gradients);
    } else {
        courier->connections[flow] = describe_link(options, flow);
        lane->total = (uint64_t)options->microbatches * dt_executor_slices(options->executor);
    }
    lane->transfers = calloc(lane->total, sizeof *lane->transfers);
    return lane->transfers;
}

struct dt_pipeline_courier *dt_pipeline_courier_create(const struct dt_pipeline_courier_options *options)
{
    struct dt_pipeline_courier *courier = calloc(1, sizeof *courier);
    size_t count = dt_executor_flow_count(options->executor) + (options->gradients ? 2 : 0);

    if (!courier)
        return NULL;
    courier->options = *options;
    courier->flow_count = dt_executor_flow_count(options->executor);
    courier->lanes = calloc(count + 1, sizeof *courier->lanes);
    /* Aligned for the handles inside. */
    courier->connections = aligned_alloc(16, (count + 1) * sizeof *courier->connections);
    bool made = courier->lanes && courier->connections;
    for (size_t i = 0; made && i < count; i++) {
        made = open_lane(courier, i);
        courier->lane_count++;
    }
    if (made)
        return courier;
    dt_pipeline_courier_destroy(courier);
    return NULL;
}

void dt_pipeline_courier_destroy(struct dt_pipeline_courier *courier)
{
    if (!courier)
        return;
    for (size_t i = 0; i < courier->lane_count; i++)
        free(courier->lanes[i].transfers);
    free(courier->lanes);
    free(courier->connections);
    free(courier);
}

struct dt_job_connection *dt_pipeline_courier_connections(struct dt_pipeline_courier *courier)
{
    return courier->connections;
}

size_t dt_pipeline_courier_connection_count(const struct dt_pipeline_courier *courier)
{
    return courier->lane_count;
}

void dt_pipeline_courier_take(struct dt_pipeline_courier *courier, const struct dt_executor_order *order)
{
    struct lane *lane = &courier->lanes[order->flow];

    DT_CHECK(order->flow < courier->lane_count && order->number == lane->ordered &&
             lane->ordered < lane->total);
    lane->transfers[lane->ordered++] = (struct transfer){.order = *order};
}

/* Where the transfer lies in its flow's buffer. */
static char *place(const struct dt_pipeline_courier *courier, const struct dt_executor_order *order)
{
    const struct dt_pipeline_courier_options *options = &courier->options;
    char *buffer = courier->connections[order->flow].buffer;

    if (is_gradient(courier, order->flow))
        return buffer + order->number % options->gradient_slots * options->gradient_slice_bytes;
    uint64_t message = order->number / dt_executor_slices(options->executor);
    return buffer + message * options->message_bytes + order->offset_bytes;
}

/* Posts the lane's next transfer; its request stays NULL when the plugin cannot take it now. */
static bool post(struct dt_pipeline_courier *courier, size_t flow, const struct dt_job_plugin *plugin,
                 struct dt_job_error *error)
{
    const struct dt_job_connection *connection = &courier->connections[flow];
    struct lane *lane = &courier->lanes[flow];
    struct transfer *transfer = &lane->transfers[lane->posted];
    char *data = place(courier, &transfer->order);
    size_t bytes = transfer->order.bytes;

    if (connection->sends) {
        if (is_gradient(courier, flow))
            dt_gradients_pack(courier->options.gradients, &transfer->order, data);
        else
            dt_pipeline_payload_fill(data, bytes, &transfer->order.identity);
        return dt_job_isend(plugin, connection->comm, data, bytes, connection->mhandle, &transfer->request,
                            error);
    }
    /* The sender's rank is the tag of its messages. */
    return dt_job_irecv(plugin, connection->comm, data, bytes, (int)connection->peer, connection->mhandle,
                        &transfer->request, error);
}

static bool post_all(struct dt_pipeline_courier *courier, size_t flow, const struct dt_job_plugin *plugin,
                     struct dt_job_error *error)
{
    struct lane *lane = &courier->lanes[flow];

    while (lane->posted < lane->ordered) {
        if (!post(courier, flow, plugin, error))
            return false;
        if (!lane->transfers[lane->posted].request)
            return true;
        lane->posted++;
    }
    return true;
}

/* A slice of gradients has arrived; the end of the iteration shows whether all were right. */
static bool receive_gradients(struct dt_pipeline_courier *courier, const struct dt_job_plugin *plugin,
                              const struct transfer *transfer, size_t bytes, struct dt_job_error *error)
{
    const struct dt_executor_order *order = &transfer->order;
    struct dt_gradients *gradients = courier->options.gradients;
    char text[DT_EXECUTOR_TEXT_BYTES];

    if (bytes != order->bytes)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: %s has %zu bytes instead of %" PRIu64,
                           plugin->rank, dt_gradients_text(gradients, text), bytes, order->bytes);
    dt_gradients_received(gradients, order, place(courier, order), dt_clock_now_ns());
    return true;
}

/* The message has arrived: it must be the expected one, complete and unchanged. */
static bool receive(struct dt_pipeline_courier *courier, const struct dt_job_plugin *plugin,
                    const struct transfer *transfer, size_t bytes, struct dt_job_error *error)
{
    const struct dt_executor_order *order = &transfer->order;
    char text[DT_PIPELINE_IDENTITY_TEXT_BYTES], other[DT_PIPELINE_IDENTITY_TEXT_BYTES];
    const char *data = place(courier, order);

    dt_pipeline_identity_text(text, &order->identity);
    if (bytes != order->bytes)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: %s has %zu bytes instead of %" PRIu64,
                           plugin->rank, text, bytes, order->bytes);
    struct dt_pipeline_identity found = dt_pipeline_payload_identity(data);
    if (!dt_executor_received(courier->options.executor, order->flow, &found, dt_clock_now_ns()))
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: %s has arrived in the place of %s", plugin->rank,
                           dt_pipeline_identity_text(other, &found), text);
    size_t wrong = dt_pipeline_payload_check(data, bytes, &order->identity);
    if (wrong < bytes)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: %s is wrong from byte %zu of %zu on",
                           plugin->rank, text, wrong, bytes);
    memset((char *)data, 0, sizeof found); /* a message that is not written next time is then noticed */
    return true;
}

/* Looks at the lane's oldest posted transfer. */
static bool look(struct dt_pipeline_courier *courier, size_t flow, const struct dt_job_plugin *plugin,
                 bool *done, struct dt_job_error *error)
{
    struct lane *lane = &courier->lanes[flow];
    struct transfer *transfer = &lane->transfers[lane->completed];
    bool sends = courier->connections[flow].sends;
    size_t bytes = 0;

    if (!dt_job_test(plugin, transfer->request, done, &bytes, error))
        return false;
    if (!*done)
        return true;
    lane->completed++;
    transfer->request = NULL;
    if (!sends)
        return is_gradient(courier, flow) ? receive_gradients(courier, plugin, transfer, bytes, error)
                                          : receive(courier, plugin, transfer, bytes, error);
    if (is_gradient(courier, flow))
        dt_gradients_sent(courier->options.gradients, dt_clock_now_ns());
    else
        dt_executor_sent(courier->options.executor, flow, dt_clock_now_ns());
    return true;
}

bool dt_pipeline_courier_progress(struct dt_pipeline_courier *courier, const struct dt_job_plugin *plugin,
                                  uint64_t *completed, struct dt_job_error *error)
{
    for (size_t i = 0; i < courier->lane_count; i++) {
        struct lane *lane = &courier->lanes[i];
        bool done = true;

        if (!post_all(courier, i, plugin, error))
            return false;
        while (done && lane->completed < lane->posted) {
            if (!look(courier, i, plugin, &done, error))
                return false;
            *completed += done;
        }
    }
    return true;
}

void dt_pipeline_courier_reset(struct dt_pipeline_courier *courier)
{
    for (size_t i = 0; i < courier->lane_count; i++) {
        struct lane *lane = &courier->lanes[i];

        DT_CHECK(lane->completed == lane->ordered);
        lane->ordered = lane->posted = lane->completed = 0;
    }
}
