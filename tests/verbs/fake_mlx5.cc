/* SPDX-License-Identifier: Apache-2.0 */
/* Queues as libmlx5 hands them over, and the device behind them, which sees memory and nothing else. */
#include <gtest/gtest.h>
#include <endian.h>

#include <cerrno>
#include <cstring>

#include "softrnic/wqe.h"
#include "tests/verbs/fake_verbs.h"
#include "verbs/mlx5.h"

namespace fake
{
namespace
{
constexpr uint64_t kQuiet = 0x5a5a5a5a5a5a5a5a; // in a register that was not written

/* As ConnectX names what went wrong. */
uint8_t SyndromeOf(ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_LOC_LEN_ERR:
        return 0x01;
    case IBV_WC_LOC_QP_OP_ERR:
        return 0x02;
    case IBV_WC_LOC_PROT_ERR:
        return 0x04;
    case IBV_WC_WR_FLUSH_ERR:
        return 0x05;
    case IBV_WC_REM_ACCESS_ERR:
        return 0x13;
    case IBV_WC_RETRY_EXC_ERR:
        return 0x15;
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return 0x16;
    default:
        return 0x77;
    }
}

dt_mlx5_cqe *EntryAt(Cq *cq, uint32_t number)
{
    size_t at = static_cast<size_t>(number % cq->entry_count) * cq->entry_bytes;

    return reinterpret_cast<dt_mlx5_cqe *>(&cq->entries[at + cq->entry_bytes - sizeof(dt_mlx5_cqe)]);
}

void HandOverQp(Qp *qp, dt_mlx5_qp *out)
{
    uint32_t apart = TheWorld().register_bytes;

    memset(out, 0xaa, sizeof *out); // nothing that was not asked for is relied on
    uint32_t blocks = MakeRing(qp);
    qp->registers.assign((apart ? 2 * apart : 8) / 8, kQuiet);
    out->dbrec = qp->doorbell_record;
    out->sq = {qp->ring.data(), blocks, TheWorld().sq_stride};
    out->bf.reg = qp->registers.data();
    out->bf.size = apart;
}

void HandOverCq(Cq *cq, dt_mlx5_cq_out *out)
{
    memset(out, 0xaa, sizeof *out);
    for (cq->entry_count = 1; cq->entry_count < static_cast<uint32_t>(cq->cqe) + 1;)
        cq->entry_count *= 2;
    cq->entry_bytes = TheWorld().cqe_bytes;
    cq->entries.assign(static_cast<size_t>(cq->entry_count) * cq->entry_bytes, 0xee);
    for (uint32_t i = 0; i < cq->entry_count; i++)
        EntryAt(cq, i)->op_own = DT_MLX5_CQE_INVALID << 4;
    out->buf = cq->entries.data();
    out->dbrec = cq->dbrec;
    out->cqe_count = cq->entry_count;
    out->cqe_bytes = cq->entry_bytes;
}
} // namespace

int InitObject(dt_mlx5_object *object, uint64_t types)
{
    if (types & DT_MLX5_OBJECT_QP) {
        if (Fails("init_qp"))
            return errno;
        HandOverQp(static_cast<Qp *>(object->qp.in), object->qp.out);
    }
    if (types & DT_MLX5_OBJECT_CQ) {
        if (Fails("init_cq"))
            return errno;
        HandOverCq(static_cast<Cq *>(object->cq.in), object->cq.out);
    }
    return 0;
}

void ReadRegisters(Qp *qp)
{
    bool is_rung = false;
    bool is_newest = false;
    uint64_t newest;

    if (qp->registers.empty())
        return;
    for (size_t i = 0; i < qp->registers.size(); i++)
        is_rung |= qp->registers[i] != kQuiet;
    if (!is_rung)
        return;
    ReadRing(qp);
    memcpy(&newest, &qp->ring[qp->last_block * DT_WQE_BLOCK_BYTES], sizeof newest);
    for (size_t i = 0; i < qp->registers.size(); i++) {
        if (qp->registers[i] == kQuiet)
            continue;
        EXPECT_TRUE(i == 0 || i * 8 == TheWorld().register_bytes) << "there is no register at " << i * 8;
        qp->registers_used |= i ? 2 : 1;
        is_newest |= qp->registers[i] == newest;
        qp->registers[i] = kQuiet;
    }
    EXPECT_TRUE(is_newest) << "no register has the newest element's first 8 bytes";
}

void WriteEntry(Cq *cq, const ibv_wc &wc)
{
    dt_mlx5_cqe *entry = EntryAt(cq, cq->written);
    bool is_error = wc.status != IBV_WC_SUCCESS;
    uint8_t opcode = is_error ? DT_MLX5_CQE_REQUEST_ERROR : DT_MLX5_CQE_REQUEST;
    uint8_t lap = (cq->written / cq->entry_count) & 1;

    ASSERT_LT((cq->written - be32toh(cq->dbrec[0])) & 0xffffff, cq->entry_count) << "the CQ is overrun";
    memset(entry, 0xdd, sizeof *entry - 1); // the rest is of no account
    entry->syndrome = is_error ? SyndromeOf(wc.status) : 0xdd;
    entry->vendor_syndrome = static_cast<uint8_t>(is_error ? wc.vendor_err : 0xdd);
    entry->opcode_qpn = htobe32(0x0a000000 | wc.qp_num);
    entry->wqe_counter = htobe16(static_cast<uint16_t>(wc.wr_id));
    entry->op_own = static_cast<uint8_t>(opcode << 4 | TheWorld().cqe_op_own | lap);
    cq->written++;
}
} // namespace fake
