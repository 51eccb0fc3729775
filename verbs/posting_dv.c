/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting without the library: elements in mlx5 format (softrnic/wqe.h) written into the send queue, the
 * producer index into the doorbell record, then the doorbell. The order follows the hardware's rules:
 * element, barrier, record, barrier, doorbell.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <endian.h>

#include "base/log.h"
#include "softrnic/wqe.h"
#include "verbs/barrier.h"
#include "verbs/dv.h"
#include "verbs/mlx5.h"
#include "verbs/posting.h"

static uint32_t dv_wr_count(uint32_t sq_depth, uint32_t inline_bytes)
{
    return sq_depth * dt_dv_blocks_max(inline_bytes);
}

/* Can the queue hold sq_depth elements of the largest kind? */
static bool queue_fits(const struct dt_qp *qp)
{
    const struct dt_dv_queue *queue = &qp->queue;

    return queue->sq_buf && queue->doorbell_record && dt_is_power_of_two(queue->sq_block_count) &&
           queue->sq_block_count <= 32768 &&
           queue->sq_block_count / dt_dv_blocks_max(qp->inline_bytes) >= qp->sq_depth;
}

static enum dt_status take_queue(struct dt_qp *qp)
{
    const struct dt_verbs_table *table = &qp->device->verbs->table;
    const char *name = qp->device->info.name;
    enum dt_status status = DT_OK;
    int error = 0;

    if (table->own_send_queue)
        error = table->own_send_queue(qp->ibv, &qp->queue);
    else
        status = dt_mlx5_take_send_queue(qp);
    if (status != DT_OK)
        return status;
    if (error) {
        dt_warn("dv-sq-taken", "%s: the send queue of QP %u cannot be taken over: %s", name, qp->qpn,
                strerror(error));
        return DT_SYSTEM;
    }
    if (!queue_fits(qp)) {
        dt_warn(
            "dv-sq-small",
            "%s: the send queue of QP %u has %u blocks, too few for %u work requests with %u bytes inline",
            name, qp->qpn, qp->queue.sq_block_count, qp->sq_depth, qp->inline_bytes);
        return DT_SYSTEM;
    }
    return DT_OK;
}

static enum dt_status dv_open(struct dt_qp *qp)
{
    enum dt_status status = take_queue(qp);

    if (status != DT_OK)
        return status;
    qp->slots = calloc(qp->queue.sq_block_count, sizeof *qp->slots);
    if (!qp->slots)
        return DT_NO_MEMORY;
    for (uint32_t i = 0; i < qp->queue.sq_block_count; i++)
        qp->slots[i].ordinal = DT_DV_ORDINAL_NONE;
    qp->slot_mask = qp->queue.sq_block_count - 1;
    DT_CHECK(qp->posted == 0 && qp->block_head == 0);
    status = dt_cq_attach_dv(qp->send_cq, qp);
    if (status != DT_OK)
        goto free_slots;
    if (!qp->device->verbs->table.own_send_queue)
        status = dt_mlx5_take_send_cq(qp);
    if (status == DT_OK)
        return DT_OK;
    dt_cq_detach_dv(qp->send_cq);

free_slots:
    free(qp->slots);
    return status;
}

static void dv_close(struct dt_qp *qp)
{
    dt_cq_detach_dv(qp->send_cq);
    free(qp->slots);
}

/* In the element's order of bits: signaled and fence. */
static inline uint8_t element_flags(uint32_t flags)
{
    return (uint8_t)((flags & DT_POST_SIGNALED ? DT_WQE_SIGNALED : 0) |
                     (flags & DT_POST_FENCE ? DT_WQE_FENCE : 0));
}

/* An element that runs over the ring's end; returns its blocks. */
__attribute__((cold, noinline)) static uint32_t put_wrapped(const struct dt_qp *qp, uint8_t opcode,
                                                            const struct dt_write *write)
{
    struct dt_wqe_ring ring = {(uint8_t *)qp->queue.sq_buf, qp->queue.sq_block_count};
    struct dt_wqe_sge sge = {write->local_addr, write->bytes, write->lkey};
    struct dt_wqe_header header = {.qpn = qp->qpn,
                                   .opcode = opcode,
                                   .flags = element_flags(write->flags),
                                   .imm = htonl(write->imm),
                                   .remote_addr = write->remote_addr,
                                   .rkey = write->rkey};
    uint16_t index = (uint16_t)qp->block_head;

    return write->flags & DT_POST_INLINE ? dt_wqe_encode_inline(&ring, index, &header, &sge, 1)
                                         : dt_wqe_encode(&ring, index, &header, &sge, 1);
}

/* Control and remote address segment. */
static inline void put_head(const struct dt_qp *qp, uint8_t *element, uint8_t opcode,
                            const struct dt_write *write, uint32_t units)
{
    struct dt_wqe_ctrl *ctrl = (struct dt_wqe_ctrl *)(void *)element;
    struct dt_wqe_remote *remote = (struct dt_wqe_remote *)(void *)(element + DT_WQE_UNIT_BYTES);

    *ctrl = (struct dt_wqe_ctrl){.opmod_idx_opcode = htobe32((qp->block_head & 0xffff) << 8 | opcode),
                                 .qpn_ds = htobe32(qp->qpn << 8 | units),
                                 .fm_ce_se = element_flags(write->flags),
                                 .imm = htonl(write->imm)};
    *remote = (struct dt_wqe_remote){.addr = htobe64(write->remote_addr), .rkey = htobe32(write->rkey)};
}

/* A data segment, or the payload itself. */
static inline void put_payload(uint8_t *unit, const struct dt_write *write)
{
    if (write->flags & DT_POST_INLINE) {
        *(uint32_t *)(void *)unit = htobe32(write->bytes | DT_WQE_INLINE);
        memcpy(unit + 4, (const void *)(uintptr_t)write->local_addr, write->bytes);
    } else {
        *(struct dt_wqe_data *)(void *)unit =
            (struct dt_wqe_data){htobe32(write->bytes), htobe32(write->lkey), htobe64(write->local_addr)};
    }
}

/*
 * Writes one element at qp->block_head; returns its length in blocks. Nearly every element does not wrap
 * around the ring's end and is written here; wqe.c writes the others.
 */
static inline uint32_t put_element(const struct dt_qp *qp, uint8_t opcode, const struct dt_write *write)
{
    uint32_t slot = qp->block_head & qp->slot_mask;
    uint8_t *element = (uint8_t *)qp->queue.sq_buf + (size_t)slot * DT_WQE_BLOCK_BYTES;
    uint32_t units = 2;
    uint32_t blocks;

    if (write->bytes)
        units += write->flags & DT_POST_INLINE
                     ? (4 + write->bytes + DT_WQE_UNIT_BYTES - 1) / DT_WQE_UNIT_BYTES
                     : 1;
    blocks = (units + 3) / 4;
    if (__builtin_expect(slot + blocks > qp->queue.sq_block_count, 0))
        return put_wrapped(qp, opcode, write);
    put_head(qp, element, opcode, write, units);
    if (write->bytes)
        put_payload(element + 2 * DT_WQE_UNIT_BYTES, write);
    return blocks;
}

/* sq_depth work requests of the largest kind fit (queue_fits), so there is always room here. */
static enum dt_status dv_write(struct dt_qp *qp, const struct dt_write *writes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        uint8_t opcode = writes[i].flags & DT_POST_IMM ? DT_WQE_WRITE_IMM : DT_WQE_WRITE;

        dt_dv_record(qp, writes[i].wr_id, put_element(qp, opcode, &writes[i]));
    }
    return DT_OK;
}

static enum dt_status dv_read(struct dt_qp *qp, const struct dt_read *read)
{
    const struct dt_write as_write = {.local_addr = read->local_addr,
                                      .remote_addr = read->remote_addr,
                                      .bytes = read->bytes,
                                      .lkey = read->lkey,
                                      .rkey = read->rkey,
                                      .flags = read->flags & (DT_POST_SIGNALED | DT_POST_FENCE)};

    dt_dv_record(qp, read->wr_id, put_element(qp, DT_WQE_READ, &as_write));
    return DT_OK;
}

/* The first 8 bytes of the newest element, which is what the doorbell register takes. */
static inline uint64_t first_word(const struct dt_qp *qp)
{
    uint64_t word;

    memcpy(&word, (uint8_t *)qp->queue.sq_buf + (size_t)(qp->block_last & qp->slot_mask) * DT_WQE_BLOCK_BYTES,
           sizeof word);
    return word;
}

static void dv_ring(struct dt_qp *qp)
{
    const struct dt_dv_queue *queue = &qp->queue;

    if (qp->block_rung == qp->block_head)
        return;
    DT_CHECK_HOT(qp->block_head - qp->block_rung <= queue->sq_block_count);
    DT_CHECK_HOT(qp->block_head - qp->block_last <= dt_dv_blocks_max(qp->inline_bytes));
    qp->block_rung = qp->block_head;
    dt_barrier_memory_to_memory();
    dt_store_release(queue->doorbell_record, htobe32(qp->block_head & 0xffff));
    dt_barrier_memory_to_device();
    if (queue->doorbell) {
        dt_store_relaxed(queue->doorbell + qp->doorbell_offset / sizeof *queue->doorbell, first_word(qp));
        qp->doorbell_offset ^= queue->doorbell_bytes;
    }
    dt_barrier_flush_device();
    if (queue->ring)
        queue->ring(queue->ring_arg);
}

const struct dt_posting dt_posting_dv = {
    "dv", dv_wr_count, dt_mlx5_open_domain, dv_open, dv_close, dv_write, dv_read, dv_ring};
