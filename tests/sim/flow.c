/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/flow_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tests/sim/cuda_sim.h"
#include "tests/sim/gpu_writes.h"
#include "tests/sim/verbs_sim.h"
#include "tests/sim/plugin_sim.h"
#include "tests/sim/trace.h"

static const char *const side_name[] = {"sender", "receiver"};

bool dt_flow_fail(struct dt_flow *flow, enum dt_flow_side side, const char *what, uint32_t message,
                  long detail)
{
    if (!flow->failure[0])
        snprintf(flow->failure, sizeof flow->failure, "flow %u, %s: %s (message %u, %ld)",
                 flow->options.plan.id, side_name[side], what, message, detail);
    return false;
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
    dt_prng_init_stream(&flow->registrations, options->plan.seed, 1100 + (uint64_t)options->plan.id);
    if (!dt_plan_make(&flow->plan, &options->plan)) {
        dt_plan_free(&flow->plan);
        free(flow);
        return NULL;
    }
    return flow;
}

static void close_end(struct dt_flow *flow, enum dt_flow_side side)
{
    struct dt_flow_end *end = &flow->end[side];

    dt_plugin_sim_enter(flow->options.side[side].host);
    if (end->comm && end->mhandle)
        flow->net->deregMr(end->comm, end->mhandle);
    while (end->comm && end->old_count > 0)
        flow->net->deregMr(end->comm, end->old_mhandle[--end->old_count]);
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
    end->state = DT_FLOW_END_CLOSED;
    dt_say("flow %u: %s closed", flow->options.plan.id, side_name[side]);
}

void dt_flow_destroy(struct dt_flow *flow)
{
    for (int side = 0; side < DT_FLOW_SIDES; side++)
        if (flow->end[side].state != DT_FLOW_END_CLOSED)
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

/*
 * The receiver had everything and closed, and its process died before its CLOSE, which is repeated until it
 * is answered, reached the sender. Then acknowledgements alone tell the sender that its messages have
 * arrived, and where those may be lost, nothing does: the peer is as dead as any other.
 */
static bool has_lost_close(const struct dt_flow *flow)
{
    const struct dt_flow_end *sender = &flow->end[DT_FLOW_SENDER], *receiver = &flow->end[DT_FLOW_RECEIVER];

    return flow->options.may_miss_acks && receiver->state == DT_FLOW_END_CLOSED &&
           receiver->is_process_dead && sender->comm && !dt_plugin_sim_has_peer_closed(sender->comm);
}

/*
 * The receiver's device discards completions, and the receiver has fenced although the sender had not
 * stopped. Each part of this is required: a fault that can keep STOP from being answered, a wait that was
 * over (by the receiver's own line), and a message that the sender counts and the receiver does not have.
 */
static bool has_missed_stop(const struct dt_flow *flow)
{
    return flow->options.may_miss_stop && dt_trace_stops_unanswered() > 0 && has_unseen(flow);
}

/* May a call at this end return an error now? */
static bool may_fail(const struct dt_flow *flow, enum dt_flow_side side)
{
    return flow->options.mercy == DT_MERCY_ANY || dt_flow_is_bereaved(flow) ||
           (flow->options.mercy == DT_MERCY_UNSEEN && has_unseen(flow)) || has_missed_stop(flow) ||
           (side == DT_FLOW_SENDER && has_lost_close(flow));
}

/* A call returned an error: the end is over. */
bool dt_flow_take_error(struct dt_flow *flow, enum dt_flow_side side, ncclResult_t result, const char *call,
                        uint32_t message)
{
    struct dt_flow_end *end = &flow->end[side];
    bool is_other_over = flow->end[!side].error != ncclSuccess;
    bool is_allowed = may_fail(flow, side);

    if (!is_allowed && !is_other_over)
        return dt_flow_fail(flow, side, call, message, result);
    if (end->state == DT_FLOW_END_LIVE) {
        end->state = DT_FLOW_END_FAILED;
        end->error = result;
        dt_say("flow %u: %s ends with error %d (%s, message %u)", flow->options.plan.id, side_name[side],
               (int)result, call, message);
    }
    return true;
}

/* ---- set-up ---------------------------------------------------------------------------------------------
 */

static uint32_t pool_bytes(const struct dt_flow *flow, enum dt_flow_side side)
{
    return (side == DT_FLOW_SENDER ? flow->plan.send_bytes : flow->plan.recv_bytes) + 1;
}

static ncclResult_t register_pool(struct dt_flow *flow, enum dt_flow_side side)
{
    struct dt_flow_end *end = &flow->end[side];

    return flow->net->regMr(end->comm, side == DT_FLOW_SENDER ? flow->plan.send_pool : flow->plan.recv_pool,
                            pool_bytes(flow, side), flow->options.is_gpu ? NCCL_PTR_CUDA : NCCL_PTR_HOST,
                            &end->mhandle);
}

static ncclResult_t register_first(struct dt_flow *flow, enum dt_flow_side side)
{
    struct dt_plan *plan = &flow->plan;
    bool is_sender = side == DT_FLOW_SENDER;
    uint32_t bytes = pool_bytes(flow, side);

    plan->is_registered |= !is_sender;
    if (flow->options.is_gpu)
        dt_cuda_sim_claim(is_sender ? plan->send_pool : plan->recv_pool, bytes);
    if (flow->options.is_gpu && !is_sender)
        dt_gpu_writes_watch(plan->recv_pool, bytes);
    if (flow->options.refusing_mask && !is_sender)
        dt_verbs_sim_refuse(plan->recv_pool, bytes, flow->options.refusing_mask);
    return register_pool(flow, side);
}

/* Now and then, as a job that allocates new buffers: at times while a device is away. */
static bool register_again(struct dt_flow *flow, enum dt_flow_side side)
{
    struct dt_flow_end *end = &flow->end[side];
    void *before = end->mhandle;
    ncclResult_t result;

    if (!flow->options.registers_again || end->old_count == DT_FLOW_REGISTRATIONS_MAX ||
        !dt_prng_chance(&flow->registrations, 1, 16))
        return true;
    result = register_pool(flow, side);
    if (result != ncclSuccess) {
        end->mhandle = before;
        return dt_flow_take_error(flow, side, result, "regMr failed", 0);
    }
    dt_say("flow %u: %s has registered its memory again", flow->options.plan.id, side_name[side]);
    end->old_mhandle[end->old_count++] = before;
    return true;
}

static bool act_connect(struct dt_flow *flow)
{
    struct dt_flow_end *end = &flow->end[DT_FLOW_SENDER];
    ncclResult_t result =
        flow->net->connect(flow->options.side[DT_FLOW_SENDER].device, flow->handle, &end->comm, NULL);

    if (result == ncclSuccess && !end->comm)
        return true;
    if (result == ncclSuccess) {
        dt_say("flow %u: sender connected", flow->options.plan.id);
        result = register_first(flow, DT_FLOW_SENDER);
    }
    return result == ncclSuccess ||
           dt_flow_take_error(flow, DT_FLOW_SENDER, result, "connect or regMr failed", 0);
}

static bool act_accept(struct dt_flow *flow)
{
    struct dt_flow_end *end = &flow->end[DT_FLOW_RECEIVER];
    ncclResult_t result = flow->net->accept(flow->listen_comm, &end->comm, NULL);

    if (result == ncclSuccess && !end->comm)
        return true;
    if (result == ncclSuccess) {
        dt_say("flow %u: receiver accepted", flow->options.plan.id);
        flow->net->closeListen(flow->listen_comm);
        flow->listen_comm = NULL;
        result = register_first(flow, DT_FLOW_RECEIVER);
    }
    return result == ncclSuccess ||
           dt_flow_take_error(flow, DT_FLOW_RECEIVER, result, "accept or regMr failed", 0);
}

static bool act_listen(struct dt_flow *flow)
{
    ncclResult_t result =
        flow->net->listen(flow->options.side[DT_FLOW_RECEIVER].device, flow->handle, &flow->listen_comm);

    return result == ncclSuccess || dt_flow_fail(flow, DT_FLOW_RECEIVER, "listen failed", 0, result);
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

/* ---- ends -----------------------------------------------------------------------------------------------
 */

bool dt_flow_is_closed(const struct dt_flow *flow, enum dt_flow_side side)
{
    return flow->end[side].state >= DT_FLOW_END_CLOSED;
}

bool dt_flow_is_bereaved(const struct dt_flow *flow)
{
    return flow->end[DT_FLOW_SENDER].state == DT_FLOW_END_DEAD ||
           flow->end[DT_FLOW_RECEIVER].state == DT_FLOW_END_DEAD;
}

void dt_flow_bereave(struct dt_flow *flow, uint32_t host)
{
    for (int side = 0; side < DT_FLOW_SIDES; side++) {
        /* what a closed sender has staged dies with its process */
        bool is_over = flow->end[side].state == DT_FLOW_END_CLOSED &&
                       !(side == DT_FLOW_SENDER && flow->options.is_staged);

        if (flow->options.side[side].host != host)
            continue;
        flow->end[side].is_process_dead = true;
        if (!is_over)
            flow->end[side].state = DT_FLOW_END_DEAD;
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
    return flow->end[side].state != DT_FLOW_END_LIVE || is_satisfied(flow, side);
}

static bool act_end(struct dt_flow *flow, enum dt_flow_side side)
{
    struct dt_flow_end *end = &flow->end[side];
    bool waits = !flow->options.closes_early && end->state == DT_FLOW_END_LIVE && !is_over(flow, !side);

    if (end->state == DT_FLOW_END_CLOSED || waits || !dt_prng_chance(&flow->prng, 1, 4))
        return true;
    if (end->state == DT_FLOW_END_FAILED && !dt_flow_answer_all(flow, side))
        return false;
    close_end(flow, side);
    return true;
}

bool dt_flow_act(struct dt_flow *flow, enum dt_flow_side side)
{
    static bool (*const acts[DT_FLOW_SIDES][2])(struct dt_flow *) = {{dt_flow_isend, dt_flow_test_send},
                                                                     {dt_flow_irecv, dt_flow_test_receive}};

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
    return register_again(flow, side) && acts[side][dt_prng_below(&flow->prng, 2)](flow) && is_right(flow);
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
    const struct dt_flow_end *end = &flow->end[side];

    return end->state == DT_FLOW_END_LIVE && !end->comm ? "not connected" : text[end->state];
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
