/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/changepoint.h"

#include <math.h>
#include <string.h>

#include "base/util.h"

#define PI          3.14159265358979323846
#define NEGLIGIBLE  1e-7
#define PRIOR_ALPHA 2.0                 /* weight of the prior `deviation`: that of four samples */
#define PRIOR_RATIO 1.32934038817913702 /* Gamma(2.5) / Gamma(2) */

static double kappa0(const struct dt_changepoint_prior *prior)
{
    return 1 / (prior->level_deviations * prior->level_deviations);
}

void dt_changepoint_init(struct dt_changepoint *changepoint, const struct dt_changepoint_prior *prior)
{
    memset(changepoint, 0, sizeof *changepoint);
    changepoint->prior = *prior;
}

/* Counts above the cap have the weight of the cap. */
static double weighed(const struct dt_changepoint_run *run)
{
    return (double)dt_min_u64(run->count, DT_CHANGEPOINT_CAP);
}

static double power(double base, uint64_t exponent)
{
    double result = 1;

    for (; exponent; exponent /= 2) {
        if (exponent % 2)
            result *= base;
        base *= base;
    }
    return result;
}

/*
 * Density of the next sample after a run: Student's t with 2 alpha degrees of freedom (Murphy, "Conjugate
 * Bayesian analysis of the Gaussian distribution", 2007, eq. 110). Its exponent, alpha + 1/2, is a multiple
 * of 1/2, so a square root replaces a logarithm and an exponential. Results below 1e-154 become 0, which is
 * negligible beside any run that explains the sample.
 */
static double predict(const struct dt_changepoint_run *run, double kappa_prior, double sample)
{
    double kappa = kappa_prior + weighed(run);
    double scale = 2 * run->beta * (kappa + 1) / kappa;
    double distance = sample - run->mean;
    uint64_t halves = (uint64_t)(2 * PRIOR_ALPHA) + 1 + dt_min_u64(run->count, DT_CHANGEPOINT_CAP);

    return run->gamma_ratio / sqrt(PI * scale * power(1 + distance * distance / scale, halves));
}

static void extend(struct dt_changepoint_run *run, double kappa_prior, double sample)
{
    double kappa = kappa_prior + weighed(run), alpha = PRIOR_ALPHA + weighed(run) / 2;
    double distance = sample - run->mean;

    if (run->count < DT_CHANGEPOINT_CAP)
        run->gamma_ratio = alpha / run->gamma_ratio; /* Gamma(a + 1) is a Gamma(a) */
    else
        run->beta *= (alpha - 0.5) / alpha; /* the oldest sample loses its share */
    run->beta += kappa * distance * distance / (2 * (kappa + 1));
    run->mean += distance / (kappa + 1);
    run->count++;
}

static void forget(struct dt_changepoint *changepoint, uint32_t i)
{
    changepoint->run_count--;
    memmove(&changepoint->runs[i], &changepoint->runs[i + 1],
            (changepoint->run_count - i) * sizeof changepoint->runs[0]);
}

static void forget_least_probable(struct dt_changepoint *changepoint)
{
    uint32_t least = 0;

    for (uint32_t i = 1; i < changepoint->run_count; i++)
        if (changepoint->runs[i].weight < changepoint->runs[least].weight)
            least = i;
    forget(changepoint, least);
}

/* Normalizes the weights to a sum of 1 and drops negligible runs. */
static void scale_weights(struct dt_changepoint *changepoint)
{
    double sum = 0;

    for (uint32_t i = 0; i < changepoint->run_count; i++)
        sum += changepoint->runs[i].weight;
    if (!(sum > 0)) { /* no run explains the sample within the range of doubles: start a new run */
        changepoint->runs[0] = changepoint->runs[changepoint->run_count - 1];
        changepoint->runs[0].weight = 1;
        changepoint->run_count = 1;
        return;
    }
    for (uint32_t i = changepoint->run_count; i-- > 0;) {
        changepoint->runs[i].weight /= sum;
        if (changepoint->runs[i].weight < NEGLIGIBLE)
            forget(changepoint, i);
    }
}

void dt_changepoint_add(struct dt_changepoint *changepoint, double sample)
{
    const struct dt_changepoint_prior *prior = &changepoint->prior;
    double kappa_prior = kappa0(prior), hazard = 1 / prior->change_every;
    struct dt_changepoint_run fresh = {.mean = prior->mean,
                                       .beta = PRIOR_ALPHA * prior->deviation * prior->deviation,
                                       .gamma_ratio = PRIOR_RATIO};
    double fresh_density = predict(&fresh, kappa_prior, sample);

    /* The weights sum to 1, so a change has the total weight `hazard`. */
    fresh.weight = (changepoint->run_count > 0 ? hazard : 1) * fresh_density;
    for (uint32_t i = 0; i < changepoint->run_count; i++) {
        struct dt_changepoint_run *run = &changepoint->runs[i];

        run->weight *= (1 - hazard) * predict(run, kappa_prior, sample);
        extend(run, kappa_prior, sample);
    }
    extend(&fresh, kappa_prior, sample);
    changepoint->runs[changepoint->run_count++] = fresh;
    if (changepoint->run_count > DT_CHANGEPOINT_RUNS)
        forget_least_probable(changepoint);
    scale_weights(changepoint);
}

uint32_t dt_changepoint_run_length(const struct dt_changepoint *changepoint)
{
    uint32_t best = 0;

    if (changepoint->run_count == 0)
        return 0;
    for (uint32_t i = 1; i < changepoint->run_count; i++)
        if (changepoint->runs[i].weight > changepoint->runs[best].weight)
            best = i;
    return changepoint->runs[best].count;
}
