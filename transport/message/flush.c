/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iflush: loopback reads through every device that ever wrote to the buffer, even part of a message. The
 * loopback queue pair of a path is created on the first flush that needs it; until then the request waits.
 *
 * A device writes the payload before the completion, but to a different memory: when the device has failed,
 * the last bytes may still be in flight to the GPU, and a read through that device cannot order them any
 * more. The sender may already have reused its buffer. CUDA can flush the writes of all devices
 * (hostpath/gpu_flush.h). Where CUDA cannot, the connection fails with an error that names the reason.
 */
#include "base/check.h"
#include "failover/planted.h"
#include "transport/message/connection.h"
#include "transport/message/flush.h"
#include "transport/message/memory.h"
#include "transport/message/receiver.h"
#include "transport/path/nic.h"
#include "transport/protocol/work_id.h"

#define POLL_MAX 8

static void settle(struct dt_receiver *r, struct dt_flush_slot *slot, uint32_t path)
{
    DT_CHECK(slot->request.is_open && slot->left_mask >> path & 1 && slot->memory[path]->open > 0);
    slot->left_mask &= ~(1u << path);
    dt_count(&slot->memory[path]->open, -1u);
    if (slot->left_mask == 0) {
        slot->request.is_done = true;
        dt_count(&r->connection.completions, 1);
    }
}

/* A read of the slot over this path is outstanding. */
static bool is_outstanding(const struct dt_flush_slot *slot, const struct dt_path *path)
{
    return slot->request.is_open &&
           slot->left_mask & ~(slot->unsubmitted_mask | slot->lost_mask) & 1u << path->index;
}

static void poll_path(struct dt_receiver *r, struct dt_path *path)
{
    struct dt_completion completion[POLL_MAX];
    int count = dt_flush_poll(path->flush, completion, POLL_MAX);

    for (int i = 0; i < count; i++) {
        struct dt_flush_slot *slot = &r->flush[dt_work_decode(completion[i].wr_id).sequence % DT_FLUSHES_MAX];

        path->flush_outstanding -= path->flush_outstanding > 0;
        if (completion[i].status != DT_WC_SUCCESS)
            path->is_flush_broken = true;
        else if (is_outstanding(slot, path))
            settle(r, slot, path->index);
    }
    if (count >= 0 && !path->is_flush_broken)
        return;
    path->is_flush_broken = true;
    dt_connection_path_refused(&r->connection, path, "failed the loopback read of a flush");
}

/* The loopback queue pair is being created, or the device has refused to create it. */
static void await_flush(struct dt_receiver *r, struct dt_path *path)
{
    if (!dt_exchange_acq_rel(&path->is_flush_refused, 0u))
        return;
    path->is_flush_broken = true;
    dt_connection_path_refused(&r->connection, path, "refused the loopback queue pair of a flush");
}

/* Posts the remaining reads of a request on the loopback queue pairs that exist. */
static void submit_reads(struct dt_receiver *r, struct dt_flush_slot *slot)
{
    struct dt_connection *c = &r->connection;

    DT_CHECK((slot->unsubmitted_mask & (slot->lost_mask | ~slot->left_mask)) == 0);
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];
        struct dt_flush *flush = dt_load_acquire(&path->flush);
        uint64_t wr_id = dt_work_encode(DT_WORK_FLUSH, p, 0, path->epoch, (uint64_t)(slot - r->flush));

        if (!(slot->unsubmitted_mask & 1u << p) || path->is_flush_broken)
            continue;
        if (!flush) {
            await_flush(r, path);
            continue;
        }
        if (dt_flush_post(flush, slot->addr[p], slot->memory[p]->mr[p]->rkey, wr_id) != DT_OK) {
            path->is_flush_broken = true;
            dt_connection_path_refused(c, path, "refused the loopback read of a flush");
            return;
        }
        slot->unsubmitted_mask &= ~(1u << p);
        path->flush_outstanding++;
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Devices that cannot read any more
 */
void dt_receiver_flush_lose(struct dt_receiver *r, struct dt_path *path)
{
    uint32_t bit = 1u << path->index;

    path->is_flush_broken = true;
    path->flush_outstanding = 0;
    for (uint32_t i = 0; i < DT_FLUSHES_MAX; i++) {
        struct dt_flush_slot *slot = &r->flush[i];

        if (!slot->request.is_open || !(slot->left_mask & bit))
            continue;
        slot->unsubmitted_mask &= ~bit;
        /* In host memory the completion suffices: payload and completion are written to host memory, in
         * order. */
        if (slot->memory[path->index]->is_host || DT_PLANTED(LOST_FLUSH))
            settle(r, slot, path->index);
        else
            slot->lost_mask |= bit;
    }
}

bool dt_receiver_flush_renew(struct dt_receiver *r, struct dt_path *path)
{
    uint32_t bit = 1u << path->index;
    bool is_wanted = false;

    path->is_flush_broken = false;
    path->flush_outstanding = 0;
    for (uint32_t i = 0; i < DT_FLUSHES_MAX; i++) {
        struct dt_flush_slot *slot = &r->flush[i];

        if (slot->request.is_open && slot->left_mask & ~slot->lost_mask & bit) {
            slot->unsubmitted_mask |= bit;
            is_wanted = true;
        }
    }
    return is_wanted;
}

/* Any address of the GPU memory. */
static void *lost_address(const struct dt_lost_flush *lost)
{
    return (void *)(uintptr_t)lost->slot->addr[__builtin_ctz(lost->path_mask)];
}

static void run_lost(struct dt_task *job)
{
    struct dt_lost_flush *lost = dt_container_of(job, struct dt_lost_flush, job);
    struct dt_connection *c = &lost->receiver->connection;

    DT_CHECK(lost->is_busy && !lost->is_answered && lost->path_mask != 0);
    lost->status =
        dt_gpu_flush(&c->environment->flusher, lost_address(lost), lost->reason, sizeof lost->reason);
    dt_store_release(&lost->is_answered, 1u);
    dt_path_group_release(&c->group);
}

/* No more writes of this epoch can arrive. */
static bool is_over(const struct dt_path *path)
{
    return path->machine.state == DT_RECEIVER_FENCED || path->machine.state == DT_RECEIVER_ACKED;
}

static void submit_lost(struct dt_receiver *r, struct dt_flush_slot *slot)
{
    struct dt_connection *c = &r->connection;
    struct dt_lost_flush *lost = &r->lost;

    DT_CHECK(!lost->is_busy && slot->request.is_open && (slot->lost_mask & ~slot->left_mask) == 0);
    lost->receiver = r;
    lost->slot = slot;
    lost->path_mask = slot->lost_mask;
    lost->over_mask = 0;
    for (uint32_t p = 0; p < c->path_count; p++) {
        lost->epoch[p] = c->path[p].epoch;
        lost->over_mask |= is_over(&c->path[p]) ? 1u << p : 0;
    }
    lost->is_busy = true;
    lost->is_answered = 0;
    lost->job.run = run_lost;
    dt_fetch_add_acq_rel(&c->group.references, 1);
    /* On a working device: the control thread of a failed one may block in a verb. */
    dt_nic_submit(c->current ? c->current->nic : c->nic, &lost->job);
}

static void report_unflushed(struct dt_receiver *r)
{
    const struct dt_path *path = &r->connection.path[__builtin_ctz(r->lost.path_mask)];

    dt_connection_fail(&r->connection, DT_SYSTEM,
                       "the writes of %s, which has failed, to GPU memory at %p cannot be made visible to "
                       "the GPU (path %u, epoch %u): %s",
                       dt_path_name(path), lost_address(&r->lost), path->index, path->epoch, r->lost.reason);
}

/* Writes over a path that was fenced before CUDA's flush need no further flush. */
static void take_answer(struct dt_receiver *r)
{
    struct dt_lost_flush *lost = &r->lost;
    struct dt_flush_slot *slot = lost->slot;

    DT_CHECK(lost->is_busy && lost->is_answered);
    lost->is_busy = false;
    if (lost->status != DT_OK) {
        report_unflushed(r);
        return;
    }
    DT_CHECK(slot->request.is_open && (lost->path_mask & ~slot->lost_mask) == 0);
    slot->lost_mask &= ~lost->path_mask;
    for (uint32_t p = 0; p < r->connection.path_count; p++) {
        const struct dt_path *path = &r->connection.path[p];
        uint32_t bit = 1u << p;

        if (!(lost->path_mask & bit))
            continue;
        if (lost->over_mask & bit && is_over(path) && path->epoch == lost->epoch[p])
            slot->memory[p]->written_mask &= ~bit;
        settle(r, slot, p);
    }
}

/* One request at a time: this case is rare and takes microseconds. */
static void flush_lost(struct dt_receiver *r)
{
    if (r->lost.is_busy) {
        if (!dt_load_acquire(&r->lost.is_answered))
            return;
        take_answer(r);
    }
    for (uint32_t i = 0; i < DT_FLUSHES_MAX && !r->lost.is_busy; i++) {
        if (r->flush[i].request.is_open && r->flush[i].lost_mask)
            submit_lost(r, &r->flush[i]);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Progress, iflush and its test
 */
void dt_receiver_flush_progress(struct dt_receiver *r)
{
    struct dt_connection *c = &r->connection;

    if (__builtin_expect(r->flush_open == 0, 1))
        return;
    for (uint32_t i = 0; i < DT_FLUSHES_MAX; i++) {
        if (r->flush[i].request.is_open && r->flush[i].unsubmitted_mask)
            submit_reads(r, &r->flush[i]);
    }
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        if (path->flush_outstanding > 0)
            poll_path(r, path);
        if (!path->is_flush_broken || path->fence.is_active)
            continue;
        /* The read may have failed while the path was not in use, and the path is in use again. */
        if (path->state == DT_PATH_NONE)
            dt_receiver_flush_lose(r, path);
        else
            dt_connection_path_refused(c, path, "failed the loopback read of a flush");
    }
    flush_lost(r);
}

/* Over a path with a bounce buffer no device writes to the memory itself, and the copy is complete. */
static uint32_t to_flush(const struct dt_memory *memory)
{
    return memory->written_mask & ~memory->bounce_mask;
}

/* Paths that may have written to the buffers. */
static uint32_t paths_to_flush(unsigned n, const uint32_t *bytes, struct dt_memory *const *memories)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < n; i++)
        mask |= bytes[i] > 0 && memories[i] ? to_flush(memories[i]) : 0;
    return mask;
}

/*
 * Chooses the address to read over each path of left_mask: in the last buffer that the path may have written
 * to. A read of any byte orders all earlier writes of that device.
 */
static void choose_reads(struct dt_flush_slot *slot, unsigned n, void *const *data, const uint32_t *bytes,
                         struct dt_memory *const *memories)
{
    uint32_t left = slot->left_mask;

    for (unsigned i = n; i-- > 0 && left;) {
        uint32_t here = bytes[i] > 0 && memories[i] ? to_flush(memories[i]) & left : 0;

        left &= ~here;
        for (; here; here &= here - 1) {
            slot->addr[__builtin_ctz(here)] = (uintptr_t)data[i];
            slot->memory[__builtin_ctz(here)] = memories[i];
        }
    }
    DT_CHECK_HOT(left == 0); /* each path of the mask wrote to one of the buffers */
}

/* The slot's paths that cannot read any more and need not, because the memory is host memory. */
static uint32_t needless_mask(const struct dt_flush_slot *slot)
{
    uint32_t mask = 0;

    for (uint32_t left = slot->lost_mask; left; left &= left - 1) {
        uint32_t p = (uint32_t)__builtin_ctz(left);

        mask |= slot->memory[p]->is_host || DT_PLANTED(LOST_FLUSH) ? 1u << p : 0;
    }
    return mask;
}

/* Counts the slot in the memory that it reads, once for each path. */
static void hold_memory(const struct dt_flush_slot *slot)
{
    for (uint32_t left = slot->left_mask; left; left &= left - 1)
        dt_count(&slot->memory[__builtin_ctz(left)]->open, 1);
}

/* Paths whose device is dead. */
static uint32_t dead_mask(const struct dt_connection *c)
{
    uint32_t mask = 0;

    for (uint32_t p = 0; p < c->path_count; p++)
        mask |= dt_load_relaxed(&c->path[p].nic->is_dead) ? 1u << p : 0;
    return mask;
}

enum dt_status dt_receiver_iflush(struct dt_receiver *r, unsigned n, void *const *data, const uint32_t *bytes,
                                  struct dt_memory *const *memories, struct dt_request **request)
{
    struct dt_connection *c = &r->connection;
    enum dt_status status = dt_connection_check(c);
    struct dt_flush_slot *slot = &r->flush[r->flush_next % DT_FLUSHES_MAX];
    uint32_t paths = paths_to_flush(n, bytes, memories);
    uint32_t missing = 0;

    if (status != DT_OK && status != DT_AGAIN)
        return status;
    if (!paths)
        return DT_OK;
    if (slot->request.is_open) {
        dt_connection_fail(c, DT_INVALID, "more than %d flushes outstanding", DT_FLUSHES_MAX);
        return DT_INVALID;
    }
    r->flush_next++;
    r->flush_open++;
    r->side_open++;
    DT_CHECK_HOT(r->flush_open <= DT_FLUSHES_MAX && r->side_open >= r->flush_open);
    dt_page_add(&c->meter.row->flush_count, 1);
    slot->left_mask = paths;
    choose_reads(slot, n, data, bytes, memories);
    slot->lost_mask = paths & dead_mask(c);
    slot->left_mask &= ~needless_mask(slot);
    slot->lost_mask &= slot->left_mask;
    slot->unsubmitted_mask = slot->left_mask & ~slot->lost_mask;
    slot->request = (struct dt_request){
        .connection = c,
        .slot = (uint32_t)(slot - r->flush),
        .test = dt_flush_test,
        .is_open = true,
    };
    hold_memory(slot);
    dt_count(&c->open_requests, 1);
    *request = &slot->request;
    slot->request.is_done = slot->left_mask == 0;
    for (uint32_t p = 0; p < c->path_count; p++)
        missing |= slot->unsubmitted_mask & 1u << p && !dt_load_acquire(&c->path[p].flush) ? 1u << p : 0;
    if (missing) {
        __atomic_fetch_or(&r->flush_wanted_mask, missing, __ATOMIC_ACQ_REL);
        dt_nic_wake(c->nic); /* once per path and epoch */
    }
    submit_reads(r, slot);
    return DT_OK;
}

enum dt_status dt_flush_test(struct dt_request *request, int *done, int *bytes)
{
    struct dt_receiver *r = dt_receiver_of(request->connection);
    enum dt_status status;

    (void)bytes;
    if (!request->is_open)
        return DT_INVALID;
    status = dt_connection_check(&r->connection);
    if (!request->is_done && status == DT_OK)
        dt_receiver_flush_progress(r);
    if (!request->is_done)
        return status == DT_AGAIN ? DT_OK : status;
    DT_CHECK_HOT(r->flush_open > 0 && r->side_open >= r->flush_open && r->connection.open_requests > 0);
    request->is_open = false;
    r->flush_open--;
    r->side_open--;
    dt_count(&r->connection.open_requests, -1u);
    *done = 1;
    return DT_OK;
}
