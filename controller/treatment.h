/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A remedy (remedy.h) from its decision to its execution: if there is a command for it, the findings that it
 * is for are validated first (validate.h), then the decision is given out, and it is done when a host has
 * executed it.
 *
 * A remedy ends with its job: a job that is started again is given a decision for S1, after a validation that
 * was under way.
 *
 * Pure: no clock. Owner: one thread.
 */
#ifndef DETOUR_CONTROLLER_TREATMENT_H
#define DETOUR_CONTROLLER_TREATMENT_H

#include "controller/remedy.h"
#include "controller/validate.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_treatment;

/* Of the controller. */
struct dt_treatment_funcs {
    struct dt_validate_funcs validate; /* of its command; `start` is NULL: no validation */
    void *validate_arg;
    /* Gives out a decision, at most two in a round; returns its number. */
    int64_t (*give)(void *arg, const struct dt_decision *decision);
    /* The result of a validation: a record of the kind "validation", `ended` if nothing was confirmed. */
    void (*record)(void *arg, const struct dt_finding_record *record);
    void *arg;
};

/* As dt_remedy_create(). */
enum dt_status dt_treatment_create(const struct detour_cluster *cluster, uint64_t recheck_ns,
                                   const struct dt_treatment_funcs *funcs, struct dt_treatment **treatment,
                                   char reason[DT_RECORD_REASON_BYTES]);
/* A command that runs is ended. */
void dt_treatment_destroy(struct dt_treatment *treatment);

/* As dt_remedy_observe() and dt_remedy_adopt(). Without a treatment (NULL) no stage is known. */
uint32_t dt_treatment_observe(struct dt_treatment *treatment, struct dt_observation *observation);
void dt_treatment_adopt(struct dt_treatment *treatment, const struct dt_decision *decision, bool is_seen,
                        uint64_t now_ns);

/* As dt_decide_adopt_job() and dt_decide_is_for_job(). */
void dt_treatment_adopt_job(struct dt_treatment *treatment, uint32_t job_starts);
bool dt_treatment_is_for_job(const struct dt_treatment *treatment, uint32_t job_starts);

/* As dt_remedy_step(). */
enum detour_step dt_treatment_in_force(const struct dt_treatment *treatment);

/* A host has executed a decision, or failed. */
void dt_treatment_acknowledged(struct dt_treatment *treatment,
                               const struct dt_acknowledgement *acknowledgement, uint64_t now_ns);

/*
 * Once in a round. `hosts`: of the job, whose holds are waited for. A dry run carries out nothing, so its
 * step fails, and has to be paid for again.
 */
void dt_treatment_step(struct dt_treatment *treatment, const struct dt_situation *situation, size_t hosts,
                       bool is_dry_run, uint64_t now_ns, int64_t time_ns);

#ifdef __cplusplus
}
#endif

#endif
