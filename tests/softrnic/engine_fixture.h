/* SPDX-License-Identifier: Apache-2.0 */
/* Two or more RNICs on the simulated wire, and queue pairs between them, for tests of the engine. */
#ifndef DETOUR_TESTS_SOFTRNIC_ENGINE_FIXTURE_H
#define DETOUR_TESTS_SOFTRNIC_ENGINE_FIXTURE_H

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <endian.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/atomics.h"
#include "tests/harness/harness.h"
#include "softrnic/engine.h"
#include "softrnic/psn.h"
#include "tests/sim/wire_sim.h"
#include "softrnic/wqe.h"

namespace softrnic_test
{
constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kReliableMask = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT |
                              IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr unsigned kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr uint64_t kMs = 1000000;

/* The retry timer of the specification: 4.096 us times 2 to the power of `timeout`. */
constexpr uint64_t TimeoutNs(unsigned timeout)
{
    return 4096ull << timeout;
}

struct Event {
    ibv_event_type type;
    dt_rnic_qp *qp;
    dt_rnic_cq *cq;
};

/* One RNIC on its port. */
struct Host {
    dt_sim *sim = nullptr;
    uint8_t gid[16] = {};
    dt_wire *port = nullptr;
    dt_rnic *rnic = nullptr;
    std::vector<Event> events;
    std::vector<dt_rnic_cq *> notified;

    Host(dt_sim *sim_in, uint8_t number, uint64_t rate_bytes_per_s = 0) : sim(sim_in)
    {
        gid[0] = 0xfd;
        gid[15] = number;
        port = dt_sim_add_port(sim, gid);
        dt_rnic_options options = {};
        options.wire = port;
        memcpy(options.gid, gid, sizeof gid);
        options.rate_bytes_per_s = rate_bytes_per_s;
        options.number_seed = 100u * number;
        options.context = this;
        options.event = [](void *context, const dt_rnic_event *event) {
            static_cast<Host *>(context)->events.push_back({event->type, event->qp, event->cq});
        };
        options.notify = [](void *context, dt_rnic_cq *cq) {
            static_cast<Host *>(context)->notified.push_back(cq);
        };
        rnic = dt_rnic_create(&options);
        dt_sim_attach(port, rnic);
    }
    ~Host()
    {
        dt_rnic_destroy(rnic);
    }
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;

    int CountEvents(ibv_event_type type) const
    {
        int n = 0;
        for (const Event &event : events)
            n += event.type == type;
        return n;
    }
    dt_rnic_counters Counters() const
    {
        dt_rnic_counters counters;
        dt_rnic_query_counters(rnic, &counters);
        return counters;
    }
};

/* Attributes of a connection; both ends use the same. */
struct Attributes {
    ibv_mtu mtu = IBV_MTU_1024;
    uint32_t psn = 0; /* of both directions */
    uint8_t timeout = 14;
    uint8_t retry_cnt = 6;
    uint8_t rnr_retry = 7;
    uint8_t min_rnr_timer = 12; /* 0.64 ms */
    uint8_t max_rd_atomic = 4;
    unsigned access = kAllAccess;
    uint32_t sq_blocks = 256;
    uint32_t rq_entries = 64;
    uint32_t cq_entries = 1024;
    uint64_t buffer_bytes = 1 << 20;
    bool is_unreliable = false; /* UC */
};

/* A queue pair with a buffer, a region over it and CQs of its own. */
struct End {
    Host *host;
    Attributes attributes;
    dt_rnic_cq *send_cq, *recv_cq;
    dt_rnic_qp *qp;
    std::vector<uint8_t> buffer;
    uint32_t key = 0;
    dt_rnic_sq sq = {};
    uint16_t producer = 0;

    End(Host *host_in, const Attributes &attributes_in)
        : host(host_in), attributes(attributes_in), buffer(attributes_in.buffer_bytes)
    {
        send_cq = dt_rnic_cq_create(host->rnic, attributes.cq_entries, true, nullptr);
        recv_cq = dt_rnic_cq_create(host->rnic, attributes.cq_entries, true, nullptr);
        EXPECT_EQ(
            0, dt_rnic_mr_register(host->rnic, 1, buffer.data(), buffer.size(), Addr(0), kAllAccess, &key));
        dt_rnic_qp_options options = {};
        options.pd = 1;
        options.send_cq = send_cq;
        options.recv_cq = recv_cq;
        options.sq_blocks = attributes.sq_blocks;
        options.rq_entries = attributes.rq_entries;
        options.recv_sge_max = 4;
        options.context = this;
        options.is_unreliable = attributes.is_unreliable;
        qp = dt_rnic_qp_create(host->rnic, &options);
        EXPECT_NE(nullptr, qp);
        dt_rnic_qp_sq(qp, &sq);
    }
    ~End()
    {
        dt_rnic_qp_destroy(qp);
        dt_rnic_mr_deregister(host->rnic, key);
        EXPECT_EQ(0, dt_rnic_cq_destroy(send_cq));
        EXPECT_EQ(0, dt_rnic_cq_destroy(recv_cq));
    }
    End(const End &) = delete;
    End &operator=(const End &) = delete;

    uint64_t Now() const
    {
        return dt_sim_now_ns(host->sim);
    }
    uint64_t Addr(uint64_t offset) const
    {
        return reinterpret_cast<uintptr_t>(buffer.data()) + offset;
    }
    uint32_t Number() const
    {
        return dt_rnic_qp_number(qp);
    }
    ibv_qp_state State() const
    {
        return dt_rnic_qp_state(qp);
    }
    int Modify(const ibv_qp_attr &attr, int mask)
    {
        return dt_rnic_qp_modify(qp, &attr, mask, Now());
    }
    int MoveTo(ibv_qp_state state)
    {
        ibv_qp_attr attr = {};
        attr.qp_state = state;
        return Modify(attr, IBV_QP_STATE);
    }

    ibv_qp_attr AttrFor(const End &peer) const
    {
        ibv_qp_attr attr = {};
        attr.port_num = 1;
        attr.qp_access_flags = attributes.access;
        attr.path_mtu = attributes.mtu;
        attr.dest_qp_num = peer.Number();
        attr.rq_psn = attributes.psn;
        attr.sq_psn = attributes.psn;
        attr.max_dest_rd_atomic = attributes.max_rd_atomic;
        attr.max_rd_atomic = attributes.max_rd_atomic;
        attr.min_rnr_timer = attributes.min_rnr_timer;
        attr.timeout = attributes.timeout;
        attr.retry_cnt = attributes.retry_cnt;
        attr.rnr_retry = attributes.rnr_retry;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        memcpy(attr.ah_attr.grh.dgid.raw, peer.host->gid, 16);
        return attr;
    }
    void ConnectTo(const End &peer, ibv_qp_state last = IBV_QPS_RTS)
    {
        ibv_qp_attr attr = AttrFor(peer);
        attr.qp_state = IBV_QPS_INIT;
        ASSERT_EQ(0, Modify(attr, kInitMask));
        attr.qp_state = IBV_QPS_RTR;
        const int reliable = attributes.is_unreliable ? kReliableMask : 0;
        ASSERT_EQ(0, Modify(attr, kRtrMask & ~reliable));
        if (last == IBV_QPS_RTR)
            return;
        attr.qp_state = IBV_QPS_RTS;
        ASSERT_EQ(0, Modify(attr, kRtsMask & ~reliable));
    }

    /* Writes one element; returns its index. Nothing is announced before Ring(). */
    uint16_t Put(const dt_wqe_header &header_in, const std::vector<dt_wqe_sge> &sges, bool is_inline = false)
    {
        dt_wqe_ring ring = {static_cast<uint8_t *>(sq.buffer), sq.blocks};
        dt_wqe_header header = header_in;
        uint16_t index = producer;
        header.qpn = Number();
        auto encode = is_inline ? dt_wqe_encode_inline : dt_wqe_encode;
        producer = static_cast<uint16_t>(
            producer + encode(&ring, index, &header, sges.data(), static_cast<uint32_t>(sges.size())));
        return index;
    }
    void Announce()
    {
        dt_store_release(&sq.doorbell[DT_DBREC_SEND], htobe32(producer));
    }
    void Ring()
    {
        Announce();
        dt_rnic_doorbell(qp, Now());
    }

    dt_wqe_header Header(uint8_t opcode, uint8_t flags, const End *peer = nullptr, uint64_t remote_offset = 0,
                         uint32_t imm = 0) const
    {
        dt_wqe_header header = {};
        header.opcode = opcode;
        header.flags = flags;
        header.imm = htonl(imm);
        if (peer) {
            header.remote_addr = peer->Addr(remote_offset);
            header.rkey = peer->key;
        }
        return header;
    }
    dt_wqe_sge Sge(uint64_t offset, uint32_t bytes) const
    {
        return {Addr(offset), bytes, key};
    }

    /* One signaled operation over one piece, rung at once. */
    uint16_t Write(const End &peer, uint64_t from, uint64_t to, uint32_t bytes,
                   uint8_t flags = DT_WQE_SIGNALED)
    {
        uint16_t index = Put(Header(DT_WQE_WRITE, flags, &peer, to), {Sge(from, bytes)});
        Ring();
        return index;
    }
    uint16_t WriteImm(const End &peer, uint64_t from, uint64_t to, uint32_t bytes, uint32_t imm,
                      uint8_t flags = DT_WQE_SIGNALED)
    {
        uint16_t index = Put(Header(DT_WQE_WRITE_IMM, flags, &peer, to, imm), {Sge(from, bytes)});
        Ring();
        return index;
    }
    uint16_t Send(uint64_t from, uint32_t bytes, uint8_t flags = DT_WQE_SIGNALED)
    {
        uint16_t index = Put(Header(DT_WQE_SEND, flags), {Sge(from, bytes)});
        Ring();
        return index;
    }
    uint16_t Read(const End &peer, uint64_t remote, uint64_t to, uint32_t bytes,
                  uint8_t flags = DT_WQE_SIGNALED)
    {
        uint16_t index = Put(Header(DT_WQE_READ, flags, &peer, remote), {Sge(to, bytes)});
        Ring();
        return index;
    }
    int Recv(uint64_t wr_id, uint64_t offset = 0, uint32_t bytes = 0)
    {
        ibv_sge sge = {Addr(offset), bytes, key};
        bool must_kick;
        int error = dt_rnic_qp_post_recv(qp, wr_id, &sge, bytes ? 1 : 0, &must_kick);
        if (must_kick)
            dt_rnic_doorbell(qp, Now());
        return error;
    }

    std::vector<dt_cqe> Poll(dt_rnic_cq *cq)
    {
        std::vector<dt_cqe> all;
        dt_cqe cqe;
        while (dt_rnic_cq_poll(cq, &cqe, 1))
            all.push_back(cqe);
        return all;
    }
    std::vector<dt_cqe> PollSend()
    {
        return Poll(send_cq);
    }
    std::vector<dt_cqe> PollRecv()
    {
        return Poll(recv_cq);
    }

    void Fill(uint64_t offset, uint64_t bytes, uint32_t seed)
    {
        for (uint64_t i = 0; i < bytes; i++)
            buffer[offset + i] = static_cast<uint8_t>((i + seed) * 2654435761u >> 13);
    }
};

/* Two hosts and one connection between them. */
class Pair : public ::testing::Test
{
  protected:
    dt_sim *sim = nullptr;
    Host *ha = nullptr, *hb = nullptr;
    End *a = nullptr, *b = nullptr;

    void Build(const dt_sim_options &options, const Attributes &attributes, bool connect = true)
    {
        TearDown();
        sim = dt_sim_create(&options);
        ha = new Host(sim, 1);
        hb = new Host(sim, 2);
        a = new End(ha, attributes);
        b = new End(hb, attributes);
        if (connect) {
            a->ConnectTo(*b);
            b->ConnectTo(*a);
        }
    }
    static dt_sim_options Quiet()
    {
        dt_sim_options options = {};
        options.latency_ns = 1000;
        return options;
    }
    void SetUp() override
    {
        Build(Quiet(), Attributes());
    }
    void TearDown() override
    {
        delete a;
        delete b;
        delete ha;
        delete hb;
        dt_sim_destroy(sim);
        a = b = nullptr;
        ha = hb = nullptr;
        sim = nullptr;
    }

    /* Until nothing happens any more; more steps than a sane run needs fail the test. */
    void Run(int steps_max = 1000000)
    {
        while (dt_sim_step(sim))
            ASSERT_GT(steps_max--, 0) << "the simulation does not come to rest";
    }
};

inline ::testing::AssertionResult IsSuccess(const dt_cqe &cqe)
{
    if (cqe.status == IBV_WC_SUCCESS && !cqe.vendor_err)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << "status " << int(cqe.status) << " vendor_err " << int(cqe.vendor_err);
}

#define EXPECT_FAILED(cqe, status_, vendor_err_)                 \
    do {                                                         \
        EXPECT_EQ(status_, ibv_wc_status((cqe).status));         \
        EXPECT_EQ(vendor_err_, dt_vendor_err((cqe).vendor_err)); \
    } while (0)
} // namespace softrnic_test

#endif
