/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a sender: copies out of a GPU that are late. */
#include "hostpath/staged/stage_late.h"

#include "base/check.h"
#include "base/log.h"

static bool is_copying(const struct dt_staged *entry)
{
    return dt_load_acquire(&entry->copies_left) > 0;
}

static bool is_late(const struct dt_sender *s, const struct dt_staged *entry)
{
    const struct dt_ticks *ticks = s->connection.meter.ticks;
    uint64_t now;

    if (!entry->is_of_gpu || entry->is_direct || !is_copying(entry))
        return false;
    now = dt_ticks_now(ticks);
    return now > entry->queued && dt_ticks_to_ns(ticks, now - entry->queued) >= s->stage->late_ns;
}

/* A PARTIAL message stays on its path. */
static bool may_read(const struct dt_sender *s, const struct dt_send_slot *slot,
                     const struct dt_memory *memory)
{
    const struct dt_path *path = s->connection.current;

    if (slot->state == DT_SEND_PARTIAL)
        path = &s->connection.path[slot->path];
    return path && dt_load_acquire(&memory->path_mask) & 1u << path->index;
}

static void log_late(const struct dt_sender *s, const struct dt_staged *entry)
{
    const struct dt_connection *c = &s->connection;

    if (s->stage->has_late)
        return;
    dt_info(
        "copy-late",
        "connection %016llx to %s: the driver has not copied %u bytes out of the GPU's memory within %llu "
        "ms: sends of GPU memory go directly until it has",
        (unsigned long long)c->id, c->peer, entry->bytes,
        (unsigned long long)(s->stage->late_ns / DT_NS_PER_MS));
}

void dt_stage_late_check(struct dt_sender *s, struct dt_send_slot *slot, uint32_t i, struct dt_staged *entry)
{
    struct dt_send_part *part = &slot->part[i];

    if (!is_late(s, entry) || !may_read(s, slot, entry->memory))
        return;
    /* Its request is open as long as it is copied, and an eager send waits for the copy. */
    DT_CHECK(entry->request.is_open && entry->memory && entry->eager == DT_EAGER_NONE);
    DT_CHECK(part->bytes == entry->bytes && part->addr == (uintptr_t)entry->at);
    log_late(s, entry);
    s->stage->has_late = true;
    entry->is_direct = true;
    dt_gpu_copy_abandon(&entry->gpu_copy);
    part->addr = (uintptr_t)entry->gpu_copy.from;
    part->memory = entry->memory;
    part->ready_bytes = part->bytes;
}

void dt_stage_late_collect(struct dt_stage *stage)
{
    dt_list_for_each(node, &stage->late)
    {
        struct dt_staged *entry = dt_container_of(node, struct dt_staged, node);

        if (is_copying(entry))
            continue;
        dt_list_remove(&entry->node);
        dt_pool_free(stage->pool, entry->at, entry->bytes);
        entry->at = NULL;
        dt_list_push_back(&stage->free, &entry->node);
    }
}

bool dt_stage_late_is_any(struct dt_stage *stage)
{
    if (!stage->has_late)
        return false;
    for (uint32_t i = 0; i < DT_STAGED_MAX; i++) {
        if (stage->entry[i].is_direct && is_copying(&stage->entry[i]))
            return true;
    }
    stage->has_late = false;
    return false;
}
