/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the writers of elements into a send queue of the `dv` back end. For verbs/ only. */
#ifndef DETOUR_VERBS_DV_H
#define DETOUR_VERBS_DV_H

#include "base/util.h"
#include "softrnic/wqe.h"
#include "verbs/object.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The ordinal of an unused slot: no search looks for it. */
#define DT_DV_ORDINAL_NONE 0x80000000u

/* Blocks of the largest element that a queue pair with this much inline payload is made for. */
static inline uint32_t dt_dv_blocks_max(uint32_t inline_bytes)
{
    return (uint32_t)dt_max_u64(dt_wqe_blocks(DT_WQE_WRITE_IMM, 1),
                                dt_wqe_blocks_inline(DT_WQE_WRITE_IMM, inline_bytes));
}

/* Enters the element of `blocks` blocks at qp->block_head in our record. */
static inline void dt_dv_record(struct dt_qp *qp, uint64_t wr_id, uint32_t blocks)
{
    struct dt_send_slot *slot = &qp->slots[qp->block_head & qp->slot_mask];

    DT_CHECK_HOT(blocks > 0 && blocks <= dt_dv_blocks_max(qp->inline_bytes));
    DT_CHECK_HOT(qp->posted - qp->completed < qp->sq_depth);
    slot->wr_id = wr_id;
    slot->ordinal = qp->posted++;
    qp->block_last = qp->block_head;
    qp->block_head += blocks;
}

#ifdef __cplusplus
}
#endif

#endif
