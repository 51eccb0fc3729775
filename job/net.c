/* SPDX-License-Identifier: Apache-2.0 */
#include "job/net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/exit.h"
#include "job/exchange.h"
#include "job/job.h"

/* ---- Listening. ---- */

static bool listen_one(struct dt_job_net *net, struct dt_job_connection *connection,
                       struct dt_job_error *error)
{
    ncclNetProperties_v8_t properties;

    if (!dt_job_plugin_properties(&net->plugin, connection->dev, &properties, error))
        return false;
    ncclResult_t result =
        net->plugin.net->listen(connection->dev, connection->handle, &connection->listen_comm);
    if (result)
        return dt_job_call_failed(&net->plugin, "listen", result, error);
    if (!connection->listen_comm)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: listen of plugin %s gave no listenComm",
                           net->rank, net->plugin.net->name);
    return true;
}

bool dt_job_net_listen(struct dt_job_net *net, struct dt_job_error *error)
{
    for (size_t i = 0; i < net->connection_count; i++) {
        struct dt_job_connection *connection = &net->connections[i];

        DT_CHECK(connection->peer < net->ranks && connection->dev < net->plugin.device_count);
        if (!connection->sends && !listen_one(net, connection, error))
            return false;
    }
    return true;
}

/* ---- Exchanging handles: each goes to the one rank that connects with it. ---- */

struct handle_record {
    struct dt_job_record peer; /* that connects; where the record arrives: that listens */
    uint32_t channel;
    char handle[NCCL_NET_HANDLE_MAXSIZE];
};

DT_STATIC_CHECK(sizeof(struct handle_record) + sizeof(struct dt_job_delivery) <=
                    DT_JOB_FRAME_BYTES_MAX / DT_JOB_RANKS_MAX,
                "a part of the largest job has room for a handle");

/* Returns the number of records. */
static size_t fill_records(const struct dt_job_net *net, struct handle_record *records)
{
    size_t count = 0;

    for (size_t i = 0; i < net->connection_count; i++) {
        const struct dt_job_connection *connection = &net->connections[i];
        struct handle_record *record = &records[count];

        if (connection->sends)
            continue;
        record->peer.rank = connection->peer;
        record->channel = connection->channel;
        memcpy(record->handle, connection->handle, sizeof record->handle);
        count++;
    }
    return count;
}

static bool take_record(struct dt_job_net *net, const struct handle_record *record,
                        struct dt_job_error *error)
{
    unsigned receiver = record->peer.rank;

    for (size_t i = 0; i < net->connection_count; i++) {
        struct dt_job_connection *connection = &net->connections[i];

        if (!connection->sends || connection->has_handle || connection->peer != receiver ||
            connection->channel != record->channel)
            continue;
        memcpy(connection->handle, record->handle, sizeof connection->handle);
        connection->has_handle = true;
        return true;
    }
    return dt_job_fail(error, DT_EXIT_FAILED,
                       "rank %u does not send over channel %u to rank %u, which listens for it", net->rank,
                       record->channel, receiver);
}

static bool check_handles(const struct dt_job_net *net, struct dt_job_error *error)
{
    for (size_t i = 0; i < net->connection_count; i++) {
        const struct dt_job_connection *connection = &net->connections[i];

        if (connection->sends && !connection->has_handle)
            return dt_job_fail(error, DT_EXIT_FAILED,
                               "rank %u sends over channel %u to rank %u, which does not "
                               "listen for it",
                               net->rank, connection->channel, connection->peer);
    }
    return true;
}

bool dt_job_net_exchange(struct dt_job_net *net, struct dt_job_link *link, struct dt_job_error *error)
{
    struct handle_record *records = calloc(net->connection_count + 1, sizeof *records);
    struct handle_record *arrived;
    void *answer = NULL;
    size_t count = 0;
    bool ok;

    if (!records)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: out of memory", net->rank);
    ok = dt_job_deliver(link, records, fill_records(net, records), sizeof *records, &answer, &count, error);
    arrived = answer;
    for (size_t i = 0; ok && i < count; i++)
        ok = take_record(net, &arrived[i], error);
    free(answer);
    free(records);
    return ok && check_handles(net, error);
}

/* ---- Connecting. ---- */

/* Memory of its own pages, so that an access after its release is a fault. */
static bool register_buffer(struct dt_job_net *net, struct dt_job_connection *connection,
                            struct dt_job_error *error)
{
    size_t bytes = connection->buffer_bytes;
    void *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (buffer == MAP_FAILED)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: cannot get %zu bytes for a connection: %s",
                           net->rank, bytes, strerror(errno));
    memset(buffer, 0, bytes);
    connection->buffer = buffer;
    ncclResult_t result =
        net->plugin.net->regMr(connection->comm, buffer, bytes, NCCL_PTR_HOST, &connection->mhandle);
    if (result)
        return dt_job_call_failed(&net->plugin, "regMr", result, error);
    dt_fetch_add_relaxed(&net->connected, 1);
    return true;
}

static bool try_connect(struct dt_job_net *net, struct dt_job_connection *connection,
                        struct dt_job_error *error)
{
    ncclNetDeviceHandle_v8_t *device_handle = NULL;
    /* NCCL passes the last argument in some places and NULL in others. */
    ncclResult_t result = net->plugin.net->connect(connection->dev, connection->handle, &connection->comm,
                                                   connection->channel % 2 ? NULL : &device_handle);

    if (!result)
        return true;
    if (connection->comm)
        net->plugin.net->closeSend(connection->comm);
    connection->comm = NULL;
    return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: connect of plugin %s to rank %u failed: %s",
                       net->rank, net->plugin.net->name, connection->peer, dt_job_result_text(result));
}

static bool try_accept(struct dt_job_net *net, struct dt_job_connection *connection,
                       struct dt_job_error *error)
{
    ncclNetDeviceHandle_v8_t *device_handle = NULL;
    ncclResult_t result = net->plugin.net->accept(connection->listen_comm, &connection->comm,
                                                  connection->channel % 2 ? NULL : &device_handle);

    if (result)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: accept of plugin %s from rank %u failed: %s",
                           net->rank, net->plugin.net->name, connection->peer, dt_job_result_text(result));
    if (!connection->comm)
        return true;
    result = net->plugin.net->closeListen(connection->listen_comm);
    connection->listen_comm = NULL;
    return result ? dt_job_call_failed(&net->plugin, "closeListen", result, error) : true;
}

/* Tries once more, unless the connection is complete. */
static bool advance(struct dt_job_net *net, struct dt_job_connection *connection, struct dt_job_error *error)
{
    if (connection->buffer)
        return true;
    if (!(connection->sends ? try_connect : try_accept)(net, connection, error))
        return false;
    if (!connection->comm)
        return true;
    dt_fetch_add_relaxed(&net->heartbeat, 1);
    return register_buffer(net, connection, error);
}

bool dt_job_net_connect(struct dt_job_net *net, struct dt_job_error *error)
{
    const struct timespec pause = {.tv_nsec = 50 * (long)DT_NS_PER_US};

    for (;;) {
        for (size_t i = 0; i < net->connection_count; i++) {
            if (!advance(net, &net->connections[i], error))
                return false;
        }
        if (net->connected == net->connection_count)
            return true;
        nanosleep(&pause, NULL);
    }
}

/* ---- Closing. ---- */

static bool close_connection(struct dt_job_net *net, struct dt_job_connection *connection,
                             struct dt_job_error *error)
{
    const ncclNet_v8_t *table = net->plugin.net;
    ncclResult_t result = table->deregMr(connection->comm, connection->mhandle);

    if (result)
        return dt_job_call_failed(&net->plugin, "deregMr", result, error);
    munmap(connection->buffer, connection->buffer_bytes);
    connection->buffer = NULL;
    result = (connection->sends ? table->closeSend : table->closeRecv)(connection->comm);
    connection->comm = NULL;
    dt_fetch_add_relaxed(&net->heartbeat, 1);
    return result ? dt_job_call_failed(&net->plugin, connection->sends ? "closeSend" : "closeRecv", result,
                                       error)
                  : true;
}

static bool close_all(struct dt_job_net *net, bool sends, struct dt_job_error *error)
{
    for (size_t i = 0; i < net->connection_count; i++) {
        struct dt_job_connection *connection = &net->connections[i];

        if (connection->sends == sends && !close_connection(net, connection, error))
            return false;
    }
    return true;
}

bool dt_job_net_close(struct dt_job_net *net, struct dt_job_error *error)
{
    return close_all(net, true, error) && close_all(net, false, error);
}
