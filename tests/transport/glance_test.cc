// SPDX-License-Identifier: Apache-2.0
/* Until when, and why, a glance is enough; and takeovers without a visit. */
#include "transport/glance.h"

#include <gtest/gtest.h>

#include <memory>

#include "failover/switchover/stall_watch.h"
#include "failover/switchover/state.h"
#include "tests/transport/two_nets.h"
#include "transport/service.h"
#include "transport/service_state.h"
#include "transport/session/session.h"

namespace
{
constexpr uint64_t kPeriodNs = 2 * DT_NS_PER_MS;

// A connection after a visit, on a device with many.
class Glance : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        environment.params.idle_takeover_us = 2000;
        environment.params.stall_ms = 500;
        nic.environment = &environment;
        c->nic = &nic;
        c->environment = &environment;
        c->service = &state;
        c->switchover = switchover.get();
        c->session = session.get();
        session->state = DT_SESSION_UP;
        switchover->watched_ns = now_ns;
        state.deadline_ns = DT_NEVER_NS;
        state.idle_since_ns = now_ns;
        turns.count = DT_REST_MIN + 1;
        turns.rest_min = DT_REST_MIN;
        dt_glance_settle(&turns, c.get(), now_ns);
    }
    dt_glance_finding After(uint64_t ns)
    {
        now_ns += ns;
        return dt_glance(&turns, c.get(), now_ns);
    }
    // The next visit, and whether a glance is enough after it.
    bool IsEnoughAfterAVisit()
    {
        dt_glance_settle(&turns, c.get(), now_ns);
        return After(0) != DT_GLANCE_VISIT;
    }

    dt_environment environment = {};
    dt_nic nic = {};
    dt_turns turns = {};
    dt_service_connection state = {};
    std::unique_ptr<dt_connection> c = std::make_unique<dt_connection>();
    std::unique_ptr<dt_switchover> switchover = std::make_unique<dt_switchover>();
    std::unique_ptr<dt_session> session = std::make_unique<dt_session>();
    uint64_t now_ns = DT_NS_PER_S;
};

TEST_F(Glance, IsEnoughUntilThePeriodIsOver)
{
    EXPECT_EQ(DT_GLANCE_QUIET, After(DT_VISIT_PERIOD_NS - 1));
    EXPECT_EQ(DT_GLANCE_VISIT, After(1));
}

TEST_F(Glance, IsEnoughUntilTheConnectionsDeadline)
{
    state.deadline_ns = now_ns + kPeriodNs;
    dt_glance_settle(&turns, c.get(), now_ns);
    EXPECT_EQ(DT_GLANCE_QUIET, After(kPeriodNs - 1));
    EXPECT_EQ(DT_GLANCE_VISIT, After(1));
}

TEST_F(Glance, NotesCallsAsAVisitDoes)
{
    c->owner.visits = 2;
    EXPECT_EQ(DT_GLANCE_IN_USE, After(kPeriodNs));
    EXPECT_EQ(2u, state.visits_seen);
    EXPECT_EQ(now_ns, state.idle_since_ns);
    EXPECT_EQ(now_ns, state.busy_ns);
    EXPECT_EQ(DT_GLANCE_QUIET, After(kPeriodNs));
    EXPECT_EQ(now_ns - kPeriodNs, state.busy_ns);
}

TEST_F(Glance, FindsATakeoverDueAfterItsTimeAlone)
{
    c->open_requests = 1;
    EXPECT_EQ(DT_GLANCE_IN_USE, After(kPeriodNs - 1));
    EXPECT_EQ(DT_GLANCE_TAKEOVER, After(1));
    EXPECT_EQ(now_ns, state.busy_ns);
    c->owner.visits = 1; // inside a call
    EXPECT_EQ(DT_GLANCE_IN_USE, After(0));
    EXPECT_EQ(DT_GLANCE_IN_USE, After(kPeriodNs)) << "for however long the call takes";
}

TEST_F(Glance, LooksForGrayFailureAtItsOwnIntervalWhileARequestIsOpen)
{
    switchover->watched_ns = now_ns - 120 * DT_NS_PER_MS; // of 125
    EXPECT_TRUE(IsEnoughAfterAVisit());
    EXPECT_EQ(DT_GLANCE_QUIET, After(5 * DT_NS_PER_MS)) << "there is nothing to look for";
    c->open_requests = 1;
    EXPECT_EQ(DT_GLANCE_VISIT, After(0));
    EXPECT_TRUE(dt_stall_watch_is_due(c.get(), now_ns));
}

TEST_F(Glance, IsNotEnoughForWhatNeedsEachRound)
{
    turns.is_thorough = true; // the device thread was woken
    EXPECT_FALSE(IsEnoughAfterAVisit());
    turns.is_thorough = false;
    turns.count = DT_REST_MIN; // few connections
    EXPECT_FALSE(IsEnoughAfterAVisit());
    turns.count++;
    session->state = DT_SESSION_PAUSE; // frames come in band alone
    EXPECT_FALSE(IsEnoughAfterAVisit());
    session->state = DT_SESSION_UP;
    for (bool *reason :
         {&session->is_ready, &switchover->is_switching, &state.is_closed, &state.is_peer_lost}) {
        *reason = true;
        EXPECT_FALSE(IsEnoughAfterAVisit());
        *reason = false;
        EXPECT_TRUE(IsEnoughAfterAVisit());
    }
}

TEST_F(Glance, IsNotEnoughOnceSomethingHasHappened)
{
    for (uint32_t notice : {DT_NOTICE_PEER_CLOSED, DT_NOTICE_PEER_LOST, DT_NOTICE_PEER_BROKEN,
                            DT_NOTICE_ABANDONED, DT_NOTICE_FAILING, DT_NOTICE_AGAIN, DT_NOTICE_STAGED}) {
        c->notices = notice;
        EXPECT_EQ(DT_GLANCE_VISIT, After(0)) << notice;
    }
    c->notices = DT_NOTICE_RESTING;
    EXPECT_EQ(DT_GLANCE_QUIET, After(0));
    c->failing = DT_SYSTEM;
    EXPECT_EQ(DT_GLANCE_VISIT, After(0));
    c->failing = DT_OK;
    c->completions = state.completions_seen = UINT32_MAX - 5; // a number that wraps around
    c->completions += DT_VISIT_COMPLETIONS - 1;
    EXPECT_EQ(DT_GLANCE_QUIET, After(0));
    c->completions++;
    EXPECT_EQ(DT_GLANCE_VISIT, After(0)) << "before stamps are merged";
}

// Real connections, and the device threads' rounds.
class Glances : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        RestWithFewConnections();
        Listen();
        Establish();
        Register(from, to, sizeof from);
    }
    uint64_t Rounds(uint64_t ns)
    {
        uint64_t before = receiver->nic->service->turns.visit_count;
        for (uint64_t end_ns = now_ns + ns; now_ns < end_ns; now_ns += kPeriodNs)
            dt_service_progress(receiver->nic, now_ns);
        return receiver->nic->service->turns.visit_count - before;
    }
    char from[64] = "payload", to[64] = "";
};

TEST_F(Glances, AConnectionInUseIsVisitedRarelyAndTakenOverInTime)
{
    dt_request *receive = Irecv(to, sizeof to), *send = nullptr;
    ASSERT_TRUE(StepUntil([&] { return send || (send = Isend(from, sizeof from)); }));
    Rounds(10 * DT_NS_PER_MS); // the first visits settle it
    uint64_t takeovers = receiver->meter.row->takeover_count;
    EXPECT_LE(Rounds(DT_NS_PER_S), 40u) << "20 by the period, 8 for the stall watch; not 500";
    EXPECT_GE(receiver->meter.row->takeover_count - takeovers, 490u) << "at each round";
    EXPECT_STREQ("payload", to) << "NCCL has not called";
    EXPECT_TRUE(StepUntil([&] { return IsDone(&receive) && IsDone(&send); }));
}
} // namespace
