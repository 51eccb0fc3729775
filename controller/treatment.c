/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/treatment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct dt_treatment {
    struct dt_treatment_funcs funcs;
    struct dt_remedy *remedy;
    int64_t number;      /* of the decision that is to be acknowledged; 0: none */
    uint32_t job_starts; /* at the last step */
    bool is_owed;        /* the end of the remedy, for a job that was started again */
    /* A validation, and the decision that waits for it. */
    struct dt_validate validate;
    struct dt_validate_report report; /* of its last step; 100 KB, too large for a stack */
    struct dt_decision awaited;
    struct detour_arena *arena; /* has the next; NULL: there is no validation */
    const struct detour_validation *links;
};

enum dt_status dt_treatment_create(const struct detour_cluster *cluster, uint64_t recheck_ns,
                                   const struct dt_treatment_funcs *funcs, struct dt_treatment **treatment,
                                   char reason[DT_RECORD_REASON_BYTES])
{
    struct dt_treatment *made = calloc(1, sizeof *made);
    enum dt_status status;

    if (!made) {
        snprintf(reason, DT_RECORD_REASON_BYTES, "out of memory");
        return DT_NO_MEMORY;
    }
    made->funcs = *funcs;
    status = dt_remedy_create(cluster, recheck_ns, &made->remedy, reason);
    if (status == DT_OK)
        *treatment = made;
    else
        free(made);
    return status;
}

enum detour_step dt_treatment_in_force(const struct dt_treatment *treatment)
{
    return dt_remedy_step(treatment->remedy);
}

static void end_validation(struct dt_treatment *treatment)
{
    dt_validate_stop(&treatment->validate, &treatment->funcs.validate, treatment->funcs.validate_arg);
    detour_arena_destroy(treatment->arena);
    treatment->arena = NULL;
}

void dt_treatment_destroy(struct dt_treatment *treatment)
{
    if (!treatment)
        return;
    end_validation(treatment);
    dt_remedy_destroy(treatment->remedy);
    free(treatment);
}

uint32_t dt_treatment_observe(struct dt_treatment *treatment, struct dt_observation *observation)
{
    return treatment ? dt_remedy_observe(treatment->remedy, observation) : DT_JUDGE_UNKNOWN;
}

void dt_treatment_adopt(struct dt_treatment *treatment, const struct dt_decision *decision, bool is_seen,
                        uint64_t now_ns)
{
    dt_remedy_adopt(treatment->remedy, decision, is_seen, now_ns);
}

void dt_treatment_adopt_job(struct dt_treatment *treatment, uint32_t job_starts)
{
    treatment->job_starts = job_starts;
}

bool dt_treatment_is_for_job(const struct dt_treatment *treatment, uint32_t job_starts)
{
    return treatment->job_starts == job_starts && !treatment->is_owed;
}

void dt_treatment_acknowledged(struct dt_treatment *treatment,
                               const struct dt_acknowledgement *acknowledgement, uint64_t now_ns)
{
    dt_validate_acknowledged(&treatment->validate, acknowledgement->number);
    /* One host is enough: hosts without ranks of the job execute nothing. */
    if (acknowledgement->status != DT_OK || acknowledgement->number != treatment->number)
        return;
    treatment->number = 0;
    dt_remedy_done(treatment->remedy, now_ns, true);
}

static const char *step_name(const struct dt_treatment *treatment)
{
    return detour_step_name((enum detour_step)treatment->awaited.step);
}

static void give(struct dt_treatment *treatment, const struct dt_decision *decision)
{
    treatment->number = treatment->funcs.give(treatment->funcs.arg, decision);
}

/* ---- Records. ---- */
static struct dt_finding_record record_of(int64_t time_ns, const struct dt_validate_slow *slow)
{
    return (struct dt_finding_record){.time_ns = time_ns,
                                      .since_ns = time_ns,
                                      .kind = "validation",
                                      .ended = !slow,
                                      .from_rank = -1,
                                      .to_rank = -1,
                                      .factor = slow ? slow->factor : 1};
}

static void record_failure(struct dt_treatment *treatment, const char *reason, int64_t time_ns)
{
    struct dt_finding_record record = record_of(time_ns, NULL);

    snprintf(record.reason, sizeof record.reason, "failed: %.180s; %s is not taken", reason,
             step_name(treatment));
    treatment->funcs.record(treatment->funcs.arg, &record);
}

static void record_suspect(struct dt_treatment *treatment, const struct dt_suspect *suspect,
                           const struct dt_validate_slow *slow, int64_t time_ns)
{
    struct dt_finding_record record = record_of(time_ns, slow);
    char peer[24] = "";

    record.from_rank = suspect->rank;
    record.to_rank = suspect->peer;
    if (suspect->peer >= 0)
        snprintf(peer, sizeof peer, " to rank %" PRId32, suspect->peer);
    if (slow)
        snprintf(record.reason, sizeof record.reason,
                 "confirmed: %s of rank %" PRId32 "%s, %.2f times the others' time",
                 dt_finding_kind_text(suspect->kind), suspect->rank, peer, slow->factor);
    else
        snprintf(record.reason, sizeof record.reason,
                 "refuted: %s of rank %" PRId32 "%s is not slow; %s is not taken",
                 dt_finding_kind_text(suspect->kind), suspect->rank, peer, step_name(treatment));
    treatment->funcs.record(treatment->funcs.arg, &record);
}

/* ---- Validations. ---- */

/* Of the messages of all hosts. */
static int64_t give_hold(struct dt_treatment *treatment, enum dt_decision_kind kind)
{
    struct dt_decision decision = {.kind = kind, .from_rank = -1, .to_rank = -1};

    if (kind == DT_DECISION_HOLD)
        decision.hold_ns = (int64_t)(DT_VALIDATE_ANSWERS_NS + DT_VALIDATE_LIMIT_NS);
    snprintf(decision.reason, sizeof decision.reason, "validation before %s", step_name(treatment));
    return treatment->funcs.give(treatment->funcs.arg, &decision);
}

/* True: the decision waits for a validation, or is not taken without one. */
static bool begin_validation(struct dt_treatment *treatment, const struct dt_decision *decision,
                             uint64_t now_ns, int64_t time_ns)
{
    struct detour_error error = {DETOUR_NO_MEMORY, "out of memory"};
    const struct dt_suspect *suspects;

    if (!treatment->funcs.validate.start || dt_remedy_suspects(treatment->remedy, &suspects) == 0)
        return false;
    treatment->awaited = *decision;
    treatment->arena = detour_arena_create();
    if (treatment->arena &&
        dt_remedy_links(treatment->remedy, treatment->arena, &treatment->links, &error) == DETOUR_OK) {
        dt_validate_begin(&treatment->validate, give_hold(treatment, DT_DECISION_HOLD), now_ns);
        return true;
    }
    record_failure(treatment, error.text, time_ns);
    dt_remedy_done(treatment->remedy, now_ns, false);
    end_validation(treatment);
    return true;
}

/* True: every finding is confirmed. */
static bool take_report(struct dt_treatment *treatment, uint64_t now_ns, int64_t time_ns)
{
    const struct dt_suspect *suspects;
    size_t count = dt_remedy_suspects(treatment->remedy, &suspects);
    bool is_confirmed = true;

    for (size_t i = 0; i < count; i++) {
        const struct dt_validate_slow *slow = dt_validate_find(&treatment->report, &suspects[i]);

        record_suspect(treatment, &suspects[i], slow, time_ns);
        dt_remedy_validated(treatment->remedy, suspects[i].number, slow, now_ns);
        is_confirmed &= slow != NULL;
    }
    return is_confirmed;
}

static void go_on(struct dt_treatment *treatment, const struct dt_situation *situation, size_t hosts,
                  uint64_t now_ns, int64_t time_ns)
{
    struct dt_decision none;
    enum dt_status status =
        dt_validate_step(&treatment->validate, &treatment->funcs.validate, treatment->funcs.validate_arg,
                         treatment->links, hosts, now_ns, &treatment->report);

    if (status == DT_AGAIN)
        return;
    if (status != DT_OK)
        record_failure(treatment, treatment->report.reason, time_ns);
    if (status == DT_OK && take_report(treatment, now_ns, time_ns)) {
        dt_remedy_begin(treatment->remedy, now_ns);
        give(treatment, &treatment->awaited);
    } else {
        dt_remedy_done(treatment->remedy, now_ns, false);
        /* Plans anew: the next iterations must not count for a plan with refuted findings. */
        dt_remedy_decide(treatment->remedy, situation, now_ns, &none);
    }
    give_hold(treatment, DT_DECISION_RELEASE);
    end_validation(treatment);
}

static void look_for_start(struct dt_treatment *treatment, uint32_t job_starts)
{
    treatment->is_owed |= treatment->job_starts && job_starts != treatment->job_starts;
    treatment->job_starts = job_starts;
}

/* Whether a host carries it out is not waited for: the new processes have the remedy from no other decision,
 * or from a file that this decision replaces. */
static void end_for_start(struct dt_treatment *treatment)
{
    struct dt_decision decision;

    treatment->is_owed = false;
    if (!dt_remedy_end(treatment->remedy, &decision))
        return;
    give(treatment, &decision);
    treatment->number = 0;
}

void dt_treatment_step(struct dt_treatment *treatment, const struct dt_situation *situation, size_t hosts,
                       bool is_dry_run, uint64_t now_ns, int64_t time_ns)
{
    struct dt_decision decision;

    look_for_start(treatment, situation->job_starts);
    if (treatment->validate.state != DT_VALIDATE_IDLE) {
        go_on(treatment, situation, hosts, now_ns, time_ns);
        return;
    }
    if (treatment->is_owed)
        end_for_start(treatment);
    if (!dt_remedy_decide(treatment->remedy, situation, now_ns, &decision) ||
        (!is_dry_run && begin_validation(treatment, &decision, now_ns, time_ns)))
        return;
    give(treatment, &decision);
    if (is_dry_run)
        dt_remedy_done(treatment->remedy, now_ns, false);
}
