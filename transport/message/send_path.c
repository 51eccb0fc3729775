/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end: which path can carry a message now. */
#include "transport/message/send_path.h"

#include "base/check.h"
#include "transport/message/send_keys.h"
#include "transport/path/path.h"

/*
 * The paths that can carry the message: all its buffers, at both ends, are registered there. With `with_late`
 * also those that can once a device of this end has answered, or the receiver has sent its keys again.
 */
static inline uint32_t reachable_mask(const struct dt_sender *s, const struct dt_send_slot *slot,
                                      bool with_late)
{
    uint32_t mask = ~0u;

    for (uint32_t i = 0; i < slot->parts; i++) {
        const struct dt_send_part *part = &slot->part[i];

        uint32_t late; /* read first: a path moves from late_mask to path_mask */

        if (part->bytes == 0)
            continue;
        late = with_late ? dt_load_acquire(&part->memory->late_mask) : 0;
        mask &= (dt_load_acquire(&part->memory->path_mask) | late) &
                (slot->entry[i].path_mask | (with_late ? dt_sender_stale_mask(s, slot) : 0u));
    }
    return mask;
}

/* Another path than the usual one, or NULL: none now, or the connection has failed. */
struct dt_path *dt_sender_other_path_for(struct dt_sender *s, const struct dt_send_slot *slot)
{
    struct dt_connection *c = &s->connection;
    uint32_t mask;

    if (dt_sender_stale_mask(s, slot))
        dt_sender_fetch_keys(s, dt_sender_slot(s, slot->sequence));
    mask = reachable_mask(s, slot, false);

    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].state == DT_PATH_UP && mask & 1u << p)
            return &c->path[p];
    }
    if (!(reachable_mask(s, slot, true) & ((1u << c->path_count) - 1)))
        dt_connection_fail(c, DT_SYSTEM, "no path reaches the buffers of message %llu at both ends",
                           (unsigned long long)slot->sequence);
    return NULL; /* one that does may come back */
}

struct dt_path *dt_sender_path_for(struct dt_sender *s, const struct dt_send_slot *slot)
{
    struct dt_path *path = s->connection.current;

    DT_CHECK_HOT(!path || path->state == DT_PATH_UP);
    return path && reachable_mask(s, slot, false) & 1u << path->index ? path
                                                                      : dt_sender_other_path_for(s, slot);
}

bool dt_sender_has_room(const struct dt_path *path, uint32_t writes)
{
    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (dt_qp_room(path->qp[q]) < writes)
            return false;
    }
    return true;
}
