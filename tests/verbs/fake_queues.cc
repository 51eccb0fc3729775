/* SPDX-License-Identifier: Apache-2.0 */
/* The queues of the scripted RNICs: what is posted, also as elements of a ring, and its execution. */
#include <endian.h>

#include <cerrno>
#include <cstring>

#include "softrnic/wqe.h"
#include "tests/verbs/fake_verbs.h"

namespace fake
{
namespace
{
void Complete(Qp *qp, ibv_cq *cq, ibv_wc wc)
{
    wc.qp_num = qp->qp_num;
    if (static_cast<Cq *>(cq)->entry_bytes)
        WriteEntry(static_cast<Cq *>(cq), wc);
    else
        static_cast<Cq *>(cq)->queue.push_back(wc);
}

void Flush(Qp *qp)
{
    for (; !qp->sends.empty(); qp->sends.pop_front()) {
        ibv_wc wc = {};
        wc.wr_id = qp->sends.front().wr_id;
        wc.status = IBV_WC_WR_FLUSH_ERR;
        Complete(qp, qp->send_cq, wc);
    }
    for (; !qp->recvs.empty(); qp->recvs.pop_front()) {
        ibv_wc wc = {};
        wc.wr_id = qp->recvs.front();
        wc.status = IBV_WC_WR_FLUSH_ERR;
        Complete(qp, qp->recv_cq, wc);
    }
}
} // namespace

/* ---- posting ---- */

int PostSend(ibv_qp *ibv, ibv_send_wr *wr, ibv_send_wr **bad)
{
    auto *qp = static_cast<Qp *>(ibv);

    if (!qp->registers.empty())
        abort(); /* the send queue is not the library's any more */
    for (; wr; wr = wr->next) {
        *bad = wr;
        if (Fails("post_send"))
            return errno;
        if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR)
            return EINVAL;
        if (qp->sends.size() >= qp->cap.max_send_wr)
            return ENOMEM;
        Send send = {wr->wr_id,        wr->opcode,  wr->send_flags, {}, "", wr->wr.rdma.remote_addr,
                     wr->wr.rdma.rkey, wr->imm_data};
        for (int i = 0; i < wr->num_sge; i++) {
            if (wr->send_flags & IBV_SEND_INLINE)
                send.inline_data.append(reinterpret_cast<char *>(wr->sg_list[i].addr), wr->sg_list[i].length);
            else
                send.sges.push_back(wr->sg_list[i]);
        }
        qp->sends.push_back(send);
        qp->send_total++;
    }
    return 0;
}

int PostRecv(ibv_qp *ibv, ibv_recv_wr *wr, ibv_recv_wr **bad)
{
    auto *qp = static_cast<Qp *>(ibv);

    for (; wr; wr = wr->next) {
        *bad = wr;
        if (Fails("post_recv"))
            return errno;
        if (qp->recvs.size() >= qp->cap.max_recv_wr)
            return ENOMEM;
        qp->recvs.push_back(wr->wr_id);
    }
    return 0;
}

namespace
{
ibv_wr_opcode OpcodeOf(uint8_t opcode)
{
    switch (opcode) {
    case DT_WQE_WRITE:
        return IBV_WR_RDMA_WRITE;
    case DT_WQE_WRITE_IMM:
        return IBV_WR_RDMA_WRITE_WITH_IMM;
    default:
        return IBV_WR_RDMA_READ;
    }
}
} // namespace

void ReadRing(Qp *qp)
{
    dt_wqe_ring ring = {qp->ring.data(), static_cast<uint32_t>(qp->ring.size() / DT_WQE_BLOCK_BYTES)};
    uint32_t producer = be32toh(qp->doorbell_record[1]);

    while ((qp->consumed & 0xffff) != producer) {
        auto index = static_cast<uint16_t>(qp->consumed);
        dt_wqe wqe;
        dt_wqe_sge sge;
        iovec iov[2];

        dt_wqe_decode(&ring, index, &wqe);
        if (wqe.is_malformed || wqe.index != index || wqe.qpn != qp->qp_num)
            abort();
        Send send = {index, OpcodeOf(wqe.opcode), 0, {}, "", wqe.remote_addr, wqe.rkey, wqe.imm};
        if (wqe.flags & DT_WQE_SIGNALED)
            send.flags |= IBV_SEND_SIGNALED;
        if (wqe.flags & DT_WQE_FENCE)
            send.flags |= IBV_SEND_FENCE;
        if (wqe.is_inline) {
            uint32_t parts = dt_wqe_inline_iov(&ring, index, &wqe, 0, wqe.payload_bytes, iov);
            for (uint32_t i = 0; i < parts; i++)
                send.inline_data.append(static_cast<char *>(iov[i].iov_base), iov[i].iov_len);
        } else {
            for (uint32_t n = 0; dt_wqe_segment(&ring, index, &wqe, n, &sge); n++)
                send.sges.push_back({sge.addr, sge.bytes, sge.lkey});
        }
        qp->sends.push_back(send);
        qp->send_total++;
        qp->last_block = index % ring.blocks;
        qp->consumed += wqe.blocks;
    }
}

uint32_t MakeRing(Qp *qp)
{
    uint32_t blocks = TheWorld().dv_blocks;

    for (uint32_t power = 1; !blocks; power *= 2) {
        if (power >= qp->cap.max_send_wr)
            blocks = power;
    }
    qp->ring.assign(static_cast<size_t>(blocks) * DT_WQE_BLOCK_BYTES, 0xee);
    qp->doorbell_record[0] = qp->doorbell_record[1] = 0;
    return blocks;
}

namespace
{
void Ring(void *arg)
{
    ReadRing(static_cast<Qp *>(arg));
}
} // namespace

int OwnSendQueue(ibv_qp *ibv, dt_dv_queue *queue)
{
    auto *qp = static_cast<Qp *>(ibv);

    if (Fails("own_send_queue"))
        return errno;
    uint32_t blocks = MakeRing(qp);
    *queue = {qp->ring.data(), blocks, &qp->doorbell_record[1], &qp->doorbell, 0, Ring, qp};
    return 0;
}

/* ---- executing ---- */

namespace
{
Mr *FindMr(uint32_t key, uint64_t addr, uint64_t bytes, int access)
{
    auto it = TheWorld().mrs.find(key);

    if (it == TheWorld().mrs.end() || (it->second->access & access) != access)
        return nullptr;
    auto begin = reinterpret_cast<uint64_t>(it->second->addr);
    return addr >= begin && addr + bytes <= begin + it->second->length ? it->second : nullptr;
}

ibv_wc_status MoveBytes(const Send &send)
{
    uint64_t remote = send.remote_addr;
    uint64_t total = send.inline_data.size();
    bool is_read = send.opcode == IBV_WR_RDMA_READ;

    for (const ibv_sge &sge : send.sges)
        total += sge.length;
    if (total &&
        !FindMr(send.rkey, remote, total, is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE))
        return IBV_WC_REM_ACCESS_ERR;
    if (!send.inline_data.empty())
        memcpy(reinterpret_cast<void *>(remote), send.inline_data.data(), send.inline_data.size());
    for (const ibv_sge &sge : send.sges) {
        if (!FindMr(sge.lkey, sge.addr, sge.length, is_read ? IBV_ACCESS_LOCAL_WRITE : 0))
            return IBV_WC_LOC_PROT_ERR;
        auto *local = reinterpret_cast<void *>(sge.addr);
        auto *far = reinterpret_cast<void *>(remote);
        memcpy(is_read ? local : far, is_read ? far : local, sge.length);
        remote += sge.length;
    }
    return IBV_WC_SUCCESS;
}

ibv_wc_status Execute(Qp *qp, const Send &send)
{
    auto it = TheWorld().qps.find(qp->attr.dest_qp_num);
    ibv_wc_status status = TheWorld().next_status;

    TheWorld().next_status = IBV_WC_SUCCESS;
    if (status != IBV_WC_SUCCESS)
        return status;
    if (it == TheWorld().qps.end() || (it->second->state != IBV_QPS_RTR && it->second->state != IBV_QPS_RTS))
        return IBV_WC_RETRY_EXC_ERR;
    Qp *peer = it->second;
    if (send.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && peer->recvs.empty())
        return IBV_WC_RNR_RETRY_EXC_ERR;
    status = MoveBytes(send);
    if (status == IBV_WC_SUCCESS && send.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        ibv_wc wc = {};
        wc.wr_id = peer->recvs.front();
        wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.imm_data = send.imm;
        wc.byte_len = static_cast<uint32_t>(send.inline_data.size());
        for (const ibv_sge &sge : send.sges)
            wc.byte_len += sge.length;
        peer->recvs.pop_front();
        Complete(peer, peer->recv_cq, wc);
    }
    return status;
}

void RunQp(Qp *qp)
{
    ReadRegisters(qp);
    while (qp->state == IBV_QPS_RTS && !qp->sends.empty()) {
        Send send = qp->sends.front();
        ibv_wc wc = {};
        wc.status = Execute(qp, send);
        wc.wr_id = send.wr_id;
        wc.vendor_err = wc.status ? 0x81 : 0;
        qp->sends.pop_front();
        if (wc.status || send.flags & IBV_SEND_SIGNALED)
            Complete(qp, qp->send_cq, wc);
        if (wc.status)
            qp->state = IBV_QPS_ERR;
    }
    if (qp->state == IBV_QPS_ERR)
        Flush(qp);
}
} // namespace

int PollCq(ibv_cq *ibv, int count, ibv_wc *wcs)
{
    auto *cq = static_cast<Cq *>(ibv);
    int taken = 0;

    if (cq->entry_bytes)
        abort(); /* it is not the library's any more */
    if (cq->broken)
        return -1;
    Run();
    for (; taken < count && !cq->queue.empty(); cq->queue.pop_front())
        wcs[taken++] = cq->queue.front();
    return taken;
}

void Run()
{
    if (TheWorld().hold)
        return;
    for (auto &entry : TheWorld().qps)
        RunQp(entry.second);
}
} // namespace fake
