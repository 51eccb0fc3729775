/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/mlx5_cq.h"

#include <endian.h>
#include <stdbool.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/util.h"
#include "verbs/barrier.h"

enum dt_status dt_mlx5_cq_init(struct dt_mlx5_cq *cq, const struct dt_mlx5_cq_out *out, const char **wrong)
{
    *wrong = NULL;
    if (!out->buf || !out->dbrec)
        *wrong = "it has no memory";
    else if (!dt_is_power_of_two(out->cqe_count) || out->cqe_count > 1u << 23)
        *wrong = "its size is no power of two up to 2^23";
    else if (out->cqe_bytes != 64 && out->cqe_bytes != 128)
        *wrong = "its entries have neither 64 nor 128 bytes";
    if (*wrong)
        return DT_SYSTEM;
    *cq = (struct dt_mlx5_cq){.entries =
                                  (const uint8_t *)out->buf + out->cqe_bytes - sizeof(struct dt_mlx5_cqe),
                              .dbrec = out->dbrec,
                              .count = out->cqe_count,
                              .entry_bytes = out->cqe_bytes};
    return DT_OK;
}

/* A syndrome is the code of the InfiniBand wire or ConnectX' own; others are a general error. */
static enum ibv_wc_status status_of(uint8_t syndrome)
{
    switch (syndrome) {
    case 0x01:
        return IBV_WC_LOC_LEN_ERR;
    case 0x02:
        return IBV_WC_LOC_QP_OP_ERR;
    case 0x04:
        return IBV_WC_LOC_PROT_ERR;
    case 0x05:
        return IBV_WC_WR_FLUSH_ERR;
    case 0x06:
        return IBV_WC_MW_BIND_ERR;
    case 0x10:
        return IBV_WC_BAD_RESP_ERR;
    case 0x11:
        return IBV_WC_LOC_ACCESS_ERR;
    case 0x12:
        return IBV_WC_REM_INV_REQ_ERR;
    case 0x13:
        return IBV_WC_REM_ACCESS_ERR;
    case 0x14:
        return IBV_WC_REM_OP_ERR;
    case 0x15:
        return IBV_WC_RETRY_EXC_ERR;
    case 0x16:
        return IBV_WC_RNR_RETRY_EXC_ERR;
    case 0x22:
        return IBV_WC_REM_ABORT_ERR;
    default:
        return IBV_WC_GENERAL_ERR;
    }
}

static inline const struct dt_mlx5_cqe *entry(const struct dt_mlx5_cq *cq, uint32_t number)
{
    return (const void *)(cq->entries + (size_t)(number & (cq->count - 1)) * cq->entry_bytes);
}

/*
 * Has the device written the entry on this lap? The library filled the queue with DT_MLX5_CQE_INVALID, so
 * that what the device never wrote is not taken for its first lap.
 */
static inline bool is_ours(const struct dt_mlx5_cq *cq, uint8_t op_own)
{
    uint8_t lap = (cq->taken & cq->count) != 0;

    return (op_own & DT_MLX5_CQE_OWNER) == lap && op_own >> 4 != DT_MLX5_CQE_INVALID;
}

/* False: an entry that a send CQ cannot have. */
static inline bool translate(const struct dt_mlx5_cqe *cqe, uint8_t op_own, struct ibv_wc *wc)
{
    wc->wr_id = be16toh(cqe->wqe_counter);
    wc->qp_num = be32toh(cqe->opcode_qpn) & 0xffffff;
    wc->wc_flags = 0;
    wc->byte_len = 0;
    wc->imm_data = 0;
    wc->status = IBV_WC_SUCCESS;
    wc->vendor_err = 0;
    if (__builtin_expect(op_own >> 4 == DT_MLX5_CQE_REQUEST && !(op_own & DT_MLX5_CQE_FORMAT), 1))
        return true;
    wc->status = status_of(cqe->syndrome);
    wc->vendor_err = cqe->vendor_syndrome;
    return op_own >> 4 == DT_MLX5_CQE_REQUEST_ERROR;
}

int dt_mlx5_poll_cq(struct dt_mlx5_cq *cq, int count_max, struct ibv_wc *completions)
{
    int count = 0;

    DT_CHECK_HOT(dt_is_power_of_two(cq->count));
    while (count < count_max) {
        const struct dt_mlx5_cqe *cqe = entry(cq, cq->taken);
        uint8_t op_own = dt_load_acquire(&cqe->op_own);

        if (!is_ours(cq, op_own))
            break;
        dt_barrier_from_device();
        if (__builtin_expect(!translate(cqe, op_own, &completions[count]), 0)) {
            if (count)
                break; /* what came before it first */
            return -1;
        }
        cq->taken++;
        count++;
    }
    if (count)
        dt_store_release(cq->dbrec, htobe32(cq->taken & 0xffffff));
    return count;
}
