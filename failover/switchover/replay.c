/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/replay.h"

#include <endian.h>

#include "failover/replay.h"
#include "base/check.h"
#include "failover/switchover/report.h"
#include "transport/message/send_multi.h"
#include "transport/message/send_path.h"
#include "transport/message/memory.h"
#include "transport/protocol/split.h"

/* The shares of one queue pair, moved from one path to another. */
struct move {
    struct dt_sender *sender;
    struct dt_path *from;
    struct dt_path *to;
    uint32_t q;
};

static const struct dt_send_slot *slot_of(const struct move *move, uint64_t wr_id)
{
    return &move->sender->slot[(uint32_t)wr_id & (move->sender->connection.slots - 1)];
}

static bool lies_in(uint64_t addr, uint64_t bytes, uint64_t begin, uint64_t length)
{
    return addr >= begin && bytes <= length && addr - begin <= length - bytes;
}

/* ------------------------------------------------------------------------------------------------------------
 * The fields of a work request that differ between paths
 */
static uint64_t map_wr_id(void *arg, uint64_t wr_id)
{
    const struct move *move = arg;

    return move->to->payload_id[move->q] | (uint32_t)wr_id;
}

static bool map_local(void *arg, uint64_t wr_id, uint64_t addr, uint32_t bytes, uint32_t *lkey)
{
    const struct move *move = arg;
    const struct dt_send_slot *slot = slot_of(move, wr_id);

    for (uint32_t i = 0; i < slot->parts; i++) {
        const struct dt_send_part *part = &slot->part[i];

        if (!part->memory || !lies_in(addr, bytes, part->addr, part->bytes) ||
            part->memory->mr[move->from->index]->lkey != *lkey)
            continue;
        *lkey = part->memory->mr[move->to->index]->lkey;
        return true;
    }
    return false;
}

/* The buffer of a part, or the place of its size record: each path has its own. */
static bool map_remote(void *arg, uint64_t wr_id, uint64_t bytes, uint64_t *addr, uint32_t *rkey)
{
    const struct move *move = arg;
    const struct dt_path *from = move->from, *to = move->to;
    const struct dt_send_slot *slot = slot_of(move, wr_id);
    uint64_t record_bytes = (uint64_t)from->connection->slots * DT_PARTS_MAX * sizeof(uint64_t);

    for (uint32_t i = 0; i < slot->parts; i++) {
        const struct dt_cts_entry *entry = &slot->entry[i];

        if (le32toh(entry->rkey[from->index]) != *rkey ||
            !lies_in(*addr, bytes, le64toh(entry->address), slot->part[i].bytes))
            continue;
        *rkey = le32toh(entry->rkey[to->index]);
        return true;
    }
    if (from->peer_control_rkey != *rkey || !lies_in(*addr, bytes, from->peer_control_addr, record_bytes))
        return false;
    *addr += to->peer_control_addr - from->peer_control_addr;
    *rkey = to->peer_control_rkey;
    return true;
}

static enum dt_status post_anew(void *arg, struct dt_qp *qp, uint64_t wr_id)
{
    const struct move *move = arg;

    (void)qp; /* it is move->to's */
    return dt_sender_post_shares(move->to, move->q, slot_of(move, wr_id));
}

/* ------------------------------------------------------------------------------------------------------------
 * Which message goes where
 */

/* Chooses the messages that go over `to` and have room there on every queue pair; returns how many. */
static uint32_t choose(struct dt_sender *s, struct dt_path *to, struct dt_send_slot *const *slots,
                       uint32_t count, struct dt_send_slot **chosen)
{
    uint32_t chosen_count = 0, needed = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (slots[i]->state != DT_SEND_READY || dt_sender_path_for(s, slots[i]) != to)
            continue;
        DT_CHECK(i == 0 || slots[i]->sequence > slots[i - 1]->sequence); /* the oldest first */
        needed += slots[i]->parts * DT_WRITES_PER_PART_MAX;
        if (!dt_sender_has_room(to, needed))
            break;
        chosen[chosen_count++] = slots[i];
    }
    return chosen_count;
}

static bool has_share(const struct dt_path *path, const struct dt_send_slot *slot, uint32_t q)
{
    return dt_split_share_of(slot->sequence, path->share_count, path->qp_count, q) < path->share_count;
}

/* Posts those that have a share on the queue pair there. */
static enum dt_status move_share(struct move *move, struct dt_send_slot *const *slots, uint32_t count,
                                 uint32_t *engines)
{
    struct dt_replay_source source = {{move, map_wr_id, map_local, map_remote}, post_anew, move};
    const struct dt_replay_engine *engine;
    uint64_t wr_ids[DT_SLOTS_MAX];
    uint32_t done, on_qp = 0;
    enum dt_status status;

    DT_CHECK(count > 0 && count <= DT_SLOTS_MAX && move->q < move->to->qp_count);
    for (uint32_t i = 0; i < count; i++) {
        if (has_share(move->to, slots[i], move->q))
            wr_ids[on_qp++] = move->from->payload_id[move->q] | (uint32_t)slots[i]->sequence;
    }
    if (on_qp == 0)
        return DT_OK;
    struct dt_replay replay = {move->from->qp[move->q], move->to->qp[move->q], wr_ids, on_qp, &source};
    status = dt_replay_run(&replay, &done, &engine);
    *engines |= engine == &dt_replay_wqe ? DT_SWITCHOVER_BY_WQE : DT_SWITCHOVER_BY_REPOST;
    return status;
}

/* A message that the device refused counts as posted, as in send.c: part of it may have been sent. */
static uint32_t move_to(struct dt_sender *s, struct dt_path *from, struct dt_path *to,
                        struct dt_send_slot *const *slots, uint32_t count, uint32_t *engines)
{
    struct dt_send_slot *chosen[DT_SLOTS_MAX];
    struct move move = {s, from, to, 0};
    enum dt_status status = DT_OK;

    DT_CHECK(from->state == DT_PATH_NONE && to->state == DT_PATH_UP);
    count = choose(s, to, slots, count, chosen);
    if (count == 0)
        return 0;
    for (; move.q < to->qp_count && status == DT_OK; move.q++)
        status = move_share(&move, chosen, count, engines);
    for (uint32_t i = 0; i < count; i++)
        dt_sender_mark_posted(to, chosen[i]);
    if (status != DT_OK)
        dt_connection_path_refused(&s->connection, to, "refused a write");
    return count;
}

uint32_t dt_switchover_replay(struct dt_path *from, struct dt_send_slot *const *slots, uint32_t count,
                              uint32_t *engines)
{
    struct dt_connection *c = from->connection;
    uint32_t left = count;

    DT_CHECK(c->is_sender && count <= c->slots);
    *engines = 0;
    for (uint32_t p = 0; p < c->path_count && left > 0; p++) {
        if (c->path[p].state == DT_PATH_UP && &c->path[p] != from)
            left -= move_to(dt_sender_of(c), from, &c->path[p], slots, count, engines);
    }
    DT_CHECK(left <= count);
    return left;
}
