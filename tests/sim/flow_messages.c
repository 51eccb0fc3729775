/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/flow_state.h"

#include "tests/sim/gpu_writes.h"
#include "tests/sim/trace.h"

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

/* ---- the receiver ---------------------------------------------------------------------------------------
 */

bool dt_flow_irecv(struct dt_flow *flow)
{
    struct dt_plan *plan = &flow->plan;
    uint32_t m = flow->posted;
    void *data[DT_FLOW_PARTS_MAX], *mhandles[DT_FLOW_PARTS_MAX];
    int sizes[DT_FLOW_PARTS_MAX], tags[DT_FLOW_PARTS_MAX];
    void *request = (void *)(uintptr_t)0xdead; /* a stale pointer, as NCCL's callers have it */
    ncclResult_t result;

    if (m == plan->options.message_count || m - flow->received >= flow->options.posted_max ||
        flow->irecv_ns > dt_flow_now_ns())
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
        return dt_flow_take_error(flow, DT_FLOW_RECEIVER, result, "irecv failed", m);
    if (!request)
        return true;
    dt_say("flow %u: irecv %u, %d parts", flow->options.plan.id, m, plan->message[m].part_count);
    flow->receiving[m].request = request;
    flow->receiving[m].mhandle = flow->end[DT_FLOW_RECEIVER].mhandle;
    plan->message[m].is_open = true;
    flow->posted++;
    if (flow->options.irecv_pause_ns_max > 0)
        flow->irecv_ns = dt_flow_now_ns() + dt_prng_below(&flow->prng, flow->options.irecv_pause_ns_max + 1);
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
        mhandles[k] = flow->receiving[m].mhandle;
    }
    result = flow->net->iflush(flow->end[DT_FLOW_RECEIVER].comm, plan->message[m].part_count, data, sizes,
                               mhandles, &flow->receiving[m].flush);
    return result == ncclSuccess || dt_flow_take_error(flow, DT_FLOW_RECEIVER, result, "iflush failed", m);
}

static bool take_received(struct dt_flow *flow, uint32_t m, const int *sizes)
{
    struct dt_plan *plan = &flow->plan;

    dt_say("flow %u: received %u", flow->options.plan.id, m);
    flow->receiving[m].is_done = true;
    give_back_message(flow, m);
    for (int k = 0; k < plan->message[m].part_count; k++)
        if (sizes[k] != dt_plan_part(plan, m, plan->message[m].order[k])->bytes)
            return dt_flow_fail(flow, DT_FLOW_RECEIVER, "wrong size reported", m, sizes[k]);
    return dt_plan_check(plan, m, true);
}

/* The irecv is not answered yet. */
static bool test_irecv(struct dt_flow *flow, uint32_t m)
{
    struct dt_flow_receiving *receiving = &flow->receiving[m];
    int sizes[DT_FLOW_PARTS_MAX], done = 4711;
    ncclResult_t result = flow->net->test(receiving->request, &done, sizes);

    if (result != ncclSuccess) {
        give_back_message(flow, m);
        return dt_flow_take_error(flow, DT_FLOW_RECEIVER, result, "test of a receive failed", m);
    }
    if (done != 0 && done != 1)
        return dt_flow_fail(flow, DT_FLOW_RECEIVER, "done was not written", m, done);
    if (!done)
        return flow->end[DT_FLOW_RECEIVER].state == DT_FLOW_END_LIVE ||
               dt_flow_fail(flow, DT_FLOW_RECEIVER, "a receive is not answered after an error", m, 0);
    return take_received(flow, m, sizes);
}

static bool test_flush(struct dt_flow *flow, uint32_t m)
{
    int done = 4711;
    ncclResult_t result = flow->net->test(flow->receiving[m].flush, &done, NULL);

    if (result != ncclSuccess || done)
        flow->receiving[m].flush = NULL;
    if (result != ncclSuccess)
        return dt_flow_take_error(flow, DT_FLOW_RECEIVER, result, "test of a flush failed", m);
    return true;
}

/* The GPU may read it now. */
static bool check_visible(struct dt_flow *flow, uint32_t m)
{
    for (int k = 0;
         flow->end[DT_FLOW_RECEIVER].state == DT_FLOW_END_LIVE && k < flow->plan.message[m].part_count; k++) {
        const struct dt_plan_part *part = dt_plan_part(&flow->plan, m, k);
        int device = dt_gpu_writes_pending(flow->plan.recv_pool + part->recv_at, (uint64_t)part->bytes);

        if (device >= 0)
            return dt_flow_fail(flow, DT_FLOW_RECEIVER, "flushed, but a GPU may not see what a device wrote",
                                m, device);
    }
    return true;
}

bool dt_flow_test_receive(struct dt_flow *flow)
{
    uint32_t m = flow->received;
    struct dt_flow_receiving *receiving = &flow->receiving[m];

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

bool dt_flow_isend(struct dt_flow *flow)
{
    struct dt_plan *plan = &flow->plan;
    uint32_t m = flow->next_send, index;
    void *request = (void *)(uintptr_t)0xdead;
    struct dt_plan_part *part;
    ncclResult_t result;

    if (m == plan->options.message_count || flow->resume_ns > dt_flow_now_ns())
        return true;
    index = plan->message[m].part_first +
            (uint32_t)dt_prng_below(&flow->prng, (uint64_t)plan->message[m].part_count);
    part = &plan->part[index];
    if (flow->sending[index].is_accepted)
        return true;
    result = flow->net->isend(flow->end[DT_FLOW_SENDER].comm, plan->send_pool + part->send_at, part->bytes,
                              part->tag, flow->end[DT_FLOW_SENDER].mhandle, &request);
    if (result != ncclSuccess)
        return dt_flow_take_error(flow, DT_FLOW_SENDER, result, "isend failed", m);
    if (!request)
        return true;
    dt_say("flow %u: isend %u, tag %d, %d bytes", flow->options.plan.id, m, part->tag, part->bytes);
    flow->sending[index].request = request;
    flow->sending[index].is_accepted = true;
    flow->sending[index].is_orphan = !is_posted(flow, m) && !flow->options.is_staged;
    if (all_accepted(flow, m)) {
        flow->next_send++;
        flow->resume_ns = dt_flow_now_ns() + dt_prng_below(&flow->prng, flow->options.pause_ns_max + 1);
    }
    return true;
}

/* The part's isend was accepted and is not answered yet. */
static bool test_isend(struct dt_flow *flow, uint32_t index)
{
    struct dt_flow_sending *sending = &flow->sending[index];
    const struct dt_plan_part *part = &flow->plan.part[index];
    int done = 4711, size = -1;
    ncclResult_t result = flow->net->test(sending->request, &done, &size);

    if (result != ncclSuccess) {
        give_back_part(flow, index);
        return dt_flow_take_error(flow, DT_FLOW_SENDER, result, "test of a send failed", part->message);
    }
    if (done != 0 && done != 1)
        return dt_flow_fail(flow, DT_FLOW_SENDER, "done was not written", part->message, done);
    if (!done)
        return flow->end[DT_FLOW_SENDER].state == DT_FLOW_END_LIVE ||
               dt_flow_fail(flow, DT_FLOW_SENDER, "a send is not answered after an error", part->message, 0);
    dt_say("flow %u: sent %u, tag %d", flow->options.plan.id, part->message, part->tag);
    if (sending->is_orphan)
        return dt_flow_fail(flow, DT_FLOW_SENDER, "isend accepted before its irecv was posted, and then sent",
                            part->message, part->tag);
    sending->is_done = true;
    if (size != part->bytes)
        return dt_flow_fail(flow, DT_FLOW_SENDER, "wrong size reported", part->message, size);
    /* Some of what a device does not take is held in the host's memory. */
    if (!flow->options.is_staged && !flow->options.refusing_mask && !dt_plan_is_there(&flow->plan, part))
        return dt_flow_fail(flow, DT_FLOW_SENDER, "a send was reported done that the receiver does not hold",
                            part->message, part->tag);
    give_back_part(flow, index);
    return true;
}

bool dt_flow_test_send(struct dt_flow *flow)
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

bool dt_flow_answer_all(struct dt_flow *flow, enum dt_flow_side side)
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
