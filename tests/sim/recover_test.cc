// SPDX-License-Identifier: Apache-2.0
/* How a path is taken back, in virtual time, with a control network that is not quick. */
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <tuple>

#include "base/clock.h"
#include "base/log.h"
#include "softrnic/engine_state.h"
#include "softrnic/softrnic.h"
#include "tests/sim/two_hosts.h"
#include "tests/sim/verbs_sim.h"
#include "transport/message/receive.h"

namespace
{
using detour_test::Now;

struct Seen {
    uint32_t epoch = 0;
    uint64_t at_ns = 0, last_ns = 0;
    int ups = 0;               /* at both ends together */
    bool is_destroyed = false; /* a path, as the proof of its fence */
};

void Listen(void *arg, enum dt_log_level, const char *, int, const char *text)
{
    auto *seen = static_cast<Seen *>(arg);
    const char *at = strstr(text, "is in use again as epoch ");

    seen->ups += at != nullptr;
    if (at)
        seen->last_ns = Now();
    if (at && !seen->at_ns && sscanf(at, "is in use again as epoch %u", &seen->epoch) == 1)
        seen->at_ns = Now();
    seen->is_destroyed |= strstr(text, " us (destroyed), ") != nullptr;
}

void Set(void *, struct dt_params *params)
{
    params->timeout_exponent = 10;
    params->retry_count = 2;
    params->fence_ms = 100;
}

class Recovery : public detour_test::TwoHosts
{
  protected:
    explicit Recovery(uint64_t longest_step_ns = DT_NS_PER_MS) : TwoHosts(longest_step_ns) {}
    void Start(uint32_t devices, uint64_t control_latency_ns, uint64_t job_ns_max = 0)
    {
        Hosts hosts(devices, Set);

        hosts.network.segment_bytes_max = 64 << 10;
        hosts.plugin.control_latency_ns = control_latency_ns;
        hosts.plugin.job_ns_max = job_ns_max;
        dt_log_set_sink(Listen, &seen, DT_LOG_INFO);
        TwoHosts::Start(hosts);
        Connect();
    }
    void Pass(uint64_t duration_ns)
    {
        for (uint64_t end_ns = Now() + duration_ns; Now() < end_ns;)
            Step();
    }

    /* A message from host 0 to host 1, until both ends have reported it done; false: not within a second. */
    bool Move(uint8_t *from, void *to, int bytes)
    {
        void *sent = nullptr, *received = nullptr;
        int tag = 0, is_sent = 0, is_received = 0;

        ++*from;
        for (uint64_t end_ns = Now() + DT_NS_PER_S; !(is_sent && is_received) && Now() < end_ns; Step()) {
            On(1);
            if (!received) {
                EXPECT_EQ(ncclSuccess, net->irecv(recv, 1, &to, &bytes, &tag, &to_mhandle, &received));
            } else if (!is_received) {
                EXPECT_EQ(ncclSuccess, net->test(received, &is_received, nullptr));
            }
            On(0);
            if (!sent) {
                EXPECT_EQ(ncclSuccess, net->isend(send, from, bytes, tag, from_mhandle, &sent));
            } else if (!is_sent) {
                EXPECT_EQ(ncclSuccess, net->test(sent, &is_sent, nullptr));
            }
            if (HasFailure())
                return false;
        }
        return is_sent && is_received && memcmp(from, to, (size_t)bytes) == 0;
    }

    Seen seen;
};

/* With messages all the time. */
class RecoveryUnderTraffic : public Recovery
{
  protected:
    RecoveryUnderTraffic() : Recovery(10 * DT_NS_PER_US) {}
};

/* The operators of both hosts drain RNICs. */
class Operators : public RecoveryUnderTraffic
{
  protected:
    void StartWithTwo()
    {
        Start(2, 50 * DT_NS_PER_US);
        ASSERT_FALSE(HasFailure());
        Register(from_, to_, sizeof from_);
    }
    /* Messages without a pause. */
    void Work(uint64_t duration_ns)
    {
        for (uint64_t end_ns = Now() + duration_ns; Now() < end_ns;)
            ASSERT_TRUE(Move(from_, to_, sizeof to_));
    }
    dt_path *Current(void *comm)
    {
        return static_cast<dt_connection *>(comm)->current;
    }

  private:
    uint8_t from_[1000] = {}, to_[1000] = {};
};

TEST_F(Operators, WhoDrainDifferentPathsAreLeftWithOneOfThem)
{
    StartWithTwo();
    dt_plugin_sim_drain(0, 0, true); /* path 0 at the sender */
    dt_plugin_sim_drain(1, 3, true); /* path 1 at the receiver */
    Work(5 * DT_NS_PER_S);
    ASSERT_TRUE(Current(send) && Current(recv));
    EXPECT_EQ(Current(send)->index, Current(recv)->index);
    EXPECT_LE(seen.ups, 6) << "and stay with it";
}

TEST_F(Operators, WhoseOtherRnicDiesFallBackOnTheDrainedOne)
{
    StartWithTwo();
    dt_plugin_sim_drain(1, 2, true); /* path 0 at the receiver */
    Work(5 * DT_NS_PER_S);           /* in which the sender tries path 0 again and again, in vain */
    EXPECT_EQ(0, seen.ups);
    EXPECT_EQ(1u, Current(send)->index);
    dt_rnic_set_fatal(dt_driver_sim_rnic(1));
    Work(DT_NS_PER_S);
    EXPECT_EQ(0u, Current(send)->index);
    EXPECT_EQ(2, seen.ups);
}

TEST_F(Operators, WhoDrainAllUseTheOneThatWorks)
{
    StartWithTwo();
    dt_plugin_sim_drain(0, 0, true);
    dt_plugin_sim_drain(0, 1, true);
    Work(DT_NS_PER_S);
    EXPECT_EQ(1u, Current(send)->index);
    dt_rnic_set_link(dt_driver_sim_rnic(1), false);
    Work(DT_NS_PER_S);
    EXPECT_EQ(0u, Current(send)->index);
}

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
    EXPECT_LE(seen.at_ns, back_ns + 2 * DT_NS_PER_S) << "at once, and 0.8 s of probes";
    EXPECT_GE(seen.epoch, 5u);
    EXPECT_LE(seen.epoch, 16u) << "after 10 ms, 20 ms and so on up to 10 s";
}

INSTANTIATE_TEST_SUITE_P(Latency, Tries,
                         ::testing::Values(50 * DT_NS_PER_US, DT_NS_PER_MS, 3 * DT_NS_PER_MS,
                                           20 * DT_NS_PER_MS));

/* How many devices each host has, the latency of the control network, and when in the period of the search it
 * is back. */
class Returns : public Recovery,
                public ::testing::WithParamInterface<std::tuple<uint32_t, uint64_t, uint64_t>>
{
};

/* With the default of DETOUR_STABLE_MS, from the return of the device to the use of its path at both ends. */
TEST_P(Returns, AreInUseWithinASecond)
{
    auto [devices, latency_ns, phase_ns] = GetParam();
    uint8_t from[1000] = {}, to[1000] = {};

    Start(devices, latency_ns);
    ASSERT_FALSE(HasFailure());
    Register(from, to, sizeof from);
    Pass(11 * DT_NS_PER_S); /* a path that failed soon after its last use would wait longer */
    dt_rnic_set_fatal(dt_driver_sim_rnic(0));
    Pass(2 * DT_NS_PER_S + phase_ns);
    EXPECT_EQ(0, seen.ups);
    uint64_t back_ns = Now();
    ASSERT_EQ(0, dt_soft_device_control("soft0", DT_SOFT_CONTROL_PLUG, 0));
    for (uint64_t end_ns = back_ns + 5 * DT_NS_PER_S; seen.ups < 2 && Now() < end_ns;)
        Step();
    EXPECT_EQ(2, seen.ups);
    EXPECT_LE(seen.last_ns - back_ns, DT_NS_PER_S);
    EXPECT_TRUE(Move(from, to, sizeof to));
}

INSTANTIATE_TEST_SUITE_P(OfADevice, Returns,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::Values(50 * DT_NS_PER_US, 20 * DT_NS_PER_MS),
                                            ::testing::Values(0, 40 * DT_NS_PER_MS, 99 * DT_NS_PER_MS)));

/*
 * The sender has had the clear-to-send before the only path failed, so its message comes as soon as the path
 * is back, before the control network reports that to the receiver.
 */
TEST_F(Recovery, AMessageThatComesBeforeItIsOfferedAgainLeavesNothingBehind)
{
    uint8_t from[1000] = {1}, to[1000] = {};
    void *data = to, *sent = nullptr, *received = nullptr;
    int size = sizeof to, tag = 0, done = 0;

    Start(1, DT_NS_PER_MS);
    ASSERT_FALSE(HasFailure());
    Register(from, to, sizeof from);
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
    Deregister();
}

/*
 * The receiver's port loses its link and has it again, and its device refuses to move queue pairs to ERR, so
 * they are destroyed after DETOUR_FENCE_MS. The sender has noticed nothing, since STOP takes longer than
 * that, and frames in band are lost: until the control thread has destroyed them,
 * which takes up to 5 ms, the device acknowledges what it sends.
 */
TEST_F(RecoveryUnderTraffic, AMessageThatComesJustBeforeItsQueuePairsAreDestroyedIsReceived)
{
    uint8_t from[1000] = {}, to[1000] = {};

    Start(2, 50 * DT_NS_PER_US, 5 * DT_NS_PER_MS);
    ASSERT_FALSE(HasFailure());
    Register(from, to, sizeof from);
    dt_sim_network_set_latency(dt_plugin_sim_control(), 300 * DT_NS_PER_MS);
    dt_verbs_sim_set(2, DT_VERBS_MODIFY_FAILS);
    static_cast<dt_connection *>(send)->path[1].mail_taken = UINT64_MAX; /* frames in band are old ones */
    dt_rnic_set_link(dt_driver_sim_rnic(2), false);
    Pass(10 * DT_NS_PER_US);
    dt_rnic_set_link(dt_driver_sim_rnic(2), true);
    for (int i = 0; i < 100000 && !seen.is_destroyed; i++)
        ASSERT_TRUE(Move(from, to, sizeof to)) << "message " << i;
    EXPECT_TRUE(seen.is_destroyed);
    for (int i = 0; i < 10; i++)
        ASSERT_TRUE(Move(from, to, sizeof to)) << "over the other path";
    Deregister();
}
} // namespace
