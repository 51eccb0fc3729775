/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/failover/fuzz/rewind_fuzz.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/dv.h"
#include "verbs/posting.h"
#include "verbs/wqe_copy.h"

#define POSTED_MAX  256
#define MESSAGES    16 /* wr_ids come round again: then the message is in the queue twice */
#define INLINE_MAX  250
#define SEGMENT_MAX 4
#define OLD_ID      0xa000u
#define NEW_ID      0xb000u

/* Keys of the new queue pair are the old ones with this added. */
#define KEY_STEP  0x01010101u
#define ADDR_STEP 0x100000000ull

struct input {
    const uint8_t *data;
    size_t left;
};

/* One work request as it was posted. */
struct posted {
    struct dt_wqe_header header;
    struct dt_wqe_sge sge[SEGMENT_MAX];
    uint32_t segments;
    uint32_t inline_bytes; /* > 0: sge is not used */
    uint8_t fill;          /* its payload: fill, fill + 1, ... */
    uint64_t wr_id;
    uint32_t blocks;
};

struct world {
    struct dt_qp from, to;
    struct posted posted[POSTED_MAX];
    uint32_t count;
    uint32_t first_ordinal;
    uint32_t to_head; /* before */
    bool is_damaged;
    bool is_map_partial; /* the map has no key for segments of 7 bytes */
};

static uint32_t take(struct input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->data++;
}

static uint32_t take32(struct input *in)
{
    uint32_t value = take(in) << 24;

    value |= take(in) << 16;
    value |= take(in) << 8;
    return value | take(in);
}

/* A queue pair of dv on memory of exactly its ring's size, so that a sanitizer sees a step beyond it. */
static void make(struct dt_qp *qp, struct input *in, uint32_t qpn)
{
    uint32_t blocks = 4u << take(in) % 5;

    memset(qp, 0, sizeof *qp);
    qp->posting = &dt_posting_dv;
    qp->qpn = qpn;
    qp->queue.sq_buf = malloc((size_t)blocks * DT_WQE_BLOCK_BYTES);
    memset(qp->queue.sq_buf, 0xee, (size_t)blocks * DT_WQE_BLOCK_BYTES);
    qp->queue.sq_block_count = blocks;
    qp->slots = calloc(blocks, sizeof *qp->slots);
    for (uint32_t i = 0; i < blocks; i++)
        qp->slots[i].ordinal = DT_DV_ORDINAL_NONE;
    qp->slot_mask = blocks - 1;
    qp->inline_bytes = INLINE_MAX;
    qp->sq_depth = blocks / dt_dv_blocks_max(qp->inline_bytes) + 1;
    if (take(in) & 1) { /* in the middle of its life, shortly before a counter turns over */
        qp->posted = qp->completed = (uint32_t)-3 - take(in);
        qp->block_head = qp->block_last = take(in) & 1 ? (uint32_t)-9 - take(in) : 65520 + take(in);
    }
}

static void destroy(struct world *w)
{
    free(w->from.queue.sq_buf);
    free(w->from.slots);
    free(w->to.queue.sq_buf);
    free(w->to.slots);
    free(w);
}

static void draw(struct posted *p, struct input *in, uint64_t wr_id)
{
    static const uint8_t opcodes[] = {DT_WQE_WRITE, DT_WQE_WRITE_IMM, DT_WQE_SEND, DT_WQE_SEND_IMM,
                                      DT_WQE_READ};
    uint32_t shape = take(in);

    memset(p, 0, sizeof *p);
    p->wr_id = wr_id;
    p->header.opcode = opcodes[take(in) % sizeof opcodes];
    p->header.flags = (shape & 1 ? DT_WQE_SIGNALED : 0) | (shape & 2 ? DT_WQE_FENCE : 0);
    p->header.imm = take32(in);
    p->header.remote_addr = (uint64_t)take32(in) << 8;
    p->header.rkey = take32(in);
    p->fill = (uint8_t)take(in);
    if (shape & 4 && p->header.opcode != DT_WQE_READ) {
        p->inline_bytes = 1 + take(in) % INLINE_MAX;
        p->blocks = dt_wqe_blocks_inline(p->header.opcode, p->inline_bytes);
        return;
    }
    p->segments = (shape >> 3) % (SEGMENT_MAX + 1);
    for (uint32_t i = 0; i < p->segments; i++)
        p->sge[i] = (struct dt_wqe_sge){(uint64_t)take32(in) << 4, 1 + take(in), take32(in)};
    p->blocks = dt_wqe_blocks(p->header.opcode, p->segments);
}

static void payload(const struct posted *p, uint8_t *out)
{
    for (uint32_t i = 0; i < p->inline_bytes; i++)
        out[i] = (uint8_t)(p->fill + i);
}

static void post(struct world *w, struct input *in, uint64_t wr_id)
{
    struct dt_wqe_ring ring = {w->from.queue.sq_buf, w->from.queue.sq_block_count};
    struct posted *p = &w->posted[w->count++];
    uint16_t index = (uint16_t)w->from.block_head;
    uint8_t bytes[INLINE_MAX];
    struct dt_wqe_sge sge = {(uintptr_t)bytes, 0, 0};

    draw(p, in, wr_id);
    if (p->blocks > ring.blocks) { /* no queue takes an element that is longer than its ring */
        p->inline_bytes = p->segments = 0;
        p->blocks = dt_wqe_blocks(p->header.opcode, 0);
    }
    p->header.qpn = w->from.qpn;
    payload(p, bytes);
    sge.bytes = p->inline_bytes;
    if (p->inline_bytes)
        dt_wqe_encode_inline(&ring, index, &p->header, &sge, 1);
    else
        dt_wqe_encode(&ring, index, &p->header, p->sge, p->segments);
    w->from.completed = w->from.posted; /* its owner has polled: the ring may be written over */
    dt_dv_record(&w->from, p->wr_id, p->blocks);
}

/* ---- what must come out ---- */

/* The first element of which nothing was overwritten; w->count if there is none. */
static uint32_t first_whole(const struct world *w)
{
    uint32_t blocks = 0, first = w->count;

    while (first > 0 && blocks + w->posted[first - 1].blocks <= w->from.queue.sq_block_count)
        blocks += w->posted[--first].blocks;
    return first;
}

/* Does the queue look as if nothing had been posted before? */
static bool is_first_of_all(const struct world *w, uint32_t i)
{
    uint32_t block = w->from.block_head;

    for (uint32_t later = i; later < w->count; later++)
        block -= w->posted[later].blocks;
    return w->first_ordinal + i == 0 && block == 0;
}

/* The same for runs: what may have lost its beginning does not count. */
static uint32_t first_run(const struct world *w)
{
    uint32_t first = first_whole(w), i = first;

    if (first < w->count && is_first_of_all(w, first))
        return first;
    while (i < w->count && w->posted[i].wr_id == w->posted[first].wr_id)
        i++;
    return i;
}

static bool is_wanted(const uint64_t *wr_ids, uint32_t count, uint64_t wr_id)
{
    for (uint32_t i = 0; i < count; i++) {
        if (wr_ids[i] == wr_id)
            return true;
    }
    return false;
}

/* Runs of this wr_id from element `first` on. */
static uint32_t runs_of(const struct world *w, uint32_t first, uint64_t wr_id)
{
    uint32_t runs = 0;

    for (uint32_t i = first; i < w->count; i++)
        runs += w->posted[i].wr_id == wr_id && (i == first || w->posted[i - 1].wr_id != wr_id);
    return runs;
}

static bool map_has_all(const struct world *w, const struct posted *p)
{
    for (uint32_t i = 0; i < p->segments; i++) {
        if (w->is_map_partial && p->sge[i].bytes == 7)
            return false;
    }
    return true;
}

/* May it say so? */
static bool may_return(const struct world *w, const uint64_t *wr_ids, uint32_t count, enum dt_status status)
{
    uint32_t first = first_run(w), elements = 0;
    bool is_missing = false, is_twice = false, is_long = false, is_unknown = false;

    for (uint32_t i = 0; i < count; i++) {
        is_missing |= runs_of(w, first, wr_ids[i]) == 0;
        is_twice |= runs_of(w, first, wr_ids[i]) > 1;
    }
    for (uint32_t i = first; i < w->count; i++) {
        if (!is_wanted(wr_ids, count, w->posted[i].wr_id))
            continue;
        elements++;
        is_long |= w->posted[i].blocks > dt_dv_blocks_max(w->to.inline_bytes);
        is_unknown |= !map_has_all(w, &w->posted[i]);
    }
    switch ((int)status) {
    case DT_OK:
        return count == 0 ||
               (!is_missing && !is_twice && !is_long && !is_unknown && elements <= w->to.sq_depth);
    case DT_UNSUPPORTED:
        return is_long;
    case DT_INVALID:
        return is_twice || is_unknown;
    case DT_NOT_FOUND:
        return is_missing;
    case DT_FULL:
        return elements > w->to.sq_depth;
    default:
        return false;
    }
}

/* ---- the map ---- */
static uint64_t new_id(void *arg, uint64_t wr_id)
{
    (void)arg;
    return wr_id - OLD_ID + NEW_ID;
}

static bool new_lkey(void *arg, uint64_t wr_id, uint64_t addr, uint32_t bytes, uint32_t *lkey)
{
    (void)wr_id;
    (void)addr;
    *lkey += KEY_STEP;
    return !((const struct world *)arg)->is_map_partial || bytes != 7;
}

static bool new_remote(void *arg, uint64_t wr_id, uint64_t bytes, uint64_t *addr, uint32_t *rkey)
{
    (void)arg;
    (void)wr_id;
    (void)bytes;
    *addr += ADDR_STEP;
    *rkey += KEY_STEP;
    return true;
}

/* ---- comparison ---- */
static bool same_payload(const struct dt_wqe_ring *ring, uint16_t index, const struct dt_wqe *wqe,
                         const struct posted *p)
{
    uint8_t expected[INLINE_MAX], got[INLINE_MAX];
    struct iovec iov[2];

    if (p->inline_bytes) {
        if (!wqe->is_inline || wqe->payload_bytes != p->inline_bytes)
            return false;
        dt_wqe_inline_iov(ring, index, wqe, 0, p->inline_bytes, iov);
        memcpy(got, iov[0].iov_base, iov[0].iov_len);
        memcpy(got + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
        payload(p, expected);
        return memcmp(got, expected, p->inline_bytes) == 0;
    }
    for (uint32_t i = 0; i < p->segments; i++) {
        struct dt_wqe_sge sge;

        if (!dt_wqe_segment(ring, index, wqe, i, &sge) || sge.addr != p->sge[i].addr ||
            sge.bytes != p->sge[i].bytes || sge.lkey != p->sge[i].lkey + KEY_STEP)
            return false;
    }
    return !wqe->is_inline && (uint32_t)wqe->units - wqe->first_data == p->segments;
}

static bool same_remote(const struct dt_wqe *wqe, const struct posted *p)
{
    bool is_empty = !p->inline_bytes && !p->segments;

    return !dt_wqe_has_remote(p->header.opcode) ||
           (wqe->remote_addr == p->header.remote_addr + (is_empty ? 0 : ADDR_STEP) &&
            wqe->rkey == p->header.rkey + (is_empty ? 0 : KEY_STEP));
}

static const char *compare(const struct world *w, const uint64_t *wr_ids, uint32_t count)
{
    struct dt_wqe_ring ring = {w->to.queue.sq_buf, w->to.queue.sq_block_count};
    uint32_t block = w->to_head;

    for (uint32_t i = first_run(w); i < w->count; i++) {
        const struct posted *p = &w->posted[i];
        bool is_last = i + 1 == w->count || w->posted[i + 1].wr_id != p->wr_id;
        struct dt_wqe wqe;

        if (!is_wanted(wr_ids, count, p->wr_id))
            continue;
        dt_wqe_decode(&ring, (uint16_t)block, &wqe);
        if (wqe.is_malformed || wqe.opcode != p->header.opcode || wqe.blocks != p->blocks)
            return "an element came out as another one";
        if (wqe.index != (uint16_t)block || wqe.qpn != w->to.qpn)
            return "index or queue pair number is not the new queue's";
        if (wqe.flags != ((p->header.flags & ~DT_WQE_SIGNALED) | (is_last ? DT_WQE_SIGNALED : 0)))
            return "flags: only the last element of a message is signaled";
        if (wqe.imm != p->header.imm || !same_remote(&wqe, p))
            return "immediate, remote address or rkey";
        if (!same_payload(&ring, (uint16_t)block, &wqe, p))
            return "data segments or inline payload";
        if (w->to.slots[block & w->to.slot_mask].wr_id != p->wr_id - OLD_ID + NEW_ID)
            return "wr_id";
        block += wqe.blocks;
    }
    return block == w->to.block_head ? NULL : "the producer index";
}

static void damage(struct world *w, struct input *in)
{
    for (uint32_t left = take(in) % 32; left > 0; left--) {
        uint32_t at = take(in) << 8 | take(in);

        ((uint8_t *)w->from.queue.sq_buf)[at % (w->from.queue.sq_block_count * DT_WQE_BLOCK_BYTES)] ^=
            (uint8_t)(1 + take(in));
        w->is_damaged = true;
    }
}

/* The messages that are so far back from the newest, each once; returns how many. */
static uint32_t choose(uint64_t *wr_ids, const uint32_t *back, uint32_t count, uint32_t newest)
{
    uint32_t chosen = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t wr_id = OLD_ID + (newest - back[i]) % MESSAGES;

        if (!is_wanted(wr_ids, chosen, wr_id))
            wr_ids[chosen++] = wr_id;
    }
    return chosen;
}

const char *dt_fuzz_rewind(const uint8_t *data, size_t bytes)
{
    struct world *w = calloc(1, sizeof *w);
    struct dt_replay_map map = {w, new_id, new_lkey, new_remote};
    struct input in = {data, bytes};
    uint64_t wr_ids[6];
    uint32_t back[6], message = MESSAGES, count, posted_before;
    const char *problem = NULL;
    enum dt_status status;

    make(&w->from, &in, 0x123456);
    make(&w->to, &in, 0x654321);
    w->to.inline_bytes = take(&in) % (INLINE_MAX + 1);
    w->is_map_partial = take(&in) & 1;
    w->to.sq_depth = w->to.queue.sq_block_count / dt_dv_blocks_max(w->to.inline_bytes);
    w->first_ordinal = w->from.posted;
    w->to_head = w->to.block_head;
    posted_before = w->to.posted;
    count = take(&in) % 6;
    for (uint32_t i = 0; i < count; i++)
        back[i] = take(&in) % 12;
    if (take(&in) % 8 == 0)
        damage(w, &in); /* before: later elements overwrite some of it */
    for (uint32_t n = take(&in); n > 0 && w->count < POSTED_MAX; n--) {
        message += take(&in) % 3 > 0;
        post(w, &in, OLD_ID + message % MESSAGES);
    }
    count = choose(wr_ids, back, count, message);
    w->is_damaged = false;
    if (in.left && take(&in) % 4 == 0)
        damage(w, &in);

    status = dt_qp_copy_wqes(&w->from, &w->to, wr_ids, count, &map);
    if (status != DT_OK && (w->to.block_head != w->to_head || w->to.posted != posted_before))
        problem = "something was copied, although it reported failure";
    else if (!w->is_damaged && !may_return(w, wr_ids, count, status))
        problem = "the status is not what must come out";
    else if (!w->is_damaged && status == DT_OK && count)
        problem = compare(w, wr_ids, count);
    destroy(w);
    return problem;
}
