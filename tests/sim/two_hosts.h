/* SPDX-License-Identifier: Apache-2.0 */
/* A connection between the plugins of two hosts, in virtual time; a test starts and stops the simulation. */
#ifndef DETOUR_TESTS_SIM_TWO_HOSTS_H
#define DETOUR_TESTS_SIM_TWO_HOSTS_H

#include <gtest/gtest.h>

#include "base/clock.h"
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
    explicit TwoHosts(uint64_t longest_step_ns) : longest_step_ns_(longest_step_ns) {}

    /* What is called next is called on this host. */
    void On(uint32_t host)
    {
        dt_plugin_sim_enter(host);
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
            if (wanted_ns_[host] <= Now() || dt_plugin_sim_has_some(host))
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

  private:
    uint64_t longest_step_ns_, wanted_ns_[DT_HOSTS] = {};
};
} // namespace detour_test

#endif
