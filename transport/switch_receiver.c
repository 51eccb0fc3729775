/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver's half of a switch. Receives need no rewinding: which message it is travels in the immediate.
 */
#include <string.h>

#include "base/planted.h"
#include "transport/ahead.h"
#include "transport/switch.h"

#include "transport/nic.h"

/*
 * Some bytes of the message may have come over the path, and may still be on their way to a GPU: the flush of
 * the message, which another path will bring, has to be sure of those, too.
 */
static void note_written(const struct dt_recv_slot *slot, const struct dt_path *path)
{
    uint32_t bit = 1u << path->index;

    for (uint32_t i = 0; i < slot->parts; i++) {
        struct dt_memory *memory = slot->memory[i];

        if (memory && !memory->is_host && path->is_open && !DT_PLANTED(PART_FLUSH))
            memory->written_mask |= memory->path_mask & bit;
    }
}

uint32_t dt_switch_forget(struct dt_path *path)
{
    struct dt_receiver *r = dt_receiver_of(path->connection);
    uint32_t count = 0;

    /* A device that does not even flush its queue pairs does not read either. */
    if (dt_load_relaxed(&path->nic->is_dead) || path->is_flush_broken || path->fence.is_destroyed)
        dt_receiver_flush_lose(r, path);
    for (uint32_t i = 0; i < r->connection.slots; i++) {
        struct dt_recv_slot *slot = &r->slot[i];

        if (slot->state != DT_RECV_OPEN)
            continue;
        note_written(slot, path);
        if (!DT_PLANTED(KEEP_PARTS))
            dt_arrivals_clear(&slot->arrivals[path->index]);
        if (slot->path != path->index || DT_PLANTED(NO_REPUBLISH))
            continue;
        slot->path = (uint8_t)(slot->path + DT_PATHS_MAX);
        count++;
    }
    r->again += count;
    if (count > 0)
        dt_connection_notify(&r->connection, DT_NOTICE_AGAIN);
    return count;
}

struct dt_flush *dt_switch_retire_flush(struct dt_path *path)
{
    struct dt_flush *flush = dt_load_acquire(&path->flush);
    struct dt_receiver *r = dt_receiver_of(path->connection);
    uint32_t bit = 1u << path->index;
    bool is_refused = !flush && (path->is_flush_broken | dt_exchange_acq_rel(&path->is_flush_refused, 0u));

    path->is_flush_broken = false;
    if (!flush && !is_refused) /* none was wanted, or it is being made just now, and stays */
        return NULL;
    dt_store_release(&path->flush, (struct dt_flush *)NULL);
    r->flush_made_mask &= ~bit;
    if (!dt_receiver_flush_renew(r, path))
        __atomic_fetch_and(&r->flush_wanted_mask, ~bit, __ATOMIC_ACQ_REL);
    return flush;
}

void dt_switch_snapshot(struct dt_path *path)
{
    struct dt_receiver *r = dt_receiver_of(path->connection);

    path->resume.first = dt_receiver_first_incomplete(r);
    path->resume.later = 0;
    if (r->ahead)
        memcpy(path->resume.ahead, r->ahead->arrived, sizeof path->resume.ahead);
    for (uint64_t sequence = path->resume.first + 1; sequence < r->next; sequence++) {
        const struct dt_recv_slot *slot = &r->slot[sequence & (r->connection.slots - 1)];

        if (slot->sequence != sequence || slot->state != DT_RECV_OPEN)
            dt_resume_add(&path->resume, sequence);
    }
}
