// SPDX-License-Identifier: Apache-2.0
/*
 * Links with a rate, and messages as one event of the wire (wire_sim.h): the same times and the same bytes as
 * packet by packet, also when a link fails; many hosts at once; copies of a GPU at a stated rate.
 */
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "base/clock.h"
#include "tests/sim/cluster.h"
#include "tests/sim/driver_sim.h"

namespace
{
constexpr uint64_t kBlock = 128 << 10;
constexpr uint64_t kRate = 50000000000; // 400 Gb/s, bytes a second
constexpr uint64_t kLatency = 5000;

/* Memory of which a test touches little: pages that nothing has written take no room. */
class Sparse
{
  public:
    explicit Sparse(size_t bytes) : bytes_(bytes)
    {
        data_ = (uint8_t *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        madvise(data_, bytes, MADV_NOHUGEPAGE);
    }
    ~Sparse()
    {
        munmap(data_, bytes_);
    }
    uint8_t *data()
    {
        return data_;
    }
    /* A stamp at the start of each block: the message's number and the block's. */
    void Stamp(size_t offset, size_t bytes, uint64_t message)
    {
        for (size_t at = 0; at < bytes; at += kBlock) {
            uint64_t stamp[2] = {message, at};
            memcpy(data_ + offset + at, stamp, sizeof stamp);
        }
    }
    bool HasStamps(size_t offset, size_t bytes, uint64_t message)
    {
        for (size_t at = 0; at < bytes; at += kBlock) {
            uint64_t stamp[2] = {message, at};
            if (memcmp(data_ + offset + at, stamp, sizeof stamp))
                return false;
        }
        return true;
    }

  private:
    size_t bytes_;
    uint8_t *data_;
};

struct Shape {
    uint64_t segment_bytes_max; // 0: packet by packet
    uint64_t block_bytes;
};
constexpr Shape kPackets = {0, 0}, kWhole = {1 << 30, kBlock};

class Links : public ::testing::Test
{
  protected:
    void Start(uint32_t hosts, Shape shape, dt_cuda_sim_rates gpu = {},
               void (*set)(void *, uint32_t, dt_params *) = nullptr)
    {
        dt_cluster_options options = {};

        options.seed = 1;
        options.host_count = hosts;
        options.link.latency_ns = kLatency;
        options.link.rate_bytes_per_s = kRate;
        options.segment_bytes_max = shape.segment_bytes_max;
        options.block_bytes = shape.block_bytes;
        options.gpu = gpu;
        options.control_latency_ns = 50 * DT_NS_PER_US;
        options.set = set;
        cluster = dt_cluster_start(&options);
        ASSERT_TRUE(cluster);
        net = dt_cluster_net(cluster);
    }
    void Stop()
    {
        dt_cluster_stop(cluster);
    }
    uint64_t Now()
    {
        return dt_cluster_now_ns(cluster);
    }
    bool IsDone(void *request)
    {
        int done = 0;
        EXPECT_EQ(ncclSuccess, net->test(request, &done, nullptr));
        return done != 0;
    }
    void Pass(uint64_t duration_ns)
    {
        uint32_t host;

        for (uint64_t until_ns = Now() + duration_ns; Now() < until_ns;) {
            while (dt_cluster_take(cluster, &host))
                continue;
            dt_cluster_advance(cluster, until_ns);
        }
    }

    dt_cluster *cluster = nullptr;
    const ncclNet_v8_t *net = nullptr;
};

/* Messages of these sizes, all handed over at once; when each end had each of them, and what failed on the
 * way. */
struct Transfer {
    std::vector<uint64_t> received_ns, sent_ns;
    uint64_t retransmissions = 0;
    bool is_whole = true;
};

class Messages : public Links
{
  protected:
    Transfer Run(Shape shape, const std::vector<size_t> &sizes, uint64_t cut_at_ns = 0, uint64_t cut_ns = 0,
                 uint64_t serial_ns = 0)
    {
        dt_cluster_connection c;
        std::vector<void *> sends(sizes.size()), receives(sizes.size());
        std::vector<size_t> at(sizes.size());
        void *from_mhandle, *to_mhandle;
        size_t total = 0;
        Transfer result;

        for (size_t i = 0; i < sizes.size(); i++) {
            at[i] = total;
            total += (sizes[i] + kBlock - 1) / kBlock * kBlock;
        }
        Sparse from(total), to(total);
        Start(2, shape);
        EXPECT_TRUE(dt_cluster_connect(cluster, 0, 1, &c));
        SetSerial(serial_ns);
        dt_cluster_enter(cluster, 0);
        EXPECT_EQ(ncclSuccess, net->regMr(c.send, from.data(), total, NCCL_PTR_HOST, &from_mhandle));
        dt_cluster_enter(cluster, 1);
        EXPECT_EQ(ncclSuccess, net->regMr(c.recv, to.data(), total, NCCL_PTR_HOST, &to_mhandle));
        for (size_t i = 0; i < sizes.size(); i++) {
            int size = (int)sizes[i], tag = 7;
            void *data = to.data() + at[i];
            from.Stamp(at[i], sizes[i], i);
            EXPECT_EQ(ncclSuccess, net->irecv(c.recv, 1, &data, &size, &tag, &to_mhandle, &receives[i]));
        }
        Pass(DT_NS_PER_MS); // the clear-to-send of each
        dt_cluster_enter(cluster, 0);
        for (size_t i = 0; i < sizes.size(); i++) {
            EXPECT_EQ(ncclSuccess,
                      net->isend(c.send, from.data() + at[i], (int)sizes[i], 7, from_mhandle, &sends[i]));
            EXPECT_TRUE(sends[i]);
        }
        Wait(sends, receives, Now(), cut_at_ns, cut_ns, result);
        for (size_t i = 0; i < sizes.size(); i++)
            result.is_whole &= to.HasStamps(at[i], sizes[i], i);
        dt_rnic_counters counters;
        EXPECT_TRUE(dt_driver_sim_counters(0, &counters));
        result.retransmissions = counters.retransmissions;
        dt_cluster_enter(cluster, 0);
        net->deregMr(c.send, from_mhandle);
        dt_cluster_enter(cluster, 1);
        net->deregMr(c.recv, to_mhandle);
        dt_cluster_close(cluster, &c);
        Stop();
        return result;
    }

  private:
    void SetSerial(uint64_t serial_ns)
    {
        dt_sim_link_options link = {};
        link.latency_ns = kLatency;
        link.rate_bytes_per_s = kRate;
        link.serial_ns = serial_ns;
        dt_cluster_set_link(cluster, 0, 1, &link);
    }
    void Wait(std::vector<void *> &sends, std::vector<void *> &receives, uint64_t began_ns,
              uint64_t cut_at_ns, uint64_t cut_ns, Transfer &result)
    {
        size_t left = sends.size() + receives.size();
        uint64_t cuts[2] = {cut_at_ns ? began_ns + cut_at_ns : DT_NEVER_NS,
                            cut_at_ns ? began_ns + cut_at_ns + cut_ns : DT_NEVER_NS};
        uint32_t host;

        result.received_ns.resize(receives.size());
        result.sent_ns.resize(sends.size());
        while (left && Now() < began_ns + 60 * DT_NS_PER_S) {
            while (dt_cluster_take(cluster, &host)) {
                auto &requests = host == 0 ? sends : receives;
                auto &done_ns = host == 0 ? result.sent_ns : result.received_ns;
                for (size_t i = 0; i < requests.size(); i++) {
                    if (requests[i] && IsDone(requests[i])) {
                        requests[i] = nullptr;
                        done_ns[i] = Now() - began_ns;
                        left--;
                    }
                }
            }
            if (left)
                dt_cluster_advance(cluster, std::min(cuts[0], cuts[1]));
            for (int i = 0; i < 2; i++) {
                if (Now() >= cuts[i]) {
                    dt_sim_cut(dt_driver_sim_port(0), dt_driver_sim_port(1), i == 0);
                    cuts[i] = DT_NEVER_NS;
                }
            }
        }
        EXPECT_EQ(0u, left);
    }
};

uint64_t WireNs(uint64_t bytes)
{
    return (bytes * DT_NS_PER_S + kRate - 1) / kRate;
}

TEST_F(Messages, AnEventIsWorthItsPackets)
{
    const std::vector<size_t> sizes = {1, 4096, 100000, kBlock, 1 << 20, 3 * kBlock + 17, 4 << 20};
    Transfer packets = Run(kPackets, sizes), whole = Run(kWhole, sizes);
    uint64_t bytes = 0;

    EXPECT_EQ(packets.received_ns, whole.received_ns);
    EXPECT_EQ(packets.sent_ns, whole.sent_ns);
    EXPECT_TRUE(packets.is_whole);
    EXPECT_TRUE(whole.is_whole);
    for (size_t i = 0; i < sizes.size(); i++) {
        bytes += sizes[i];
        EXPECT_EQ(WireNs(bytes) + kLatency, whole.received_ns[i]) << i;
        EXPECT_EQ(WireNs(bytes) + 2 * kLatency, whole.sent_ns[i]) << i;
    }
}

TEST_F(Messages, EachMessageOccupiesASerialLinkLonger)
{
    const std::vector<size_t> sizes = {1 << 20, 4 << 20, 2 << 20};
    constexpr uint64_t serial_ns = 3 * DT_NS_PER_MS;
    Transfer packets = Run(kPackets, sizes, 0, 0, serial_ns), whole = Run(kWhole, sizes, 0, 0, serial_ns);
    uint64_t bytes = 0;

    EXPECT_EQ(packets.received_ns, whole.received_ns);
    for (size_t i = 0; i < sizes.size(); i++) {
        bytes += sizes[i];
        EXPECT_EQ(WireNs(bytes) + (i + 1) * serial_ns + kLatency, whole.received_ns[i]);
    }
}

/* The link is cut while the second of three messages leaves: the first arrives, the others are sent again. */
TEST_F(Messages, ACutLosesUnsentMessages)
{
    const std::vector<size_t> sizes = {1 << 20, 4 << 20, 1 << 20};
    const uint64_t cut_at_ns = WireNs(1 << 20) + WireNs(2 << 20);
    Transfer packets = Run(kPackets, sizes, cut_at_ns, 400 * DT_NS_PER_MS);
    Transfer whole = Run(kWhole, sizes, cut_at_ns, 400 * DT_NS_PER_MS);

    EXPECT_TRUE(packets.is_whole);
    EXPECT_TRUE(whole.is_whole);
    EXPECT_EQ(packets.received_ns[0], whole.received_ns[0]);
    EXPECT_EQ(WireNs(1 << 20) + kLatency, whole.received_ns[0]);
    for (size_t i = 1; i < sizes.size(); i++) {
        EXPECT_GT(packets.received_ns[i], 400 * DT_NS_PER_MS);
        EXPECT_GT(whole.received_ns[i], 400 * DT_NS_PER_MS);
    }
    EXPECT_GT(packets.retransmissions, 0u);
    EXPECT_EQ(packets.retransmissions, whole.retransmissions);
}

TEST_F(Messages, HundredsOfMegabytesAreAFewEvents)
{
    Transfer whole = Run(kWhole, {256 << 20, 512 << 20});

    EXPECT_TRUE(whole.is_whole);
    EXPECT_EQ(WireNs(256 << 20) + kLatency, whole.received_ns[0]);
    EXPECT_EQ(WireNs(768 << 20) + kLatency, whole.received_ns[1]);
}

/* Each host sends to the next one, at the same time. */
TEST_F(Links, SixtyFourHostsSendAtOnce)
{
    constexpr uint32_t hosts = 64;
    constexpr size_t bytes = 16 << 20;
    std::vector<dt_cluster_connection> c(hosts);
    std::vector<void *> from_mhandle(hosts), to_mhandle(hosts), send(hosts), receive(hosts);
    std::vector<uint64_t> received_ns(hosts);
    Sparse from(hosts * bytes), to(hosts * bytes);
    uint32_t host, left = 2 * hosts;
    uint64_t began_ns;

    Start(hosts, kWhole);
    for (uint32_t i = 0; i < hosts; i++) {
        int size = (int)bytes, tag = 0;
        void *data = to.data() + i * bytes;
        ASSERT_TRUE(dt_cluster_connect(cluster, i, (i + 1) % hosts, &c[i]));
        from.Stamp(i * bytes, bytes, i);
        ASSERT_EQ(ncclSuccess, net->regMr(c[i].recv, data, bytes, NCCL_PTR_HOST, &to_mhandle[i]));
        ASSERT_EQ(ncclSuccess, net->irecv(c[i].recv, 1, &data, &size, &tag, &to_mhandle[i], &receive[i]));
        dt_cluster_enter(cluster, i);
        ASSERT_EQ(ncclSuccess,
                  net->regMr(c[i].send, from.data() + i * bytes, bytes, NCCL_PTR_HOST, &from_mhandle[i]));
    }
    Pass(DT_NS_PER_MS);
    began_ns = Now();
    for (uint32_t i = 0; i < hosts; i++) {
        dt_cluster_enter(cluster, i);
        ASSERT_EQ(ncclSuccess,
                  net->isend(c[i].send, from.data() + i * bytes, (int)bytes, 0, from_mhandle[i], &send[i]));
        ASSERT_TRUE(send[i]);
    }
    while (left && Now() < began_ns + DT_NS_PER_S) {
        while (dt_cluster_take(cluster, &host)) {
            uint32_t before = (host + hosts - 1) % hosts;
            if (send[host] && IsDone(send[host])) {
                send[host] = nullptr;
                left--;
            }
            if (receive[before] && IsDone(receive[before])) {
                receive[before] = nullptr;
                received_ns[before] = Now() - began_ns;
                left--;
            }
        }
        dt_cluster_advance(cluster, DT_NEVER_NS);
    }
    EXPECT_EQ(0u, left);
    for (uint32_t i = 0; i < hosts; i++) {
        EXPECT_EQ(WireNs(bytes) + kLatency, received_ns[i]) << i;
        EXPECT_TRUE(to.HasStamps(i * bytes, bytes, i));
        dt_cluster_enter(cluster, c[i].from);
        net->deregMr(c[i].send, from_mhandle[i]);
        dt_cluster_enter(cluster, c[i].to);
        net->deregMr(c[i].recv, to_mhandle[i]);
        dt_cluster_close(cluster, &c[i]);
    }
    Stop();
}

void StageAll(void *, uint32_t, dt_params *params)
{
    snprintf(params->hostpath, sizeof params->hostpath, "on");
    params->hostpath_bytes = 64 << 20;
}

/* A staged message leaves its GPU at the stated rate, so the isend is done after just that. */
TEST_F(Links, AGpuCopiesAtTheStatedRate)
{
    constexpr size_t bytes = 32 << 20;
    constexpr dt_cuda_sim_rates gpu = {25000000000, 20000000000, 2000, kBlock};
    constexpr uint64_t chunk_ns = (512 << 10) * DT_NS_PER_S / 25000000000 + 2000;
    dt_cluster_connection c;
    void *from_mhandle, *to_mhandle, *data, *send = nullptr, *receive = nullptr;
    int size = (int)bytes, tag = 0;
    uint32_t host;
    uint64_t began_ns, copied_ns = 0, received_ns = 0;
    Sparse from(bytes), to(bytes);

    Start(2, kWhole, gpu, StageAll);
    dt_cuda_sim_claim(from.data(), bytes);
    from.Stamp(0, bytes, 5);
    ASSERT_TRUE(dt_cluster_connect(cluster, 0, 1, &c));
    dt_cluster_enter(cluster, 1);
    data = to.data();
    ASSERT_EQ(ncclSuccess, net->regMr(c.recv, data, bytes, NCCL_PTR_HOST, &to_mhandle));
    ASSERT_EQ(ncclSuccess, net->irecv(c.recv, 1, &data, &size, &tag, &to_mhandle, &receive));
    dt_cluster_enter(cluster, 0);
    ASSERT_EQ(ncclSuccess, net->regMr(c.send, from.data(), bytes, NCCL_PTR_CUDA, &from_mhandle));
    Pass(DT_NS_PER_MS);
    dt_cluster_enter(cluster, 0);
    began_ns = Now();
    ASSERT_EQ(ncclSuccess, net->isend(c.send, from.data(), size, 0, from_mhandle, &send));
    dt_cluster_wake(cluster, 0);
    while ((!copied_ns || !received_ns) && Now() < began_ns + DT_NS_PER_S) {
        while (dt_cluster_take(cluster, &host)) {
            if (host == 0 && !copied_ns && IsDone(send))
                copied_ns = Now() - began_ns;
            if (host == 1 && !received_ns && IsDone(receive))
                received_ns = Now() - began_ns;
        }
        dt_cluster_advance(cluster, DT_NEVER_NS);
    }
    EXPECT_EQ(bytes / (512 << 10) * chunk_ns, copied_ns);
    EXPECT_TRUE(to.HasStamps(0, bytes, 5));
    EXPECT_GT(received_ns, copied_ns);
    EXPECT_LT(received_ns, copied_ns + WireNs(bytes));
    dt_cluster_enter(cluster, 0);
    net->deregMr(c.send, from_mhandle);
    dt_cluster_enter(cluster, 1);
    net->deregMr(c.recv, to_mhandle);
    dt_cluster_close(cluster, &c);
    Stop();
}
} // namespace
