// SPDX-License-Identifier: Apache-2.0
/* How a path is taken back, in virtual time, with a control network that is not quick. */
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "softrnic/rnic.h"
#include "tests/sim/two_hosts.h"
#include "transport/connection.h"

namespace
{
using detour_test::Now;

struct Seen {
    uint32_t epoch = 0;
    uint64_t at_ns = 0;
};

void Listen(void *arg, enum dt_log_level, const char *, int, const char *text)
{
    auto *seen = static_cast<Seen *>(arg);
    const char *at = strstr(text, "is in use again as epoch ");

    if (at && !seen->at_ns && sscanf(at, "is in use again as epoch %u", &seen->epoch) == 1)
        seen->at_ns = Now();
}

void Set(void *, struct dt_params *params)
{
    params->timeout_exponent = 10;
    params->retry_count = 2;
}

class Recovery : public detour_test::TwoHosts
{
  protected:
    Recovery() : TwoHosts(DT_NS_PER_MS) {}
    void Start(uint32_t devices, uint64_t control_latency_ns)
    {
        dt_sim_options network = {};
        dt_plugin_sim_options plugin = {};

        network.seed = plugin.seed = 1;
        network.start_ns = DT_NS_PER_S;
        network.latency_ns = 5000;
        network.segment_bytes_max = 64 << 10;
        plugin.control_latency_ns = control_latency_ns;
        for (uint32_t host = 0; host < DT_HOSTS; host++) {
            plugin.host[host].device_first = host * devices;
            plugin.host[host].device_count = devices;
            plugin.host[host].set = Set;
        }
        dt_log_set_sink(Listen, &seen, DT_LOG_INFO);
        ASSERT_TRUE(dt_driver_sim_start(&network, DT_HOSTS * devices));
        net = dt_plugin_sim_start(&plugin);
        ASSERT_TRUE(net);
        Connect();
    }
    void TearDown() override
    {
        On(0);
        net->closeSend(send);
        On(1);
        net->closeRecv(recv);
        dt_plugin_sim_stop();
        dt_driver_sim_stop();
        dt_log_set_sink(nullptr, nullptr, DT_LOG_WARN);
    }
    void Pass(uint64_t duration_ns)
    {
        for (uint64_t end_ns = Now() + duration_ns; Now() < end_ns;)
            Step();
    }

    Seen seen;
};

class Tries : public Recovery, public ::testing::WithParamInterface<uint64_t>
{
};

/*
 * The receiver's port of a backup has no link for 20 s. Each try makes fresh queue pairs, which are kept for
 * DETOUR_LATE_MS.
 */
TEST_P(Tries, BecomeMoreAndMoreSeldomAndTheReceiversWordEndsThePause)
{
    Start(2, GetParam());
    ASSERT_FALSE(HasFailure());
    dt_rnic *rnic = dt_driver_sim_rnic(3);
    ASSERT_TRUE(rnic);
    dt_rnic_set_link(rnic, false);
    Pass(20 * DT_NS_PER_S);
    EXPECT_EQ(0u, seen.at_ns);
    uint64_t back_ns = Now();
    dt_rnic_set_link(rnic, true);
    Pass(5 * DT_NS_PER_S);
    ASSERT_NE(0u, seen.at_ns);
    EXPECT_LE(seen.at_ns, back_ns + 2 * DT_NS_PER_S) << "at once, and 1 s of probes";
    EXPECT_GE(seen.epoch, 5u);
    EXPECT_LE(seen.epoch, 16u) << "after 10 ms, 20 ms and so on up to 10 s";
}

INSTANTIATE_TEST_SUITE_P(Latency, Tries,
                         ::testing::Values(50 * DT_NS_PER_US, DT_NS_PER_MS, 3 * DT_NS_PER_MS,
                                           20 * DT_NS_PER_MS));

/*
 * The sender has had the clear-to-send before the only path failed, so its message comes as soon as the path
 * is back, before the receiver hears on the control network that it is.
 */
TEST_F(Recovery, AMessageThatComesBeforeItIsOfferedAgainLeavesNothingBehind)
{
    uint8_t from[1000] = {1}, to[1000] = {};
    void *from_mhandle, *to_mhandle, *data = to, *sent = nullptr, *received = nullptr;
    int size = sizeof to, tag = 0, done = 0;

    Start(1, DT_NS_PER_MS);
    ASSERT_FALSE(HasFailure());
    On(0);
    ASSERT_EQ(ncclSuccess, net->regMr(send, from, sizeof from, NCCL_PTR_HOST, &from_mhandle));
    On(1);
    ASSERT_EQ(ncclSuccess, net->regMr(recv, to, sizeof to, NCCL_PTR_HOST, &to_mhandle));
    ASSERT_EQ(ncclSuccess, net->irecv(recv, 1, &data, &size, &tag, &to_mhandle, &received));
    ASSERT_TRUE(received);
    Pass(DT_NS_PER_MS);
    dt_rnic_set_link(dt_driver_sim_rnic(0), false);
    On(0);
    ASSERT_EQ(ncclSuccess, net->isend(send, from, sizeof from, 0, from_mhandle, &sent));
    ASSERT_TRUE(sent);
    Pass(500 * DT_NS_PER_MS);
    dt_rnic_set_link(dt_driver_sim_rnic(0), true);
    for (uint64_t end_ns = Now() + 20 * DT_NS_PER_S; !done && Now() < end_ns; Step()) {
        On(1);
        ASSERT_EQ(ncclSuccess, net->test(received, &done, nullptr));
    }
    EXPECT_TRUE(done);
    EXPECT_EQ(1, to[0]);
    Pass(DT_NS_PER_S);
    On(0);
    ASSERT_EQ(ncclSuccess, net->test(sent, &done, nullptr));
    EXPECT_TRUE(done);
    EXPECT_GT(seen.epoch, 0u) << "the path had failed";

    auto *c = static_cast<dt_connection *>(recv);
    EXPECT_TRUE(c->current);
    EXPECT_EQ(0u, dt_receiver_of(c)->again);
    EXPECT_EQ(0u, c->notices & DT_NOTICE_AGAIN) << "it costs every call";
    On(0);
    EXPECT_EQ(ncclSuccess, net->deregMr(send, from_mhandle));
    On(1);
    EXPECT_EQ(ncclSuccess, net->deregMr(recv, to_mhandle));
}
} // namespace
