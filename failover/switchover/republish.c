/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/republish.h"

#include "failover/planted.h"
#include "base/check.h"
#include "failover/switchover/state.h"

#include "transport/path/nic.h"
#include "transport/message/receive.h"
#include "transport/message/flush.h"
#include "transport/message/memory.h"

/*
 * Bytes of the message may have arrived over the path and may still be in flight to a GPU. Another path
 * brings the whole message; its flush must cover those bytes, too.
 */
static void note_written(const struct dt_recv_slot *slot, const struct dt_path *path)
{
    uint32_t bit = 1u << path->index;

    for (uint32_t i = 0; i < slot->parts; i++) {
        struct dt_memory *memory = slot->memory[i];

        if (memory && !memory->is_host && path->switchover->is_open && !DT_PLANTED(PART_FLUSH))
            memory->written_mask |= memory->path_mask & bit;
    }
}

uint32_t dt_republish_discard(struct dt_path *path)
{
    struct dt_receiver *r = dt_receiver_of(path->connection);
    uint32_t count = 0, unpublished = 0;

    DT_CHECK(path->state == DT_PATH_NONE);
    /* A device that does not flush its queue pairs executes no loopback read either. */
    if (dt_load_relaxed(&path->nic->is_dead) || path->is_flush_broken || path->fence.is_destroyed)
        dt_receiver_flush_lose(r, path);
    for (uint32_t i = 0; i < r->connection.slots; i++) {
        struct dt_recv_slot *slot = &r->slot[i];

        if (slot->state != DT_RECV_OPEN)
            continue;
        note_written(slot, path);
        if (!DT_PLANTED(KEEP_PARTS))
            dt_arrivals_clear(&slot->arrivals[path->index]);
        if (slot->path == path->index && !slot->is_unpublished && !DT_PLANTED(NO_REPUBLISH)) {
            slot->is_unpublished = true;
            count++;
        }
        unpublished += slot->is_unpublished;
    }
    DT_CHECK(unpublished <= r->again + count); /* less by those that another path has completed since */
    r->again = unpublished;
    if (count > 0)
        dt_connection_notify(&r->connection, DT_NOTICE_AGAIN);
    return count;
}

struct dt_flush *dt_republish_retire_flush(struct dt_path *path)
{
    bool is_queued = dt_load_acquire(&path->is_flush_queued); /* first: its end publishes the answer */
    struct dt_flush *flush = dt_load_acquire(&path->flush);
    struct dt_receiver *r = dt_receiver_of(path->connection);
    uint32_t bit = 1u << path->index;
    bool is_refused =
        !flush && !is_queued && (path->is_flush_broken | dt_exchange_acq_rel(&path->is_flush_refused, 0u));

    DT_CHECK(!path->connection->is_sender && path->flush_outstanding <= DT_FLUSHES_MAX);
    path->is_flush_broken = false;
    if (is_queued || (!flush && !is_refused)) /* it is being made for the next epoch, or none was requested */
        return NULL;
    dt_store_release(&path->flush, (struct dt_flush *)NULL);
    r->flush_made_mask &= ~bit;
    if (!dt_receiver_flush_renew(r, path))
        __atomic_fetch_and(&r->flush_wanted_mask, ~bit, __ATOMIC_ACQ_REL);
    return flush;
}

void dt_republish_snapshot(struct dt_path *path)
{
    struct dt_receiver *r = dt_receiver_of(path->connection);

    DT_CHECK(path->state == DT_PATH_NONE); /* nothing arrives over it any more */
    path->switchover->resume.first = dt_receiver_first_incomplete(r);
    DT_CHECK(path->switchover->resume.first <= r->next);
    path->switchover->resume.later = 0;
    r->connection.ops->snapshot(r, &path->switchover->resume);
    for (uint64_t sequence = path->switchover->resume.first + 1; sequence < r->next; sequence++) {
        const struct dt_recv_slot *slot = &r->slot[sequence & (r->connection.slots - 1)];

        if (slot->sequence != sequence || slot->state != DT_RECV_OPEN)
            dt_resume_add(&path->switchover->resume, sequence);
    }
}
