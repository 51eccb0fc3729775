// SPDX-License-Identifier: Apache-2.0
// The calls of NCCL's own InfiniBand transport (net_ib), in its order and with its attributes, masks, flags
// and queue sizes (2.20 to 2.28), so that it keeps running on the drop-in library. Written from the
// sequence of its calls: no code of NCCL is here, and NCCL is not needed. Two ranks: one sends, one receives.
#include "tests/dropin/library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

using detour_test::Rank;
using detour_test::Require;
using detour_test::RunRanks;
using detour_test::Verbs;

namespace
{
constexpr int kQps = 2;            // NCCL_IB_QPS_PER_CONNECTION
constexpr int kRequests = 256;     // 32 requests of 8 receives
constexpr int kPolled = 4;         // completions per ibv_poll_cq
constexpr size_t kBytes = 1 << 18; // of a message
constexpr int kMessages = 40;      // more than the queues of one pass hold signaled
constexpr int kSlots = 8;

// One element of the FIFO that the receiver writes into the sender's memory.
struct Offer {
    uint64_t addr;
    uint64_t bytes;
    uint32_t rkey, count, tag, padding;
    uint64_t index; // last, nonzero: the element is valid
    char pad[24];
};
static_assert(sizeof(Offer) == 64, "inline, one cache line");

struct Meta {
    uint32_t qpn[kQps];
    uint32_t rkey; // of the FIFO, or of the sizes
    uint64_t addr;
    ibv_gid gid;
    uint8_t mtu;
    int has_ece;
    ibv_ece ece;
};

struct End {
    End(const Rank &process, const Verbs &library) : rank(process), verbs(library), data(2 * kBytes)
    {
        Init();
        base_pd = verbs.alloc_pd(context);
        // Room for both completions of each request, no channel, no vector.
        cq = verbs.create_cq(context, 2 * kRequests * kQps, nullptr, nullptr, 0);
        Require(base_pd && cq, "alloc_pd, create_cq: %s", strerror(errno));
        for (ibv_qp *&one : qp)
            one = CreateQp(IBV_ACCESS_REMOTE_WRITE);
        offers.resize(kSlots);
        sizes.resize(kSlots * 8);
        const unsigned all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        fifo_mr = verbs.reg_mr(base_pd, offers.data(), offers.size() * sizeof(Offer), (int)all);
        sizes_mr = verbs.reg_mr(base_pd, sizes.data(), sizes.size() * sizeof(int), (int)all);
        uintptr_t addr = reinterpret_cast<uintptr_t>(data.data()), page = addr & ~uintptr_t{4095};
        data_mr = verbs.reg_mr_iova2(base_pd, reinterpret_cast<void *>(page),
                                     (addr + data.size() - page + 4095) & ~size_t{4095}, page,
                                     all | IBV_ACCESS_RELAXED_ORDERING);
        Require(fifo_mr && sizes_mr && data_mr, "reg_mr: %s", strerror(errno));
    }

    // As at ncclNet init: the device, its ports, and whether it registers dma-bufs.
    void Init()
    {
        ibv_device_attr device = {};

        Require(verbs.fork_init() == 0, "fork_init");
        context = verbs.OpenFirst();
        Require(verbs.query_device(context, &device) == 0, "query_device");
        Require(device.phys_port_cnt == 1 && device.max_qp >= 1024 && device.sys_image_guid != 0,
                "%d ports, %d queue pairs", device.phys_port_cnt, device.max_qp);
        Require(verbs.query_port(context, 1, &port) == 0, "query_port");
        Require(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET &&
                    port.active_speed && port.active_width && port.active_mtu >= IBV_MTU_1024,
                "port: state %d, layer %d, speed %d x %d", port.state, port.link_layer, port.active_speed,
                port.active_width);
        ibv_pd *pd = verbs.alloc_pd(context);
        errno = 0;
        Require(!verbs.reg_dmabuf_mr(pd, 0, 0, 0, -1, 0) && (errno == EOPNOTSUPP || errno == EPROTONOSUPPORT),
                "a probe for dma-bufs: %s", strerror(errno));
        Require(verbs.dealloc_pd(pd) == 0, "dealloc_pd");
        ListenForEvents();
    }

    // A detached thread, which stays in the call for ever.
    void ListenForEvents()
    {
        auto get = verbs.get_async_event;
        auto ack = verbs.ack_async_event;
        auto text = verbs.event_type_str;
        ibv_context *from = context;

        std::thread([get, ack, text, from] {
            ibv_async_event event;
            while (get(from, &event) == 0) {
                (void)text(event.event_type);
                ack(&event);
            }
        }).detach();
    }

    // The best of the table, without the types that NCCL reads in sysfs.
    int FindGid(ibv_gid *gid) const
    {
        for (int index = 0; index < port.gid_tbl_len; index++) {
            static const ibv_gid none = {};
            Require(verbs.query_gid(context, 1, index, gid) == 0, "query_gid %d", index);
            if (memcmp(gid, &none, sizeof none) != 0)
                return index;
        }
        Require(false, "no GID in a table of %d", port.gid_tbl_len);
        return -1;
    }

    ibv_qp *CreateQp(int access)
    {
        ibv_qp_init_attr init = {};
        ibv_qp_attr attr = {};

        init.send_cq = init.recv_cq = cq;
        init.qp_type = IBV_QPT_RC;
        init.cap.max_send_wr = 2 * kRequests; // a WRITE and a WRITE_WITH_IMM
        init.cap.max_recv_wr = kRequests;
        init.cap.max_send_sge = init.cap.max_recv_sge = 1;
        init.cap.max_inline_data = sizeof(Offer);
        ibv_qp *made = verbs.create_qp(base_pd, &init);
        Require(made != nullptr, "create_qp: %s", strerror(errno));
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags = (unsigned)access;
        int error = verbs.modify_qp(made, &attr,
                                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        Require(error == 0, "INIT: %s", strerror(error));
        return made;
    }

    void Connect(ibv_qp *one, uint32_t qpn, const ibv_gid &gid, int gid_index, uint8_t mtu)
    {
        ibv_qp_attr attr = {};

        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = static_cast<ibv_mtu>(mtu);
        attr.dest_qp_num = qpn;
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 12;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.dgid = gid;
        attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index);
        attr.ah_attr.grh.hop_limit = 255;
        attr.ah_attr.port_num = 1;
        int error = verbs.modify_qp(one, &attr,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        Require(error == 0, "RTR: %s", strerror(error));
        attr = {};
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 20;
        attr.retry_cnt = attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        error = verbs.modify_qp(one, &attr,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
        Require(error == 0, "RTS: %s", strerror(error));
    }

    // The sender gives its FIFO, the receiver its sizes; ECE where the library has it.
    void Exchange(bool is_sender)
    {
        ibv_mr *mr = is_sender ? fifo_mr : sizes_mr;
        Meta own = {};
        int gid_index = FindGid(&own.gid);

        for (int q = 0; q < kQps; q++)
            own.qpn[q] = qp[q]->qp_num;
        own.rkey = mr->rkey;
        own.addr = reinterpret_cast<uintptr_t>(mr->addr);
        own.mtu = static_cast<uint8_t>(port.active_mtu);
        own.has_ece = verbs.query_ece(qp[0], &own.ece) == 0;
        peer = rank.Exchange(1 - rank.number(), own);
        for (int q = 0; q < kQps; q++) {
            if (own.has_ece && peer.has_ece)
                Require(verbs.set_ece(qp[q], &peer.ece) == 0, "set_ece");
            Connect(qp[q], peer.qpn[q], peer.gid, gid_index, std::min(own.mtu, peer.mtu));
        }
        if (is_sender)
            return;
        // A GPU's memory is flushed by a read over a queue pair that is connected to itself.
        flush = CreateQp(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
        flush_mr = verbs.reg_mr(base_pd, &flushed, sizeof flushed, IBV_ACCESS_LOCAL_WRITE);
        Require(flush_mr != nullptr, "reg_mr: %s", strerror(errno));
        Connect(flush, flush->qp_num, own.gid, gid_index, own.mtu);
    }

    void Post(ibv_qp *one, ibv_send_wr *wr)
    {
        ibv_send_wr *bad = nullptr;
        int error = ibv_post_send(one, wr, &bad);
        Require(error == 0, "post_send: %s", strerror(error));
    }

    // Up to kPolled at a time, until `count` in all.
    void Poll(int count, const std::function<void(const ibv_wc &)> &take)
    {
        while (count > 0) {
            ibv_wc wcs[kPolled];
            int found = ibv_poll_cq(cq, kPolled, wcs);
            Require(found >= 0, "poll_cq");
            for (int i = 0; i < found; i++) {
                Require(wcs[i].status == IBV_WC_SUCCESS, "wr_id %d: status %d, vendor_err %u, opcode %d",
                        (int)wcs[i].wr_id, wcs[i].status, wcs[i].vendor_err, wcs[i].opcode);
                take(wcs[i]);
            }
            count -= found;
        }
    }

    void Destroy()
    {
        for (ibv_qp *one : {qp[0], qp[1], flush}) {
            if (one)
                Require(verbs.destroy_qp(one) == 0, "destroy_qp");
        }
        for (ibv_mr *mr : {fifo_mr, sizes_mr, data_mr, flush_mr}) {
            if (mr)
                Require(verbs.dereg_mr(mr) == 0, "dereg_mr");
        }
        Require(verbs.destroy_cq(cq) == 0, "destroy_cq");
        Require(verbs.dealloc_pd(base_pd) == 0, "dealloc_pd");
    } // the context stays open, with its thread, until the process ends

    const Rank &rank;
    const Verbs &verbs;
    std::vector<uint8_t> data;
    std::vector<Offer> offers;
    std::vector<int> sizes;
    int flushed = 0;
    ibv_context *context = nullptr;
    ibv_port_attr port = {};
    ibv_pd *base_pd = nullptr;
    ibv_cq *cq = nullptr;
    ibv_qp *qp[kQps] = {}, *flush = nullptr;
    ibv_mr *fifo_mr = nullptr, *sizes_mr = nullptr, *data_mr = nullptr, *flush_mr = nullptr;
    Meta peer = {};
};

// Every third receive is of two messages.
int CountOf(int message)
{
    return message % 3 == 2 ? 2 : 1;
}

// Of 0 bytes, and up to all that there is room for.
uint32_t BytesOf(int message, int part)
{
    return static_cast<uint32_t>((size_t)message * 6553 * (part + 1) % (kBytes + 1));
}

uint8_t ByteOf(int message, int part, size_t at)
{
    return static_cast<uint8_t>(message * 7 + part * 3 + at * 31 + at / 251);
}

// An empty receive on each queue pair, then the offer: inline, with a completion once per pass.
void Offers(End &end, int message)
{
    for (ibv_qp *one : end.qp) {
        ibv_recv_wr wr = {}, *bad = nullptr;
        wr.wr_id = (uint64_t)message % kSlots;
        Require(ibv_post_recv(one, &wr, &bad) == 0, "post_recv");
    }
    Offer offer = {};
    ibv_sge sge = {reinterpret_cast<uintptr_t>(&offer), sizeof offer, end.fifo_mr->lkey};
    ibv_send_wr wr = {};
    int slot = message % kSlots;

    offer.addr = reinterpret_cast<uintptr_t>(end.data.data());
    offer.rkey = end.data_mr->rkey;
    offer.bytes = kBytes;
    offer.count = (uint32_t)CountOf(message);
    offer.index = (uint64_t)message + 1;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = slot == 0 ? IBV_SEND_INLINE | IBV_SEND_SIGNALED : IBV_SEND_INLINE;
    wr.wr_id = kRequests;
    wr.wr.rdma.remote_addr = end.peer.addr + (size_t)slot * sizeof(Offer);
    wr.wr.rdma.rkey = end.peer.rkey;
    end.Post(end.qp[0], &wr);
}

void Flush(End &end)
{
    ibv_sge sge = {reinterpret_cast<uintptr_t>(&end.flushed), 1, end.flush_mr->lkey};
    ibv_send_wr wr = {};

    wr.wr_id = 77;
    wr.opcode = IBV_WR_RDMA_READ;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(end.data.data());
    wr.wr.rdma.rkey = end.data_mr->rkey;
    end.Post(end.flush, &wr);
    end.Poll(1, [](const ibv_wc &wc) {
        Require(wc.wr_id == 77 && wc.opcode == IBV_WC_RDMA_READ, "a flush: wr_id %d", (int)wc.wr_id);
    });
}

// The message's bytes, and nothing after them.
void RequirePart(const uint8_t *data, int message, int part, uint32_t bytes)
{
    static std::vector<uint8_t> expected(kBytes);

    for (size_t i = 0; i < kBytes; i++)
        expected[i] = i < bytes ? ByteOf(message, part, i) : 0;
    if (memcmp(data, expected.data(), kBytes) == 0)
        return;
    size_t first = (size_t)(std::mismatch(expected.begin(), expected.end(), data).first - expected.begin());
    Require(false, "message %d, part %d: byte %zu of %u", message, part, first, bytes);
}

void ReceiveAll(End &end)
{
    for (int message = 0; message < kMessages; message++) {
        int slot = message % kSlots, count = CountOf(message);
        std::fill(end.data.begin(), end.data.end(), uint8_t{0});
        Offers(end, message);
        int signaled = slot == 0 ? 1 : 0;
        end.Poll(kQps + signaled, [&](const ibv_wc &wc) {
            if (wc.opcode == IBV_WC_RDMA_WRITE) {
                Require(wc.wr_id == kRequests, "an offer: wr_id %d", (int)wc.wr_id);
                return;
            }
            Require(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wc_flags & IBV_WC_WITH_IMM &&
                        wc.wr_id == (uint64_t)slot &&
                        (wc.qp_num == end.qp[0]->qp_num || wc.qp_num == end.qp[1]->qp_num),
                    "message %d: opcode %d, wr_id %d", message, wc.opcode, (int)wc.wr_id);
            Require(count > 1 || wc.imm_data == BytesOf(message, 0), "message %d: immediate %u", message,
                    wc.imm_data);
        });
        Flush(end);
        for (int part = 0; part < count; part++) {
            uint32_t bytes = BytesOf(message, part);
            Require(count == 1 || end.sizes[slot * 8 + part] == (int)bytes, "message %d: size %d", message,
                    end.sizes[slot * 8 + part]);
            RequirePart(&end.data[part * kBytes], message, part, bytes);
        }
        end.rank.Barrier(0);
    }
}

// A chain for each queue pair: a WRITE for each part's share, then a WRITE_WITH_IMM that is empty, or carries
// the sizes; the last alone has a completion.
void Send(End &end, int message, const Offer &offer)
{
    int count = (int)offer.count, slot = message % kSlots;

    for (int part = 0; part < count; part++)
        end.sizes[slot * 8 + part] = (int)BytesOf(message, part);
    for (int q = 0; q < kQps; q++) {
        ibv_send_wr wr[3] = {};
        ibv_sge sge[3];
        for (int part = 0; part < count; part++) {
            uint32_t bytes = BytesOf(message, part), chunk = (bytes + kQps - 1) / kQps;
            chunk = (chunk + 127) / 128 * 128;
            uint32_t from = std::min(bytes, (uint32_t)q * chunk), length = std::min(chunk, bytes - from);
            sge[part] = {reinterpret_cast<uintptr_t>(end.data.data()) + part * kBytes + from, length,
                         end.data_mr->lkey};
            wr[part].opcode = IBV_WR_RDMA_WRITE;
            wr[part].sg_list = length ? &sge[part] : nullptr;
            wr[part].num_sge = length ? 1 : 0;
            wr[part].wr.rdma.remote_addr = offer.addr + part * kBytes + from;
            wr[part].wr.rdma.rkey = offer.rkey;
            wr[part].next = &wr[part + 1];
        }
        ibv_send_wr &last = wr[count];
        last.wr_id = (uint64_t)slot;
        last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        last.imm_data = BytesOf(message, 0);
        last.send_flags = IBV_SEND_SIGNALED;
        if (count > 1) {
            sge[count] = {reinterpret_cast<uintptr_t>(&end.sizes[slot * 8]), (uint32_t)(count * sizeof(int)),
                          end.sizes_mr->lkey};
            last.sg_list = &sge[count];
            last.num_sge = 1;
            last.wr.rdma.remote_addr = end.peer.addr + (size_t)slot * 8 * sizeof(int);
            last.wr.rdma.rkey = end.peer.rkey;
        }
        end.Post(end.qp[q], wr);
    }
    end.Poll(kQps, [&](const ibv_wc &wc) {
        Require(wc.wr_id == (uint64_t)slot && wc.opcode == IBV_WC_RDMA_WRITE, "message %d: opcode %d",
                message, wc.opcode);
    });
}

void SendAll(End &end)
{
    for (int message = 0; message < kMessages; message++) {
        const Offer *offer = &end.offers[message % kSlots];
        while (__atomic_load_n(&offer->index, __ATOMIC_ACQUIRE) != (uint64_t)message + 1)
            Require(!end.rank.HasMessage(1), "the receiver is gone");
        for (int part = 0; part < CountOf(message); part++) {
            for (size_t i = 0; i < kBytes; i++)
                end.data[part * kBytes + i] = ByteOf(message, part, i);
        }
        Send(end, message, *offer);
        end.rank.Barrier(1);
    }
}

TEST(NetIb, ItsCallsMoveEachMessageAndItsFlush)
{
    RunRanks(2, [](const Rank &rank) {
        static Verbs verbs; // as long as the thread that waits for events
        End end(rank, verbs);
        bool is_sender = rank.number() == 0;

        end.Exchange(is_sender);
        rank.Barrier(1 - rank.number());
        if (is_sender)
            SendAll(end);
        else
            ReceiveAll(end);
        end.Destroy();
        rank.Barrier(1 - rank.number());
    });
}

// NCCL merges the ports of a card, which it recognizes by the GUID of the card's image.
TEST(NetIb, EachDeviceIsACardOfItsOwn)
{
    RunRanks(1, [](const Rank &) {
        Verbs verbs;
        int count = 0;
        ibv_device **list = verbs.get_device_list(&count);
        ibv_device_attr attr[2] = {};

        Require(list && count == 2, "%d devices", count);
        for (int i = 0; i < 2; i++) {
            ibv_context *context = verbs.open_device(list[i]);
            Require(context && verbs.query_device(context, &attr[i]) == 0, "query_device");
            Require(verbs.close_device(context) == 0, "close_device");
        }
        verbs.free_device_list(list);
        Require(attr[0].sys_image_guid != attr[1].sys_image_guid, "one GUID for both");
    });
}

// What ends a connection there: the completion of a peer whose queue pair is gone is an error, not silence.
TEST(NetIb, AnErrorHasItsStatusAndTheQueuePairsAreFlushed)
{
    RunRanks(2, [](const Rank &rank) {
        static Verbs verbs;
        End end(rank, verbs);
        bool is_sender = rank.number() == 0;

        end.Exchange(is_sender);
        rank.Barrier(1 - rank.number());
        if (is_sender) {
            ibv_sge sge = {reinterpret_cast<uintptr_t>(end.data.data()), 64, end.data_mr->lkey};
            ibv_send_wr wr[2] = {};
            for (ibv_send_wr &one : wr) {
                one.opcode = IBV_WR_RDMA_WRITE;
                one.sg_list = &sge;
                one.num_sge = 1;
                one.send_flags = IBV_SEND_SIGNALED;
                one.wr.rdma.remote_addr = end.peer.addr;
                one.wr.rdma.rkey = ~end.peer.rkey;
            }
            wr[0].next = &wr[1];
            end.Post(end.qp[0], wr);
            ibv_wc wc = {};
            for (ibv_wc_status status : {IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR}) {
                while (ibv_poll_cq(end.cq, 1, &wc) == 0) {
                }
                Require(wc.status == status && wc.qp_num == end.qp[0]->qp_num, "status %d", wc.status);
            }
        }
        rank.Barrier(1 - rank.number());
        end.Destroy();
    });
}
} // namespace
