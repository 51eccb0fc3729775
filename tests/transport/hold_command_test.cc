/* SPDX-License-Identifier: Apache-2.0 */
/* The commands `hold` and `release`: what they park, when it ends, and what they answer. */
#include "tests/transport/two_nets.h"

#include "obs/page.h"
#include "transport/inject.h"
#include "transport/message/connection.h"
#include "transport/message/sender.h"

namespace
{
uint64_t clock_ns;
constexpr uint64_t kMs = DT_NS_PER_MS;

class Hold : public detour_test::TwoNets
{
  protected:
    explicit Hold(const std::string &hostpath = "off")
        : TwoNets([hostpath](dt_params &params, dt_net_options &options) {
              options.now_ns = [](void *) { return clock_ns; };
              snprintf(params.hostpath, sizeof params.hostpath, "%s", hostpath.c_str());
              params.hostpath_bytes = 1 << 20;
          })
    {
        clock_ns = now_ns;
    }
    dt_status Try(const std::string &args)
    {
        return dt_net_hold_command(there.net, args.c_str(), answer, sizeof answer);
    }
    dt_status Release(const std::string &args = "")
    {
        return dt_net_release_command(there.net, args.c_str(), answer, sizeof answer);
    }
    void Open()
    {
        Listen();
        Establish();
        Register(from, to, sizeof from);
    }
    void TearDown() override
    {
        if (from_memory)
            dt_net_deregister(sender, from_memory);
        if (to_memory)
            dt_net_deregister(receiver, to_memory);
        from_memory = to_memory = nullptr;
        TwoNets::TearDown();
    }
    /* One message, from its isend on; returns the virtual time until the receiver has it. */
    uint64_t Transfer(const std::function<void()> &meanwhile = [] {})
    {
        dt_request *receive = Irecv(to, sizeof to), *send = nullptr;
        EXPECT_NE(nullptr, receive);
        StepUntil([&] {
            clock_ns = now_ns;
            return (send = Isend(from, sizeof from)) != nullptr;
        });
        uint64_t sent_ns = now_ns;
        StepUntil([&] {
            clock_ns = now_ns;
            meanwhile();
            return IsDone(&receive);
        });
        uint64_t took_ns = now_ns - sent_ns;
        StepUntil([&] {
            clock_ns = now_ns;
            return IsDone(&send);
        });
        return took_ns;
    }
    const dt_page_connection &Row() const
    {
        return *sender->meter.row;
    }

    uint8_t from[64] = {7}, to[64] = {};
    char answer[512] = "";
};

TEST_F(Hold, ParksMessagesUntilTheTimeIsOverAndCountsThemApart)
{
    Open();
    Transfer();
    uint64_t service_ns = Row().service_ns;
    ASSERT_EQ(DT_OK, Try("for=30ms"));
    EXPECT_STREQ("hold for=30ms: 1 connections, and those to come", answer);
    uint64_t took_ns = Transfer();
    EXPECT_GE(took_ns, 29 * kMs);
    EXPECT_LT(took_ns, 60 * kMs);
    EXPECT_EQ(7, to[0]);
    EXPECT_EQ(1u, Row().held_count);
    EXPECT_GE(Row().held_ns, 29 * kMs);
    EXPECT_LT(Row().service_ns - service_ns, 10 * kMs) << "the parked time is no service time";
    EXPECT_EQ(DT_OK, Try("list"));
    EXPECT_STREQ("", answer) << "it has ended by itself";
    EXPECT_LT(Transfer(), 10 * kMs);
    EXPECT_EQ(1u, Row().held_count);
    dt_gate *gate = &dt_sender_of(sender)->gate;
    EXPECT_TRUE(dt_gate_is_idle(gate)) << "and costs nothing any more";
}

TEST_F(Hold, ReleaseLetsParkedMessagesGoAtOnce)
{
    Open();
    ASSERT_EQ(DT_OK, Try("for=10s"));
    ASSERT_EQ(DT_OK, Try("list"));
    EXPECT_STREQ("1", answer);
    uint64_t start_ns = now_ns;
    bool is_released = false;
    uint64_t took_ns = Transfer([&] {
        if (!is_released && now_ns - start_ns > 40 * kMs) {
            EXPECT_EQ(DT_OK, Try("show 1"));
            unsigned long long left_ns = 0, messages = 0;
            EXPECT_EQ(2, sscanf(answer, "%llu %llu for=10s", &left_ns, &messages)) << answer;
            EXPECT_EQ(1u, messages);
            EXPECT_LT(left_ns, 10000 * kMs - 40 * kMs + kMs);
            EXPECT_EQ(DT_OK, Release());
            EXPECT_STREQ("released 1 hold", answer);
            is_released = true;
        }
    });
    EXPECT_GE(took_ns, 39 * kMs);
    EXPECT_LT(took_ns, 60 * kMs);
    EXPECT_EQ(DT_NOT_FOUND, Release());
    EXPECT_STREQ("nothing is held", answer);
}

TEST_F(Hold, AHoldWithTheSameScopeReplacesTheFirstAndAlsoForParkedMessages)
{
    Open();
    ASSERT_EQ(DT_OK, Try("connection=0 for=20ms"));
    bool is_prolonged = false;
    uint64_t start_ns = now_ns;
    uint64_t took_ns = Transfer([&] {
        if (!is_prolonged && now_ns - start_ns > 10 * kMs) {
            EXPECT_EQ(DT_OK, Try("connection=0 for=50ms"));
            is_prolonged = true;
        }
    });
    EXPECT_GE(took_ns, 58 * kMs);
    EXPECT_EQ(DT_OK, Try("list"));
    EXPECT_STREQ("", answer);
}

TEST_F(Hold, ReachesTheSendersOfItsScope)
{
    Open();
    ASSERT_EQ(DT_OK, Try("connection=1 for=1s"));
    EXPECT_STREQ("hold connection=1 for=1s: 0 connections, and those to come", answer);
    ASSERT_EQ(DT_OK, Try("peer=nobody: for=1s"));
    EXPECT_LT(Transfer(), 10 * kMs);
    EXPECT_EQ(0u, Row().held_count);
    EXPECT_EQ(DT_NOT_FOUND, Release("connection=2"));
    EXPECT_STREQ("no hold has the scope 'connection=2'", answer);
    EXPECT_EQ(DT_OK, Release("connection=1"));
    EXPECT_EQ(DT_OK, Try("list"));
    EXPECT_STREQ("2", answer);
}

TEST_F(Hold, IsNoRuleOfInjection)
{
    char text[512];
    Open();
    ASSERT_EQ(DT_OK, Try("for=1s"));
    EXPECT_EQ(DT_OK, dt_net_inject_command(there.net, "list", text, sizeof text));
    EXPECT_STREQ("", text);
    EXPECT_EQ(DT_NOT_FOUND, dt_net_inject_command(there.net, "show 1", text, sizeof text));
    EXPECT_EQ(DT_NOT_FOUND, dt_net_inject_command(there.net, "remove 1", text, sizeof text));
    EXPECT_EQ(DT_OK, dt_net_inject_command(there.net, "add latency=1ms", text, sizeof text));
    EXPECT_STREQ("2 latency=1ms", text);
    EXPECT_EQ(DT_OK, dt_net_inject_command(there.net, "clear", text, sizeof text));
    EXPECT_STREQ("removed 1 rule", text);
    EXPECT_EQ(DT_INVALID, dt_net_inject_command(there.net, "add for=1s", text, sizeof text));
    EXPECT_EQ(DT_OK, Try("list"));
    EXPECT_STREQ("1", answer);
    EXPECT_EQ(DT_OK, Release());
}

TEST_F(Hold, RefusesOtherWordsAndTooMany)
{
    for (const char *args : {"", "list all", "show x", "device=soft0", "for=0s", "for=601s", "for=1s for=2s",
                             "latency=1ms for=1s", "hold for=1s"})
        EXPECT_EQ(DT_INVALID, Try(args)) << args;
    EXPECT_EQ(DT_NOT_FOUND, Try("show 7"));
    EXPECT_EQ(DT_NOT_FOUND, Try("device=soft9 for=1s"));
    EXPECT_STREQ("no device is named 'soft9'; there is soft0, soft1", answer);
    EXPECT_EQ(DT_INVALID, Release("for=1s"));
    for (int i = 0; i < DT_DELAY_RULES_MAX; i++)
        ASSERT_EQ(DT_OK, Try("connection=" + std::to_string(i) + " for=1s"));
    EXPECT_EQ(DT_FULL, Try("for=1s"));
    EXPECT_STREQ("there are 16 holds and rules already; release or remove one first", answer);
    EXPECT_EQ(DT_OK, Try("connection=3 for=2s")) << "a hold that is replaced needs no room";
    EXPECT_EQ(DT_OK, Release());
    EXPECT_STREQ("released 16 holds", answer);
}

/*
 * The sample of the last message, which is all that the detection of slow links sees of it: how long it
 * waited for the peer, and how long for the network.
 */
class HoldSample : public Hold
{
  protected:
    void StepTo(uint64_t until_ns)
    {
        StepUntil([&] {
            clock_ns = now_ns;
            return now_ns >= until_ns;
        });
    }
    /* NCCL wants to send; the receiver is ready `late_ns` after that. */
    void Round(uint64_t late_ns)
    {
        dt_request *send = late_ns ? Isend(from, sizeof from) : nullptr;
        EXPECT_EQ(nullptr, send);
        StepTo(now_ns + late_ns);
        dt_request *receive = Irecv(to, sizeof to);
        ASSERT_NE(nullptr, receive);
        StepUntil([&] {
            clock_ns = now_ns;
            send = send ? send : Isend(from, sizeof from);
            return send && IsDone(&receive);
        });
        StepUntil([&] {
            clock_ns = now_ns;
            return IsDone(&send);
        });
        const dt_meter &meter = sender->meter;
        const dt_sample &sample = meter.sample[(meter.head - 1) % DT_METER_SAMPLES];
        waited_ns = sample.submitted - sample.requested;
        service_ns = sample.done - sample.submitted;
    }

    uint64_t waited_ns = 0, service_ns = 0; /* virtual stamps are nanoseconds */
};

TEST_F(HoldSample, HeldTimeIsNotTheNetworksAndInjectedTimeIs)
{
    Open();
    ASSERT_EQ(DT_OK, dt_net_inject_command(there.net, "add latency=20ms", answer, sizeof answer));
    Round(0);
    EXPECT_GE(service_ns, 20 * kMs);
    ASSERT_EQ(DT_OK, dt_net_inject_command(there.net, "clear", answer, sizeof answer));
    ASSERT_EQ(DT_OK, Try("for=20ms"));
    Round(0);
    EXPECT_EQ(1u, Row().held_count);
    EXPECT_LT(service_ns, 10 * kMs);
    EXPECT_EQ(0u, waited_ns);
}

TEST_F(HoldSample, AnIsendThatWaitsDuringAHoldDoesNotBlameThePeer)
{
    Open();
    Round(30 * kMs);
    EXPECT_GE(waited_ns, 30 * kMs) << "no clear-to-send, no hold";
    Round(0); /* of the same sender, so that it has seen the hold's beginning */
    ASSERT_EQ(DT_OK, Try("for=20ms"));
    Round(30 * kMs);
    EXPECT_LT(waited_ns, 10 * kMs);
    EXPECT_EQ(0u, Row().held_count) << "the hold has kept the request alone";
    Round(30 * kMs);
    EXPECT_GE(waited_ns, 30 * kMs) << "the hold is over";
}

/* ------------------------------------------------------------------------------------------------------------
 * Failover and close
 */
TEST_F(Hold, APathThatFailsMeanwhileIsReplacedWhileMessagesAreParked)
{
    Open();
    Transfer();
    ASSERT_EQ(DT_OK, Try("for=5s"));
    dt_request *receive = Irecv(to, sizeof to), *send = nullptr;
    StepUntil([&] {
        clock_ns = now_ns;
        return (send = Isend(from, sizeof from)) != nullptr;
    });
    ASSERT_EQ(DT_OK, dt_net_inject_command(there.net, "add device=soft0 down", answer, sizeof answer));
    StepUntil([&] {
        clock_ns = now_ns;
        IsDone(&receive);
        return sender->current == &sender->path[1];
    });
    EXPECT_NE(nullptr, receive) << "still parked";
    ASSERT_EQ(DT_OK, Release());
    StepUntil([&] {
        clock_ns = now_ns;
        return IsDone(&receive) && IsDone(&send);
    });
    EXPECT_EQ(7, to[0]);
}

TEST_F(Hold, CloseDoesNotWaitForAHold)
{
    Open();
    ASSERT_EQ(DT_OK, Try("for=600s"));
    dt_request *receive = Irecv(to, sizeof to), *send = nullptr;
    ASSERT_NE(nullptr, receive);
    StepUntil([&] {
        clock_ns = now_ns;
        return (send = Isend(from, sizeof from)) != nullptr;
    });
    uint64_t start_ns = now_ns;
    dt_net_deregister(sender, from_memory);
    from_memory = nullptr;
    dt_net_close(sender);
    sender = nullptr;
    EXPECT_EQ(start_ns, now_ns);
}

class HoldStaged : public Hold
{
  protected:
    HoldStaged() : Hold("on") {}
};

TEST_F(HoldStaged, StagedMessagesAreParkedKeepTheirOrderAndGoWhenTheConnectionIsClosed)
{
    uint8_t received[3] = {};
    Open();
    ASSERT_EQ(DT_OK, Try("for=600s"));
    for (uint8_t i = 0; i < 3; i++) { /* each is copied, and its buffer is free */
        from[0] = (uint8_t)(i + 1);
        dt_request *send = nullptr;
        StepUntil([&] {
            clock_ns = now_ns;
            return (send = Isend(from, sizeof from)) != nullptr;
        });
        StepUntil([&] {
            clock_ns = now_ns;
            return IsDone(&send);
        });
    }
    dt_request *receive = Irecv(to, sizeof to);
    ASSERT_NE(nullptr, receive);
    for (uint64_t until_ns = now_ns + 50 * kMs; now_ns < until_ns;) {
        Step();
        clock_ns = now_ns;
        ASSERT_FALSE(IsDone(&receive)) << "it is held";
    }
    dt_net_deregister(sender, from_memory);
    from_memory = nullptr;
    dt_net_close(sender);
    sender = nullptr;
    for (uint8_t &first : received) {
        StepUntil([&] {
            clock_ns = now_ns;
            receive = receive ? receive : Irecv(to, sizeof to);
            return receive && IsDone(&receive);
        });
        first = to[0];
    }
    EXPECT_EQ(1, received[0]);
    EXPECT_EQ(2, received[1]);
    EXPECT_EQ(3, received[2]);
}
} // namespace
