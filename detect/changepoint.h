/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Since when a series has kept its level: Bayesian online change-point detection (Adams and MacKay, 2007,
 * arXiv:0710.3742) with Gaussian samples of unknown mean and variance (normal-inverse-gamma prior).
 *
 * The state is a probability for each length of the current run, that is, the number of samples since the
 * level changed. To bound the work per sample, only the DT_CHANGEPOINT_RUNS most probable lengths are kept;
 * in tests the most probable one equals that of the full computation.
 *
 * Pure and without allocation. One thread.
 */
#ifndef DETOUR_DETECT_CHANGEPOINT_H
#define DETOUR_DETECT_CHANGEPOINT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_CHANGEPOINT_RUNS 24  /* lengths that are kept */
#define DT_CHANGEPOINT_CAP  256 /* the weight of the evidence of longer runs is capped at this length */

/* The prior of a new level. */
struct dt_changepoint_prior {
    double mean;
    double deviation;        /* of the samples around their level; > 0 */
    double level_deviations; /* deviation of levels from `mean`, in units of `deviation`; > 0 */
    double change_every;     /* mean number of samples between changes; > 1 */
};

struct dt_changepoint_run {
    double weight;      /* its probability */
    double mean;        /* of its samples and the prior */
    double beta;        /* of the inverse gamma distribution */
    double gamma_ratio; /* Gamma(alpha + 1/2) / Gamma(alpha) */
    uint32_t count;
};

struct dt_changepoint {
    struct dt_changepoint_prior prior;
    uint32_t run_count;
    struct dt_changepoint_run runs[DT_CHANGEPOINT_RUNS + 1];
};

void dt_changepoint_init(struct dt_changepoint *changepoint, const struct dt_changepoint_prior *prior);

/* A finite sample. */
void dt_changepoint_add(struct dt_changepoint *changepoint, double sample);

/* Samples in the current run, by the most probable length; 0 before the first sample. */
uint32_t dt_changepoint_run_length(const struct dt_changepoint *changepoint);

#ifdef __cplusplus
}
#endif

#endif
