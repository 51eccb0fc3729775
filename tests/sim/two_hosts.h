/* SPDX-License-Identifier: Apache-2.0 */
/* A connection between the plugins of two hosts, in virtual time; a test calls Start() and Connect(). */
#ifndef DETOUR_TESTS_SIM_TWO_HOSTS_H
#define DETOUR_TESTS_SIM_TWO_HOSTS_H

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/log.h"
#include "tests/sim/driver_sim.h"
#include "tests/sim/plugin_sim.h"

namespace detour_test
{
inline uint64_t Now()
{
    return dt_sim_now_ns(dt_driver_sim_network());
}

class TwoHosts : public ::testing::Test
{
  protected:
    struct Hosts {
        dt_sim_options network = {};
        dt_plugin_sim_options plugin = {};

        /* Each host has this many devices; `set` changes the settings of both. */
        explicit Hosts(uint32_t devices, void (*set)(void *, dt_params *) = nullptr)
        {
            network.seed = plugin.seed = 1;
            network.start_ns = DT_NS_PER_S;
            network.latency_ns = 5000;
            plugin.control_latency_ns = 50 * DT_NS_PER_US;
            for (uint32_t host = 0; host < DT_HOSTS; host++) {
                plugin.host[host].device_first = host * devices;
                plugin.host[host].device_count = devices;
                plugin.host[host].set = set;
            }
        }
    };

    explicit TwoHosts(uint64_t longest_step_ns) : longest_step_ns_(longest_step_ns) {}

    void Start(const Hosts &hosts)
    {
        const auto &last = hosts.plugin.host[DT_HOSTS - 1];

        ASSERT_TRUE(dt_driver_sim_start(&hosts.network, last.device_first + last.device_count));
        net = dt_plugin_sim_start(&hosts.plugin);
        ASSERT_TRUE(net);
    }
    /* The buffers of both ends; deregistered at the end of the test at the latest. */
    void Register(void *from, void *to, size_t bytes, int from_type = NCCL_PTR_HOST)
    {
        On(0);
        ASSERT_EQ(ncclSuccess, net->regMr(send, from, bytes, from_type, &from_mhandle));
        On(1);
        ASSERT_EQ(ncclSuccess, net->regMr(recv, to, bytes, NCCL_PTR_HOST, &to_mhandle));
    }
    void Deregister()
    {
        On(0);
        if (from_mhandle) {
            EXPECT_EQ(ncclSuccess, net->deregMr(send, from_mhandle));
        }
        On(1);
        if (to_mhandle) {
            EXPECT_EQ(ncclSuccess, net->deregMr(recv, to_mhandle));
        }
        from_mhandle = to_mhandle = nullptr;
    }
    void TearDown() override
    {
        Deregister();
        On(0);
        if (send)
            net->closeSend(send);
        On(1);
        if (recv)
            net->closeRecv(recv);
        dt_plugin_sim_stop();
        dt_driver_sim_stop();
        dt_log_set_sink(nullptr, nullptr, DT_LOG_WARN);
    }

    /* What is called next is called on this host. */
    void On(uint32_t host)
    {
        dt_plugin_sim_enter(host);
    }
    /* The host's threads stand still from now on, or run again; its devices go on. */
    void SetStopped(uint32_t host, bool is_stopped)
    {
        is_stopped_[host] = is_stopped;
        wanted_ns_[host] = is_stopped ? DT_NEVER_NS : 0;
    }
    /* To the next thing that happens by itself, or the longest step on. Waking up for it is not simulated. */
    void Step()
    {
        uint64_t next_ns = dt_earlier_ns(dt_sim_next_ns(dt_driver_sim_network()), dt_plugin_sim_next_ns());

        for (uint32_t host = 0; host < DT_HOSTS; host++)
            next_ns = dt_earlier_ns(next_ns, wanted_ns_[host]);
        next_ns = dt_earlier_ns(next_ns, Now() + longest_step_ns_);
        next_ns = next_ns > Now() ? next_ns : Now() + DT_NS_PER_US;
        dt_sim_run_until(dt_driver_sim_network(), next_ns);
        dt_sim_network_set_now(dt_plugin_sim_control(), next_ns);
        for (uint32_t host = 0; host < DT_HOSTS; host++) {
            if (!is_stopped_[host] && (wanted_ns_[host] <= Now() || dt_plugin_sim_has_some(host)))
                wanted_ns_[host] = dt_earlier_ns(dt_plugin_sim_progress(host), Now() + DT_NS_PER_MS);
        }
    }
    /* Host 0 sends to host 1. */
    void Connect()
    {
        char handle[NCCL_NET_HANDLE_MAXSIZE];
        void *listen;

        On(1);
        ASSERT_EQ(ncclSuccess, net->listen(0, handle, &listen));
        while (!send || !recv) {
            On(0);
            if (!send) {
                ASSERT_EQ(ncclSuccess, net->connect(0, handle, &send, nullptr));
            }
            On(1);
            if (!recv) {
                ASSERT_EQ(ncclSuccess, net->accept(listen, &recv, nullptr));
            }
            Step();
        }
        On(1);
        ASSERT_EQ(ncclSuccess, net->closeListen(listen));
    }

    const ncclNet_v8_t *net = nullptr;
    void *send = nullptr, *recv = nullptr;
    void *from_mhandle = nullptr, *to_mhandle = nullptr;

  private:
    uint64_t longest_step_ns_, wanted_ns_[DT_HOSTS] = {};
    bool is_stopped_[DT_HOSTS] = {};
};
} // namespace detour_test

#endif
