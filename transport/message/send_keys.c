/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/send_keys.h"

#include <string.h>

#include "base/check.h"
#include "base/util.h"
#include "failover/planted.h"
#include "transport/protocol/cts.h"
#include "transport/protocol/memory_layout.h"

/* Also where there were none: the memory may wait for the device since its receive was opened. */
static void drop(struct dt_send_slot *slot, uint32_t p)
{
    uint8_t bit = (uint8_t)(1u << p);

    if (DT_PLANTED(OLD_KEYS))
        return;
    slot->stale_mask |= bit;
    for (uint32_t i = 0; i < slot->parts; i++)
        slot->entry[i].path_mask &= (uint8_t)~bit;
}

void dt_sender_drop_stale_keys(const struct dt_sender *s, struct dt_send_slot *slot, uint64_t sequence,
                               uint32_t ring)
{
    slot->parts = slot->entry[0].parts;
    slot->stale_mask = 0; /* of the message that had the slot before */
    for (uint32_t p = 0; p < s->connection.path_count; p++) {
        if (p != ring && sequence < s->connection.path[p].keys_since)
            drop(slot, p);
    }
}

/* The device writes to no row of the path now: its old epoch is fenced at both ends, its new one not in use.
 */
static DT_READS_DEVICE_MEMORY void clear_ring(const struct dt_path *path)
{
    memset(path->control, 0, dt_cts_ring_bytes(path->group->slots));
}

void dt_sender_keys_renewed(struct dt_sender *s, struct dt_path *path, const struct dt_path_offer *offer)
{
    struct dt_connection *c = &s->connection;
    uint64_t before = s->keys_since;

    if (offer->generation == path->peer_generation)
        return;
    DT_CHECK(path->state == DT_PATH_NONE && path->control);
    path->peer_generation = offer->generation;
    path->keys_since = offer->keys_since;
    s->keys_since = dt_max_u64(s->keys_since, offer->keys_since);
    if (!DT_PLANTED(OLD_RING))
        clear_ring(path);
    for (uint32_t i = 0; i < c->slots; i++) {
        if (s->slot[i].sequence >= before) /* it was not used */
            s->slot[i].stale_mask = 0;
        if (s->slot[i].state != DT_SEND_FREE && s->slot[i].sequence < offer->keys_since)
            drop(&s->slot[i], path->index);
    }
}

void dt_sender_fetch_keys(struct dt_sender *s, struct dt_send_slot *slot)
{
    struct dt_connection *c = &s->connection;

    for (uint32_t p = 0; p < c->path_count; p++) {
        const struct dt_cts_row *ring = (const struct dt_cts_row *)(const void *)c->path[p].control;
        struct dt_cts_entry entry[DT_PARTS_MAX];
        uint8_t bit = (uint8_t)(1u << p);
        bool is_broken;

        if (!(slot->stale_mask & bit) || c->path[p].state != DT_PATH_UP ||
            !dt_cts_read(&ring[slot->sequence & (c->slots - 1)], slot->sequence, entry, &is_broken) ||
            entry[0].parts != slot->parts)
            continue;
        for (uint32_t i = 0; i < slot->parts; i++) {
            slot->entry[i].rkey[p] = entry[i].rkey[p];
            slot->entry[i].path_mask |= entry[i].path_mask & bit;
        }
        slot->stale_mask &= (uint8_t)~bit;
    }
}
