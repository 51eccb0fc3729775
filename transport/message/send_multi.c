/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end: a message of more than one write, as parts, queue pairs and chunks make it. */
#include "transport/message/send_multi.h"

#include <endian.h>

#include "transport/message/send_path.h"
#include "transport/message/memory.h"
#include "transport/protocol/immediate.h"
#include "transport/protocol/split.h"
#include "base/check.h"

static uint32_t qp_of(const struct dt_path *path, const struct dt_send_slot *slot, uint32_t share)
{
    return dt_split_qp(slot->sequence, path->share_count, path->qp_count, share);
}

/* Room for the most that the message can take, on each of its queue pairs. */
static bool has_room(const struct dt_path *path, const struct dt_send_slot *slot)
{
    for (uint32_t i = 0; i < path->share_count; i++) {
        if (dt_qp_room(path->qp[qp_of(path, slot, i)]) < (uint32_t)slot->parts * DT_WRITES_PER_PART_MAX)
            return false;
    }
    return true;
}

/* The size record of a part with several writes; it precedes the immediate. */
static struct dt_write size_record(const struct dt_path *path, const struct dt_send_slot *slot, uint32_t i,
                                   const uint64_t *record)
{
    uint32_t slots = path->connection->slots;
    struct dt_write write = {
        .local_addr = (uintptr_t)record,
        .remote_addr =
            path->peer_control_addr + ((slot->sequence & (slots - 1)) * DT_PARTS_MAX + i) * sizeof *record,
        .bytes = sizeof *record,
        .rkey = path->peer_control_rkey,
        .flags = DT_POST_INLINE,
    };

    return write;
}

/*
 * Posts part i's share `index` on queue pair q: chunks, the size record if there are several, and last the
 * write that carries the immediate, without bytes if the share has none. InfiniBand's adaptive routing leaves
 * writes with an immediate on their fixed route ("RDMA_WRITE_WITH_IMM messages do not use adaptive routing",
 * nccl issue 850), so above a size the last write is empty.
 */
static enum dt_status post_share(struct dt_path *path, uint32_t q, uint32_t index,
                                 const struct dt_send_slot *slot, uint32_t i)
{
    const struct dt_connection *c = path->connection;
    const struct dt_send_part *part = &slot->part[i];
    const struct dt_cts_entry *entry = &slot->entry[i];
    struct dt_share share = dt_split_share(part->bytes, c->shares, index);
    bool is_adaptive = part->bytes > c->adaptive_bytes;
    bool is_sized = is_adaptive || dt_split_share(part->bytes, c->shares, 0).bytes > c->chunk_bytes;
    uint32_t each = dt_split_chunk_bytes(share.bytes, c->chunk_bytes, is_adaptive);
    uint64_t record = htole64(slot->sequence << 32 | part->bytes);
    struct dt_write write[DT_WRITES_PER_PART_MAX];
    struct dt_write next = {
        .local_addr = part->addr + share.offset,
        .remote_addr = le64toh(entry->address) + share.offset,
        .wr_id = path->payload_id[q] | (uint32_t)slot->sequence,
        .bytes = share.bytes,
        .lkey = part->bytes ? part->memory->mr[path->index]->lkey : 0,
        .rkey = le32toh(entry->rkey[path->index]),
    };
    uint32_t count = 0;

    while (next.bytes > (is_adaptive ? 0 : each)) {
        uint32_t bytes = (uint32_t)dt_min_u64(next.bytes, each);

        DT_CHECK_HOT(count < DT_CHUNKS_MAX);
        write[count] = next;
        write[count++].bytes = bytes;
        next.local_addr += bytes;
        next.remote_addr += bytes;
        next.bytes -= bytes;
    }
    if (is_sized && index == 0) {
        write[count] = size_record(path, slot, i, &record);
        write[count++].wr_id = next.wr_id;
    }
    next.imm = dt_imm_encode(is_sized ? DT_IMM_SIZED : DT_IMM_DATA, i, slot->sequence);
    next.flags = DT_POST_IMM | (i + 1u == slot->parts ? DT_POST_SIGNALED : 0);
    if (next.bytes > 0 && next.bytes <= path->inline_bytes && part->memory->is_host)
        next.flags |= DT_POST_INLINE;
    write[count++] = next;
    return dt_qp_post_write(path->qp[q], write, count);
}

enum dt_status dt_sender_post_last(struct dt_path *path, const struct dt_send_slot *slot,
                                   uint32_t posted_bytes)
{
    const struct dt_send_part *part = &slot->part[0];
    const struct dt_cts_entry *entry = &slot->entry[0];
    uint64_t record = htole64(slot->sequence << 32 | part->bytes);
    struct dt_write payload = {
        .local_addr = part->addr + posted_bytes,
        .remote_addr = le64toh(entry->address) + posted_bytes,
        .bytes = part->bytes - posted_bytes,
        .lkey = part->memory->mr[path->index]->lkey,
        .rkey = le32toh(entry->rkey[path->index]),
    };
    struct dt_write write[3];
    uint32_t count = 0;

    DT_CHECK_HOT(slot->parts == 1 && path->qp_count == 1 && posted_bytes > 0 && posted_bytes < part->bytes);
    if (part->bytes > path->connection->adaptive_bytes) {
        write[count++] = payload;
        payload.bytes = 0;
    }
    write[count++] = size_record(path, slot, 0, &record);
    payload.imm = dt_imm_encode(DT_IMM_SIZED, 0, slot->sequence);
    payload.flags = DT_POST_IMM | DT_POST_SIGNALED;
    write[count++] = payload;
    for (uint32_t i = 0; i < count; i++)
        write[i].wr_id = path->payload_id[0] | (uint32_t)slot->sequence;
    return dt_qp_post_write(path->qp[0], write, count);
}

enum dt_status dt_sender_post_shares(struct dt_path *path, uint32_t q, const struct dt_send_slot *slot)
{
    uint32_t index = dt_split_share_of(slot->sequence, path->share_count, path->qp_count, q);

    DT_CHECK_HOT(index < path->share_count);
    for (uint32_t i = 0; i < slot->parts; i++) {
        enum dt_status status = post_share(path, q, index, slot, i);

        if (status != DT_OK)
            return status;
    }
    return DT_OK;
}

enum dt_status dt_sender_post_all(struct dt_path *path, const struct dt_send_slot *slot)
{
    if (!has_room(path, slot))
        return DT_FULL;
    for (uint32_t i = 0; i < path->share_count; i++) {
        uint32_t q = qp_of(path, slot, i);
        enum dt_status status = dt_sender_post_shares(path, q, slot);

        if (status != DT_OK)
            return status;
        dt_qp_ring(path->qp[q]);
    }
    return DT_OK;
}
