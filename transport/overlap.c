/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/overlap.h"

#include <endian.h>

#include "base/check.h"
#include "base/planted.h"
#include "transport/split.h"
#include "transport/staging.h"

/* Writes of less are not worth their trouble, unless the agreed chunk size says so. */
#define WRITE_BYTES (128u << 10)

/* begun_bytes: a write was refused. */
#define REFUSED UINT32_MAX

DT_STATIC_CHECK(DT_MESSAGE_BYTES_MAX < REFUSED, "no message has so many bytes");
DT_STATIC_CHECK(2 * DT_WRITES_PER_PART_MAX <= DT_WRITES_PER_MESSAGE_MAX,
                "what is posted, and room for all of it once more, fit any send queue together");

/* Bytes of each write but the last. */
static uint32_t write_bytes(const struct dt_path *path, uint32_t bytes)
{
    return dt_split_chunk_bytes(bytes, (uint32_t)dt_min_u64(WRITE_BYTES, path->connection->chunk_bytes));
}

/* Where it was begun, if that can go on; or where it could begin. NULL: nowhere now. */
static struct dt_path *path_of(struct dt_sender *s, const struct dt_send_slot *slot)
{
    struct dt_path *path = &s->connection.path[slot->path];

    if (slot->state != DT_SEND_BEGUN) {
        path = slot->parts == 1 && dt_gate_is_idle(&s->gate) ? dt_sender_path_for(s, slot) : NULL;
        return path && path->qp_count == 1 ? path : NULL;
    }
    if (path->state == DT_PATH_UP && path->epoch == slot->epoch && slot->begun_bytes != REFUSED)
        return path;
    return NULL;
}

/* Plain writes, as far as `copied`, but not the last one of the message. */
static enum dt_status post_ahead(struct dt_path *path, struct dt_send_slot *slot, uint64_t copied)
{
    const struct dt_send_part *part = &slot->part[0];
    const struct dt_cts_entry *entry = &slot->entry[0];
    uint32_t each = write_bytes(path, part->bytes), begun = slot->begun_bytes, count = 0;
    struct dt_write write[DT_CHUNKS_MAX];

    while (part->bytes - begun > each && copied - begun >= each) {
        write[count++] = (struct dt_write){
            .local_addr = part->addr + begun,
            .remote_addr = le64toh(entry->address) + begun,
            .wr_id = path->payload_id[0] | (uint32_t)slot->sequence,
            .bytes = each,
            .lkey = part->memory->mr[path->index]->lkey,
            .rkey = le32toh(entry->rkey[path->index]),
        };
        begun += each;
    }
    if (count == 0)
        return DT_OK;
    slot->begun_bytes = begun;
    return dt_qp_post_write(path->qp[0], write, count);
}

/* From now on it belongs to this epoch. */
static void begin(const struct dt_path *path, struct dt_send_slot *slot)
{
    slot->path = (uint8_t)path->index;
    slot->epoch = path->epoch;
    slot->state = DT_SEND_BEGUN;
}

static bool refused(struct dt_sender *s, struct dt_path *path, struct dt_send_slot *slot)
{
    begin(path, slot);
    slot->begun_bytes = REFUSED;
    dt_connection_path_refused(&s->connection, path, "refused a write");
    return false;
}

/* Of a message that is BEGUN, or may be READY as before. */
static bool post(struct dt_sender *s, struct dt_path *path, struct dt_send_slot *slot, bool is_copied)
{
    uint64_t copied = is_copied ? slot->part[0].bytes : dt_stage_copied_bytes(slot->part[0].staged);
    enum dt_status status;

    if (DT_PLANTED(OVERLAP_RAW))
        copied = slot->part[0].bytes;
    if (slot->state != DT_SEND_BEGUN)
        slot->begun_bytes = 0;
    status = post_ahead(path, slot, copied);
    if (status != DT_OK)
        return refused(s, path, slot);
    if (slot->begun_bytes == 0)
        return false;
    begin(path, slot);
    if (is_copied)
        status = dt_sender_post_last(path, slot, slot->begun_bytes);
    dt_qp_ring(path->qp[0]);
    if (!is_copied)
        return false;
    /* Refused, it counts as posted, like any other: the immediate may have gone out. */
    dt_sender_mark_posted(path, slot);
    s->next_post++;
    if (status != DT_OK)
        dt_connection_path_refused(&s->connection, path, "refused a write");
    return true;
}

bool dt_overlap_progress(struct dt_sender *s, struct dt_send_slot *slot, bool is_copied)
{
    struct dt_path *path;

    if (dt_load_relaxed(&s->connection.failing) != DT_OK)
        return false;
    path = path_of(s, slot);
    if (!path && slot->state == DT_SEND_BEGUN && DT_PLANTED(OVERLAP_UNSETTLED))
        dt_overlap_settled(slot);
    if (!path || !dt_sender_has_room(path, DT_WRITES_PER_PART_MAX))
        return false;
    return post(s, path, slot, is_copied);
}

void dt_overlap_settled(struct dt_send_slot *slot)
{
    slot->state = DT_SEND_READY;
}
