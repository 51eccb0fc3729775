/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends messages from this process to itself through a plugin, so that the instructions of its calls can be
 * counted (bench/instructions.sh). Every isend is made when its receive has long been posted, every
 * test when the message has long arrived: what is counted is the work of a message, not of waiting.
 *
 *   bench-messages PLUGIN BYTES COUNT
 *
 * Prints how many calls were made; more than one isend, one irecv and two tests per message mean that a call
 * came too early and the count is too high.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "job/net.h"

#define BATCH 8

enum { SENDING, RECEIVING, CONNECTIONS }; /* from this process to itself */

/* The functions whose instructions are counted, callees included. */
__attribute__((noinline)) bool counted_isend(struct dt_job_net *net, size_t bytes, void **request,
                                             struct dt_job_error *error);
__attribute__((noinline)) bool counted_irecv(struct dt_job_net *net, char *data, size_t bytes, void **request,
                                             struct dt_job_error *error);
__attribute__((noinline)) bool counted_receive_test(struct dt_job_net *net, void *request, bool *done,
                                                    struct dt_job_error *error);
__attribute__((noinline)) bool counted_test(struct dt_job_net *net, void *request, bool *done,
                                            struct dt_job_error *error);

bool counted_isend(struct dt_job_net *net, size_t bytes, void **request, struct dt_job_error *error)
{
    struct dt_job_connection *connection = &net->connections[SENDING];
    ncclResult_t result = net->plugin.net->isend(connection->comm, connection->buffer, (int)bytes, 0,
                                                 connection->mhandle, request);

    return result ? dt_job_call_failed(&net->plugin, "isend", result, error) : true;
}

static inline bool test(struct dt_job_net *net, void *request, bool *done, struct dt_job_error *error)
{
    int is_done;
    int size;
    ncclResult_t result = net->plugin.net->test(request, &is_done, &size);

    *done = !result && is_done;
    return result ? dt_job_call_failed(&net->plugin, "test", result, error) : true;
}

bool counted_test(struct dt_job_net *net, void *request, bool *done, struct dt_job_error *error)
{
    return test(net, request, done, error);
}

/* A toggle within another one would switch the counting off. */
bool counted_receive_test(struct dt_job_net *net, void *request, bool *done, struct dt_job_error *error)
{
    return test(net, request, done, error);
}

bool counted_irecv(struct dt_job_net *net, char *data, size_t bytes, void **request,
                   struct dt_job_error *error)
{
    struct dt_job_connection *connection = &net->connections[RECEIVING];
    int size = (int)bytes, tag = 0;
    void *buffer = data;
    ncclResult_t result =
        net->plugin.net->irecv(connection->comm, 1, &buffer, &size, &tag, &connection->mhandle, request);

    return result ? dt_job_call_failed(&net->plugin, "irecv", result, error) : true;
}

static unsigned long isends;
static unsigned long irecvs;
static unsigned long tests;

/* Lets the plugin's and the device's own threads do what is left to do. True. */
static bool settle(void)
{
    const struct timespec pause = {.tv_nsec = 20 * (long)DT_NS_PER_MS};

    nanosleep(&pause, NULL);
    return true;
}

static bool post_receives(struct dt_job_net *net, size_t bytes, void **requests, struct dt_job_error *error)
{
    struct dt_job_connection *connection = &net->connections[RECEIVING];

    for (int i = 0; i < BATCH; i++) {
        do {
            irecvs++;
            if (!counted_irecv(net, connection->buffer + i * bytes, bytes, &requests[i], error))
                return false;
        } while (!requests[i] && settle());
    }
    return true;
}

static bool finish_receives(struct dt_job_net *net, void **requests, struct dt_job_error *error)
{
    for (int i = 0; i < BATCH; i++) {
        bool done;

        do {
            tests++;
            if (!counted_receive_test(net, requests[i], &done, error))
                return false;
        } while (!done && settle());
    }
    return true;
}

static bool send_batch(struct dt_job_net *net, size_t bytes, struct dt_job_error *error)
{
    void *receives[BATCH];
    void *sends[BATCH];

    if (!post_receives(net, bytes, receives, error))
        return false;
    settle();
    for (int i = 0; i < BATCH; i++) {
        do {
            isends++;
            if (!counted_isend(net, bytes, &sends[i], error))
                return false;
        } while (!sends[i] && settle());
    }
    settle();
    if (!finish_receives(net, receives, error))
        return false;
    settle();
    for (int i = 0; i < BATCH; i++) {
        bool done;

        do {
            tests++;
            if (!counted_test(net, sends[i], &done, error))
                return false;
        } while (!done && settle());
    }
    return true;
}

static bool run(const char *path, size_t bytes, unsigned long count, struct dt_job_error *error)
{
    struct dt_job_connection connections[CONNECTIONS] = {
        [SENDING] = {.sends = true, .buffer_bytes = bytes * BATCH + 4096},
        [RECEIVING] = {.buffer_bytes = bytes * BATCH + 4096},
    };
    struct dt_job_net net = {.ranks = 1};

    if (!dt_job_plugin_load(&net.plugin, path, 0, getenv("NCCL_DEBUG"), error) ||
        !dt_job_plugin_init(&net.plugin, error))
        return false;
    net.connections = connections;
    net.connection_count = CONNECTIONS;
    if (!dt_job_net_listen(&net, error))
        return false;
    memcpy(connections[SENDING].handle, connections[RECEIVING].handle, NCCL_NET_HANDLE_MAXSIZE);
    if (!dt_job_net_connect(&net, error))
        return false;
    for (unsigned long sent = 0; sent < count; sent += BATCH) {
        if (!send_batch(&net, bytes, error))
            return false;
    }
    return dt_job_net_close(&net, error);
}

int main(int argc, char **argv)
{
    struct dt_job_error error = {0};

    if (argc != 4) {
        fprintf(stderr, "usage: bench-messages PLUGIN BYTES COUNT\n");
        return 2;
    }
    unsigned long bytes = strtoul(argv[2], NULL, 10);
    unsigned long count = strtoul(argv[3], NULL, 10) / BATCH * BATCH;
    if (!run(argv[1], bytes, count, &error)) {
        fprintf(stderr, "bench-messages: %s\n", error.text);
        return error.exit_code;
    }
    printf("messages %lu isend %lu irecv %lu test %lu\n", count, isends, irecvs, tests);
    return 0;
}
