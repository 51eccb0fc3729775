/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/wqe_copy.h"

#include <endian.h>
#include <string.h>

#include "verbs/dv.h"
#include "verbs/posting.h"

/* An element of the old queue. */
struct element {
    uint32_t block;   /* it begins there; counted freely, as qp->block_head */
    uint32_t ordinal; /* which work request of the queue pair */
    uint64_t wr_id;
    struct dt_wqe wqe;
};

static struct dt_wqe_ring ring_of(const struct dt_qp *qp)
{
    struct dt_wqe_ring ring = {(uint8_t *)qp->queue.sq_buf, qp->queue.sq_block_count};

    return ring;
}

static uint8_t *unit_of(const struct dt_qp *qp, uint32_t block, uint32_t unit)
{
    uint32_t at = (block + unit / 4) & qp->slot_mask;

    return (uint8_t *)qp->queue.sq_buf + (size_t)at * DT_WQE_BLOCK_BYTES +
           (size_t)(unit % 4) * DT_WQE_UNIT_BYTES;
}

/* ------------------------------------------------------------------------------------------------------------
 * Reading the old queue
 */

/* Reads the element that was posted as number `ordinal` and begins at `block`. False: it is not that one. */
static bool read_element(const struct dt_qp *qp, uint32_t block, uint32_t ordinal, struct element *out)
{
    const struct dt_send_slot *slot = &qp->slots[block & qp->slot_mask];
    struct dt_wqe_ring ring = ring_of(qp);

    if (slot->ordinal != ordinal)
        return false;
    dt_wqe_decode(&ring, (uint16_t)block, &out->wqe);
    out->block = block;
    out->ordinal = ordinal;
    out->wr_id = slot->wr_id;
    return !out->wqe.is_malformed && out->wqe.index == (uint16_t)block && out->wqe.qpn == qp->qpn;
}

/*
 * The element before *at, if no later one has overwritten any of it. A block in its middle is never taken for
 * its beginning, as its slot has the ordinal of an older lap.
 */
static bool previous(const struct dt_qp *qp, const struct element *at, struct element *out)
{
    for (uint32_t blocks = 1; blocks <= (DT_WQE_UNITS_MAX + 3) / 4; blocks++) {
        uint32_t block = at->block - blocks;

        if (qp->block_head - block > qp->queue.sq_block_count)
            return false;
        if (read_element(qp, block, at->ordinal - 1, out) && out->wqe.blocks == blocks)
            return true;
    }
    return false;
}

/* The element after *at. False: there is none, or the queue does not hold what was posted. */
static bool next(const struct dt_qp *qp, const struct element *at, struct element *out)
{
    return at->ordinal + 1 != qp->posted &&
           read_element(qp, at->block + at->wqe.blocks, at->ordinal + 1, out);
}

/* The oldest element that can be part of a whole run. False: there is none. */
static bool oldest(const struct dt_qp *qp, struct element *out)
{
    struct element before;

    if (!read_element(qp, qp->block_last, qp->posted - 1, out) ||
        qp->block_last + out->wqe.blocks != qp->block_head)
        return false;
    while (previous(qp, out, &before))
        *out = before;
    if (out->ordinal == 0 && out->block == 0)
        return true; /* the queue's first; both counters turn over, but hardly ever in the same place */
    /* earlier elements are overwritten and may have begun the same run */
    for (before = *out; out->wr_id == before.wr_id;) {
        struct element after;

        if (!next(qp, out, &after))
            return false;
        *out = after;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------------
 * Changing the fields that belong to a queue pair
 */
static bool map_remote(const struct dt_replay_map *map, const struct element *e, uint8_t *unit)
{
    struct dt_wqe_remote remote;
    uint64_t addr;
    uint32_t rkey;

    if (!dt_wqe_has_remote(e->wqe.opcode) || !e->wqe.payload_bytes)
        return true;
    memcpy(&remote, unit, sizeof remote);
    addr = be64toh(remote.addr);
    rkey = be32toh(remote.rkey);
    if (!map->remote(map->arg, e->wr_id, e->wqe.payload_bytes, &addr, &rkey))
        return false;
    remote.addr = htobe64(addr);
    remote.rkey = htobe32(rkey);
    memcpy(unit, &remote, sizeof remote);
    return true;
}

static bool map_local(const struct dt_replay_map *map, const struct element *e, uint8_t *unit)
{
    struct dt_wqe_data data;
    uint32_t lkey, bytes;

    memcpy(&data, unit, sizeof data);
    lkey = be32toh(data.lkey);
    bytes = be32toh(data.byte_count);
    if (!map->local(map->arg, e->wr_id, be64toh(data.addr), bytes ? bytes : DT_WQE_INLINE, &lkey))
        return false;
    data.lkey = htobe32(lkey);
    memcpy(unit, &data, sizeof data);
    return true;
}

static uint32_t data_segments(const struct dt_wqe *wqe)
{
    return wqe->is_inline || wqe->opcode == DT_WQE_NOP ? 0 : (uint32_t)wqe->units - wqe->first_data;
}

/* Can it be copied? */
static enum dt_status try_element(const struct dt_qp *from, const struct dt_qp *to,
                                  const struct dt_replay_map *map, const struct element *e)
{
    uint8_t unit[DT_WQE_UNIT_BYTES];

    if (e->wqe.blocks > dt_dv_blocks_max(to->inline_bytes))
        return DT_UNSUPPORTED;
    memcpy(unit, unit_of(from, e->block, 1), sizeof unit);
    if (!map_remote(map, e, unit))
        return DT_INVALID;
    for (uint32_t i = 0; i < data_segments(&e->wqe); i++) {
        memcpy(unit, unit_of(from, e->block, e->wqe.first_data + i), sizeof unit);
        if (!map_local(map, e, unit))
            return DT_INVALID;
    }
    return DT_OK;
}

static void copy_element(const struct dt_qp *from, struct dt_qp *to, const struct dt_replay_map *map,
                         const struct element *e, bool is_signaled)
{
    uint32_t block = to->block_head;
    struct dt_wqe_ctrl ctrl;

    DT_CHECK(from != to && dt_qp_room(to) > 0);
    DT_CHECK(e->wqe.blocks <= dt_dv_blocks_max(to->inline_bytes));
    for (uint32_t i = 0; i < e->wqe.blocks; i++)
        memcpy(unit_of(to, block + i, 0), unit_of(from, e->block + i, 0), DT_WQE_BLOCK_BYTES);
    memcpy(&ctrl, unit_of(to, block, 0), sizeof ctrl);
    ctrl.opmod_idx_opcode = htobe32((uint32_t)e->wqe.opmod << 24 | (block & 0xffff) << 8 | e->wqe.opcode);
    ctrl.qpn_ds = htobe32(to->qpn << 8 | e->wqe.units);
    ctrl.fm_ce_se = (uint8_t)((e->wqe.flags & ~DT_WQE_SIGNALED) | (is_signaled ? DT_WQE_SIGNALED : 0));
    memcpy(unit_of(to, block, 0), &ctrl, sizeof ctrl);
    DT_CHECK(map_remote(map, e, unit_of(to, block, 1))); /* as it answered try_element */
    for (uint32_t i = 0; i < data_segments(&e->wqe); i++)
        DT_CHECK(map_local(map, e, unit_of(to, block, e->wqe.first_data + i)));
    dt_dv_record(to, map->wr_id(map->arg, e->wr_id), e->wqe.blocks);
}

/* ------------------------------------------------------------------------------------------------------------
 * Runs
 */
struct search {
    const struct dt_qp *from;
    const uint64_t *wr_ids;
    uint32_t count;
};

/* Which of the wr_ids it is, or -1. */
static int wanted(const struct search *search, uint64_t wr_id)
{
    for (uint32_t i = 0; i < search->count; i++) {
        if (search->wr_ids[i] == wr_id)
            return (int)i;
    }
    return -1;
}

/* Looks at all of the queue from `at` on: is everything there, once, and can it be copied? */
static enum dt_status try_all(const struct search *search, const struct dt_qp *to,
                              const struct dt_replay_map *map, struct element at)
{
    uint64_t left = search->count == DT_REPLAY_RUNS_MAX ? ~0ull : (1ull << search->count) - 1;
    uint32_t elements = 0;
    int previous_run = -1;

    for (;;) {
        int run = wanted(search, at.wr_id);
        struct element after;

        if (run >= 0) {
            enum dt_status status = try_element(search->from, to, map, &at);

            if (status != DT_OK)
                return status;
            if (run != previous_run && !(left & 1ull << run))
                return DT_INVALID;
            left &= ~(1ull << run);
            elements++;
        }
        previous_run = run;
        if (!next(search->from, &at, &after))
            break;
        at = after;
    }
    if (at.ordinal + 1 != search->from->posted)
        return DT_INVALID;
    if (left)
        return DT_NOT_FOUND;
    return elements > dt_qp_room(to) ? DT_FULL : DT_OK;
}

static void copy_all(const struct search *search, struct dt_qp *to, const struct dt_replay_map *map,
                     struct element at)
{
    bool is_more;

    do {
        struct element after;

        is_more = next(search->from, &at, &after);
        if (wanted(search, at.wr_id) >= 0)
            copy_element(search->from, to, map, &at, !is_more || after.wr_id != at.wr_id);
        at = after;
    } while (is_more);
}

enum dt_status dt_qp_copy_wqes(const struct dt_qp *from, struct dt_qp *to, const uint64_t *wr_ids,
                               uint32_t count, const struct dt_replay_map *map)
{
    struct search search = {from, wr_ids, count};
    struct element first;
    enum dt_status status;

    if (from->posting != &dt_posting_dv || to->posting != &dt_posting_dv)
        return DT_UNSUPPORTED;
    if (!count)
        return DT_OK;
    if (count > DT_REPLAY_RUNS_MAX || from == to)
        return DT_INVALID;
    if (!oldest(from, &first))
        return DT_NOT_FOUND;
    status = try_all(&search, to, map, first);
    if (status == DT_OK)
        copy_all(&search, to, map, first);
    return status;
}
