// SPDX-License-Identifier: Apache-2.0
// The run lengths against the textbook recursion with every length kept and the gamma function of the C
// library.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "detect/changepoint.h"

namespace
{
const dt_changepoint_prior kPrior = {0.5, 0.05, 10, 100};

// Adams and MacKay's algorithm 1, with nothing left out.
class Textbook
{
  public:
    void Add(double sample)
    {
        std::vector<Run> next = {{1, kPrior.mean, 1 / (kPrior.level_deviations * kPrior.level_deviations), 2,
                                  2 * kPrior.deviation * kPrior.deviation, 0}};
        double hazard = 1 / kPrior.change_every, sum = 0;

        next[0].weight = (runs_.empty() ? 1 : hazard) * Density(next[0], sample);
        for (Run run : runs_) {
            run.weight *= (1 - hazard) * Density(run, sample);
            next.push_back(run);
        }
        for (Run &run : next) {
            run.beta += run.kappa * std::pow(sample - run.mean, 2) / (2 * (run.kappa + 1));
            run.mean = (run.kappa * run.mean + sample) / (run.kappa + 1);
            run.kappa++;
            run.alpha += 0.5;
            run.count++;
            sum += run.weight;
        }
        for (Run &run : next)
            run.weight /= sum;
        runs_ = next;
    }
    uint32_t Length() const
    {
        const Run *best = &runs_[0];
        for (const Run &run : runs_)
            if (run.weight > best->weight)
                best = &run;
        return best->count;
    }

  private:
    struct Run {
        double weight, mean, kappa, alpha, beta;
        uint32_t count;
    };
    static double Density(const Run &run, double sample)
    {
        double scale = run.beta * (run.kappa + 1) / (run.alpha * run.kappa), nu = 2 * run.alpha;
        return std::exp(std::lgamma((nu + 1) / 2) - std::lgamma(nu / 2)) / std::sqrt(M_PI * nu * scale) *
               std::pow(1 + std::pow(sample - run.mean, 2) / (nu * scale), -(nu + 1) / 2);
    }
    std::vector<Run> runs_;
};

TEST(Changepoint, AgreesWithTheTextbook)
{
    std::mt19937_64 random(7);
    std::normal_distribution<double> noise(0, 0.05);

    for (int round = 0; round < 20; round++) {
        dt_changepoint changepoint;
        Textbook textbook;
        double level = 0.5;

        dt_changepoint_init(&changepoint, &kPrior);
        for (int i = 0; i < 200; i++) { // below the cap, where both mean the same
            if (random() % 60 == 0)
                level += noise(random) * 6;
            double sample = level + noise(random);
            dt_changepoint_add(&changepoint, sample);
            textbook.Add(sample);
            ASSERT_EQ(dt_changepoint_run_length(&changepoint), textbook.Length()) << round << " " << i;
        }
    }
}

TEST(Changepoint, TheRunIsPossibleWithAnyData)
{
    std::mt19937_64 random(8);
    dt_changepoint changepoint;

    dt_changepoint_init(&changepoint, &kPrior);
    EXPECT_EQ(dt_changepoint_run_length(&changepoint), 0u);
    for (int i = 0; i < 20000; i++) {
        double sample = random() % 500 == 0 ? std::ldexp(static_cast<double>(random() % 1000), 300) : 0.5;
        dt_changepoint_add(&changepoint, sample);
        ASSERT_GE(dt_changepoint_run_length(&changepoint), 1u);
        ASSERT_LE(dt_changepoint_run_length(&changepoint), static_cast<uint32_t>(i) + 1);
    }
}

TEST(Changepoint, AStepIsDatedAndALongRunStillSeesOne)
{
    std::mt19937_64 random(9);
    std::normal_distribution<double> noise(0, 0.05);
    dt_changepoint changepoint;

    dt_changepoint_init(&changepoint, &kPrior);
    for (int i = 0; i < 5000; i++)
        dt_changepoint_add(&changepoint, 0.5 + noise(random));
    EXPECT_GE(dt_changepoint_run_length(&changepoint), 1000u);
    for (int i = 0; i < 20; i++)
        dt_changepoint_add(&changepoint, 0.8 + noise(random));
    EXPECT_EQ(dt_changepoint_run_length(&changepoint), 20u);
}
} // namespace
