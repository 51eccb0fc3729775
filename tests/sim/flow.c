/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define GUARD_BYTES 32
#define POISON      0xa5

struct part {
    int tag;
    int bytes;
    int capacity;
    uint32_t send_at; /* offsets in the sender's and the receiver's pool */
    uint32_t recv_at;
    void *request;
    bool is_sent; /* its isend was accepted */
    bool is_send_done;
};

struct message {
    int part_count;
    struct part parts[DT_FLOW_PARTS_MAX];
    int order[DT_FLOW_PARTS_MAX]; /* in which the parts are listed in the irecv */
    void *request;
    bool is_posted;
    bool is_received;
};

struct dt_flow {
    const ncclNet_v8_t *net;
    struct dt_flow_options options;
    struct dt_prng prng;
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    void *listen_comm, *send_comm, *recv_comm;
    uint8_t *send_pool, *recv_pool;
    uint32_t send_bytes, recv_bytes;
    void *send_mhandle, *recv_mhandle;
    struct message messages[DT_FLOW_MESSAGES_MAX];
    uint32_t posted;    /* irecvs accepted */
    uint32_t received;  /* irecvs reported done; the oldest first, as NCCL asks */
    uint32_t sending;   /* message whose parts are being sent */
    uint32_t send_done; /* messages all of whose isends were reported done */
    char failure[256];
};

/* ---- the truth ------------------------------------------------------------------------------------------
 */

static uint8_t pattern(const struct dt_flow *flow, uint32_t message, int part, uint32_t offset)
{
    uint64_t x =
        ((uint64_t)flow->options.id << 40) ^ ((uint64_t)message << 24) ^ ((uint64_t)part << 20) ^ offset;

    x *= 0x9e3779b97f4a7c15ull;
    return (uint8_t)(x >> 56);
}

static int draw_bytes(struct dt_flow *flow)
{
    uint32_t max = flow->options.bytes_max;

    switch (dt_prng_below(&flow->prng, 6)) {
    case 0:
        return 0;
    case 1:
        return (int)dt_prng_between(&flow->prng, 1, 16);
    case 2: /* around the line of LL128, and the inline limit */
        return (int)dt_min_u64(max, dt_prng_between(&flow->prng, 60, 136));
    default:
        return (int)dt_prng_between(&flow->prng, 1, max);
    }
}

static void plan_message(struct dt_flow *flow, struct message *message)
{
    message->part_count = (int)dt_prng_between(&flow->prng, 1, flow->options.parts_max);
    for (int i = 0; i < message->part_count; i++) {
        struct part *part = &message->parts[i];

        part->tag = (int)dt_prng_below(&flow->prng, 1000) * DT_FLOW_PARTS_MAX + i;
        part->bytes = draw_bytes(flow);
        part->capacity = part->bytes;
        if (dt_prng_chance(&flow->prng, 1, 2))
            part->capacity += (int)dt_prng_below(&flow->prng, 5000);
        part->send_at = flow->send_bytes;
        part->recv_at = flow->recv_bytes + GUARD_BYTES;
        flow->send_bytes += (uint32_t)part->bytes;
        flow->recv_bytes = part->recv_at + (uint32_t)part->capacity + GUARD_BYTES;
        message->order[i] = i;
    }
    for (int i = message->part_count - 1; i > 0; i--) {
        int j = (int)dt_prng_below(&flow->prng, (uint64_t)i + 1), kept = message->order[i];

        message->order[i] = message->order[j];
        message->order[j] = kept;
    }
}

static bool make_pools(struct dt_flow *flow)
{
    flow->send_pool = malloc(flow->send_bytes + 1);
    flow->recv_pool = malloc(flow->recv_bytes + 1);
    if (!flow->send_pool || !flow->recv_pool)
        return false;
    memset(flow->recv_pool, POISON, flow->recv_bytes + 1);
    for (uint32_t m = 0; m < flow->options.message_count; m++) {
        for (int i = 0; i < flow->messages[m].part_count; i++) {
            const struct part *part = &flow->messages[m].parts[i];

            for (int b = 0; b < part->bytes; b++)
                flow->send_pool[part->send_at + (uint32_t)b] = pattern(flow, m, i, (uint32_t)b);
        }
    }
    return true;
}

static bool fail(struct dt_flow *flow, const char *what, uint32_t message, long detail)
{
    if (!flow->failure[0])
        snprintf(flow->failure, sizeof flow->failure, "flow %u: %s (message %u, %ld)", flow->options.id, what,
                 message, detail);
    return false;
}

/* The part's buffer and its guards hold exactly what they must. */
static bool check_part(struct dt_flow *flow, uint32_t m, int i, bool is_received)
{
    const struct part *part = &flow->messages[m].parts[i];
    const uint8_t *at = flow->recv_pool + part->recv_at;
    int bytes = is_received ? part->bytes : 0;

    for (int b = -GUARD_BYTES; b < part->capacity + GUARD_BYTES; b++) {
        uint8_t expected = b >= 0 && b < bytes ? pattern(flow, m, i, (uint32_t)b) : POISON;

        if (at[b] != expected)
            return fail(flow, "wrong byte in a receive buffer", m, b);
    }
    return true;
}

static bool check_message(struct dt_flow *flow, uint32_t m, bool is_received)
{
    for (int i = 0; i < flow->messages[m].part_count; i++)
        if (!check_part(flow, m, i, is_received))
            return false;
    return true;
}

/* ---- life -----------------------------------------------------------------------------------------------
 */

struct dt_flow *dt_flow_create(const ncclNet_v8_t *net, const struct dt_flow_options *options)
{
    struct dt_flow *flow = calloc(1, sizeof *flow);

    if (!flow)
        return NULL;
    flow->net = net;
    flow->options = *options;
    dt_prng_init_stream(&flow->prng, options->seed, options->id);
    for (uint32_t m = 0; m < options->message_count; m++)
        plan_message(flow, &flow->messages[m]);
    if (!make_pools(flow)) {
        free(flow->send_pool);
        free(flow->recv_pool);
        free(flow);
        return NULL;
    }
    return flow;
}

void dt_flow_destroy(struct dt_flow *flow)
{
    if (flow->send_comm && flow->send_mhandle)
        flow->net->deregMr(flow->send_comm, flow->send_mhandle);
    if (flow->recv_comm && flow->recv_mhandle)
        flow->net->deregMr(flow->recv_comm, flow->recv_mhandle);
    free(flow->send_pool);
    free(flow->recv_pool);
    if (flow->send_comm)
        flow->net->closeSend(flow->send_comm);
    if (flow->recv_comm)
        flow->net->closeRecv(flow->recv_comm);
    if (flow->listen_comm)
        flow->net->closeListen(flow->listen_comm);
    free(flow);
}

/* ---- set-up ---------------------------------------------------------------------------------------------
 */

static bool act_connect(struct dt_flow *flow)
{
    if (flow->net->connect(flow->options.send_device, flow->handle, &flow->send_comm, NULL) != ncclSuccess)
        return fail(flow, "connect failed", 0, 0);
    if (!flow->send_comm)
        return true;
    if (flow->net->regMr(flow->send_comm, flow->send_pool, flow->send_bytes + 1, NCCL_PTR_HOST,
                         &flow->send_mhandle) != ncclSuccess)
        return fail(flow, "regMr of the sender failed", 0, 0);
    return true;
}

static bool act_accept(struct dt_flow *flow)
{
    if (flow->net->accept(flow->listen_comm, &flow->recv_comm, NULL) != ncclSuccess)
        return fail(flow, "accept failed", 0, 0);
    if (!flow->recv_comm)
        return true;
    flow->net->closeListen(flow->listen_comm);
    flow->listen_comm = NULL;
    if (flow->net->regMr(flow->recv_comm, flow->recv_pool, flow->recv_bytes + 1, NCCL_PTR_HOST,
                         &flow->recv_mhandle) != ncclSuccess)
        return fail(flow, "regMr of the receiver failed", 0, 0);
    return true;
}

static bool act_setup(struct dt_flow *flow)
{
    if (!flow->listen_comm && !flow->recv_comm) {
        if (flow->net->listen(flow->options.recv_device, flow->handle, &flow->listen_comm) != ncclSuccess)
            return fail(flow, "listen failed", 0, 0);
        return true;
    }
    if (!flow->send_comm && dt_prng_chance(&flow->prng, 1, 2))
        return act_connect(flow);
    if (!flow->recv_comm)
        return act_accept(flow);
    return true;
}

/* ---- the receiver ---------------------------------------------------------------------------------------
 */

static bool act_irecv(struct dt_flow *flow)
{
    struct message *message = &flow->messages[flow->posted];
    void *data[DT_FLOW_PARTS_MAX], *mhandles[DT_FLOW_PARTS_MAX];
    int sizes[DT_FLOW_PARTS_MAX], tags[DT_FLOW_PARTS_MAX];
    void *request = (void *)(uintptr_t)0xdead; /* a stale pointer, as NCCL's callers have it */

    if (flow->posted == flow->options.message_count ||
        flow->posted - flow->received >= flow->options.posted_max)
        return true;
    /* Nothing may have written here before it was offered. */
    if (!check_message(flow, flow->posted, false))
        return false;
    for (int k = 0; k < message->part_count; k++) {
        const struct part *part = &message->parts[message->order[k]];

        data[k] = flow->recv_pool + part->recv_at;
        sizes[k] = part->capacity;
        tags[k] = part->tag;
        mhandles[k] = flow->recv_mhandle;
    }
    if (flow->net->irecv(flow->recv_comm, message->part_count, data, sizes, tags, mhandles, &request) !=
        ncclSuccess)
        return fail(flow, "irecv failed", flow->posted, 0);
    if (!request)
        return true;
    message->request = request;
    message->is_posted = true;
    flow->posted++;
    return true;
}

static bool act_test_recv(struct dt_flow *flow)
{
    struct message *message = &flow->messages[flow->received];
    int sizes[DT_FLOW_PARTS_MAX], done = 4711;

    if (flow->received == flow->posted)
        return true;
    if (flow->net->test(message->request, &done, sizes) != ncclSuccess)
        return fail(flow, "test of a receive failed", flow->received, 0);
    if (done != 0 && done != 1)
        return fail(flow, "done was not written", flow->received, done);
    if (!done)
        return true;
    for (int k = 0; k < message->part_count; k++)
        if (sizes[k] != message->parts[message->order[k]].bytes)
            return fail(flow, "wrong size reported", flow->received, sizes[k]);
    message->is_received = true;
    return check_message(flow, flow->received++, true);
}

/* ---- the sender -----------------------------------------------------------------------------------------
 */

static bool act_isend(struct dt_flow *flow)
{
    struct message *message = &flow->messages[flow->sending];
    void *request = (void *)(uintptr_t)0xdead;
    bool all = true;
    struct part *part;

    if (flow->sending == flow->options.message_count)
        return true;
    part = &message->parts[dt_prng_below(&flow->prng, (uint64_t)message->part_count)];
    if (part->is_sent)
        return true;
    if (flow->net->isend(flow->send_comm, flow->send_pool + part->send_at, part->bytes, part->tag,
                         flow->send_mhandle, &request) != ncclSuccess)
        return fail(flow, "isend failed", flow->sending, part->bytes);
    if (!request)
        return true;
    if (!message->is_posted)
        return fail(flow, "isend accepted before its irecv was posted", flow->sending, part->tag);
    part->request = request;
    part->is_sent = true;
    for (int i = 0; i < message->part_count; i++)
        all = all && message->parts[i].is_sent;
    flow->sending += all;
    return true;
}

static bool act_test_send(struct dt_flow *flow)
{
    struct message *message = &flow->messages[flow->send_done];
    bool all = true;

    if (flow->send_done == flow->options.message_count)
        return true;
    for (int i = 0; i < message->part_count; i++) {
        struct part *part = &message->parts[i];
        int done = 4711, size = -1;

        if (part->is_sent && !part->is_send_done) {
            if (flow->net->test(part->request, &done, &size) != ncclSuccess)
                return fail(flow, "test of a send failed", flow->send_done, i);
            if (done != 0 && done != 1)
                return fail(flow, "done was not written", flow->send_done, done);
            part->is_send_done = done;
        }
        all = all && part->is_send_done;
    }
    flow->send_done += all;
    return true;
}

/* ---- steps ----------------------------------------------------------------------------------------------
 */

bool dt_flow_act(struct dt_flow *flow)
{
    static bool (*const acts[])(struct dt_flow *) = {act_irecv, act_test_recv, act_isend, act_test_send};

    if (!flow->send_comm || !flow->recv_comm)
        return act_setup(flow);
    return acts[dt_prng_below(&flow->prng, 4)](flow);
}

bool dt_flow_is_finished(const struct dt_flow *flow)
{
    return flow->received == flow->options.message_count && flow->send_done == flow->options.message_count;
}

bool dt_flow_settle(struct dt_flow *flow)
{
    for (uint32_t m = 0; m < flow->options.message_count; m++)
        if (!check_message(flow, m, flow->messages[m].is_received))
            return false;
    return true;
}

const char *dt_flow_failure(struct dt_flow *flow)
{
    if (!flow->failure[0])
        snprintf(flow->failure, sizeof flow->failure,
                 "flow %u: %s, %u of %u posted, %u received, sending %u, %u sends done", flow->options.id,
                 flow->send_comm && flow->recv_comm ? "connected" : "not connected", flow->posted,
                 flow->options.message_count, flow->received, flow->sending, flow->send_done);
    return flow->failure;
}
