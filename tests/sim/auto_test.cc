// SPDX-License-Identifier: Apache-2.0
/*
 * DETOUR_HOSTPATH=auto from end to end in virtual time: a rule makes the link slow from t=5 s to t=15 s,
 * messages go all the while through the plugin's own entry points, and its log shows when it switched.
 * Pure of the machine's load: the clock is the simulation's.
 */
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "tests/sim/two_hosts.h"

namespace
{
using detour_test::Now;

const uint64_t ms = DT_NS_PER_MS, s = DT_NS_PER_S;

struct Case {
    const char *rule; // without its window
    uint64_t bytes;
    uint32_t depth;    // messages handed over together
    uint64_t pause_ns; // between two such bursts
};

struct Decisions {
    std::vector<uint64_t> on_ns, off_ns;
};

void Listen(void *arg, enum dt_log_level, const char *, int, const char *text)
{
    auto *decisions = static_cast<Decisions *>(arg);

    if (strstr(text, "sends go over the host path"))
        decisions->on_ns.push_back(Now());
    if (strstr(text, "sends go directly"))
        decisions->off_ns.push_back(Now());
}

void Set(void *arg, struct dt_params *params)
{
    const Case *test = static_cast<const Case *>(arg);

    params->hostpath_bytes = 64 << 20;
    snprintf(params->hostpath, sizeof params->hostpath, "auto");
    snprintf(params->inject, sizeof params->inject, "%s from=5s to=15s", test->rule);
}

class AutoEndToEnd : public detour_test::TwoHosts, public ::testing::WithParamInterface<Case>
{
  protected:
    AutoEndToEnd() : TwoHosts(20 * DT_NS_PER_US) {} // NCCL's progress thread looks as often
    void SetUp() override
    {
        Hosts hosts(1);

        test = GetParam();
        hosts.network.jitter_ns = 2000;
        hosts.network.segment_bytes_max = 64 << 10;
        hosts.plugin.host[0].set = Set;
        hosts.plugin.host[0].set_arg = &test;
        dt_log_set_sink(Listen, &decisions, DT_LOG_INFO);
        dt_driver_sim_set_rate(10ull << 30);
        start_ns = hosts.network.start_ns;
        Start(hosts);
        Connect();
        from.resize(test.bytes * test.depth, 1);
        to.resize(test.bytes * test.depth);
        Register(from.data(), to.data(), from.size());
    }
    // One burst, until all of it is received and NCCL has its buffers back.
    void Burst()
    {
        std::vector<void *> sends(test.depth), receives(test.depth);
        std::vector<bool> is_sent(test.depth);
        uint32_t posted = 0, sent = 0, reported = 0, received = 0;
        uint64_t began_ns = Now();

        while (reported < test.depth || received < test.depth) {
            On(1);
            for (; posted < test.depth; posted++)
                if (!TryReceive(posted, &receives[posted]))
                    break;
            for (; received < posted && IsDone(receives[received]); received++)
                if (began_ns >= start_ns + 5 * s && began_ns < start_ns + 15 * s)
                    slow_done_ns.push_back(Now());
            On(0);
            for (; sent < test.depth; sent++)
                if (!TrySend(sent, &sends[sent]))
                    break;
            for (; reported < sent && IsDone(sends[reported]); reported++)
                continue;
            Step();
            ASSERT_LT(Now(), start_ns + 60 * s);
        }
    }
    bool TryReceive(uint32_t i, void **request)
    {
        void *data = to.data() + i * test.bytes;
        int size = (int)test.bytes, tag = 0;

        EXPECT_EQ(ncclSuccess, net->irecv(recv, 1, &data, &size, &tag, &to_mhandle, request));
        return *request != nullptr;
    }
    bool TrySend(uint32_t i, void **request)
    {
        EXPECT_EQ(ncclSuccess,
                  net->isend(send, from.data() + i * test.bytes, (int)test.bytes, 0, from_mhandle, request));
        return *request != nullptr;
    }
    bool IsDone(void *request)
    {
        int done = 0;

        EXPECT_EQ(ncclSuccess, net->test(request, &done, nullptr));
        return done != 0;
    }
    void RunUntil(uint64_t end_ns)
    {
        while (Now() < end_ns && !HasFatalFailure()) {
            Burst();
            for (uint64_t resume_ns = Now() + test.pause_ns; Now() < resume_ns;)
                Step();
        }
    }

    Case test;
    Decisions decisions;
    std::vector<uint8_t> from, to;
    uint64_t start_ns = 0;
    std::vector<uint64_t> slow_done_ns; // of messages handed over while the rule holds
};

// The words: noticed within three messages or 100 ms, whichever is later; off again after it; once.
TEST_P(AutoEndToEnd, ARuleFromFiveToFifteenSecondsIsNoticedAndForgottenOnce)
{
    RunUntil(start_ns + 30 * s);
    ASSERT_EQ(1u, decisions.on_ns.size());
    ASSERT_EQ(1u, decisions.off_ns.size());
    ASSERT_GE(slow_done_ns.size(), 3u);
    EXPECT_GE(decisions.on_ns[0], start_ns + 5 * s);
    // A message is received some steps before its sender knows.
    EXPECT_LE(decisions.on_ns[0], std::max(slow_done_ns[2], start_ns + 5 * s + 100 * ms) + ms);
    EXPECT_GE(decisions.off_ns[0], start_ns + 15 * s);
    EXPECT_LE(decisions.off_ns[0], start_ns + 15 * s + 2 * s);
    printf("%s, %llu bytes, %u at a time: on %.1f ms after the rule's start, off %.1f ms after its end\n",
           test.rule, (unsigned long long)test.bytes, test.depth,
           (double)(decisions.on_ns[0] - start_ns) / 1e6 - 5000,
           (double)(decisions.off_ns[0] - start_ns) / 1e6 - 15000);
}

INSTANTIATE_TEST_SUITE_P(Traffic, AutoEndToEnd,
                         ::testing::Values(Case{"latency=30ms", 4096, 1, 2 * ms},
                                           Case{"serial=30ms", 65536, 8, 5 * ms},
                                           Case{"latency=30ms", 262144, 4, 20 * ms}));

} // namespace
