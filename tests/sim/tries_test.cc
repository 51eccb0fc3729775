// SPDX-License-Identifier: Apache-2.0
/*
 * How often a path is tried that cannot be had, in virtual time: the receiver's port of a backup has no link
 * for 20 s, and the control network is not quick. Each try makes fresh queue pairs, which are kept for
 * DETOUR_LATE_MS.
 */
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "softrnic/rnic.h"
#include "tests/sim/driver_sim.h"
#include "tests/sim/plugin_sim.h"

namespace
{
const uint32_t kDevices = 2; // of each host

struct Seen {
    uint32_t epoch = 0;
    uint64_t at_ns = 0;
};

uint64_t Now()
{
    return dt_sim_now_ns(dt_driver_sim_network());
}

void Listen(void *arg, enum dt_log_level, const char *, int, const char *text)
{
    auto *seen = static_cast<Seen *>(arg);
    const char *at = strstr(text, "is in use again as epoch ");

    if (at && !seen->at_ns && sscanf(at, "is in use again as epoch %u", &seen->epoch) == 1)
        seen->at_ns = Now();
}

class Tries : public ::testing::TestWithParam<uint64_t>
{
  protected:
    void SetUp() override
    {
        dt_sim_options network = {};
        dt_plugin_sim_options plugin = {};

        network.seed = plugin.seed = 1;
        network.start_ns = DT_NS_PER_S;
        network.latency_ns = 5000;
        network.segment_bytes_max = 64 << 10;
        plugin.control_latency_ns = GetParam();
        for (uint32_t host = 0; host < DT_HOSTS; host++) {
            plugin.host[host].device_first = host * kDevices;
            plugin.host[host].device_count = kDevices;
        }
        dt_log_set_sink(Listen, &seen, DT_LOG_INFO);
        ASSERT_TRUE(dt_driver_sim_start(&network, DT_HOSTS * kDevices));
        net = dt_plugin_sim_start(&plugin);
        ASSERT_TRUE(net);
        Connect();
    }
    void TearDown() override
    {
        dt_plugin_sim_enter(0);
        net->closeSend(send);
        dt_plugin_sim_enter(1);
        net->closeRecv(recv);
        dt_plugin_sim_stop();
        dt_driver_sim_stop();
        dt_log_set_sink(nullptr, nullptr, DT_LOG_WARN);
    }
    void Connect()
    {
        char handle[NCCL_NET_HANDLE_MAXSIZE];
        void *listen;

        dt_plugin_sim_enter(1);
        ASSERT_EQ(ncclSuccess, net->listen(0, handle, &listen));
        while (!send || !recv) {
            dt_plugin_sim_enter(0);
            if (!send) {
                ASSERT_EQ(ncclSuccess, net->connect(0, handle, &send, nullptr));
            }
            dt_plugin_sim_enter(1);
            if (!recv) {
                ASSERT_EQ(ncclSuccess, net->accept(listen, &recv, nullptr));
            }
            Step();
        }
        dt_plugin_sim_enter(1);
        ASSERT_EQ(ncclSuccess, net->closeListen(listen));
    }
    // To the next thing that happens by itself, at most 1 ms on.
    void Step()
    {
        uint64_t next_ns = dt_earlier_ns(dt_sim_next_ns(dt_driver_sim_network()), dt_plugin_sim_next_ns());

        for (uint32_t host = 0; host < DT_HOSTS; host++)
            next_ns = dt_earlier_ns(next_ns, wanted_ns[host]);
        next_ns = dt_earlier_ns(next_ns, Now() + DT_NS_PER_MS);
        next_ns = next_ns > Now() ? next_ns : Now() + DT_NS_PER_US;
        dt_sim_run_until(dt_driver_sim_network(), next_ns);
        dt_sim_network_set_now(dt_plugin_sim_control(), next_ns);
        for (uint32_t host = 0; host < DT_HOSTS; host++) {
            if (wanted_ns[host] <= Now() || dt_plugin_sim_has_some(host))
                wanted_ns[host] = // waking up for an event is not simulated
                    dt_earlier_ns(dt_plugin_sim_progress(host), Now() + DT_NS_PER_MS);
        }
    }
    void Pass(uint64_t duration_ns)
    {
        for (uint64_t end_ns = Now() + duration_ns; Now() < end_ns;)
            Step();
    }

    const ncclNet_v8_t *net = nullptr;
    void *send = nullptr, *recv = nullptr;
    uint64_t wanted_ns[DT_HOSTS] = {};
    Seen seen;
};

TEST_P(Tries, BecomeMoreAndMoreSeldomAndTheReceiversWordEndsThePause)
{
    dt_rnic *rnic = dt_driver_sim_rnic(kDevices + 1); // the receiver's backup
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
} // namespace
