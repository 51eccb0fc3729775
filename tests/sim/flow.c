/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "tests/sim/cuda_sim.h"
#include "tests/sim/gpu_writes.h"
#include "tests/sim/verbs_sim.h"
#include "tests/sim/driver_sim.h"
#include "tests/sim/plugin_sim.h"
#include "tests/sim/trace.h"

enum end_state {
    END_LIVE,   /* or being set up */
    END_FAILED, /* a call returned an error: everything open is to be answered */
    END_CLOSED,
    END_DEAD /* its process is no more, and nobody calls */
};

struct end {
    void *comm;
    void *mhandle;
    uint32_t state;
    ncclResult_t error;
};

/* What the calls have said about a part, and about a message. */
struct sending {
    void *request;
    bool is_accepted;
    bool is_done;
    bool is_answered; /* done, or an error */
};

struct receiving {
    void *request;
    void *flush;
    bool is_done;
    bool is_answered;
};

struct dt_flow {
    const ncclNet_v8_t *net;
    struct dt_flow_options options;
    struct dt_prng prng;
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    void *listen_comm;
    struct end end[DT_FLOW_SIDES];
    struct dt_plan plan;
    struct sending sending[DT_FLOW_MESSAGES_MAX * DT_FLOW_PARTS_MAX];
    struct receiving receiving[DT_FLOW_MESSAGES_MAX];
    uint32_t posted;    /* irecvs accepted */
    uint32_t received;  /* irecvs reported done (and flushed); the oldest first, as NCCL asks */
    uint32_t next_send; /* message whose parts are being sent */
    uint64_t resume_ns; /* not before then */
    uint64_t irecv_ns;  /* the next irecv: not before then */
    uint32_t send_done; /* messages all of whose isends were reported done */
    char failure[320];
};

static const char *const side_name[] = {"sender", "receiver"};

static bool fail(struct dt_flow *flow, enum dt_flow_side side, const char *what, uint32_t message,
                 long detail)
{
    if (!flow->failure[0])
        snprintf(flow->failure, sizeof flow->failure, "flow %u, %s: %s (message %u, %ld)",
                 flow->options.plan.id, side_name[side], what, message, detail);
    return false;
}

static uint64_t now_ns(void)
{
    return dt_sim_now_ns(dt_driver_sim_network());
}

bool dt_flow_is_wrong(const struct dt_flow *flow)
{
    return flow->failure[0] || flow->plan.wrong[0];
}

static bool is_right(const struct dt_flow *flow)
{
    return !dt_flow_is_wrong(flow);
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
    dt_prng_init_stream(&flow->prng, options->plan.seed, options->plan.id);
    if (!dt_plan_make(&flow->plan, &options->plan)) {
        dt_plan_free(&flow->plan);
        free(flow);
        return NULL;
    }
    return flow;
}

static void close_end(struct dt_flow *flow, enum dt_flow_side side)
{
    struct end *end = &flow->end[side];

    dt_plugin_sim_enter(flow->options.side[side].host);
    if (end->comm && end->mhandle)
        flow->net->deregMr(end->comm, end->mhandle);
    if (side == DT_FLOW_RECEIVER)
        flow->plan.is_registered = false;
    if (end->comm && side == DT_FLOW_SENDER)
        flow->net->closeSend(end->comm);
    else if (end->comm)
        flow->net->closeRecv(end->comm);
    if (side == DT_FLOW_RECEIVER && flow->listen_comm) {
        flow->net->closeListen(flow->listen_comm);
        flow->listen_comm = NULL;
    }
    end->comm = end->mhandle = NULL;
    end->state = END_CLOSED;
    dt_say("flow %u: %s closed", flow->options.plan.id, side_name[side]);
}

void dt_flow_destroy(struct dt_flow *flow)
{
    for (int side = 0; side < DT_FLOW_SIDES; side++)
        if (flow->end[side].state != END_CLOSED)
            close_end(flow, (enum dt_flow_side)side);
    dt_plan_free(&flow->plan);
    free(flow);
}

/* ---- errors ---------------------------------------------------------------------------------------------
 */

/* A send was reported done whose message the receiver has not been told about. */
static bool has_unseen(const struct dt_flow *flow)
{
    for (uint32_t i = 0; i < flow->plan.part_count; i++)
        if (flow->sending[i].is_done && !flow->receiving[flow->plan.part[i].message].is_done)
            return true;
    return false;
}

/* A call returned an error: the end is over. */
static bool take_error(struct dt_flow *flow, enum dt_flow_side side, ncclResult_t result, const char *call,
                       uint32_t message)
{
    struct end *end = &flow->end[side];

    bool is_other_over = flow->end[!side].error != ncclSuccess;
    bool is_allowed = flow->options.mercy == DT_MERCY_ANY || dt_flow_is_bereaved(flow) ||
                      (flow->options.mercy == DT_MERCY_UNSEEN && has_unseen(flow));

    if (!is_allowed && !is_other_over)
        return fail(flow, side, call, message, result);
    if (end->state == END_LIVE) {
        end->state = END_FAILED;
        end->error = result;
        dt_say("flow %u: %s ends with error %d (%s, message %u)", flow->options.plan.id, side_name[side],
               (int)result, call, message);
    }
    return true;
}

/* The application has its buffers back. */
static void give_back_message(struct dt_flow *flow, uint32_t m)
{
    flow->receiving[m].is_answered = true;
    flow->plan.message[m].is_open = false;
}

static void give_back_part(struct dt_flow *flow, uint32_t index)
{
    flow->sending[index].is_answered = true;
    dt_plan_scribble(&flow->plan, &flow->plan.part[index]);
}

/* ---- set-up ---------------------------------------------------------------------------------------------
 */

static ncclResult_t register_pool(struct dt_flow *flow, enum dt_flow_side side)
{
    struct dt_plan *plan = &flow->plan;
    bool is_sender = side == DT_FLOW_SENDER;
    uint32_t bytes = (is_sender ? plan->send_bytes : plan->recv_bytes) + 1;

    plan->is_registered |= !is_sender;
    if (flow->options.is_gpu)
        dt_cuda_sim_claim(is_sender ? plan->send_pool : plan->recv_pool, bytes);
    if (flow->options.is_gpu && !is_sender)
        dt_gpu_writes_watch(plan->recv_pool, bytes);
    if (flow->options.refusing_mask && !is_sender)
        dt_verbs_sim_refuse(plan->recv_pool, bytes, flow->options.refusing_mask);
    return flow->net->regMr(flow->end[side].comm, is_sender ? plan->send_pool : plan->recv_pool, bytes,
                            flow->options.is_gpu ? NCCL_PTR_CUDA : NCCL_PTR_HOST, &flow->end[side].mhandle);
}

static bool act_connect(struct dt_flow *flow)
{
    struct end *end = &flow->end[DT_FLOW_SENDER];
    ncclResult_t result =
        flow->net->connect(flow->options.side[DT_FLOW_SENDER].device, flow->handle, &end->comm, NULL);

    if (result == ncclSuccess && !end->comm)
        return true;
    if (result == ncclSuccess) {
        dt_say("flow %u: sender connected", flow->options.plan.id);
        result = register_pool(flow, DT_FLOW_SENDER);
    }
    return result == ncclSuccess || take_error(flow, DT_FLOW_SENDER, result, "connect or regMr failed", 0);
}

static bool act_accept(struct dt_flow *flow)
{
    struct end *end = &flow->end[DT_FLOW_RECEIVER];
    ncclResult_t result = flow->net->accept(flow->listen_comm, &end->comm, NULL);

    if (result == ncclSuccess && !end->comm)
        return true;
    if (result == ncclSuccess) {
        dt_say("flow %u: receiver accepted", flow->options.plan.id);
        flow->net->closeListen(flow->listen_comm);
        flow->listen_comm = NULL;
        result = register_pool(flow, DT_FLOW_RECEIVER);
    }
    return result == ncclSuccess || take_error(flow, DT_FLOW_RECEIVER, result, "accept or regMr failed", 0);
}

static bool act_listen(struct dt_flow *flow)
{
    ncclResult_t result =
        flow->net->listen(flow->options.side[DT_FLOW_RECEIVER].device, flow->handle, &flow->listen_comm);

    return result == ncclSuccess || fail(flow, DT_FLOW_RECEIVER, "listen failed", 0, result);
}

static bool is_listening(const struct dt_flow *flow)
{
    return flow->listen_comm || flow->end[DT_FLOW_RECEIVER].comm || flow->end[DT_FLOW_RECEIVER].state;
}

bool dt_flow_is_connected(const struct dt_flow *flow)
{
    return (flow->end[DT_FLOW_SENDER].comm || flow->end[DT_FLOW_SENDER].state) &&
           (flow->end[DT_FLOW_RECEIVER].comm || flow->end[DT_FLOW_RECEIVER].state);
}

/* ---- the receiver ---------------------------------------------------------------------------------------
 */

static bool act_irecv(struct dt_flow *flow)
{
    struct dt_plan *plan = &flow->plan;
    uint32_t m = flow->posted;
    void *data[DT_FLOW_PARTS_MAX], *mhandles[DT_FLOW_PARTS_MAX];
    int sizes[DT_FLOW_PARTS_MAX], tags[DT_FLOW_PARTS_MAX];
    void *request = (void *)(uintptr_t)0xdead; /* a stale pointer, as NCCL's callers have it */
    ncclResult_t result;

    if (m == plan->options.message_count || m - flow->received >= flow->options.posted_max ||
        flow->irecv_ns > now_ns())
        return true;
    for (int k = 0; k < plan->message[m].part_count; k++) {
        const struct dt_plan_part *part = dt_plan_part(plan, m, plan->message[m].order[k]);

        data[k] = plan->recv_pool + part->recv_at;
        sizes[k] = part->capacity;
        tags[k] = part->tag;
        mhandles[k] = flow->end[DT_FLOW_RECEIVER].mhandle;
    }
    result = flow->net->irecv(flow->end[DT_FLOW_RECEIVER].comm, plan->message[m].part_count, data, sizes,
                              tags, mhandles, &request);
    if (result != ncclSuccess)
        return take_error(flow, DT_FLOW_RECEIVER, result, "irecv failed", m);
    if (!request)
        return true;
    dt_say("flow %u: irecv %u, %d parts", flow->options.plan.id, m, plan->message[m].part_count);
    flow->receiving[m].request = request;
    plan->message[m].is_open = true;
    flow->posted++;
    if (flow->options.irecv_pause_ns_max > 0)
        flow->irecv_ns = now_ns() + dt_prng_below(&flow->prng, flow->options.irecv_pause_ns_max + 1);
    return true;
}

/* GPU memory: what was received is flushed before it is used. */
static bool start_flush(struct dt_flow *flow, uint32_t m)
{
    struct dt_plan *plan = &flow->plan;
    void *data[DT_FLOW_PARTS_MAX], *mhandles[DT_FLOW_PARTS_MAX];
    int sizes[DT_FLOW_PARTS_MAX];
    ncclResult_t result;

    for (int k = 0; k < plan->message[m].part_count; k++) {
        const struct dt_plan_part *part = dt_plan_part(plan, m, plan->message[m].order[k]);

        data[k] = plan->recv_pool + part->recv_at;
        sizes[k] = part->bytes;
        mhandles[k] = flow->end[DT_FLOW_RECEIVER].mhandle;
    }
    result = flow->net->iflush(flow->end[DT_FLOW_RECEIVER].comm, plan->message[m].part_count, data, sizes,
                               mhandles, &flow->receiving[m].flush);
    return result == ncclSuccess || take_error(flow, DT_FLOW_RECEIVER, result, "iflush failed", m);
}

static bool take_received(struct dt_flow *flow, uint32_t m, const int *sizes)
{
    struct dt_plan *plan = &flow->plan;

    dt_say("flow %u: received %u", flow->options.plan.id, m);
    flow->receiving[m].is_done = true;
    give_back_message(flow, m);
    for (int k = 0; k < plan->message[m].part_count; k++)
        if (sizes[k] != dt_plan_part(plan, m, plan->message[m].order[k])->bytes)
            return fail(flow, DT_FLOW_RECEIVER, "wrong size reported", m, sizes[k]);
    return dt_plan_check(plan, m, true);
}

/* The irecv is not answered yet. */
static bool test_irecv(struct dt_flow *flow, uint32_t m)
{
    struct receiving *receiving = &flow->receiving[m];
    int sizes[DT_FLOW_PARTS_MAX], done = 4711;
    ncclResult_t result = flow->net->test(receiving->request, &done, sizes);

    if (result != ncclSuccess) {
        give_back_message(flow, m);
        return take_error(flow, DT_FLOW_RECEIVER, result, "test of a receive failed", m);
    }
    if (done != 0 && done != 1)
        return fail(flow, DT_FLOW_RECEIVER, "done was not written", m, done);
    if (!done)
        return flow->end[DT_FLOW_RECEIVER].state == END_LIVE ||
               fail(flow, DT_FLOW_RECEIVER, "a receive is not answered after an error", m, 0);
    return take_received(flow, m, sizes);
}

static bool test_flush(struct dt_flow *flow, uint32_t m)
{
    int done = 4711;
    ncclResult_t result = flow->net->test(flow->receiving[m].flush, &done, NULL);

    if (result != ncclSuccess || done)
        flow->receiving[m].flush = NULL;
    if (result != ncclSuccess)
        return take_error(flow, DT_FLOW_RECEIVER, result, "test of a flush failed", m);
    return true;
}

/* The GPU may read it now. */
static bool check_visible(struct dt_flow *flow, uint32_t m)
{
    for (int k = 0; flow->end[DT_FLOW_RECEIVER].state == END_LIVE && k < flow->plan.message[m].part_count;
         k++) {
        const struct dt_plan_part *part = dt_plan_part(&flow->plan, m, k);
        int device = dt_gpu_writes_pending(flow->plan.recv_pool + part->recv_at, (uint64_t)part->bytes);

        if (device >= 0)
            return fail(flow, DT_FLOW_RECEIVER, "flushed, but a GPU may not see what a device wrote", m,
                        device);
    }
    return true;
}

static bool act_test_receive(struct dt_flow *flow)
{
    uint32_t m = flow->received;
    struct receiving *receiving = &flow->receiving[m];

    if (m == flow->posted)
        return true;
    if (receiving->flush) {
        if (!test_flush(flow, m))
            return false;
    } else if (!receiving->is_answered) {
        if (!test_irecv(flow, m))
            return false;
        if (receiving->is_done && flow->options.is_gpu && !start_flush(flow, m))
            return false;
    }
    if (!receiving->is_done || receiving->flush)
        return true;
    flow->received++;
    return !flow->options.is_gpu || check_visible(flow, m);
}

/* ---- the sender -----------------------------------------------------------------------------------------
 */

static bool is_posted(const struct dt_flow *flow, uint32_t m)
{
    return m < flow->posted;
}

static bool all_accepted(const struct dt_flow *flow, uint32_t m)
{
    const struct dt_plan_message *message = &flow->plan.message[m];

    for (int i = 0; i < message->part_count; i++)
        if (!flow->sending[message->part_first + (uint32_t)i].is_accepted)
            return false;
    return true;
}

static bool act_isend(struct dt_flow *flow)
{
    struct dt_plan *plan = &flow->plan;
    uint32_t m = flow->next_send, index;
    void *request = (void *)(uintptr_t)0xdead;
    struct dt_plan_part *part;
    ncclResult_t result;

    if (m == plan->options.message_count || flow->resume_ns > now_ns())
        return true;
    index = plan->message[m].part_first +
            (uint32_t)dt_prng_below(&flow->prng, (uint64_t)plan->message[m].part_count);
    part = &plan->part[index];
    if (flow->sending[index].is_accepted)
        return true;
    result = flow->net->isend(flow->end[DT_FLOW_SENDER].comm, plan->send_pool + part->send_at, part->bytes,
                              part->tag, flow->end[DT_FLOW_SENDER].mhandle, &request);
    if (result != ncclSuccess)
        return take_error(flow, DT_FLOW_SENDER, result, "isend failed", m);
    if (!request)
        return true;
    if (!is_posted(flow, m) && !flow->options.is_staged)
        return fail(flow, DT_FLOW_SENDER, "isend accepted before its irecv was posted", m, part->tag);
    dt_say("flow %u: isend %u, tag %d, %d bytes", flow->options.plan.id, m, part->tag, part->bytes);
    flow->sending[index].request = request;
    flow->sending[index].is_accepted = true;
    if (all_accepted(flow, m)) {
        flow->next_send++;
        flow->resume_ns = now_ns() + dt_prng_below(&flow->prng, flow->options.pause_ns_max + 1);
    }
    return true;
}

/* The part's isend was accepted and is not answered yet. */
static bool test_isend(struct dt_flow *flow, uint32_t index)
{
    struct sending *sending = &flow->sending[index];
    const struct dt_plan_part *part = &flow->plan.part[index];
    int done = 4711, size = -1;
    ncclResult_t result = flow->net->test(sending->request, &done, &size);

    if (result != ncclSuccess) {
        give_back_part(flow, index);
        return take_error(flow, DT_FLOW_SENDER, result, "test of a send failed", part->message);
    }
    if (done != 0 && done != 1)
        return fail(flow, DT_FLOW_SENDER, "done was not written", part->message, done);
    if (!done)
        return flow->end[DT_FLOW_SENDER].state == END_LIVE ||
               fail(flow, DT_FLOW_SENDER, "a send is not answered after an error", part->message, 0);
    dt_say("flow %u: sent %u, tag %d", flow->options.plan.id, part->message, part->tag);
    sending->is_done = true;
    if (size != part->bytes)
        return fail(flow, DT_FLOW_SENDER, "wrong size reported", part->message, size);
    /* Some of what a device does not take is held in the host's memory. */
    if (!flow->options.is_staged && !flow->options.refusing_mask && !dt_plan_is_there(&flow->plan, part))
        return fail(flow, DT_FLOW_SENDER, "a send was reported done that the receiver does not hold",
                    part->message, part->tag);
    give_back_part(flow, index);
    return true;
}

static bool act_test_send(struct dt_flow *flow)
{
    struct dt_plan_message *message = &flow->plan.message[flow->send_done];
    bool all = true;

    if (flow->send_done == flow->plan.options.message_count)
        return true;
    for (uint32_t i = message->part_first; i < message->part_first + (uint32_t)message->part_count; i++) {
        if (flow->sending[i].is_accepted && !flow->sending[i].is_answered && !test_isend(flow, i))
            return false;
        all = all && flow->sending[i].is_done;
    }
    flow->send_done += all;
    return true;
}

/* ---- ends -----------------------------------------------------------------------------------------------
 */

bool dt_flow_is_closed(const struct dt_flow *flow, enum dt_flow_side side)
{
    return flow->end[side].state >= END_CLOSED;
}

bool dt_flow_is_bereaved(const struct dt_flow *flow)
{
    return flow->end[DT_FLOW_SENDER].state == END_DEAD || flow->end[DT_FLOW_RECEIVER].state == END_DEAD;
}

void dt_flow_bereave(struct dt_flow *flow, uint32_t host)
{
    for (int side = 0; side < DT_FLOW_SIDES; side++) {
        /* what a closed sender has staged dies with its process */
        bool is_over =
            flow->end[side].state == END_CLOSED && !(side == DT_FLOW_SENDER && flow->options.is_staged);

        if (flow->options.side[side].host == host && !is_over)
            flow->end[side].state = END_DEAD;
    }
}

bool dt_flow_has_failed(const struct dt_flow *flow, enum dt_flow_side side)
{
    return flow->end[side].error != ncclSuccess;
}

/* The end has what it wanted. */
static bool is_satisfied(const struct dt_flow *flow, enum dt_flow_side side)
{
    uint32_t count = flow->plan.options.message_count;

    return side == DT_FLOW_SENDER ? flow->send_done == count : flow->received == count;
}

static bool is_over(const struct dt_flow *flow, enum dt_flow_side side)
{
    return flow->end[side].state != END_LIVE || is_satisfied(flow, side);
}

/* Everything that is open gets an answer now. */
static bool answer_all(struct dt_flow *flow, enum dt_flow_side side)
{
    if (side == DT_FLOW_SENDER) {
        for (uint32_t i = 0; i < flow->plan.part_count; i++)
            if (flow->sending[i].is_accepted && !flow->sending[i].is_answered && !test_isend(flow, i))
                return false;
        return true;
    }
    for (uint32_t m = 0; m < flow->posted; m++)
        if (!flow->receiving[m].is_answered && !test_irecv(flow, m))
            return false;
    return true;
}

static bool act_end(struct dt_flow *flow, enum dt_flow_side side)
{
    struct end *end = &flow->end[side];
    bool waits = !flow->options.closes_early && end->state == END_LIVE && !is_over(flow, !side);

    if (end->state == END_CLOSED || waits || !dt_prng_chance(&flow->prng, 1, 4))
        return true;
    if (end->state == END_FAILED && !answer_all(flow, side))
        return false;
    close_end(flow, side);
    return true;
}

bool dt_flow_act(struct dt_flow *flow, enum dt_flow_side side)
{
    static bool (*const acts[DT_FLOW_SIDES][2])(struct dt_flow *) = {{act_isend, act_test_send},
                                                                     {act_irecv, act_test_receive}};

    if (dt_flow_is_wrong(flow))
        return false;
    if (dt_flow_is_closed(flow, side))
        return true;
    dt_plugin_sim_enter(flow->options.side[side].host);
    if (is_over(flow, side))
        return act_end(flow, side) && is_right(flow);
    if (!flow->end[side].comm) {
        if (side == DT_FLOW_RECEIVER)
            return is_listening(flow) ? act_accept(flow) : act_listen(flow);
        return !is_listening(flow) || act_connect(flow);
    }
    return acts[side][dt_prng_below(&flow->prng, 2)](flow) && is_right(flow);
}

uint64_t dt_flow_next_ns(const struct dt_flow *flow, uint64_t now_ns)
{
    uint32_t count = flow->plan.options.message_count;
    uint64_t next_ns = DT_NEVER_NS;

    if (flow->next_send < count && flow->resume_ns > now_ns)
        next_ns = flow->resume_ns;
    if (flow->posted < count && flow->irecv_ns > now_ns)
        next_ns = dt_earlier_ns(next_ns, flow->irecv_ns);
    return next_ns;
}

bool dt_flow_landed(struct dt_flow *flow, const void *to, uint64_t bytes)
{
    return dt_plan_landed(&flow->plan, to, bytes);
}

bool dt_flow_settle(struct dt_flow *flow)
{
    for (uint32_t m = 0; m < flow->plan.options.message_count; m++)
        if (flow->receiving[m].is_done && !dt_plan_check(&flow->plan, m, true))
            return false;
    return is_right(flow);
}

static const char *end_text(const struct dt_flow *flow, enum dt_flow_side side)
{
    static const char *const text[] = {"live", "failed", "closed", "dead"};
    const struct end *end = &flow->end[side];

    return end->state == END_LIVE && !end->comm ? "not connected" : text[end->state];
}

const char *dt_flow_failure(struct dt_flow *flow)
{
    if (flow->plan.wrong[0] && !flow->failure[0])
        snprintf(flow->failure, sizeof flow->failure, "flow %u: %s", flow->options.plan.id, flow->plan.wrong);
    if (!flow->failure[0])
        snprintf(flow->failure, sizeof flow->failure,
                 "flow %u: receiver %s, %u of %u posted, %u received%s; sender %s, at %u, %u done",
                 flow->options.plan.id, end_text(flow, DT_FLOW_RECEIVER), flow->posted,
                 flow->plan.options.message_count, flow->received,
                 flow->receiving[flow->received].flush ? ", waits for a flush" : "",
                 end_text(flow, DT_FLOW_SENDER), flow->next_send, flow->send_done);
    return flow->failure;
}
