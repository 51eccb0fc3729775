// SPDX-License-Identifier: Apache-2.0
/* Which connections a round visits, counted in visits. */
#include "transport/turns.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "failover/switchover/state.h"
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/service.h"
#include "transport/service_state.h"

namespace
{
constexpr uint64_t kPeriodNs = 2 * DT_NS_PER_MS;

// Connections that are only visited.
class Turns : public ::testing::Test
{
  protected:
    struct End {
        std::unique_ptr<dt_connection> c = std::make_unique<dt_connection>();
        dt_service_connection service = {};
        uint64_t visited_ns = 0;
    };

    void SetUp() override
    {
        nic.service = &service;
        dt_turns_init(&service.turns);
    }
    void TearDown() override
    {
        for (auto &end : ends)
            dt_turns_remove(&nic, end->c.get());
        dt_turns_fini(&service.turns);
    }
    void Add(uint32_t count)
    {
        for (uint32_t i = 0; i < count; i++) {
            ends.push_back(std::make_unique<End>());
            End &end = *ends.back();
            end.c->nic = &nic;
            end.c->service = &end.service;
            end.visited_ns = now_ns;
            dt_list_init(&end.c->turn);
            ASSERT_TRUE(dt_turns_reserve(&service.turns));
            dt_turns_add(&nic, end.c.get(), now_ns);
        }
    }
    void Visit(dt_connection *c, bool is_busy)
    {
        dt_turns_visit(&service.turns, c);
        c->service->deadline_ns = DT_NEVER_NS;
        dt_turns_settle(&service.turns, c, is_busy, now_ns);
    }
    // As a round of service.c; returns the number of visits.
    uint64_t Round()
    {
        uint64_t before = service.turns.visit_count;
        uint32_t resting = dt_turns_begin(&nic, now_ns);
        std::vector<dt_connection *> visited;
        for (uint32_t i = 0; i < service.turns.busy_count; i++) {
            if (dt_connection *c = dt_turns_busy(&service.turns, i))
                visited.push_back(c);
        }
        for (dt_connection *c : visited)
            Visit(c, c->open_requests > 0);
        for (dt_connection *c; resting > 0 && (c = dt_turns_next(&service.turns)); resting--) {
            visited.push_back(c);
            Visit(c, c->open_requests > 0);
        }
        for (dt_connection *c : visited)
            c->id = now_ns; // when it was visited
        return service.turns.visit_count - before;
    }

    dt_nic nic = {};
    dt_nic_service service = {};
    std::vector<std::unique_ptr<End>> ends;
    uint64_t now_ns = DT_NS_PER_S;
};

TEST_F(Turns, RoomIsReservedOrMemoryIsOut)
{
    detour_test_fail_alloc(0);
    EXPECT_FALSE(dt_turns_reserve(&service.turns));
    detour_test_fail_alloc(-1);
    EXPECT_EQ(0u, service.turns.reserved);
    Add(3);
    EXPECT_EQ(0u, service.turns.reserved);
    EXPECT_EQ(3u, service.turns.busy_count);
}

/* Connections that are set up at a time: each has its room. */
TEST_F(Turns, RoomIsKeptForEachReservation)
{
    for (int i = 0; i < 100; i++)
        ASSERT_TRUE(dt_turns_reserve(&service.turns));
    EXPECT_GE(service.turns.busy_room, 100u);
    service.turns.reserved = 0;
}

TEST_F(Turns, ARoundVisitsWhatIsBusyAndAShareOfTheRest)
{
    Add(4000);
    for (uint32_t i = 0; i < 4000; i += 10)
        ends[i]->c->open_requests = 1;
    for (uint64_t end_ns = now_ns + DT_NS_PER_S; now_ns < end_ns; now_ns += kPeriodNs)
        Round();
    EXPECT_EQ(3600u, service.turns.resting_count);
    uint64_t visits = 0, most = 0, rounds = 500;
    for (uint64_t i = 0; i < rounds; i++, now_ns += kPeriodNs) {
        uint64_t here = Round();
        visits += here;
        most = std::max(most, here);
    }
    EXPECT_EQ(rounds * 400 + rounds * kPeriodNs * 3600 / DT_REST_TURN_NS, visits)
        << "403.6 a round, not 4,000";
    EXPECT_EQ(404u, most);
}

TEST_F(Turns, FewConnectionsNeverRest)
{
    Add(DT_REST_MIN);
    for (int i = 0; i < 1000; i++, now_ns += kPeriodNs)
        EXPECT_EQ(DT_REST_MIN, (int)Round());
}

TEST_F(Turns, AWakeUpVisitsAll)
{
    Add(1000);
    for (int i = 0; i < 1000; i++, now_ns += kPeriodNs)
        Round();
    EXPECT_EQ(1u, Round()); // of the period that the loop ended with
    dt_nic_wake(&nic);
    EXPECT_EQ(1000u, Round());
}

TEST_F(Turns, ACallRousesForTheNextRound)
{
    Add(1000);
    for (int i = 0; i < 1000; i++, now_ns += kPeriodNs)
        Round();
    for (uint32_t i : {3u, 500u, 999u}) {
        dt_connection *c = ends[i]->c.get();
        EXPECT_TRUE(c->notices & DT_NOTICE_RESTING);
        EXPECT_EQ(DT_OK, dt_connection_check(c));
        EXPECT_EQ(DT_OK, dt_connection_check(c));
        EXPECT_FALSE(c->notices & DT_NOTICE_RESTING);
    }
    dt_turns_remove(&nic, ends[500]->c.get()); // closed before the round
    ends.erase(ends.begin() + 500);
    Round();
    EXPECT_EQ(now_ns, ends[3]->c->id);
    EXPECT_EQ(now_ns, ends[998]->c->id);
    EXPECT_FALSE(ends[3]->service.is_resting);
    EXPECT_EQ(997u, service.turns.resting_count);
}

// A gap in the array is no visit missed, and none is left when the next round begins.
TEST_F(Turns, MayRestEndAndGetUpBetweenTheSameTwoRounds)
{
    Add(1000);
    for (int i = 0; i < 50; i++, now_ns += kPeriodNs)
        EXPECT_EQ(1000u, Round());
    Round(); // all lie down
    EXPECT_EQ(1000u, service.turns.resting_count);
    for (int i = 0; i < 3; i++) {
        for (auto &end : ends)
            dt_connection_check(end->c.get());
        dt_turns_remove(&nic, ends.back()->c.get()); // takes all of those
        ends.pop_back();
        Add(1);
    }
    EXPECT_EQ(0u, service.turns.resting_count);
    EXPECT_EQ(1000u, Round());
    EXPECT_EQ(1000u, service.turns.busy_count);
}

// The first turn after a connection lay down may come late, since the turn under way passed it by.
TEST_F(Turns, WhateverHappensEachIsVisitedInTime)
{
    std::mt19937 random(5);
    auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
    service.turns.rest_min = 0;
    for (uint32_t step = 0; step < 20000; step++, now_ns += below(3) ? kPeriodNs : below(40) * DT_NS_PER_MS) {
        if (ends.size() < 100 && below(4) == 0)
            Add(1);
        if (!ends.empty() && below(10) == 0) {
            size_t i = below(static_cast<uint32_t>(ends.size()));
            dt_turns_remove(&nic, ends[i]->c.get());
            ends.erase(ends.begin() + static_cast<long>(i));
        }
        for (auto &end : ends) {
            if (below(200) == 0)
                end->c->open_requests ^= 1;
            if (below(200) == 0)
                dt_connection_check(end->c.get());
        }
        if (below(100) == 0)
            dt_nic_wake(&nic);
        std::vector<dt_connection *> roused;
        for (dt_connection *c = nic.roused; c; c = c->roused_next)
            roused.push_back(c);
        Round();
        for (dt_connection *c : roused)
            ASSERT_EQ(now_ns, c->id) << "roused";
        uint32_t resting = 0;
        for (auto &end : ends) {
            resting += end->service.is_resting;
            end->visited_ns = std::max(end->visited_ns, end->c->id);
            ASSERT_LE(now_ns - end->visited_ns, DT_REST_TURN_NS + 2 * DT_REST_AFTER_NS) << "step " << step;
            if (!end->service.is_resting) {
                ASSERT_EQ(now_ns, end->visited_ns);
            }
        }
        ASSERT_EQ(resting, service.turns.resting_count);
        ASSERT_EQ(ends.size(), service.turns.count);
    }
}

// Real connections, and the device threads' rounds.
class Resting : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        RestWithFewConnections();
        Listen();
        Establish();
        Register(from, to, sizeof from);
        ASSERT_TRUE(StepUntil([&] { return AreResting(); }, kPeriodNs));
    }
    bool AreResting()
    {
        return sender->service->is_resting && receiver->service->is_resting;
    }
    uint64_t Visits()
    {
        return sender->nic->service->turns.visit_count;
    }
    char from[64] = "payload", to[64] = "";
};

TEST_F(Resting, AQuietConnectionIsVisitedOnceInATurn)
{
    uint64_t before = Visits(), watched_ns = sender->switchover->watched_ns;
    for (uint64_t end_ns = now_ns + 10 * DT_REST_TURN_NS; now_ns < end_ns; now_ns += kPeriodNs)
        dt_service_progress(sender->nic, now_ns);
    EXPECT_GE(Visits() - before, 9u);
    EXPECT_LE(Visits() - before, 10u) << "not 10,000";
    EXPECT_EQ(watched_ns, sender->switchover->watched_ns)
        << "NCCL does not wait for it: no path is suspected";
}

TEST_F(Resting, AMessageGoesWithoutAnotherCallOfTheSender)
{
    dt_request *receive = Irecv(to, sizeof to), *send = nullptr;
    ASSERT_TRUE(StepUntil([&] { return send || (send = Isend(from, sizeof from)); }));
    EXPECT_TRUE(StepUntil([&] { return IsDone(&receive); }));
    EXPECT_STREQ("payload", to);
    EXPECT_TRUE(StepUntil([&] { return IsDone(&send); }));
    EXPECT_TRUE(StepUntil([&] { return !sender->service->is_resting && !receiver->service->is_resting; }));
    EXPECT_TRUE(StepUntil([&] { return AreResting(); }, kPeriodNs)) << "again";
}

TEST_F(Resting, AFaultIsNotLeftForLater)
{
    char answer[256];
    uint64_t before = Visits();
    EXPECT_EQ(DT_OK, dt_net_drain(there.net, sender->nic->name, true, answer, sizeof answer));
    dt_service_progress(sender->nic, now_ns);
    EXPECT_EQ(1u, Visits() - before);
    EXPECT_TRUE(StepUntil([&] { return sender->path[0].state != DT_PATH_UP; }));
}

TEST_F(Resting, AConnectionThatWasJustRousedMayBeClosed)
{
    dt_request *receive = Irecv(to, sizeof to);
    EXPECT_TRUE(receive);
    EXPECT_EQ(receiver, receiver->nic->roused);
    dt_net_deregister(receiver, to_memory);
    dt_nic *nic = receiver->nic;
    dt_net_close(receiver);
    receiver = nullptr;
    EXPECT_EQ(nullptr, nic->roused);
    EXPECT_EQ(0u, nic->service->turns.count);
}
} // namespace
