// SPDX-License-Identifier: Apache-2.0
/* Controllers, agents' records and a memory store in virtual time. */
#include "controller/control.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "controller/agent.h"
#include "controller/store_memory.h"
#include "tests/obs/folder.h"

namespace
{
using Lines = std::vector<std::string>;

/* A store that can be cut off: passes the calls on to a memory store. */
struct CutStore {
    struct dt_store store = {&ops, ""};
    struct dt_store *inner = dt_store_memory_create(0);
    bool is_cut = false;
    bool loses_answers = false; /* the record is appended and the caller does not get the answer */

    ~CutStore()
    {
        inner->ops->close(inner);
    }
    /* As the store of the next process at this time. */
    void Restart(uint64_t time_ms)
    {
        inner->ops->close(inner);
        inner = dt_store_memory_create(time_ms);
    }
    static CutStore *Of(struct dt_store *store)
    {
        return reinterpret_cast<CutStore *>(store);
    }
    static enum dt_status Append(struct dt_store *store, const char *stream, const char *record, char *id)
    {
        CutStore *self = Of(store);
        if (self->is_cut)
            return DT_CLOSED;
        enum dt_status status = self->inner->ops->append(self->inner, stream, record, id);
        return self->loses_answers ? DT_CLOSED : status;
    }
    static enum dt_status Read(struct dt_store *store, const char *stream, const char *after, size_t count,
                               dt_store_visit_func *visit, void *arg)
    {
        CutStore *self = Of(store);
        return self->is_cut ? DT_CLOSED
                            : self->inner->ops->read(self->inner, stream, after, count, visit, arg);
    }
    static enum dt_status Set(struct dt_store *store, const char *field, const char *value)
    {
        return Of(store)->inner->ops->set(Of(store)->inner, field, value);
    }
    static enum dt_status Get(struct dt_store *store, const char *field, char *value, size_t bytes)
    {
        return Of(store)->inner->ops->get(Of(store)->inner, field, value, bytes);
    }
    static enum dt_status Acquire(struct dt_store *store, const char *name, const char *holder,
                                  uint32_t ttl_ms, uint64_t now_ns, uint64_t *fence)
    {
        CutStore *self = Of(store);
        return self->is_cut
                   ? DT_CLOSED
                   : self->inner->ops->lease_acquire(self->inner, name, holder, ttl_ms, now_ns, fence);
    }
    static enum dt_status Renew(struct dt_store *store, const char *name, const char *holder, uint64_t fence,
                                uint32_t ttl_ms, uint64_t now_ns)
    {
        CutStore *self = Of(store);
        return self->is_cut ? DT_CLOSED
                            : self->inner->ops->lease_renew(self->inner, name, holder, fence, ttl_ms, now_ns);
    }
    static enum dt_status Release(struct dt_store *store, const char *name, const char *holder,
                                  uint64_t fence)
    {
        CutStore *self = Of(store);
        return self->is_cut ? DT_CLOSED : self->inner->ops->lease_release(self->inner, name, holder, fence);
    }
    static void Close(struct dt_store *) {}
    static const struct dt_store_ops ops;
};

const struct dt_store_ops CutStore::ops = {Append, Read, Set, Get, Acquire, Renew, Release, Close};

class Control : public ::testing::Test
{
  protected:
    ~Control() override
    {
        for (dt_control *control : controls)
            dt_control_destroy(control);
    }
    dt_control *Make(const char *holder, bool dry_run = false)
    {
        dt_control_options options = {};

        options.store = &store.store;
        options.holder = holder;
        options.lease_ms = 3000;
        options.dry_run = dry_run;
        options.decide = dt_decide_defaults();
        options.cluster = cluster;
        options.funcs = {Note, Finding, Decision, Acknowledged};
        options.funcs_arg = this;
        controls.push_back(dt_control_create(&options));
        return controls.back();
    }
    static void Note(void *arg, bool, const char *text)
    {
        static_cast<Control *>(arg)->notes.push_back(text);
    }
    static void Finding(void *arg, const dt_finding_record *finding)
    {
        auto *self = static_cast<Control *>(arg);
        self->findings.push_back(std::string(finding->ended ? "ended " : "new ") + finding->kind + " " +
                                 finding->from_host + ">" + finding->to_host);
    }
    static void Decision(void *arg, const dt_decision *decision)
    {
        static_cast<Control *>(arg)->decided.push_back(
            std::to_string(decision->number) + " " + dt_decision_kind_text((dt_decision_kind)decision->kind) +
            " " + std::to_string(decision->link_count));
    }
    static void Acknowledged(void *arg, const dt_acknowledgement *acknowledgement)
    {
        static_cast<Control *>(arg)->acknowledged.push_back(std::to_string(acknowledgement->number) + " " +
                                                            acknowledgement->host);
    }
    void Request(dt_decision_kind kind, int64_t age_ns = 0)
    {
        dt_request request = {};

        request.time_ns = TimeNs() - age_ns;
        request.kind = kind;
        request.hold_ns = kind == DT_DECISION_HOLD ? 30000000000 : 0;
        strcpy(request.reason, "a test");
        char *text = dt_request_write(&request);
        store.inner->ops->append(store.inner, DT_STREAM_REQUESTS, text, nullptr);
        free(text);
    }
    /* A report of the agent of host a or b about its link to the other. */
    void Report(const char *host, int64_t service_ns)
    {
        auto observation = std::make_unique<dt_observation>();
        dt_observed_link *link = &observation->links[0];
        int32_t rank = host[0] - 'a';

        *observation = {};
        strcpy(observation->host, host);
        observation->pid = pid;
        observation->rank = rank;
        observation->time_ns = TimeNs();
        observation->number = agent_number;
        observation->iteration_ns = iteration_ns;
        observation->iterations = iteration_ns > 0;
        observation->link_count = 1;
        link->connection = 100 + (uint64_t)rank;
        link->from_rank = rank;
        link->to_rank = 1 - rank;
        link->messages = 10;
        link->bytes = 40960;
        link->service_ns = 10 * service_ns;
        char *text = dt_observation_write(observation.get());
        store.inner->ops->append(store.inner, DT_STREAM_OBSERVATIONS, text, nullptr);
        free(text);
    }
    /* Rounds of 200 ms: reports, then each controller. The link from a to b is slow or not. */
    void Rounds(int count, bool is_slow)
    {
        for (int i = 0; i < count; i++, now_ns += 200 * DT_NS_PER_MS) {
            if (!store.is_cut && !is_silent) {
                Report("a", is_slow ? 20000000 : 1000000);
                Report("b", 1000000);
            }
            for (dt_control *control : controls)
                status = Round(control);
        }
    }
    enum dt_status Round(dt_control *control)
    {
        enum dt_status result = dt_control_step(control, now_ns, TimeNs());

        now_ns += planning_ns;
        return result == DT_OK ? dt_control_append(control, now_ns) : result;
    }
    int64_t TimeNs() const
    {
        return 1700000000000000000 + (int64_t)now_ns;
    }
    static bool Keep(void *arg, const char *, const char *record, size_t bytes)
    {
        dt_decision decision;
        char reason[DT_RECORD_REASON_BYTES] = "";
        EXPECT_EQ(dt_decision_read(record, bytes, &decision, reason), DT_OK) << reason;
        static_cast<Lines *>(arg)->push_back(std::to_string(decision.number) + " fence " +
                                             std::to_string(decision.fence));
        return true;
    }
    static std::string File(const std::string &path)
    {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    Lines Stream()
    {
        Lines lines;
        store.inner->ops->read(store.inner, DT_STREAM_DECISIONS, "", 1000, Keep, &lines);
        return lines;
    }
    bool HasNote(const char *part) const
    {
        for (const std::string &note : notes) {
            if (note.find(part) != std::string::npos)
                return true;
        }
        return false;
    }

    CutStore store;
    std::vector<dt_control *> controls;
    Lines notes, findings, decided, acknowledged;
    uint64_t now_ns = 1000 * DT_NS_PER_S;
    uint64_t planning_ns = 0; /* passes between the two parts of a round */
    int64_t agent_number = 0;
    int64_t iteration_ns = 0;
    int32_t pid = 1;        /* of each rank on its host */
    bool is_silent = false; /* there is no process */
    const detour_cluster *cluster = nullptr;
    enum dt_status status = DT_OK;
};

TEST_F(Control, NamesASlowLinkAndPlansForItOnce)
{
    Make("one");
    Rounds(50, false);
    EXPECT_EQ(findings, Lines());
    Rounds(50, true);
    EXPECT_EQ(findings, Lines{"new link a>b"});
    EXPECT_EQ(decided, Lines{"1 replan 1"});
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
    Rounds(50, true);
    EXPECT_TRUE(dt_control_is_leader(second));
    EXPECT_EQ(Stream(), Lines{"1 fence 1"}); /* the same finding is no second decision */
    Rounds(100, false);
    EXPECT_EQ(Stream(), (Lines{"1 fence 1", "2 fence 2"}));
    store.is_cut = true; /* so that it does not release the other's lease below */
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

    int64_t stage_ns = 100000000;
    detour_cluster job = {};
};

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
