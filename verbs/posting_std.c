/* SPDX-License-Identifier: Apache-2.0 */
/* Posting through the library: ibv_post_send(), with our own record of what is outstanding. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "base/check.h"
#include "base/log.h"
#include "base/util.h"
#include "verbs/posting.h"

#define CHAIN_MAX 8 /* work requests handed over in one call */

DT_STATIC_CHECK((int)DT_POST_FENCE == (int)IBV_SEND_FENCE, "flags are passed on as they are");
DT_STATIC_CHECK((int)DT_POST_SIGNALED == (int)IBV_SEND_SIGNALED, "flags are passed on as they are");
DT_STATIC_CHECK((int)DT_POST_INLINE == (int)IBV_SEND_INLINE, "flags are passed on as they are");

#define IBV_FLAGS (DT_POST_FENCE | DT_POST_SIGNALED | DT_POST_INLINE)

static uint32_t std_wr_count(uint32_t sq_depth, uint32_t inline_bytes)
{
    (void)inline_bytes;
    return sq_depth;
}

static enum dt_status std_open(struct dt_qp *qp)
{
    uint32_t slot_count = (uint32_t)dt_round_up_power_of_two(qp->sq_depth);
    enum dt_status status;

    qp->slots = calloc(slot_count, sizeof *qp->slots);
    if (!qp->slots)
        return DT_NO_MEMORY;
    qp->slot_mask = slot_count - 1;
    DT_CHECK(slot_count >= qp->sq_depth && qp->posted == 0);
    status = dt_cq_attach(qp->send_cq, qp, false, &qp->send_key);
    if (status != DT_OK)
        free(qp->slots);
    return status;
}

static void std_close(struct dt_qp *qp)
{
    dt_cq_detach(qp->send_cq, qp->send_key);
    free(qp->slots);
}

/* Enters the work request in our record; returns what the library is to give back with its completion. */
static uint64_t record(struct dt_qp *qp, uint32_t ordinal, uint64_t wr_id)
{
    struct dt_send_slot *slot = &qp->slots[ordinal & qp->slot_mask];

    DT_CHECK_HOT(ordinal - qp->completed <
                 qp->sq_depth); /* no slot of an outstanding work request is overwritten */
    slot->wr_id = wr_id;
    slot->ordinal = ordinal;
    return (uint64_t)qp->send_key << 32 | ordinal;
}

static void fill_write(struct dt_qp *qp, uint32_t ordinal, const struct dt_write *write,
                       struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    sge->addr = write->local_addr;
    sge->length = write->bytes;
    sge->lkey = write->lkey;
    wr->wr_id = record(qp, ordinal, write->wr_id);
    wr->next = NULL;
    wr->sg_list = sge;
    wr->num_sge = write->bytes != 0;
    wr->opcode = write->flags & DT_POST_IMM ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    wr->send_flags = write->flags & IBV_FLAGS;
    wr->imm_data = htonl(write->imm);
    wr->wr.rdma.remote_addr = write->remote_addr;
    wr->wr.rdma.rkey = write->rkey;
}

/* How many of `count` chained work requests went before the one the library stopped at. */
static uint32_t accepted_before(const struct ibv_send_wr *wrs, uint32_t count, const struct ibv_send_wr *bad)
{
    for (uint32_t i = 0; i < count; i++) {
        if (&wrs[i] == bad)
            return i;
    }
    return 0;
}

__attribute__((cold)) static enum dt_status refused(struct dt_qp *qp, int error)
{
    if (!qp->refused)
        dt_warn("post-refused", "%s: QP %u refuses a work request: %s", qp->device->info.name, qp->qpn,
                strerror(error));
    qp->refused = true;
    return DT_PATH_ERROR;
}

static inline enum dt_status post_chain(struct dt_qp *qp, struct ibv_send_wr *wrs, uint32_t count)
{
    struct ibv_send_wr *bad = NULL;
    int error = dt_ibv_post_send(qp->ibv, wrs, &bad);

    if (__builtin_expect(error != 0, 0)) {
        qp->posted += accepted_before(wrs, count, bad);
        return refused(qp, error);
    }
    qp->posted += count;
    DT_CHECK_HOT(qp->posted - qp->completed <= qp->sq_depth);
    return DT_OK;
}

static enum dt_status std_write(struct dt_qp *qp, const struct dt_write *writes, unsigned count)
{
    struct ibv_send_wr wrs[CHAIN_MAX];
    struct ibv_sge sges[CHAIN_MAX];

    while (count) {
        uint32_t chain = count < CHAIN_MAX ? count : CHAIN_MAX;
        enum dt_status status;

        for (uint32_t i = 0; i < chain; i++) {
            fill_write(qp, qp->posted + i, &writes[i], &wrs[i], &sges[i]);
            if (i)
                wrs[i - 1].next = &wrs[i];
        }
        status = post_chain(qp, wrs, chain);
        if (status != DT_OK)
            return status;
        writes += chain;
        count -= chain;
    }
    return DT_OK;
}

static enum dt_status std_read(struct dt_qp *qp, const struct dt_read *read)
{
    struct ibv_sge sge = {.addr = read->local_addr, .length = read->bytes, .lkey = read->lkey};
    struct ibv_send_wr wr = {.wr_id = record(qp, qp->posted, read->wr_id),
                             .sg_list = &sge,
                             .num_sge = read->bytes != 0,
                             .opcode = IBV_WR_RDMA_READ,
                             .send_flags = read->flags & (DT_POST_FENCE | DT_POST_SIGNALED)};

    wr.wr.rdma.remote_addr = read->remote_addr;
    wr.wr.rdma.rkey = read->rkey;
    return post_chain(qp, &wr, 1);
}

/* The library rang when it was called. */
static void std_ring(struct dt_qp *qp)
{
    (void)qp;
}

const struct dt_posting dt_posting_std = {"std",     std_wr_count, NULL,     std_open,
                                          std_close, std_write,    std_read, std_ring};
