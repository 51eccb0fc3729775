/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "cli/command.h"

struct dt_perf_connection *dt_perf_net_sending(struct dt_perf_net *net, unsigned channel, unsigned distance)
{
    return &net->sending[channel * net->distances + distance - 1];
}

struct dt_perf_connection *dt_perf_net_receiving(struct dt_perf_net *net, unsigned channel, unsigned distance)
{
    return &net->receiving[channel * net->distances + distance - 1];
}

size_t dt_perf_net_handle_count(const struct dt_perf_net *net)
{
    return (size_t)net->channels * net->distances;
}

static void init_connection(struct dt_perf_net *net, size_t index, bool sends)
{
    struct dt_perf_connection *connection = sends ? &net->sending[index] : &net->receiving[index];
    unsigned distance = (unsigned)(index % net->distances) + 1;

    connection->channel = (unsigned)(index / net->distances);
    connection->distance = distance;
    connection->dev = (int)(connection->channel % (unsigned)net->plugin.device_count);
    connection->sends = sends;
    connection->peer = sends ? (net->rank + distance) % net->ranks
                             : (net->rank + net->ranks - distance % net->ranks) % net->ranks;
}

bool dt_perf_net_init(struct dt_perf_net *net, struct dt_perf_error *error)
{
    size_t count = dt_perf_net_handle_count(net);

    net->sending = calloc(count, sizeof *net->sending);
    net->receiving = calloc(count, sizeof *net->receiving);
    if (!net->sending || !net->receiving)
        return dt_perf_fail(error, DT_EXIT_FAILED, "rank %u: out of memory", net->rank);
    for (size_t i = 0; i < count; i++) {
        init_connection(net, i, true);
        init_connection(net, i, false);
    }
    return true;
}

bool dt_perf_net_listen(struct dt_perf_net *net, char *handles, struct dt_perf_error *error)
{
    for (size_t i = 0; i < dt_perf_net_handle_count(net); i++) {
        struct dt_perf_connection *connection = &net->receiving[i];
        ncclNetProperties_v8_t properties;

        if (!dt_perf_plugin_properties(&net->plugin, connection->dev, &properties, error))
            return false;
        ncclResult_t result = net->plugin.net->listen(connection->dev, handles + i * NCCL_NET_HANDLE_MAXSIZE,
                                                      &connection->listen_comm);
        if (result)
            return dt_perf_call_failed(&net->plugin, "listen", result, error);
        if (!connection->listen_comm)
            return dt_perf_fail(error, DT_EXIT_FAILED, "rank %u: listen of plugin %s gave no listenComm",
                                net->rank, net->plugin.net->name);
    }
    return true;
}

/* Memory of its own pages, so that whoever touches it after it was freed is caught. */
static bool register_buffer(struct dt_perf_net *net, struct dt_perf_connection *connection,
                            struct dt_perf_error *error)
{
    size_t bytes = net->buffer_bytes;
    void *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (buffer == MAP_FAILED)
        return dt_perf_fail(error, DT_EXIT_FAILED, "rank %u: cannot get %zu bytes for a connection: %s",
                            net->rank, bytes, strerror(errno));
    memset(buffer, 0, bytes);
    connection->buffer = buffer;
    connection->buffer_bytes = bytes;
    ncclResult_t result =
        net->plugin.net->regMr(connection->comm, buffer, bytes, NCCL_PTR_HOST, &connection->mhandle);
    if (result)
        return dt_perf_call_failed(&net->plugin, "regMr", result, error);
    dt_fetch_add_relaxed(&net->connected, 1);
    return true;
}

static bool try_connect(struct dt_perf_net *net, struct dt_perf_connection *connection,
                        struct dt_perf_error *error)
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
    return dt_perf_fail(error, DT_EXIT_FAILED, "rank %u: connect of plugin %s to rank %u failed: %s",
                        net->rank, net->plugin.net->name, connection->peer, dt_perf_result_text(result));
}

static bool try_accept(struct dt_perf_net *net, struct dt_perf_connection *connection,
                       struct dt_perf_error *error)
{
    ncclNetDeviceHandle_v8_t *device_handle = NULL;
    ncclResult_t result = net->plugin.net->accept(connection->listen_comm, &connection->comm,
                                                  connection->channel % 2 ? NULL : &device_handle);

    if (result)
        return dt_perf_fail(error, DT_EXIT_FAILED, "rank %u: accept of plugin %s from rank %u failed: %s",
                            net->rank, net->plugin.net->name, connection->peer, dt_perf_result_text(result));
    if (!connection->comm)
        return true;
    result = net->plugin.net->closeListen(connection->listen_comm);
    connection->listen_comm = NULL;
    return result ? dt_perf_call_failed(&net->plugin, "closeListen", result, error) : true;
}

/* One more try for a connection that is not there yet. */
static bool advance(struct dt_perf_net *net, struct dt_perf_connection *connection,
                    struct dt_perf_error *error)
{
    if (connection->buffer)
        return true;
    if (!(connection->sends ? try_connect : try_accept)(net, connection, error))
        return false;
    if (!connection->comm)
        return true;
    dt_fetch_add_relaxed(net->heartbeat, 1);
    return register_buffer(net, connection, error);
}

bool dt_perf_net_connect(struct dt_perf_net *net, const char *all_handles, struct dt_perf_error *error)
{
    const struct timespec pause = {.tv_nsec = 50 * (long)DT_NS_PER_US};
    size_t count = dt_perf_net_handle_count(net);

    for (size_t i = 0; i < count; i++)
        memcpy(net->sending[i].handle,
               all_handles + (net->sending[i].peer * count + i) * NCCL_NET_HANDLE_MAXSIZE,
               NCCL_NET_HANDLE_MAXSIZE);
    for (;;) {
        for (size_t i = 0; i < count; i++) {
            if (!advance(net, &net->sending[i], error) || !advance(net, &net->receiving[i], error))
                return false;
        }
        if (net->connected == 2 * count)
            return true;
        nanosleep(&pause, NULL);
    }
}

static bool close_connection(struct dt_perf_net *net, struct dt_perf_connection *connection,
                             struct dt_perf_error *error)
{
    const ncclNet_v8_t *table = net->plugin.net;
    ncclResult_t result = table->deregMr(connection->comm, connection->mhandle);

    if (result)
        return dt_perf_call_failed(&net->plugin, "deregMr", result, error);
    munmap(connection->buffer, connection->buffer_bytes);
    connection->buffer = NULL;
    result = (connection->sends ? table->closeSend : table->closeRecv)(connection->comm);
    connection->comm = NULL;
    dt_fetch_add_relaxed(net->heartbeat, 1);
    return result ? dt_perf_call_failed(&net->plugin, connection->sends ? "closeSend" : "closeRecv", result,
                                        error)
                  : true;
}

bool dt_perf_net_close(struct dt_perf_net *net, struct dt_perf_error *error)
{
    size_t count = dt_perf_net_handle_count(net);

    for (size_t i = 0; i < count; i++) {
        if (!close_connection(net, &net->sending[i], error))
            return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!close_connection(net, &net->receiving[i], error))
            return false;
    }
    free(net->sending);
    free(net->receiving);
    net->sending = NULL;
    net->receiving = NULL;
    return true;
}
