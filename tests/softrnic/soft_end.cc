// SPDX-License-Identifier: Apache-2.0
#include "tests/softrnic/soft_end.h"

#include <arpa/inet.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"

// The inline calls of <infiniband/verbs.h> fall back on these for contexts older than struct verbs_context,
// which ours never are; the library itself is not linked.
#undef ibv_query_port
extern "C" int ibv_query_port(ibv_context *, uint8_t, _compat_ibv_port_attr *)
{
    abort();
}
extern "C" int ibv_query_device(ibv_context *, ibv_device_attr *)
{
    abort();
}

namespace detour_test
{
double Seconds()
{
    return static_cast<double>(dt_clock_now_ns()) * 1e-9;
}

ibv_context *OpenDevice(int index)
{
    int count = 0;
    ibv_device **list = dt_soft_get_device_list(&count);
    Require(list && index < count, "device %d of %d", index, count);
    ibv_context *context = dt_soft_open_device(list[index]);
    int error = errno;
    dt_soft_free_device_list(list);
    Require(context != nullptr, "open device %d: %s", index, strerror(error));
    return context;
}

End::End(const EndOptions &end_options) : options(end_options)
{
    context = options.context ? options.context : OpenDevice(options.device);
    pd = dt_soft_alloc_pd(context);
    if (options.with_channel)
        channel = dt_soft_create_comp_channel(context);
    cq = dt_soft_create_cq(context, options.cqe, this, channel, 0);
    Require(pd && cq, "PD or CQ: %s", strerror(errno));
    ibv_qp_init_attr_ex init = {};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = options.type;
    init.cap = {options.send_wr, options.recv_wr, options.sge, options.sge, options.inline_bytes};
    init.sq_sig_all = options.sq_sig_all;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | (options.send_ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0);
    init.pd = pd;
    init.send_ops_flags = options.send_ops;
    /* Not ibv_create_qp_ex(): without optimisation it leaves a reference to the system's ibv_create_qp. */
    qp = options.send_ops ? verbs_get_ctx(context)->create_qp_ex(context, &init)
                          : dt_soft_create_qp(pd, reinterpret_cast<ibv_qp_init_attr *>(&init));
    Require(qp != nullptr, "QP: %s", strerror(errno));
    buffer = static_cast<uint8_t *>(
        mmap(nullptr, options.buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    Require(buffer != MAP_FAILED, "memory");
    mr = dt_soft_reg_mr(pd, buffer, options.buffer_bytes,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    Require(mr != nullptr, "MR: %s", strerror(errno));
}

End::~End()
{
    if (qp)
        dt_soft_destroy_qp(qp);
    if (mr)
        dt_soft_dereg_mr(mr);
    if (cq)
        dt_soft_destroy_cq(cq);
    if (channel)
        dt_soft_destroy_comp_channel(channel);
    if (pd)
        dt_soft_dealloc_pd(pd);
    if (context && !options.context)
        dt_soft_close_device(context);
    munmap(buffer, options.buffer_bytes);
}

EndAddress End::Address() const
{
    EndAddress address = {};

    dt_soft_query_gid(context, 1, 0, &address.gid);
    address.qpn = qp->qp_num;
    address.psn = qp->qp_num * 7919 & 0xffffff;
    address.rkey = mr->rkey;
    address.addr = reinterpret_cast<uintptr_t>(buffer);
    return address;
}

void End::Init(const ConnectOptions &connect)
{
    ibv_qp_attr attr = {};

    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = connect.access;
    int error =
        dt_soft_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    Require(error == 0, "to INIT: %s", strerror(error));
}

void End::Connect(const EndAddress &peer, const ConnectOptions &connect)
{
    ibv_qp_attr attr = {};

    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = connect.mtu;
    attr.dest_qp_num = peer.qpn;
    attr.rq_psn = peer.psn;
    attr.max_dest_rd_atomic = connect.rd_atomic;
    attr.min_rnr_timer = connect.min_rnr_timer;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.hop_limit = 1;
    const bool is_reliable = options.type == IBV_QPT_RC;
    int error =
        dt_soft_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              (is_reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
    Require(error == 0, "to RTR: %s", strerror(error));
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = Address().psn;
    attr.timeout = connect.timeout;
    attr.retry_cnt = connect.retry_cnt;
    attr.rnr_retry = connect.rnr_retry;
    attr.max_rd_atomic = connect.rd_atomic;
    error = dt_soft_modify_qp(
        qp, &attr,
        IBV_QP_STATE | IBV_QP_SQ_PSN |
            (is_reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
                         : 0));
    Require(error == 0, "to RTS: %s", strerror(error));
}

int End::ToError()
{
    ibv_qp_attr attr = {};

    attr.qp_state = IBV_QPS_ERR;
    return dt_soft_modify_qp(qp, &attr, IBV_QP_STATE);
}

void End::Reset()
{
    ibv_qp_attr attr = {};

    attr.qp_state = IBV_QPS_RESET;
    int error = dt_soft_modify_qp(qp, &attr, IBV_QP_STATE);
    Require(error == 0, "to RESET: %s", strerror(error));
}

int End::Post(ibv_wr_opcode opcode, uint64_t offset, uint32_t bytes, const EndAddress &peer, uint64_t remote,
              uint64_t wr_id, unsigned flags, uint32_t imm)
{
    ibv_sge sge = {reinterpret_cast<uintptr_t>(buffer) + offset, bytes, mr->lkey};
    ibv_send_wr wr = {}, *bad = nullptr;

    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = flags;
    wr.imm_data = htonl(imm);
    wr.wr.rdma.remote_addr = peer.addr + remote;
    wr.wr.rdma.rkey = peer.rkey;
    return ibv_post_send(qp, &wr, &bad);
}

int End::PostRecv(uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
    ibv_sge sge = {reinterpret_cast<uintptr_t>(buffer) + offset, bytes, mr->lkey};
    ibv_recv_wr wr = {}, *bad = nullptr;

    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = bytes ? 1 : 0;
    return ibv_post_recv(qp, &wr, &bad);
}

ibv_wc End::Wait(double seconds)
{
    double end = Seconds() + seconds;
    ibv_wc wc;

    while (!Poll(&wc))
        Require(Seconds() < end, "no completion within %.1f s", seconds);
    return wc;
}

ibv_wc End::WaitOk(double seconds)
{
    ibv_wc wc = Wait(seconds);

    Require(wc.status == IBV_WC_SUCCESS, "wr_id %llu: %s, vendor_err %u",
            static_cast<unsigned long long>(wc.wr_id), dt_soft_wc_status_str(wc.status), wc.vendor_err);
    return wc;
}

// Eight bytes of the pattern.
static uint64_t pattern(uint64_t seed, uint64_t word)
{
    uint64_t mixed = (word + seed * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;

    return mixed ^ (mixed >> 29) ^ seed;
}

void End::Fill(uint64_t seed, uint64_t offset, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = pattern(seed, i / 8);
        memcpy(buffer + offset + i, &word, std::min<uint64_t>(8, bytes - i));
    }
}

void End::Check(uint64_t seed, uint64_t offset, uint64_t bytes, const char *what) const
{
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = pattern(seed, i / 8);
        Require(memcmp(buffer + offset + i, &word, std::min<uint64_t>(8, bytes - i)) == 0,
                "%s: wrong bytes at %llu of %llu", what, static_cast<unsigned long long>(i),
                static_cast<unsigned long long>(bytes));
    }
}

void ConnectEnds(End &a, End &b, const ConnectOptions &options)
{
    a.Init(options);
    if (&a != &b)
        b.Init(options);
    a.Connect(b.Address(), options);
    if (&a != &b)
        b.Connect(a.Address(), options);
}

EndAddress ConnectTo(const Rank &rank, int peer, End &end, const ConnectOptions &options)
{
    EndAddress theirs = rank.Exchange(peer, end.Address());

    end.Init(options);
    end.Connect(theirs, options);
    rank.Barrier(peer);
    return theirs;
}
} // namespace detour_test
