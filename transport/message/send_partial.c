/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end: posting the ready bytes of a message. */
#include "transport/message/send_partial.h"

#include <endian.h>

#include "base/check.h"
#include "failover/planted.h"
#include "transport/message/memory.h"
#include "transport/message/send_multi.h"
#include "transport/message/send_path.h"
#include "transport/protocol/split.h"

/* Shorter writes cost more than they gain, unless the agreed chunk size asks for them. */
#define WRITE_BYTES (128u << 10)

DT_STATIC_CHECK(2 * DT_WRITES_PER_PART_MAX <= DT_WRITES_PER_MESSAGE_MAX,
                "what is posted, and room for all of it once more, fit any send queue together");

/* Bytes of each write but the last. */
static uint32_t write_bytes(const struct dt_path *path, uint32_t bytes)
{
    const struct dt_connection *c = path->connection;

    return dt_split_chunk_bytes(bytes, (uint32_t)dt_min_u64(WRITE_BYTES, c->chunk_bytes),
                                bytes > c->adaptive_bytes);
}

/* The path that a PARTIAL message is on, if it can go on there; of a READY one where it can start. NULL: none
 * now. */
static struct dt_path *path_of(struct dt_sender *s, const struct dt_send_slot *slot)
{
    struct dt_path *path = &s->connection.path[slot->path];

    if (slot->state != DT_SEND_PARTIAL) {
        path = slot->parts == 1 && dt_gate_is_idle(&s->gate) ? dt_sender_path_for(s, slot) : NULL;
        return path && path->qp_count == 1 ? path : NULL;
    }
    return path->state == DT_PATH_UP && path->epoch == slot->epoch && !slot->is_refused ? path : NULL;
}

/* Posts plain writes as far as the payload is ready, but not the last write of the message. */
static enum dt_status post_ready_bytes(struct dt_path *path, struct dt_send_slot *slot)
{
    const struct dt_send_part *part = &slot->part[0];
    const struct dt_cts_entry *entry = &slot->entry[0];
    uint32_t ready = DT_PLANTED(OVERLAP_RAW) ? part->bytes : part->ready_bytes;
    uint32_t each = write_bytes(path, part->bytes), posted = slot->posted_bytes, count = 0;
    struct dt_write write[DT_CHUNKS_MAX];

    DT_CHECK(posted <= ready && ready <= part->bytes);
    while (part->bytes - posted > each && ready - posted >= each) {
        DT_CHECK(count < DT_CHUNKS_MAX);
        write[count++] = (struct dt_write){
            .local_addr = part->addr + posted,
            .remote_addr = le64toh(entry->address) + posted,
            .wr_id = path->payload_id[0] | (uint32_t)slot->sequence,
            .bytes = each,
            .lkey = part->memory->mr[path->index]->lkey,
            .rkey = le32toh(entry->rkey[path->index]),
        };
        posted += each;
    }
    slot->posted_bytes = posted;
    return count > 0 ? dt_qp_post_write(path->qp[0], write, count) : DT_OK;
}

/* From now on the message belongs to this epoch. */
static void become_partial(const struct dt_path *path, struct dt_send_slot *slot)
{
    slot->path = (uint8_t)path->index;
    slot->epoch = path->epoch;
    dt_send_slot_set(slot, DT_SEND_PARTIAL);
}

/* The last write of the message. Refused, the message counts as posted, like any other: the immediate may be
 * out. */
static void finish(struct dt_sender *s, struct dt_path *path, struct dt_send_slot *slot)
{
    enum dt_status status = dt_sender_post_last(path, slot, slot->posted_bytes);

    dt_qp_ring(path->qp[0]);
    dt_sender_mark_posted(path, slot);
    if (status != DT_OK)
        dt_connection_path_refused(&s->connection, path, "refused a write");
}

static bool post(struct dt_sender *s, struct dt_path *path, struct dt_send_slot *slot)
{
    enum dt_status status;

    if (slot->state != DT_SEND_PARTIAL) {
        slot->posted_bytes = 0;
        slot->is_refused = false;
    }
    status = post_ready_bytes(path, slot);
    if (status == DT_OK && slot->posted_bytes == 0)
        return false;
    become_partial(path, slot);
    if (status != DT_OK) {
        slot->is_refused = true;
        dt_connection_path_refused(&s->connection, path, "refused a write");
        return false;
    }
    if (dt_send_is_payload_ready(slot)) {
        finish(s, path, slot);
        return true;
    }
    dt_qp_ring(path->qp[0]);
    return false;
}

bool dt_sender_post_partial(struct dt_sender *s, struct dt_send_slot *slot)
{
    struct dt_path *path;

    DT_CHECK(slot->sequence == s->next_post);
    DT_CHECK(slot->state == DT_SEND_PARTIAL || !dt_send_is_payload_ready(slot));
    if (dt_load_relaxed(&s->connection.failing) != DT_OK)
        return false;
    path = path_of(s, slot);
    if (!path && slot->state == DT_SEND_PARTIAL && DT_PLANTED(OVERLAP_UNSETTLED))
        dt_sender_restart(slot);
    if (!path || !dt_sender_has_room(path, DT_WRITES_PER_PART_MAX))
        return false;
    return post(s, path, slot);
}
