// SPDX-License-Identifier: Apache-2.0
/*
 * What copy and link at the same time are worth (transport/message/send_partial.c), in virtual time: a
 * message of a GPU's memory that is alone, which the simulated driver copies at about the link's rate. Pure
 * of the machine's load.
 */
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/clock.h"
#include "tests/sim/cuda_sim.h"
#include "tests/sim/two_hosts.h"

namespace
{
using detour_test::Now;

constexpr uint64_t kRate = 2500000000; // of the link, bytes a second

void Set(void *, struct dt_params *params)
{
    snprintf(params->hostpath, sizeof params->hostpath, "on");
    params->hostpath_bytes = 64 << 20;
}

class OverlapInTime : public detour_test::TwoHosts, public ::testing::WithParamInterface<size_t>
{
  protected:
    OverlapInTime() : TwoHosts(20 * DT_NS_PER_US), from(GetParam(), 0x5a), to(GetParam()) {}
    void SetUp() override
    {
        Hosts hosts(1);

        hosts.network.segment_bytes_max = 64 << 10;
        hosts.plugin.host[0].set = Set;
        dt_driver_sim_set_rate(kRate);
        Start(hosts);
        dt_cuda_sim_start(1);
        dt_cuda_sim_claim(from.data(), from.size());
        Connect();
        Register(from.data(), to.data(), from.size(), NCCL_PTR_CUDA);
    }
    bool IsDone(void *request)
    {
        int done = 0;

        EXPECT_EQ(ncclSuccess, net->test(request, &done, nullptr));
        return done != 0;
    }

    std::vector<uint8_t> from, to;
};

TEST_P(OverlapInTime, AMessageThatIsAloneDoesNotTakeAsLongAsCopyAndLink)
{
    int size = (int)from.size(), tag = 0;
    void *data = to.data(), *receive = nullptr, *request = nullptr;
    uint64_t wire_ns = from.size() * DT_NS_PER_S / kRate, began_ns, copied_ns = 0, done_ns = 0;

    On(1);
    ASSERT_EQ(ncclSuccess, net->irecv(recv, 1, &data, &size, &tag, &to_mhandle, &receive));
    ASSERT_TRUE(receive);
    for (int i = 0; i < 10; i++)
        Step(); // its clear-to-send
    On(0);
    began_ns = Now();
    ASSERT_EQ(ncclSuccess, net->isend(send, from.data(), size, 0, from_mhandle, &request));
    ASSERT_TRUE(request);
    while (!done_ns) {
        On(0);
        if (!copied_ns && IsDone(request))
            copied_ns = Now() - began_ns;
        On(1);
        if (IsDone(receive))
            done_ns = Now() - began_ns;
        Step();
        ASSERT_LT(Now(), began_ns + DT_NS_PER_S);
    }
    EXPECT_EQ(from, to);
    printf("%d bytes: copied after %.3f ms, received after %.3f ms, %.3f ms on the link: %.2f of both\n",
           size, (double)copied_ns / 1e6, (double)done_ns / 1e6, (double)wire_ns / 1e6,
           (double)done_ns / (double)(copied_ns + wire_ns));
    EXPECT_GE(done_ns, wire_ns);
    EXPECT_GE(done_ns, copied_ns);
    EXPECT_LT(done_ns, copied_ns + wire_ns * 2 / 3);
}

INSTANTIATE_TEST_SUITE_P(Sizes, OverlapInTime, ::testing::Values(2 << 20, 4 << 20, 16 << 20));

} // namespace
