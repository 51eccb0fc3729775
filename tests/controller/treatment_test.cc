// SPDX-License-Identifier: Apache-2.0
// A remedy from its decision to its execution, with and without a validation.
#include "controller/treatment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/controller/slow_job.h"

namespace
{
using Lines = std::vector<std::string>;

/* Rank 2 computes slowly, so that S2 is due; the validation takes one more round. */
class Treatment : public SlowJob
{
  protected:
    Treatment() : SlowJob(10000000 * kMs), measured(std::make_unique<dt_validate_report>()) {}
    ~Treatment() override
    {
        dt_treatment_destroy(treatment);
    }
    void Make(bool validates)
    {
        char reason[DT_RECORD_REASON_BYTES];
        dt_treatment_funcs funcs = {};

        if (validates)
            funcs.validate = {Start, Poll, Stop};
        funcs.validate_arg = funcs.arg = this;
        funcs.give = Give;
        funcs.record = Record;
        ASSERT_EQ(dt_treatment_create(&cluster, 600 * DT_NS_PER_S, &funcs, &treatment, reason), DT_OK)
            << reason;
        Iterate(90, 50);
        EXPECT_EQ(lines, Lines{});
    }
    static bool Start(void *arg, const detour_validation *links, char[DT_RECORD_REASON_BYTES])
    {
        auto *self = static_cast<Treatment *>(arg);
        self->lines.push_back("start " + std::to_string(links->pair_count));
        return true;
    }
    static dt_status Poll(void *arg, dt_validate_report *report)
    {
        auto *self = static_cast<Treatment *>(arg);
        *report = *self->measured;
        return self->result;
    }
    static void Stop(void *arg)
    {
        static_cast<Treatment *>(arg)->lines.push_back("stop");
    }
    static int64_t Give(void *arg, const dt_decision *decision)
    {
        auto *self = static_cast<Treatment *>(arg);
        std::string line = dt_decision_kind_text((dt_decision_kind)decision->kind);
        if (decision->kind == DT_DECISION_REMEDY)
            line += std::string(" ") + detour_step_name((detour_step)decision->step);
        self->lines.push_back(line);
        self->last_reason = decision->reason;
        self->last_nodes.assign(decision->nodes, decision->nodes + decision->node_count);
        auto complete = std::make_unique<dt_decision>(*decision);
        complete->number = ++self->number;
        complete->fence = 1;
        char *text = dt_decision_write(complete.get());
        EXPECT_NE(text, nullptr);
        free(text);
        return self->number;
    }
    static void Record(void *arg, const dt_finding_record *record)
    {
        static_cast<Treatment *>(arg)->lines.push_back(record->reason);
        char *text = dt_finding_write(record);
        EXPECT_NE(text, nullptr);
        free(text);
        EXPECT_EQ(record->ended, strncmp(record->reason, "confirmed", 9) != 0);
    }
    /* Iterations with a round each, until something is given out; every decision is acknowledged at once
     * if any is. */
    void Iterate(int64_t iteration_ms, int count, bool is_dry_run = false)
    {
        for (size_t before = lines.size(); count > 0 && lines.size() == before; count--) {
            auto observation = std::make_unique<dt_observation>();
            const dt_situation situation = Situation();
            dt_acknowledgement acknowledgement = {};

            *observation = {};
            observation->iteration_ns = iteration_ms * kMs;
            observation->iterations = 1;
            dt_treatment_observe(treatment, observation.get());
            now_ns += (uint64_t)(iteration_ms * kMs);
            dt_treatment_step(treatment, &situation, 1, is_dry_run, now_ns, (int64_t)now_ns);
            for (acknowledgement.number = 1; is_acknowledged && acknowledgement.number <= number;
                 acknowledgement.number++)
                dt_treatment_acknowledged(treatment, &acknowledgement, now_ns);
        }
    }
    void Find(dt_finding_kind kind, uint32_t rank, uint32_t peer)
    {
        SlowJob::Find(kind, rank, peer, 2, 40);
    }
    void Measure(detour_slow_kind kind, int32_t rank, int32_t peer)
    {
        measured->slow[measured->slow_count++] = {kind, rank, peer, 2.5};
    }

    dt_treatment *treatment = nullptr;
    std::unique_ptr<dt_validate_report> measured;
    dt_status result = DT_OK;
    Lines lines;
    std::string last_reason;         /* of the last decision, as the next */
    std::vector<int32_t> last_nodes; /* [position] */
    bool is_acknowledged = true;
    int64_t number = 0;
};

TEST_F(Treatment, WithoutACommandARemedyIsGivenOutAtOnce)
{
    Make(false);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN);
    Iterate(170, 1000);
    EXPECT_EQ(lines, Lines{"remedy S2"});
}

TEST_F(Treatment, AConfirmedRemedyIsTakenAndTheMessagesAreReleased)
{
    Make(true);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN);
    Measure(DETOUR_SLOW_COMPUTE, 2, -1);
    Iterate(170, 1000);
    Iterate(170, 1);
    Iterate(170, 1);
    EXPECT_EQ(lines, (Lines{"hold", "start 4", "confirmed: device of rank 2, 2.50 times the others' time",
                            "remedy S2", "release"}));
    findings.clear(); /* to take it back needs no validation */
    Iterate(125, 1000);
    EXPECT_EQ(lines.back(), "remedy S1");
    EXPECT_EQ(lines.size(), 6u);
}

TEST_F(Treatment, ARefutedFindingHasNoRemedyAndIsNotValidatedAgain)
{
    Make(true);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN);
    Iterate(170, 1000);
    Iterate(170, 1);
    Iterate(9000, 1); /* the held iteration is no loss */
    EXPECT_EQ(lines, (Lines{"hold", "start 4", "refuted: device of rank 2 is not slow; S2 is not taken",
                            "release"}));
    Iterate(170, 10);
    EXPECT_EQ(lines.size(), 4u);
    now_ns += 600 * DT_NS_PER_S;
    Iterate(170, 1000);
    EXPECT_EQ(lines.back(), "hold") << "a finding that lasts is validated again";
}

TEST_F(Treatment, TheConfirmedPartOfAnIncidentIsTreatedAlone)
{
    Make(true);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN);
    Find(DT_FINDING_DEVICE, 3, DT_JUDGE_UNKNOWN);
    Measure(DETOUR_SLOW_COMPUTE, 2, -1);
    Iterate(170, 1000);
    Iterate(170, 1);
    Iterate(170, 1);
    Iterate(170, 1000);
    EXPECT_EQ(lines,
              (Lines{"hold", "start 4", "confirmed: device of rank 2, 2.50 times the others' time",
                     "refuted: device of rank 3 is not slow; S2 is not taken", "release", "remedy S2"}));
}

TEST_F(Treatment, AFailedValidationCancelsTheRemedyWhichIsPaidForAgain)
{
    Make(true);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN);
    result = DT_SYSTEM;
    strcpy(measured->reason, "the command ended with exit code 3");
    Iterate(170, 1000);
    Iterate(170, 1);
    Iterate(170, 1);
    EXPECT_EQ(lines, (Lines{"hold", "start 4", "failed: the command ended with exit code 3; S2 is not taken",
                            "release"}));
    Iterate(170, 20);
    EXPECT_EQ(lines.size(), 4u);
    Iterate(170, 1000);
    EXPECT_EQ(lines.back(), "hold");
}

TEST_F(Treatment, ADryRunValidatesNothing)
{
    Make(true);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN);
    Iterate(170, 1000, true);
    EXPECT_EQ(lines, Lines{"remedy S2"});
    Iterate(170, 1000, true);
    EXPECT_EQ(lines.size(), 2u) << "it is carried out by nothing";
}

/* Rank 2 is slow for the job that is started again as well: the step has to be paid for by its iterations. */
TEST_F(Treatment, ARemedyEndsWithItsJobAndIsTakenForTheNextOneAnew)
{
    Make(false);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN);
    Iterate(170, 1000);
    ASSERT_EQ(lines, Lines{"remedy S2"});
    Iterate(125, 20);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(dt_treatment_in_force(treatment), DETOUR_STEP_S2);
    job_starts++;
    Iterate(170, 1);
    EXPECT_EQ(lines, (Lines{"remedy S2", "remedy S1"}));
    EXPECT_EQ(last_reason, "S1: the job was started again, without the remedy of the job before");
    EXPECT_EQ(dt_treatment_in_force(treatment), DETOUR_STEP_S1);
    Iterate(170, 20);
    EXPECT_EQ(lines.size(), 2u) << "a step that nothing has paid for";
    Iterate(170, 1000);
    EXPECT_EQ(lines, (Lines{"remedy S2", "remedy S1", "remedy S2"}));
    findings.clear();
    Iterate(125, 1000);
    EXPECT_EQ(lines.size(), 4u) << "nothing is slow";
    job_starts++;
    Iterate(90, 100);
    EXPECT_EQ(lines.size(), 4u) << "no remedy is in force";
}

TEST_F(Treatment, ADecisionThatNoHostHasTakenEndsWithItsJobToo)
{
    Make(false);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN);
    is_acknowledged = false;
    Iterate(170, 1000);
    ASSERT_EQ(lines, Lines{"remedy S2"});
    job_starts++;
    Iterate(170, 1);
    EXPECT_EQ(lines, (Lines{"remedy S2", "remedy S1"}));
    is_acknowledged = true; /* late: no step is in progress */
    Iterate(170, 1);
    EXPECT_EQ(dt_treatment_in_force(treatment), DETOUR_STEP_S1);
}

TEST_F(Treatment, AValidationIsCompletedBeforeTheEndForAJobThatIsStartedAgain)
{
    Make(true);
    Find(DT_FINDING_DEVICE, 2, DT_JUDGE_UNKNOWN);
    Measure(DETOUR_SLOW_COMPUTE, 2, -1);
    Iterate(170, 1000);
    Iterate(170, 1);
    job_starts++;
    Iterate(170, 1);
    Iterate(170, 1);
    EXPECT_EQ(lines, (Lines{"hold", "start 4", "confirmed: device of rank 2, 2.50 times the others' time",
                            "remedy S2", "release", "remedy S1"}));
}

/* As the controller before has left it, which has decided for the job with this number of starts. */
TEST_F(Treatment, AnotherControllerEndsTheRemedyOfAJobThatWasStartedAgainMeanwhile)
{
    Make(false);
    dt_decision taken = {};
    taken.kind = DT_DECISION_REMEDY;
    taken.step = DETOUR_STEP_S1; /* the ranks are where an S3 before has put them */
    taken.replica_count = 2;
    taken.node_count = 4;
    taken.counts[0] = taken.counts[1] = 8;
    const int32_t exchanged[] = {0, 2, 1, 3};
    std::copy(exchanged, exchanged + 4, taken.nodes);
    dt_treatment_adopt(treatment, &taken, false, now_ns);
    dt_treatment_adopt_job(treatment, 1);
    Iterate(90, 1);
    EXPECT_EQ(lines, Lines{});
    EXPECT_TRUE(dt_treatment_is_for_job(treatment, 1));
    job_starts = 2;
    EXPECT_FALSE(dt_treatment_is_for_job(treatment, 2));
    Iterate(90, 1);
    EXPECT_EQ(lines, Lines{"remedy S1"});
    EXPECT_EQ(last_nodes, (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_TRUE(dt_treatment_is_for_job(treatment, 2));
}

TEST_F(Treatment, ItsEndIsThatOfTheCommand)
{
    Make(true);
    Find(DT_FINDING_LINK, 0, 1);
    result = DT_AGAIN;
    Iterate(470, 1000);
    Iterate(470, 1);
    EXPECT_EQ(lines, (Lines{"hold", "start 4"}));
    dt_treatment_destroy(treatment);
    treatment = nullptr;
    EXPECT_EQ(lines.back(), "stop");
}
} // namespace
