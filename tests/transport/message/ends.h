/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection between two nets of one process, over the software RNIC, with one registered buffer at each
 * end. Without threads: the test is the owner of both ends, and may call what only an owner may.
 */
#ifndef DETOUR_TESTS_TRANSPORT_MESSAGE_ENDS_H
#define DETOUR_TESTS_TRANSPORT_MESSAGE_ENDS_H

#ifdef __cplusplus
#include <functional>
#include <vector>

#include "tests/transport/two_nets.h"
#include "transport/message/memory.h"
#include "transport/message/receiver.h"
#include "transport/message/send.h"
#include "transport/message/sender.h"

namespace detour_test
{
class Ends : public TwoNets
{
  protected:
    static constexpr uint32_t kBytes = 1 << 20;

    explicit Ends(const std::function<void(dt_params &, dt_net_options &)> &adjust = nullptr)
        : TwoNets(adjust)
    {
    }
    void SetUp() override
    {
        Listen();
        Establish();
        s = dt_sender_of(sender);
        r = dt_receiver_of(receiver);
        for (uint32_t i = 0; i < kBytes; i++)
            from[i] = (uint8_t)(i * 7 + i / 251);
        Register(from.data(), to.data(), kBytes);
    }
    /* One call; NULL: not now. */
    dt_request *Isend(uint32_t bytes, int tag = 0, uint32_t offset = 0)
    {
        return TwoNets::Isend(from.data() + offset, bytes, tag);
    }
    dt_request *Irecv(uint32_t bytes, int tag = 0, uint32_t offset = 0)
    {
        return TwoNets::Irecv(to.data() + offset, bytes, tag);
    }
    bool Until(const std::function<bool()> &condition)
    {
        return StepUntil(condition);
    }
    /*
     * Polls the sender until the slot's message is complete. Neither end progresses meanwhile, so that
     * whatever else a completion causes has not been done yet; the software RNIC has threads of its own.
     */
    void PollUntilComplete(const dt_send_slot *slot)
    {
        for (int i = 0; i < 1000000 && slot->state != DT_SEND_DONE; i++) {
            struct timespec pause = {0, 100000};
            nanosleep(&pause, nullptr);
            dt_sender_poll(s);
        }
        ASSERT_EQ(DT_SEND_DONE, slot->state);
    }
    bool IsDone(dt_request *request, int *bytes = nullptr)
    {
        return TwoNets::IsDone(&request, bytes);
    }
    void Wait(dt_request *request, int *bytes = nullptr)
    {
        ASSERT_NE(nullptr, request);
        ASSERT_TRUE(Until([&] { return IsDone(request, bytes); }));
    }
    dt_request *SendWhenPossible(uint32_t bytes, int tag = 0, uint32_t offset = 0)
    {
        dt_request *request = nullptr;
        EXPECT_TRUE(Until([&] { return (request = Isend(bytes, tag, offset)) != nullptr; }));
        return request;
    }
    /* A message of this size, from its irecv to both tests. */
    void Transfer(uint32_t bytes, int tag = 0, uint32_t offset = 0)
    {
        dt_request *receive = Irecv(bytes, tag, offset);
        dt_request *send = SendWhenPossible(bytes, tag, offset);
        int received = -1;

        Wait(receive, &received);
        Wait(send);
        EXPECT_EQ((int)bytes, received);
        EXPECT_EQ(0, memcmp(from.data() + offset, to.data() + offset, bytes));
    }
    /* A CTS is here, and the slot is the next isend's. */
    dt_send_slot *SlotOf(uint64_t sequence)
    {
        return dt_sender_slot(s, sequence);
    }

    std::vector<uint8_t> from = std::vector<uint8_t>(kBytes), to = std::vector<uint8_t>(kBytes);
    dt_sender *s = nullptr;
    dt_receiver *r = nullptr;
};
} // namespace detour_test
#endif

#endif
