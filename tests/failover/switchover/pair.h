/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of two paths between two nets in one process, for tests that call failover's steps directly.
 * Nothing runs between calls, so the test is the device thread and NCCL's thread at once.
 */
#ifndef DETOUR_TESTS_FAILOVER_SWITCHOVER_PAIR_H
#define DETOUR_TESTS_FAILOVER_SWITCHOVER_PAIR_H

#ifdef __cplusplus
#include <algorithm>

#include "failover/switchover/state.h"
#include "tests/transport/two_nets.h"
#include "transport/message/receive.h"
#include "transport/message/send.h"

namespace detour_test
{
class Pair : public TwoNets
{
  protected:
    static const int kRequests = 4;

    void SetUp() override
    {
        Listen();
        Establish();
        ASSERT_FALSE(HasFailure());
        ASSERT_EQ(2u, sender->path_count);
        Register(from, to, sizeof from);
        for (size_t i = 0; i < sizeof from; i++)
            from[i] = static_cast<uint8_t>(i * 31 + 7);
        for (int i = 0; i < kRequests; i++) // so that each end has used the other's paths
            Move();
    }
    void PostReceive(int i)
    {
        receive[i] = Irecv(to + i * kBytes, kBytes);
        ASSERT_NE(nullptr, receive[i]);
    }
    void PostSend(int i)
    {
        Until([&] { return (send[i] = Isend(from + i * kBytes, kBytes)) != nullptr; });
    }
    bool AreAllDone()
    {
        bool all = true;
        for (int i = 0; i < kRequests; i++)
            for (auto *request : {&receive[i], &send[i]})
                all = IsDone(request) && all; // each is tested
        return all;
    }
    /* One message from beginning to end. */
    void Move()
    {
        PostReceive(0);
        PostSend(0);
        Finish();
        EXPECT_EQ(0, memcmp(from, to, kBytes));
    }
    void Finish()
    {
        Until([&] { return AreAllDone(); });
    }
    void Until(const std::function<bool()> &is_so)
    {
        StepUntil(is_so, DT_NS_PER_MS);
    }
    void Pass(uint64_t duration_ns)
    {
        for (uint64_t end_ns = now_ns + duration_ns; now_ns < end_ns && !HasFailure();) {
            now_ns += DT_NS_PER_MS;
            Step();
            AreAllDone();
        }
    }
    static int CountLines(const char *part)
    {
        const std::vector<std::string> lines = LoggedLines();
        return static_cast<int>(std::count_if(lines.begin(), lines.end(), [&](const std::string &line) {
            return line.find(part) != std::string::npos;
        }));
    }
    dt_send_slot *SendSlot(uint64_t sequence)
    {
        return &dt_sender_of(sender)->slot[sequence & (sender->slots - 1)];
    }
    dt_recv_slot *ReceiveSlot(uint64_t sequence)
    {
        return &dt_receiver_of(receiver)->slot[sequence & (receiver->slots - 1)];
    }
    dt_path_switchover *State(dt_connection *c, uint32_t path)
    {
        return &c->switchover->path[path];
    }

    static const uint32_t kBytes = 1000;
    uint8_t from[kRequests * kBytes] = {}, to[kRequests * kBytes] = {};
    dt_request *send[kRequests] = {}, *receive[kRequests] = {};
};
} // namespace detour_test
#endif

#endif
