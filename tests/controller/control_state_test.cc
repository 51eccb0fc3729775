// SPDX-License-Identifier: Apache-2.0
/* The state that a controller shows, and its remedies. */
#include "controller/control.h"

#include "tests/controller/control_fixture.h"

namespace
{
using detour_test::Control;

/* As many processes as the store keeps records, and one more: its first record is gone before the round. */
TEST_F(Control, MoreObservationsThanTheStoreKeepsAreALine)
{
    dt_control *control = Make("one");
    auto state = std::make_unique<dt_control_state>();
    auto observation = std::make_unique<dt_observation>();

    Rounds(2, false);
    EXPECT_FALSE(HasNote("as many as the store keeps"));
    *observation = {};
    strcpy(observation->host, "c");
    observation->pid = 1;
    observation->time_ns = TimeNs();
    char *text = dt_observation_write(observation.get());
    for (int i = 0; i <= DT_STORE_STREAM_RECORDS; i++)
        ASSERT_EQ(store.inner->ops->append(store.inner, DT_STREAM_OBSERVATIONS, text, nullptr), DT_OK);
    free(text);
    Rounds(2, false);
    EXPECT_TRUE(HasNote("a round has read 4096 observations, as many as the store keeps (4096)"));
    dt_control_read(control, state.get());
    EXPECT_EQ(state->counts.overruns, 1u);
}

TEST_F(Control, ReportsWithoutRoomAreALine)
{
    dt_control *control = Make("one");
    auto state = std::make_unique<dt_control_state>();
    auto observation = std::make_unique<dt_observation>();

    *observation = {};
    strcpy(observation->host, "c");
    Rounds(1, false);
    for (int32_t rank = 0; rank <= 4096; rank++) {
        observation->pid = 1 + rank;
        observation->rank = rank;
        observation->time_ns = TimeNs();
        char *text = dt_observation_write(observation.get());
        ASSERT_EQ(store.inner->ops->append(store.inner, DT_STREAM_OBSERVATIONS, text, nullptr), DT_OK);
        free(text);
        if (rank % 1000 == 999)
            Rounds(1, false);
    }
    EXPECT_FALSE(HasNote("the tables of the judge are full"));
    Rounds(1, false);
    EXPECT_TRUE(HasNote("the tables of the judge are full"));
    dt_control_read(control, state.get());
    EXPECT_GT(state->counts.no_room, 0u);
    EXPECT_EQ(state->counts.overruns, 0u);
}

/* For metrics. */
TEST_F(Control, ItsStateIsThatOfTheJob)
{
    dt_control *first = Make("one"), *second = Make("two");
    auto state = std::make_unique<dt_control_state>();

    dt_control_read(first, state.get());
    EXPECT_EQ(state->hosts, 0u);
    iteration_ns = 138000000;
    Rounds(50, false);
    dt_control_read(first, state.get());
    EXPECT_TRUE(state->is_leader);
    EXPECT_EQ(state->hosts, 2u);
    EXPECT_EQ(state->iteration_ns, 138000000u);
    EXPECT_EQ(state->finding_count, 0u);
    EXPECT_EQ(state->measures.links, 0u);
    Rounds(50, true);
    Request(DT_DECISION_HOLD);
    Rounds(2, true);
    dt_control_read(first, state.get());
    ASSERT_EQ(state->finding_count, 1u);
    EXPECT_EQ(state->findings[0].kind, DT_FINDING_LINK);
    EXPECT_EQ(state->counts.found[DT_FINDING_LINK], 1u);
    EXPECT_EQ(state->counts.decided[DT_DECISION_REPLAN], 1u);
    EXPECT_EQ(state->measures.links, 1u);
    EXPECT_TRUE(state->is_held);
    dt_control_read(second, state.get());
    EXPECT_FALSE(state->is_leader);
    EXPECT_EQ(state->finding_count, 1u) << "it judges as well";
    EXPECT_EQ(state->counts.decided[DT_DECISION_REPLAN], 0u);
    EXPECT_EQ(state->measures.links, 0u);
    controls = {second};
    Rounds(20, true);
    dt_control_read(second, state.get());
    EXPECT_TRUE(state->is_leader);
    EXPECT_EQ(state->counts.decided[DT_DECISION_REPLAN], 0u) << "it was the other's decision";
    EXPECT_EQ(state->measures.links, 1u);
    EXPECT_TRUE(state->is_held);
    EXPECT_GT(state->counts.decided_ns, 0);
    Rounds(100, false);
    dt_control_read(second, state.get());
    EXPECT_EQ(state->finding_count, 0u);
    EXPECT_EQ(state->measures.links, 0u);
    store.is_cut = true; /* so that it does not release the other's lease below */
    controls = {first, second};
}

/* Two replicas of one rank each, whose link no exchange avoids: S4. */
class ControlRemedy : public Control
{
  protected:
    ControlRemedy()
    {
        job.name = "job";
        job.replica_count = job.microbatch_count = 2;
        job.stage_count = 1;
        job.stage_ns = &stage_ns;
        job.cost_ns[DETOUR_STEP_S4] = 500000000;
        cluster = &job;
    }
    /* The link is slow until a round has made a remedy, at most so many. */
    bool SlowUntilARemedy(int rounds)
    {
        iteration_ns = 138000000;
        for (size_t before = Remedies(); rounds > 0 && Remedies() == before; rounds--)
            Rounds(1, true);
        return rounds > 0;
    }
    size_t Remedies() const
    {
        size_t count = 0;
        for (const std::string &one : decided)
            count += one.find("remedy") != std::string::npos;
        return count;
    }
    void Acknowledge(int64_t number, dt_status result)
    {
        dt_acknowledgement acknowledgement = {};

        acknowledgement.number = number;
        acknowledgement.fence = 1;
        acknowledgement.status = result;
        strcpy(acknowledgement.host, "a");
        char *text = dt_acknowledgement_write(&acknowledgement);
        store.inner->ops->append(store.inner, DT_STREAM_ACKNOWLEDGEMENTS, text, nullptr);
        free(text);
    }

    /* Another controller has the lease for so long. */
    void LeaseToAnother(uint32_t ms)
    {
        uint64_t fence;
        ASSERT_EQ(
            store.inner->ops->lease_acquire(store.inner, DT_LEASE_CONTROLLER, "another", ms, now_ns, &fence),
            DT_OK);
    }
    /* Its decision for S2: replica 0 computes three of four microbatches, and so its rank for longer. */
    void AnotherTakesS2()
    {
        auto decision = std::make_unique<dt_decision>();
        *decision = {};
        decision->number = decision->fence = 1;
        decision->time_ns = TimeNs();
        decision->kind = DT_DECISION_REMEDY;
        decision->from_rank = decision->to_rank = -1;
        decision->step = DETOUR_STEP_S2;
        decision->replica_count = decision->node_count = 2;
        decision->counts[0] = 3;
        decision->counts[1] = decision->nodes[1] = 1;
        char *text = dt_decision_write(decision.get());
        ASSERT_NE(text, nullptr);
        store.inner->ops->append(store.inner, DT_STREAM_DECISIONS, text, nullptr);
        free(text);
        compute_ns[0] = 300000000;
        compute_ns[1] = 100000000;
    }

    int64_t stage_ns = 100000000;
    detour_cluster job = {};
};

/* Before and after it has the lease: a rank computes for longer because it has more microbatches. */
TEST_F(ControlRemedy, AControllerThatWaitsFollowsTheRemediesOfTheOther)
{
    job.microbatch_count = 4;
    LeaseToAnother(30000);
    Make("x");
    iteration_ns = 300000000;
    compute_ns[0] = compute_ns[1] = 200000000;
    Rounds(100, false);
    AnotherTakesS2();
    Rounds(100, false);
    EXPECT_TRUE(HasNote("this is the controller of the job now"));
    EXPECT_EQ(findings, detour_test::Lines());
}

TEST_F(ControlRemedy, AControllerThatStartsBeforeTheLeaseHasEndedFollowsTheRemedyInForce)
{
    job.microbatch_count = 4;
    LeaseToAnother(3000);
    AnotherTakesS2();
    Make("x");
    iteration_ns = 300000000;
    Rounds(100, false);
    EXPECT_TRUE(HasNote("this is the controller of the job now"));
    EXPECT_EQ(findings, detour_test::Lines());
    EXPECT_EQ(Remedies(), 0u);
}

/* Also without a measure of decide.h. */
TEST_F(ControlRemedy, AJobThatIsStartedAgainIsWithoutTheRemedyAlsoIfNoControllerHasSeenItsStart)
{
    auto state = std::make_unique<dt_control_state>();

    job.microbatch_count = 4;
    measures.replan = measures.migrate = false;
    iteration_ns = 300000000;
    AnotherTakesS2();
    dt_control *first = Make("one");
    Rounds(50, false);
    dt_control_read(first, state.get());
    EXPECT_EQ(state->step, DETOUR_STEP_S2);
    EXPECT_EQ(decided, detour_test::Lines());
    controls = {};
    dt_control_destroy(first);
    pid = 2;
    compute_ns[0] = compute_ns[1] = 200000000;
    Rounds(20, false);
    dt_control *second = Make("two");
    Rounds(10, false);
    ASSERT_EQ(decided, detour_test::Lines{"2 remedy 0"});
    dt_control_read(second, state.get());
    EXPECT_EQ(state->step, DETOUR_STEP_S1);
    Rounds(50, false);
    EXPECT_EQ(decided.size(), 1u) << decided.back();
}

TEST_F(ControlRemedy, AStepThatNoHostTakesIsDecidedAgain)
{
    Make("x");
    iteration_ns = 100000000;
    Rounds(100, false);
    EXPECT_EQ(Remedies(), 0u);
    ASSERT_TRUE(SlowUntilARemedy(200));
    EXPECT_FALSE(SlowUntilARemedy(100)) << "it is not done yet";
    Acknowledge(std::stoll(decided.back()), DT_SYSTEM);
    EXPECT_FALSE(SlowUntilARemedy(20)) << "another host may have taken it";
    EXPECT_TRUE(SlowUntilARemedy(300)) << "no host has taken it for 30 s";
}

TEST_F(ControlRemedy, ADryRunDecidesEachTimeWaitingHasCostAsMuch)
{
    Make("x", true);
    iteration_ns = 100000000;
    Rounds(100, false);
    ASSERT_TRUE(SlowUntilARemedy(200));
    EXPECT_TRUE(SlowUntilARemedy(100));
    EXPECT_EQ(Stream().size(), 0u);
}

TEST_F(ControlRemedy, AClusterThatIsNoneIsRefused)
{
    job.microbatch_count = 1;
    EXPECT_EQ(Make("x"), nullptr);
}
} // namespace
