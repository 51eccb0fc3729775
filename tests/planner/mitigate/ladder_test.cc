// SPDX-License-Identifier: Apache-2.0
// The ladder in virtual time: its decisions one by one, and an adversary that ends each slowness when it
// hurts most.
#include "detour/mitigate.h"

#include <algorithm>
#include <climits>

#include "tests/sched/sched_test.h"

using sched_test::kMs;

namespace
{
constexpr int64_t kHealthy = 100 * kMs;
constexpr int64_t kImpossible = INT64_MAX;

/* A job in virtual time under a ladder. The caller sets the time of an iteration. */
struct Job {
    struct detour_ladder ladder = {};
    struct detour_ladder_step steps[DETOUR_STEP_COUNT] = {};
    int64_t now_ns = 0;

    explicit Job(struct detour_ladder_options options = {})
    {
        detour_ladder_init(&ladder, &options, now_ns);
    }

    void Change(int32_t incidents, std::vector<struct detour_ladder_step> given)
    {
        std::copy(given.begin(), given.end(), steps);
        detour_ladder_change(&ladder, incidents, kHealthy, steps);
    }

    /* The step that is due at the end of an iteration of that length, -1: none. */
    int Run(int64_t iteration_ns)
    {
        enum detour_step step = DETOUR_STEP_COUNT;
        now_ns += iteration_ns;
        return detour_ladder_boundary(&ladder, now_ns, &step) ? static_cast<int>(step) : -1;
    }

    /* Iterations of that length until a step is due. */
    int RunUntilDue(int64_t iteration_ns, int *step, int count_max = 100000)
    {
        for (int count = 1; count <= count_max; count++) {
            *step = Run(iteration_ns);
            if (*step >= 0)
                return count;
        }
        *step = -1;
        return count_max;
    }

    void Done(bool success = true)
    {
        now_ns += steps[ladder.taking].cost_ns;
        detour_ladder_done(&ladder, now_ns, success);
    }
};

/* S2 for 1 s to 150 ms, S3 for 10 s to 120 ms, S4 for 1000 s to 100 ms; 200 ms without any. */
std::vector<struct detour_ladder_step> Usual()
{
    return {{kMs, 200 * kMs, false},
            {1000 * kMs, 150 * kMs, false},
            {10000 * kMs, 120 * kMs, false},
            {1000000 * kMs, kHealthy, false}};
}

TEST(Ladder, TheStepInForceIsTakenAgainOnlyWithAnotherPlan)
{
    Job job;
    std::vector<struct detour_ladder_step> steps = Usual();
    int step;
    job.Change(1, steps);
    job.RunUntilDue(200 * kMs, &step);
    ASSERT_EQ(step, DETOUR_STEP_S2);
    job.Done();
    steps[DETOUR_STEP_S3].iteration_ns = steps[DETOUR_STEP_S4].iteration_ns = kImpossible;
    job.Change(2, steps); /* S2 as it is brings 150 ms: iterations of 200 ms have another cause */
    job.RunUntilDue(200 * kMs, &step, 1000);
    EXPECT_EQ(step, -1);
    steps[DETOUR_STEP_S2].is_other = true;
    job.Change(2, steps);
    EXPECT_EQ(job.RunUntilDue(200 * kMs, &step), 19); /* its cost has to be lost anew */
    EXPECT_EQ(step, DETOUR_STEP_S2);
    job.Done();
    EXPECT_EQ(job.ladder.taken[DETOUR_STEP_S2], 2);
    job.RunUntilDue(200 * kMs, &step, 1000); /* the other plan is in force */
    EXPECT_EQ(step, -1);
}

TEST(Ladder, StepsAreTakenWhenWaitingForThemHasCostAsMuch)
{
    Job job;
    int step;
    EXPECT_EQ(job.Run(kHealthy), -1);
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_QUIET);
    job.Change(1, Usual());
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_OPEN);
    /* The first iteration does not count; 19 lose 50 ms each for S2, and with one more it were 1 s. */
    EXPECT_EQ(job.RunUntilDue(200 * kMs, &step), 20);
    EXPECT_EQ(step, DETOUR_STEP_S2);
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_TAKING);
    job.Done();
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_OPEN);
    EXPECT_EQ(job.ladder.current, DETOUR_STEP_S2);
    /* S3 has 19 * 80 ms; with S2 it gains 30 ms an iteration. */
    EXPECT_EQ(job.RunUntilDue(150 * kMs, &step), (10000 - 19 * 80 + 29) / 30 - 1);
    EXPECT_EQ(step, DETOUR_STEP_S3);
    job.Done();
    EXPECT_EQ(job.RunUntilDue(120 * kMs, &step),
              static_cast<int>((1000000 - 19 * 100 - 282 * 50 + 19) / 20 - 1));
    EXPECT_EQ(step, DETOUR_STEP_S4);
    job.Done();
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_QUIET);
    EXPECT_EQ(job.ladder.current, DETOUR_STEP_S1);
    EXPECT_EQ(job.ladder.incidents, 0);
}

TEST(Ladder, StepThatSavesNothingOrIsNotPossibleIsNeverTaken)
{
    Job job;
    int step;
    job.Change(1, {{0, 200 * kMs, false},
                   {0, 200 * kMs, false},
                   {1, kImpossible, false},
                   {500 * kMs, kHealthy, false}});
    EXPECT_EQ(job.RunUntilDue(200 * kMs, &step), 5);
    EXPECT_EQ(step, DETOUR_STEP_S4);
}

/* S2 for 10 ms to that time. */
std::vector<struct detour_ladder_step> OnlyS2(int64_t iteration_ns)
{
    return {{0, kImpossible, false},
            {10 * kMs, iteration_ns, false},
            {0, kImpossible, false},
            {0, kImpossible, false}};
}

TEST(Ladder, IncidentWithinTheNoiseIsNone)
{
    Job job;
    int step;
    job.Change(1, OnlyS2(kHealthy));
    job.RunUntilDue(108 * kMs, &step, 1000);
    EXPECT_EQ(step, -1);
    EXPECT_EQ(job.Run(115 * kMs), -1); /* one iteration; the mean is that of a jitter */
    job.Change(2, OnlyS2(kHealthy));
    EXPECT_EQ(job.Run(111 * kMs), DETOUR_STEP_S2);
}

/* The rule of 10 % is about the incident and not about what a step saves of it. */
TEST(Ladder, StepThatRemovesAPartOfAnIncidentIsTaken)
{
    Job job;
    int step;
    job.Change(1, OnlyS2(116 * kMs)); /* 7.8 % of its iteration, 36 % of the slowdown */
    EXPECT_EQ(job.RunUntilDue(125 * kMs, &step, 10), 2);
    EXPECT_EQ(step, DETOUR_STEP_S2);
}

TEST(Ladder, SavingThatPlansDoNotResolveIsNone)
{
    Job job;
    int step;
    job.Change(1, OnlyS2(124 * kMs));
    job.RunUntilDue(125 * kMs, &step, 1000);
    EXPECT_EQ(step, -1);
}

/* Iterations of 116 to 124 ms, of which S2 makes 120. */
TEST(Ladder, JitterAroundAStepsTimeDoesNotAddUp)
{
    Job job;
    std::vector<struct detour_ladder_step> steps = OnlyS2(120 * kMs);
    steps[DETOUR_STEP_S2].cost_ns = 100 * kMs;
    job.Change(1, steps);
    for (int i = 0; i < 1000; i++)
        ASSERT_EQ(job.Run(i % 2 ? 116 * kMs : 124 * kMs), -1) << i;
    EXPECT_LT(job.ladder.lost_ns[DETOUR_STEP_S2], 5 * kMs);
}

TEST(Ladder, StepThatCostsNothingIsTakenAtTheFirstBoundary)
{
    Job job;
    job.Change(
        1, {{0, 200 * kMs, false}, {0, kHealthy, false}, {0, kImpossible, false}, {0, kImpossible, false}});
    EXPECT_EQ(job.Run(200 * kMs), DETOUR_STEP_S2);
}

TEST(Ladder, RecoveryIsConfirmedAndThenTheRemedyIsTakenBack)
{
    Job job;
    int step;
    job.Change(1, Usual());
    job.RunUntilDue(200 * kMs, &step);
    job.Done();
    job.Run(150 * kMs);
    const int64_t lost_ns = job.ladder.lost_ns[DETOUR_STEP_S3];
    EXPECT_GT(lost_ns, 0);
    /* Healthy, but with uneven counts: 115 ms. Two iterations are no recovery yet. */
    std::vector<struct detour_ladder_step> healthy = {
        {50 * kMs, kHealthy, false}, {0, 115 * kMs, false}, {0, kImpossible, false}, {0, kImpossible, false}};
    job.Change(0, healthy);
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_REMEDIED);
    EXPECT_EQ(job.Run(115 * kMs), -1);
    EXPECT_EQ(job.Run(115 * kMs), -1);
    EXPECT_EQ(job.ladder.lost_ns[DETOUR_STEP_S3], lost_ns);
    job.Change(1, Usual()); /* it flaps: the same incident, with its losses */
    EXPECT_EQ(job.ladder.lost_ns[DETOUR_STEP_S3], lost_ns);
    job.Change(0, healthy);
    EXPECT_EQ(job.Run(115 * kMs), -1);
    EXPECT_EQ(job.Run(115 * kMs), -1);
    EXPECT_EQ(job.Run(115 * kMs), -1);
    EXPECT_EQ(job.ladder.lost_ns[DETOUR_STEP_S3], 0);
    /* 15 ms an iteration against 50 ms. */
    EXPECT_EQ(job.Run(115 * kMs), -1);
    EXPECT_EQ(job.Run(115 * kMs), DETOUR_STEP_S1);
    job.Done();
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_QUIET);
    EXPECT_EQ(job.ladder.taken[DETOUR_STEP_S1], 1);
}

TEST(Ladder, RemedyThatCostsNothingIsKeptAfterRecovery)
{
    Job job;
    int step;
    job.Change(
        1, {{0, 200 * kMs, false}, {0, kImpossible, false}, {kMs, kHealthy, false}, {0, kImpossible, false}});
    EXPECT_EQ(job.Run(200 * kMs), DETOUR_STEP_S3);
    job.Done();
    job.Change(0, {{60000 * kMs, kHealthy, false},
                   {0, kImpossible, false},
                   {0, kHealthy, false},
                   {0, kImpossible, false}});
    job.RunUntilDue(kHealthy, &step, 1000);
    EXPECT_EQ(step, -1);
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_REMEDIED);
    EXPECT_EQ(job.ladder.current, DETOUR_STEP_S3);
}

TEST(Ladder, SecondIncidentWhileAStepIsInProgressIsTreatedAfterIt)
{
    Job job;
    int step;
    job.Change(1, Usual());
    job.RunUntilDue(200 * kMs, &step);
    ASSERT_EQ(step, DETOUR_STEP_S2);
    const int64_t before_ns = job.ladder.lost_ns[DETOUR_STEP_S3];
    job.Change(2, {{kMs, 300 * kMs, false},
                   {1000 * kMs, 250 * kMs, false},
                   {10000 * kMs, 120 * kMs, false},
                   {kImpossible, kHealthy, false}});
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_TAKING);
    EXPECT_EQ(job.Run(0), -1); /* the job stands still */
    job.Done();
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_OPEN);
    EXPECT_EQ(job.ladder.lost_ns[DETOUR_STEP_S3],
              before_ns); /* what the first incident has paid stays paid */
    /* S2 of both incidents is another S2: the present one takes 290 ms. */
    EXPECT_EQ(job.RunUntilDue(290 * kMs, &step), (10000 - before_ns / kMs + 169) / 170 - 1);
    EXPECT_EQ(step, DETOUR_STEP_S3);
    job.Change(0, {{60000 * kMs, kHealthy, false},
                   {0, kImpossible, false},
                   {0, kHealthy, false},
                   {0, kImpossible, false}});
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_TAKING); /* all recovered, but the step is on its way */
    job.Done();
    EXPECT_EQ(job.ladder.state, DETOUR_LADDER_REMEDIED);
}

TEST(Ladder, FailedStepIsPaidForAgainBeforeItIsTriedAgain)
{
    Job job({0, 0, 5 * kMs});
    int step;
    job.Change(1, {{0, 200 * kMs, false},
                   {1000 * kMs, kHealthy, false},
                   {0, kImpossible, false},
                   {0, kImpossible, false}});
    EXPECT_EQ(detour_ladder_deadline_ns(&job.ladder), INT64_MAX);
    EXPECT_EQ(job.RunUntilDue(200 * kMs, &step), 10);
    EXPECT_EQ(detour_ladder_deadline_ns(&job.ladder), job.now_ns + 5 * kMs);
    job.Done(false);
    EXPECT_EQ(job.ladder.current, DETOUR_STEP_S1);
    EXPECT_EQ(job.ladder.taken[DETOUR_STEP_S2], 0);
    EXPECT_EQ(job.RunUntilDue(200 * kMs, &step), 9);
    EXPECT_EQ(step, DETOUR_STEP_S2);
}

TEST(Ladder, StatesHaveNamesAndDoneNeedsAStep)
{
    EXPECT_STREQ(detour_ladder_state_name(DETOUR_LADDER_TAKING), "taking");
    EXPECT_EQ(detour_ladder_state_name(DETOUR_LADDER_STATE_COUNT), nullptr);
    Job job;
    EXPECT_FALSE(detour_ladder_done(&job.ladder, 5, true));
    EXPECT_EQ(job.ladder.began_ns, 0);
}

/* What waiting for a step has cost, with its cost if it was taken, and the best decision in hindsight. */
struct Ratio {
    int64_t paid_ns = 0;
    int64_t best_ns = 0;
};

/* One step, one slowness of `length` iterations of lengths from `slow`; it persists for one more iteration
 * after every boundary, or ends. */
template <typename Slow>
Ratio Play(int64_t cost_ns, int length, Slow slow)
{
    Job job;
    Ratio ratio;
    int64_t total_ns = 0;
    bool taken = false;
    job.Change(1, {{0, kImpossible, false},
                   {0, kImpossible, false},
                   {cost_ns, kHealthy, false},
                   {0, kImpossible, false}});
    job.Run(slow(0)); /* in which the slowness begins */
    if (job.ladder.state == DETOUR_LADDER_TAKING)
        taken = true;
    for (int k = 1; k <= length; k++) {
        total_ns += slow(k) - kHealthy;
        if (taken)
            continue;
        ratio.paid_ns += slow(k) - kHealthy;
        taken = job.Run(slow(k)) >= 0 && k < length;
    }
    ratio.paid_ns += taken ? cost_ns : 0;
    ratio.best_ns = std::min(total_ns, cost_ns);
    return ratio;
}

TEST(LadderAdversary, NoEndOfASteadySlownessCostsMoreThanTwiceTheBest)
{
    double worst = 0;
    for (int64_t loss_ns = 11 * kMs; loss_ns < 3000 * kMs; loss_ns += loss_ns / 2)
        for (int64_t cost_ns = kMs; cost_ns < 5000 * kMs; cost_ns += cost_ns / 2 + kMs)
            for (int length = 1; length <= 2 * cost_ns / loss_ns + 3; length++) {
                const Ratio ratio = Play(cost_ns, length, [&](int) { return kHealthy + loss_ns; });
                ASSERT_LE(ratio.paid_ns, 2 * ratio.best_ns) << loss_ns << " " << cost_ns << " " << length;
                worst =
                    std::max(worst, static_cast<double>(ratio.paid_ns) / static_cast<double>(ratio.best_ns));
            }
    printf("steady slowness: at worst %.4f times the best in hindsight\n", worst);
    EXPECT_GT(worst, 1.9); /* the adversary is one */
}

TEST(LadderAdversary, ChangingSlownessCostsAtMostTwiceTheBestAndOneIteration)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 17);
    for (int round = 0; round < 20000; round++) {
        const int64_t cost_ns = static_cast<int64_t>(dt_prng_between(&prng, 1, 5000)) * kMs;
        const int length = static_cast<int>(dt_prng_between(&prng, 1, 40));
        std::vector<int64_t> slow(static_cast<size_t>(length) + 1);
        for (int64_t &iteration_ns : slow)
            iteration_ns = kHealthy + static_cast<int64_t>(dt_prng_between(&prng, 11, 900)) * kMs;
        const Ratio ratio = Play(cost_ns, length, [&](int k) { return slow[static_cast<size_t>(k)]; });
        ASSERT_LE(ratio.paid_ns, 2 * ratio.best_ns + *std::max_element(slow.begin(), slow.end()) - kHealthy)
            << "round " << round;
    }
}

/* All steps at once: each is paid for at most twice, whatever the others do. */
TEST(LadderAdversary, EveryStepOfALadderKeepsItsOwnRatio)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 19);
    for (int round = 0; round < 3000; round++) {
        Job job;
        int64_t iteration_ns[DETOUR_STEP_COUNT], lost_ns[DETOUR_STEP_COUNT] = {}, cost_ns[DETOUR_STEP_COUNT];
        iteration_ns[0] = kHealthy * static_cast<int64_t>(dt_prng_between(&prng, 13, 60)) / 10;
        cost_ns[0] = 1;
        for (int s = 1; s < DETOUR_STEP_COUNT; s++) {
            iteration_ns[s] = std::max(
                kHealthy, iteration_ns[s - 1] * static_cast<int64_t>(dt_prng_between(&prng, 5, 10)) / 10);
            cost_ns[s] = cost_ns[s - 1] * static_cast<int64_t>(dt_prng_between(&prng, 2, 40)) + kMs;
        }
        std::vector<struct detour_ladder_step> steps;
        for (int s = 0; s < DETOUR_STEP_COUNT; s++)
            steps.push_back({cost_ns[s], iteration_ns[s], false});
        job.Change(1, steps);
        int current = 0, step = job.Run(iteration_ns[0]);
        for (int k = 0; k < 400 && current != DETOUR_STEP_S4; k++) {
            if (step >= 0) {
                ASSERT_GT(step, current); /* never a step that saves less */
                ASSERT_LE(lost_ns[step], cost_ns[step]) << "round " << round;
                current = step;
                job.Done();
            }
            for (int s = current + 1; s < DETOUR_STEP_COUNT; s++)
                if (iteration_ns[current] > iteration_ns[s] + iteration_ns[s] / 100)
                    lost_ns[s] += iteration_ns[current] - iteration_ns[s];
            step = job.Run(iteration_ns[current]);
        }
    }
}

/*
 * Two incidents that begin and end again at an adversary's will, known at the boundary. A step removes a part
 * of an incident that was open when it was planned. What waiting for each step costs is added up here anew,
 * without the iteration in which something changes, since a step was taken or all had recovered.
 */
struct Adversary {
    static constexpr int kIncidents = 2;
    struct dt_prng prng;
    Job job;
    int64_t loss_ns[kIncidents][DETOUR_STEP_COUNT]; /* of an iteration: with S1, and what a step leaves */
    int64_t cost_ns[DETOUR_STEP_COUNT] = {kMs, 0, 0, 0};
    bool is_open[kIncidents] = {}, is_planned[kIncidents] = {}; /* now; when the step in force was taken */
    bool is_verified = false;                                   /* more than noise since all had recovered */
    int current = DETOUR_STEP_S1, calm = 0;
    int64_t waited_ns[DETOUR_STEP_COUNT] = {};
    int64_t taken[DETOUR_STEP_COUNT] = {};
    double worst = 0;

    explicit Adversary(uint64_t seed)
    {
        dt_prng_init(&prng, seed);
        for (auto &loss : loss_ns) {
            loss[0] = static_cast<int64_t>(dt_prng_between(&prng, 15, 200)) * kMs;
            loss[1] = loss[0] * static_cast<int64_t>(dt_prng_between(&prng, 4, 10)) / 10;
            loss[2] = loss[1] * static_cast<int64_t>(dt_prng_between(&prng, 2, 10)) / 10;
            loss[3] = 0;
        }
        for (int s = 1; s < DETOUR_STEP_COUNT; s++)
            cost_ns[s] = cost_ns[s - 1] * static_cast<int64_t>(dt_prng_between(&prng, 2, 30)) +
                         static_cast<int64_t>(dt_prng_between(&prng, 1, 1000)) * kMs;
    }

    int OpenCount() const
    {
        return is_open[0] + is_open[1];
    }
    int64_t PresentNs() const
    {
        int64_t ns = kHealthy;
        for (int i = 0; i < kIncidents; i++)
            ns += is_open[i] ? loss_ns[i][is_planned[i] ? current : 0] : 0;
        return ns;
    }
    int64_t WithNs(int step) const
    {
        int64_t ns = kHealthy;
        for (int i = 0; i < kIncidents; i++)
            ns += is_open[i] ? loss_ns[i][step] : 0;
        return std::min(ns, PresentNs()); /* the other step in force may be better, and stays */
    }
    /* Of an iteration; what plans do not resolve is nothing. */
    int64_t SavedNs(int step) const
    {
        const int64_t saved_ns = PresentNs() - WithNs(step);
        return saved_ns * 1000 > WithNs(step) * DETOUR_SAVING_NOISE_PERMILLE ? saved_ns : 0;
    }
    void Forget()
    {
        is_verified = false;
        std::fill_n(waited_ns, DETOUR_STEP_COUNT, 0);
    }
    void Tell()
    {
        std::vector<struct detour_ladder_step> steps;
        for (int s = 0; s < DETOUR_STEP_COUNT; s++)
            steps.push_back(
                {cost_ns[s], s && OpenCount() ? WithNs(s) : kImpossible, s && WithNs(s) < PresentNs()});
        job.Change(OpenCount(), steps);
    }
    /* One iteration, with or without a change before it. */
    void Step(bool is_changed)
    {
        if (is_changed) {
            bool &flipped = is_open[dt_prng_below(&prng, kIncidents)];
            flipped = !flipped;
            Tell();
        }
        calm = OpenCount() ? 0 : calm + 1;
        if (calm == 3)
            Forget();
        is_verified |= OpenCount() && PresentNs() * 10 > kHealthy * 11;
        for (int s = 1; s < DETOUR_STEP_COUNT && OpenCount() && is_verified && !is_changed; s++)
            waited_ns[s] += SavedNs(s);
        const int due = job.Run(PresentNs());
        for (int s = 1; s < DETOUR_STEP_COUNT; s++)
            worst = std::max(worst, static_cast<double>(waited_ns[s]) / static_cast<double>(cost_ns[s]));
        if (due < 0)
            return;
        taken[due]++;
        job.Done();
        std::fill_n(waited_ns, due + 1, 0);
        current = due;
        if (due == DETOUR_STEP_S4) {
            current = DETOUR_STEP_S1;
            std::fill_n(is_open, kIncidents, false);
            Forget();
        }
        std::copy_n(is_open, kIncidents, is_planned);
        Tell();
    }
};

TEST(LadderAdversary, WithSeveralIncidentsNoWaitCostsMoreThanItsStep)
{
    int64_t taken[DETOUR_STEP_COUNT] = {};
    double worst = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        Adversary adversary(seed);
        for (int k = 0; k < 1000; k++)
            adversary.Step(k == 0 || dt_prng_below(&adversary.prng, 40) == 0);
        ASSERT_LE(adversary.worst, 1) << "seed " << seed;
        worst = std::max(worst, adversary.worst);
        for (int s = 1; s < DETOUR_STEP_COUNT; s++)
            taken[s] += adversary.taken[s];
    }
    EXPECT_GT(worst, 0.99); /* the adversary is one: with its cost, a step is paid for twice */
    for (int s = 1; s < DETOUR_STEP_COUNT; s++)
        EXPECT_GT(taken[s], 100) << s;
}
} // namespace
