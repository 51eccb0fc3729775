// SPDX-License-Identifier: Apache-2.0
/* Controllers, agents' records and a memory store in virtual time. */
#include "controller/control.h"

#include "tests/controller/control_fixture.h"

namespace
{
using detour_test::Control;
using detour_test::Lines;

TEST_F(Control, NamesASlowLinkAndPlansForItOnce)
{
    Make("one");
    Rounds(50, false);
    EXPECT_EQ(findings, Lines());
    Rounds(10, true); /* the promise: named and planned for within 2 s */
    EXPECT_EQ(findings, Lines{"new link a>b"});
    EXPECT_EQ(decided, Lines{"1 replan 1"});
    Rounds(40, true);
    EXPECT_EQ(findings.size(), 1u);
    EXPECT_EQ(decided.size(), 1u);
    Rounds(100, false);
    EXPECT_EQ(findings.back(), "ended link a>b");
    EXPECT_EQ(decided, (Lines{"1 replan 1", "2 replan 0"}));
    EXPECT_EQ(Stream(), (Lines{"1 fence 1", "2 fence 1"}));
}

TEST_F(Control, DryRunAppendsNothingAndTakesNoLease)
{
    uint64_t fence = 0;

    Make("one", true);
    Rounds(50, false);
    Rounds(50, true);
    EXPECT_EQ(decided, Lines{"1 replan 1"});
    EXPECT_EQ(Stream(), Lines());
    EXPECT_EQ(
        store.inner->ops->lease_acquire(store.inner, DT_LEASE_CONTROLLER, "other", 1000, now_ns, &fence),
        DT_OK);
    EXPECT_EQ(fence, 1u);
}

TEST_F(Control, ASecondControllerWaitsAndTakesOverWithoutDecidingAgain)
{
    dt_control *first = Make("one"), *second = Make("two");

    Rounds(50, false);
    EXPECT_TRUE(dt_control_is_leader(first));
    EXPECT_FALSE(dt_control_is_leader(second));
    EXPECT_TRUE(HasNote("another controller has the lease"));
    Rounds(50, true);
    EXPECT_EQ(Stream(), Lines{"1 fence 1"});
    controls = {second}; /* the first one dies without releasing its lease */
    Rounds(100, true);
    EXPECT_TRUE(dt_control_is_leader(second));
    EXPECT_EQ(Stream(), Lines{"1 fence 1"}); /* the same finding is no second decision */
    EXPECT_EQ(findings, (Lines{"new link a>b", "new link a>b"})) << "each of them, and it has not ended";
    Rounds(100, false);
    EXPECT_EQ(Stream(), (Lines{"1 fence 1", "2 fence 2"}));
    store.is_cut = true; /* so that it does not release the other's lease below */
    controls = {first, second};
}

/* Its judge has no healthy time of the link, so that it finds nothing. */
TEST_F(Control, AControllerThatStartsDuringAnIncidentLeavesThePlanUntilTheRecheckTime)
{
    dt_control *first = Make("one");
    Rounds(50, false);
    Rounds(50, true);
    EXPECT_EQ(Stream(), Lines{"1 fence 1"});
    dt_control *second = Make("two");
    controls = {second}; /* the first one has died without releasing its lease */
    Rounds(150, true);
    EXPECT_TRUE(dt_control_is_leader(second));
    EXPECT_EQ(Stream(), Lines{"1 fence 1"});
    EXPECT_EQ(findings, (Lines{"new link a>b", "ended link a>b"})) << "it has not found the link slow";
    Rounds(2800, true);
    EXPECT_EQ(Stream(), Lines{"1 fence 1"});
    Rounds(200, true);
    EXPECT_EQ(Stream(), (Lines{"1 fence 1", "2 fence 2"}));
    store.is_cut = true; /* so that it does not release the other's lease below */
    controls = {first, second};
}

TEST_F(Control, AControllerThatStartsDuringAnIncidentUndoesThePlanWhenMessagesAreFastAgain)
{
    dt_control *first = Make("one");
    Rounds(50, false);
    Rounds(50, true);
    dt_control *second = Make("two");
    controls = {second};
    Rounds(150, true);
    Rounds(24, false);
    EXPECT_EQ(Stream(), Lines{"1 fence 1"});
    Rounds(10, false);
    EXPECT_EQ(Stream(), (Lines{"1 fence 1", "2 fence 2"}));
    store.is_cut = true;
    controls = {first, second};
}

TEST_F(Control, AStandbyThatHasSeenTheRecoveryBeforeItTakesOverUndoesThePlanAtOnce)
{
    dt_control *first = Make("one"), *second = Make("two");
    Rounds(100, false);
    Rounds(50, true);
    EXPECT_EQ(Stream(), Lines{"1 fence 1"});
    controls = {second};
    Rounds(50, false);
    EXPECT_EQ(Stream(), (Lines{"1 fence 1", "2 fence 2"}));
    store.is_cut = true;
    controls = {first, second};
}

TEST_F(Control, AStoreThatIsCutOffLosesNoDecisionAndMakesNoneTwice)
{
    dt_control *control = Make("one");

    Rounds(50, false);
    store.loses_answers = true;
    Rounds(12, true); /* the decision is in the stream, perhaps several times; the controller cannot know */
    EXPECT_EQ(status, DT_CLOSED);
    EXPECT_EQ(decided, Lines());
    store.loses_answers = false;
    Rounds(20, true);
    EXPECT_EQ(decided, Lines{"1 replan 1"});
    for (const std::string &line : Stream())
        EXPECT_EQ(line, "1 fence 1"); /* one number: agents execute it once */
    store.is_cut = true;
    Rounds(50, true);
    EXPECT_FALSE(dt_control_is_leader(control)); /* its lease may have ended */
    EXPECT_TRUE(HasNote("the store did not answer in time"));
    store.is_cut = false;
    Rounds(50, true);
    EXPECT_TRUE(dt_control_is_leader(control));
    EXPECT_EQ(decided, Lines{"1 replan 1"});
}

/* Of a busy machine: not the store's fault. */
TEST_F(Control, AControllerThatDidNotRunForItsLeaseNamesThatCause)
{
    dt_control *control = Make("one");

    Rounds(10, false);
    now_ns += 10 * DT_NS_PER_S;
    Rounds(10, false);
    EXPECT_TRUE(dt_control_is_leader(control));
    EXPECT_TRUE(HasNote("no longer the controller of the job: no round in the time of its lease"));
    EXPECT_FALSE(HasNote("the store did not answer in time"));
}

TEST_F(Control, NumbersGoOnAboveThoseThatAgentsHaveTaken)
{
    agent_number = 41;
    Make("one");
    Rounds(50, false);
    Rounds(50, true);
    EXPECT_EQ(Stream(), Lines{"42 fence 1"});
}

/* The store ends with the process of the controller; what follows the decisions goes on. */
TEST_F(Control, DecisionsOfARestartedControllerAreTaken)
{
    Folder folder;
    const dt_agent_options options = {"a", folder.path.c_str(), &store.store, Note, this};
    dt_agent *agent = dt_agent_create(&options);
    const char first_has[] = "\"number\":1,\"fence\":1700000000001,",
               second_has[] = "\"number\":2,\"fence\":1700000060001,";

    store.Restart(1700000000000);
    EXPECT_EQ(dt_agent_follow(agent, TimeNs()), DT_OK);
    Make("one");
    Rounds(50, false);
    Rounds(20, true);
    EXPECT_EQ(dt_agent_follow(agent, TimeNs()), DT_OK);
    EXPECT_NE(File(folder.path + "/decision.json").find(first_has), std::string::npos);
    dt_control_destroy(controls.back());
    controls.clear();

    agent_number = 1;
    store.Restart(1700000060000);
    Make("two");
    Rounds(50, false);
    Rounds(20, true);
    EXPECT_EQ(dt_agent_follow(agent, TimeNs()), DT_OK);
    EXPECT_NE(File(folder.path + "/decision.json").find(second_has), std::string::npos)
        << File(folder.path + "/decision.json");
    dt_agent_destroy(agent);
}

TEST_F(Control, AJobThatStartsAgainGetsThePlanInForceOnce)
{
    iteration_ns = 100000000;
    Make("one");
    Rounds(50, false);
    Rounds(50, true);
    EXPECT_EQ(decided, Lines{"1 replan 1"});
    is_silent = true;
    Rounds(10, true);
    is_silent = false;
    pid = 2;
    Rounds(100, true);
    EXPECT_EQ(decided, (Lines{"1 replan 1", "2 replan 1"}));
}

TEST_F(Control, AJobThatStartsAgainWithoutAControllerGetsThePlanFromTheOneThatWaited)
{
    iteration_ns = 100000000;
    dt_control *first = Make("one"), *second = Make("two");
    Rounds(50, false);
    Rounds(50, true);
    EXPECT_EQ(Stream(), Lines{"1 fence 1"});
    controls = {second}; /* the first one dies without releasing its lease */
    is_silent = true;
    Rounds(7, true);
    is_silent = false;
    pid = 2;
    iteration_ns = 0;
    Rounds(3, true);
    EXPECT_FALSE(dt_control_is_leader(second));
    Rounds(20, true);
    EXPECT_EQ(Stream(), (Lines{"1 fence 1", "2 fence 2"}));
    store.is_cut = true; /* so that it does not release the other's lease below */
    controls = {first, second};
}

TEST_F(Control, AJobThatStartsAgainWithoutAControllerGetsThePlanFromALaterOne)
{
    iteration_ns = 100000000;
    dt_control *first = Make("one");
    Rounds(50, false);
    Rounds(50, true);
    EXPECT_EQ(Stream(), Lines{"1 fence 1"});
    controls = {};
    pid = 2;
    iteration_ns = 0;
    Rounds(20, true);
    dt_control *second = Make("two");
    Rounds(5, true);
    EXPECT_EQ(Stream(), Lines{"1 fence 1"}) << "the process before may still be there";
    Rounds(5, true);
    EXPECT_EQ(Stream(), (Lines{"1 fence 1", "2 fence 2"})) << "before its first iteration";
    store.is_cut = true;
    controls = {first, second};
}

TEST_F(Control, AProcessBesideTheJobIsNoStart)
{
    iteration_ns = 100000000;
    Make("one");
    Rounds(50, false);
    for (int i = 0; i < 50; i++) {
        pid = 1 + i % 2;
        Rounds(1, true);
    }
    EXPECT_EQ(decided, Lines{"1 replan 1"});
}

TEST_F(Control, HostileRecordsAreSkippedWithFewLines)
{
    Make("one");
    Rounds(1, false);
    for (int i = 0; i < 1000; i++)
        store.inner->ops->append(store.inner, DT_STREAM_OBSERVATIONS, i % 2 ? "\x80" : "{\"version\":1}",
                                 nullptr);
    Rounds(50, false);
    Rounds(50, true);
    EXPECT_EQ(decided, Lines{"1 replan 1"});
    size_t refused = 0;
    for (const std::string &note : notes)
        refused += note.find("is refused") != std::string::npos;
    EXPECT_GT(refused, 0u);
    EXPECT_LT(refused, 20u);
}

/* Agents refuse a number that is far above those before, and so would refuse every later decision. */
TEST_F(Control, ExtremeNumbersOfRecordsAreNotTaken)
{
    dt_decision decision = {};

    decision.number = INT64_MAX / 2;
    decision.fence = 1;
    decision.kind = DT_DECISION_RELEASE;
    for (int i = 0; i < 2; i++) {
        char *text = dt_decision_write(&decision);
        store.inner->ops->append(store.inner, DT_STREAM_DECISIONS, text, nullptr);
        free(text);
        decision.number = 1;
        decision.fence = INT64_MAX / 2;
    }
    Make("one");
    agent_number = INT64_MAX / 2;
    Rounds(2, false); /* it begins with the observations that follow */
    EXPECT_TRUE(HasNote("number: far above those of the job"));
    EXPECT_TRUE(HasNote("number or fence: far above those of the job"));
    agent_number = 7;
    Rounds(50, false);
    Rounds(20, true);
    EXPECT_EQ(decided, Lines{"8 replan 1"});
}

TEST_F(Control, AFailureOnAHostIsReported)
{
    dt_acknowledgement acknowledgement = {};

    Make("one");
    Rounds(2, false);
    acknowledgement.number = acknowledgement.fence = 1;
    acknowledgement.status = DT_NOT_FOUND;
    strcpy(acknowledgement.host, "b");
    strcpy(acknowledgement.text, "no process");
    char *text = dt_acknowledgement_write(&acknowledgement);
    store.inner->ops->append(store.inner, DT_STREAM_ACKNOWLEDGEMENTS, text, nullptr);
    free(text);
    Rounds(2, false);
    EXPECT_TRUE(HasNote("decision 1 failed on host b: no process"));
    EXPECT_EQ(acknowledged, Lines{"1 b"});
}

/* In the round in which a decision is made, as the dry run shows, planning takes as long as the lease. */
TEST_F(Control, ADecisionThatIsPlannedLongerThanTheLeaseIsDroppedAndMadeAnew)
{
    dt_control *dry_run = Make("dry", true), *control = Make("one");

    Rounds(50, false);
    for (int round = 0; round < 50 && decided.empty(); round++, now_ns += 200 * DT_NS_PER_MS) {
        Report("a", 20000000);
        Report("b", 1000000);
        Round(dry_run);
        planning_ns = decided.empty() ? 0 : 3000 * DT_NS_PER_MS;
        Round(control);
    }
    planning_ns = 0;
    EXPECT_EQ(decided, Lines{"1 replan 1"}); /* of the dry run */
    EXPECT_TRUE(HasNote("decisions that the store has not got are dropped"));
    EXPECT_EQ(Stream(), Lines());
    Rounds(50, true);
    EXPECT_EQ(Stream(), Lines{"2 fence 2"}) << "made under a new lease, with a number of its own";
}

TEST_F(Control, WhatIsPlannedWhileAnotherTakesTheLeaseIsDecidedByTheOtherAlone)
{
    dt_control *first = Make("one"), *second = Make("two");

    Rounds(50, false);
    Request(DT_DECISION_HOLD);
    EXPECT_EQ(dt_control_step(first, now_ns, TimeNs()), DT_OK); /* plans; its lease ends meanwhile */
    now_ns += 3100 * DT_NS_PER_MS;
    EXPECT_EQ(Round(second), DT_OK);
    EXPECT_TRUE(dt_control_is_leader(second));
    EXPECT_EQ(Round(second), DT_OK);
    EXPECT_EQ(dt_control_append(first, now_ns), DT_OK);
    EXPECT_FALSE(dt_control_is_leader(first));
    EXPECT_EQ(Stream(), Lines{"1 fence 2"});
    Rounds(5, false);
    EXPECT_EQ(Stream(), Lines{"1 fence 2"});
}

TEST_F(Control, ALeaseIsRenewedBeforeWhatWasPlannedForMostOfItIsAppended)
{
    uint64_t fence = 0;

    Make("one");
    Rounds(2, false);
    Request(DT_DECISION_HOLD);
    planning_ns = 2500 * DT_NS_PER_MS;
    EXPECT_EQ(Round(controls[0]), DT_OK);
    EXPECT_EQ(Stream(), Lines{"1 fence 1"});
    now_ns += 2500 * DT_NS_PER_MS;
    EXPECT_EQ(
        store.inner->ops->lease_acquire(store.inner, DT_LEASE_CONTROLLER, "other", 1000, now_ns, &fence),
        DT_AGAIN);
}

TEST_F(Control, ARequestIsDecidedOnceAlsoAfterATakeover)
{
    dt_control *first = Make("one"), *second = Make("two");

    Rounds(2, false);
    Request(DT_DECISION_HOLD);
    Rounds(5, false);
    EXPECT_EQ(decided, Lines{"1 hold 0"});
    controls = {second}; /* the first one dies; another request comes while no controller has the lease */
    Request(DT_DECISION_RELEASE);
    Rounds(50, false);
    EXPECT_EQ(decided, (Lines{"1 hold 0", "2 release 0"}));
    EXPECT_EQ(Stream(), (Lines{"1 fence 1", "2 fence 2"}));
    store.is_cut = true; /* so that it does not release the other's lease below */
    controls = {first, second};
}

TEST_F(Control, ARequestWhoseAnswerIsLostKeepsItsNumber)
{
    Make("one");
    Rounds(2, false);
    Request(DT_DECISION_HOLD);
    store.loses_answers = true;
    Rounds(3, false);
    store.loses_answers = false;
    Rounds(3, false);
    EXPECT_EQ(decided, Lines{"1 hold 0"});
    for (const std::string &line : Stream())
        EXPECT_EQ(line, "1 fence 1");
}

TEST_F(Control, OldAndHostileRequestsAreRefused)
{
    Request(DT_DECISION_HOLD, 11 * (int64_t)DT_NS_PER_S);
    Request(DT_DECISION_HOLD, -11 * (int64_t)DT_NS_PER_S);
    Request(DT_DECISION_MIGRATE);
    Make("one");
    Rounds(5, false);
    EXPECT_EQ(decided, Lines());
    EXPECT_TRUE(HasNote("older or newer than 10 s"));
    EXPECT_TRUE(HasNote("kind: expected hold or release"));
}

TEST_F(Control, AnOrderIsADecisionOfTheLeader)
{
    dt_control *first = Make("one"), *second = Make("two");
    dt_decision hold = {};
    int64_t number = 0;

    hold.kind = DT_DECISION_HOLD;
    hold.hold_ns = 1000000000;
    hold.from_rank = hold.to_rank = -1;
    EXPECT_EQ(dt_control_order(first, &hold, &number), DT_AGAIN);
    Rounds(2, false);
    EXPECT_EQ(dt_control_order(second, &hold, &number), DT_AGAIN);
    EXPECT_EQ(dt_control_order(first, &hold, &number), DT_OK);
    EXPECT_EQ(number, 1);
    Rounds(2, false);
    EXPECT_EQ(decided, Lines{"1 hold 0"});
    EXPECT_EQ(Stream(), Lines{"1 fence 1"});
    int room = 0;
    while (dt_control_order(first, &hold, &number) == DT_OK)
        room++;
    EXPECT_GT(room, 1);
    Rounds(2, false);
    EXPECT_EQ(decided.size(), 1u + (size_t)room);
}
} // namespace
