/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/control.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "controller/findings.h"
#include "controller/known.h"
#include "controller/lease.h"
#include "controller/treatment.h"

#define LINKS_MAX     16384 /* of the judge */
#define RANKS_MAX     4096
#define SLOW_MAX      256
#define DECIDED_MAX   16                               /* in one round */
#define DECISIONS_MAX (DECIDED_MAX + REQUESTS_MAX + 2) /* the last ones for a remedy and its hold */
#define RECORDS_MAX   8192                             /* of a stream in one round, so that a round ends */
#define REQUESTS_MAX  4                                /* in one round, so that there is room for decisions */

struct dt_control {
    struct dt_control_options options;
    struct dt_known *known;
    struct dt_judge *judge;
    struct dt_decider *decide;
    struct dt_treatment *treatment; /* NULL: no remedies */
    struct dt_observation *observation;
    /* The lease. */
    bool is_leader;  /* it has the lease, and the decisions of the controllers before */
    bool has_waited; /* and the operator knows */
    struct dt_lease lease;
    uint64_t checked_ns; /* the last time */
    uint64_t left_ns;    /* when findings that earlier controllers have left end; 0: they have */
    /* The streams. */
    bool has_begun;
    int64_t begun_ns; /* the first round whose observations are judged, since 1970 */
    char after_observation[DT_STORE_ID_BYTES];
    char after_acknowledgement[DT_STORE_ID_BYTES];
    char after_decision[DT_STORE_ID_BYTES]; /* that was adopted last */
    char after_request[DT_STORE_ID_BYTES];  /* that was decided last */
    int64_t time_ns;                        /* of this round, as the next */
    uint64_t now_ns;
    int64_t number;               /* of the last decision of the job */
    char job[DT_KNOWN_JOB_BYTES]; /* as in the store */
    /* For dt_control_read(). */
    struct dt_counts counts;
    const struct dt_finding *findings; /* of the last round; the judge's */
    uint32_t finding_count;
    /* Decisions of this or an earlier round that are not in the stream yet. */
    size_t pending_count;
    struct dt_decision pending[DECISIONS_MAX];
};

static int64_t give_decision(void *arg, const struct dt_decision *decision);
static void report_record(void *arg, const struct dt_finding_record *record);

/* True: there is none to create, or it is created anew. */
static bool create_treatment(struct dt_control *control)
{
    const struct dt_treatment_funcs funcs = {.validate = control->options.validate,
                                             .validate_arg = control->options.funcs_arg,
                                             .give = give_decision,
                                             .record = report_record,
                                             .arg = control};
    char reason[DT_RECORD_REASON_BYTES];

    dt_treatment_destroy(control->treatment);
    control->treatment = NULL;
    control->after_decision[0] = '\0';
    return !control->options.cluster ||
           dt_treatment_create(control->options.cluster, control->options.decide.drained_ns, &funcs,
                               &control->treatment, reason) == DT_OK;
}

struct dt_control *dt_control_create(const struct dt_control_options *options)
{
    struct dt_control *control = calloc(1, sizeof *control);

    if (!control)
        return NULL;
    control->options = *options;
    control->lease = (struct dt_lease){.store = options->store, .ms = options->lease_ms};
    snprintf(control->lease.name, sizeof control->lease.name, DT_LEASE_CONTROLLER);
    snprintf(control->lease.holder, sizeof control->lease.holder, "%s", options->holder);
    control->known = dt_known_create();
    control->judge = dt_judge_create(LINKS_MAX, RANKS_MAX);
    control->decide = dt_decide_create(&options->decide);
    control->observation = calloc(1, sizeof *control->observation);
    if (control->known && control->judge && control->decide && control->observation &&
        create_treatment(control))
        return control;
    dt_control_destroy(control);
    return NULL;
}

void dt_control_destroy(struct dt_control *control)
{
    if (!control)
        return;
    if (control->is_leader)
        dt_lease_release(&control->lease);
    dt_known_destroy(control->known);
    dt_judge_destroy(control->judge);
    dt_decide_destroy(control->decide);
    dt_treatment_destroy(control->treatment);
    free(control->observation);
    free(control);
}

bool dt_control_is_leader(const struct dt_control *control)
{
    return control->is_leader;
}

static void note(const struct dt_control *control, bool is_error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note(const struct dt_control *control, bool is_error, const char *format, ...)
{
    char text[512];
    va_list args;

    if (!control->options.funcs.note)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    control->options.funcs.note(control->options.funcs_arg, is_error, text);
}

/* ---- Streams. ---- */
static void copy_id(char to[DT_STORE_ID_BYTES], const char *id)
{
    snprintf(to, DT_STORE_ID_BYTES, "%s", id);
}

static void refuse(struct dt_control *control, const char *stream, const char *id, const char *reason)
{
    if (dt_counts_has_line(++control->counts.refused))
        note(control, true, "record %s of the stream %s is refused: %s (%" PRIu64 " so far)", id, stream,
             reason, control->counts.refused);
}

static bool take_observation(void *arg, const char *id, const char *record, size_t bytes)
{
    struct dt_control *control = arg;
    struct dt_observation *observation = control->observation;
    char reason[DT_RECORD_REASON_BYTES];

    copy_id(control->after_observation, id);
    control->counts.observations++;
    if (dt_observation_read(record, bytes, observation, reason) != DT_OK) {
        refuse(control, DT_STREAM_OBSERVATIONS, id, reason);
        return true;
    }
    if (observation->number > control->number + DT_RECORD_AHEAD_MAX) {
        refuse(control, DT_STREAM_OBSERVATIONS, id, "number: far above those of the job");
        return true;
    }
    if (observation->number > control->number)
        control->number = observation->number;
    dt_known_take(control->known, observation, dt_treatment_observe(control->treatment, observation),
                  control->time_ns, control->judge);
    return true;
}

static void pass_on(struct dt_control *control, const struct dt_acknowledgement *acknowledgement)
{
    if (acknowledgement->status != DT_OK && control->is_leader)
        note(control, true, "decision %" PRId64 " failed on host %s: %s", acknowledgement->number,
             acknowledgement->host, acknowledgement->text);
    if (control->treatment)
        dt_treatment_acknowledged(control->treatment, acknowledgement, control->now_ns);
    if (control->options.funcs.acknowledged)
        control->options.funcs.acknowledged(control->options.funcs_arg, acknowledgement);
}

static bool take_acknowledgement(void *arg, const char *id, const char *record, size_t bytes)
{
    struct dt_control *control = arg;
    struct dt_acknowledgement acknowledgement;
    char reason[DT_RECORD_REASON_BYTES];

    copy_id(control->after_acknowledgement, id);
    if (dt_acknowledgement_read(record, bytes, &acknowledgement, reason) != DT_OK)
        refuse(control, DT_STREAM_ACKNOWLEDGEMENTS, id, reason);
    else
        pass_on(control, &acknowledgement);
    return true;
}

static bool skip_to(void *arg, const char *id, const char *record, size_t bytes)
{
    (void)record;
    (void)bytes;
    copy_id(arg, id);
    return true;
}

static enum dt_status read_stream(struct dt_control *control, const char *stream, const char *after,
                                  size_t count, dt_store_visit_func *visit, void *arg)
{
    return control->options.store->ops->read(control->options.store, stream, after, count, visit, arg);
}

/* A controller that starts now judges by what is measured from now on. */
static enum dt_status begin(struct dt_control *control)
{
    enum dt_status status = control->has_begun ? DT_OK
                                               : read_stream(control, DT_STREAM_OBSERVATIONS, "", SIZE_MAX,
                                                             skip_to, control->after_observation);

    if (status == DT_OK && !control->has_begun)
        status = read_stream(control, DT_STREAM_ACKNOWLEDGEMENTS, "", SIZE_MAX, skip_to,
                             control->after_acknowledgement);
    if (!control->has_begun)
        control->begun_ns = control->time_ns;
    control->has_begun = status == DT_OK;
    return status;
}

/* The judge measured the job before the decision, and so before the slow part became slow, also if the clocks
 * of the two controllers differ. */
static bool is_seen(const struct dt_control *control, const struct dt_decision *decision)
{
    return control->has_begun && decision->time_ns - DT_CONTROL_SEEN_NS >= control->begun_ns;
}

static bool adopt(void *arg, const char *id, const char *record, size_t bytes)
{
    struct dt_control *control = arg;
    char reason[DT_RECORD_REASON_BYTES] = "number or fence: far above those of the job";
    struct dt_decision decision;

    copy_id(control->after_decision, id);
    if (dt_decision_read(record, bytes, &decision, reason) != DT_OK ||
        !dt_decision_is_near(&decision, control->number, control->time_ns)) {
        refuse(control, DT_STREAM_DECISIONS, id, reason);
        return true;
    }
    if (decision.number > control->number)
        control->number = decision.number;
    if (decision.request[0])
        copy_id(control->after_request, decision.request);
    dt_counts_adopt(&control->counts, &decision);
    if (!control->options.dry_run)
        dt_decide_adopt(control->decide, &decision, is_seen(control, &decision), control->now_ns);
    if (control->treatment)
        dt_treatment_adopt(control->treatment, &decision, is_seen(control, &decision), control->now_ns);
    return true;
}

/* The remedies of another controller first: what a rank computes depends on its microbatches. */
static enum dt_status read_all(struct dt_control *control)
{
    char after[DT_STORE_ID_BYTES];
    enum dt_status status = begin(control);

    copy_id(after, control->after_decision);
    if (status == DT_OK && control->treatment && !control->is_leader)
        status = read_stream(control, DT_STREAM_DECISIONS, after, SIZE_MAX, adopt, control);
    copy_id(after, control->after_observation);
    if (status == DT_OK)
        status = read_stream(control, DT_STREAM_OBSERVATIONS, after, RECORDS_MAX, take_observation, control);
    copy_id(after, control->after_acknowledgement);
    if (status == DT_OK)
        status = read_stream(control, DT_STREAM_ACKNOWLEDGEMENTS, after, RECORDS_MAX, take_acknowledgement,
                             control);
    return status;
}

/* ---- The lease. ---- */

/* The job may have started again without a controller. */
static enum dt_status adopt_job(struct dt_control *control)
{
    struct dt_store *store = control->options.store;
    enum dt_status status = store->ops->get(store, DT_FIELD_JOB, control->job, sizeof control->job);

    if (status == DT_OK) {
        const uint32_t job_starts = dt_known_resume_job(control->known, control->job, control->time_ns);

        dt_decide_adopt_job(control->decide, job_starts);
        if (control->treatment)
            dt_treatment_adopt_job(control->treatment, job_starts);
    } else {
        control->job[0] = '\0';
    }
    return status == DT_NOT_FOUND || status == DT_INVALID ? DT_OK : status;
}

static bool is_for_job(const struct dt_control *control)
{
    const uint32_t job_starts = dt_known_job_starts(control->known);

    return dt_decide_is_for_job(control->decide, job_starts) &&
           (!control->treatment || dt_treatment_is_for_job(control->treatment, job_starts));
}

/* After the decisions for the job are in the store: if a controller dies in between, the next one decides
 * again; no decision is left out. */
static enum dt_status remember_job(struct dt_control *control, uint64_t now_ns)
{
    struct dt_store *store = control->options.store;
    char job[DT_KNOWN_JOB_BYTES];
    enum dt_status status;

    dt_known_job(control->known, job);
    if (!control->is_leader || !dt_lease_is_held(&control->lease, now_ns) || !job[0] ||
        !strcmp(job, control->job) || !is_for_job(control))
        return DT_OK;
    status = store->ops->set(store, DT_FIELD_JOB, job);
    if (status == DT_OK)
        memcpy(control->job, job, sizeof control->job);
    return status;
}

/* Goes on from the decisions of the controllers before. */
static enum dt_status take_over(struct dt_control *control)
{
    struct dt_decider *fresh = dt_decide_create(&control->options.decide);
    enum dt_status status;

    if (!fresh || !create_treatment(control)) {
        dt_decide_destroy(fresh);
        return DT_NO_MEMORY;
    }
    dt_decide_destroy(control->decide);
    control->decide = fresh;
    control->after_request[0] = '\0';
    status = read_stream(control, DT_STREAM_DECISIONS, "", SIZE_MAX, adopt, control);
    return status == DT_OK ? adopt_job(control) : status;
}

static void lose(struct dt_control *control, const char *why)
{
    control->is_leader = false;
    control->has_waited = true;
    note(control, true, "no longer the controller of the job: %s%s", why,
         control->pending_count ? "; decisions that the store has not got are dropped" : "");
    control->pending_count = 0;
    create_treatment(control); /* ends a validation; its hold ends by itself */
}

static enum dt_status acquire(struct dt_control *control, uint64_t now_ns)
{
    enum dt_status status = dt_lease_acquire(&control->lease, now_ns);

    if (status == DT_AGAIN) {
        if (!control->has_waited)
            note(control, false, "another controller has the lease; waiting for it");
        control->has_waited = true;
        return DT_OK;
    }
    if (status == DT_OK)
        status = take_over(control);
    if (status != DT_OK)
        return status;
    control->is_leader = true;
    control->has_waited = false;
    control->left_ns = dt_deadline_ns(now_ns, DT_CONTROL_SEEN_NS);
    note(control, false, "this is the controller of the job now (fencing number %" PRIu64 ")",
         control->lease.fence);
    return DT_OK;
}

static enum dt_status keep_lease(struct dt_control *control, uint64_t now_ns)
{
    enum dt_status status;

    if (control->options.dry_run)
        return DT_OK;
    if (control->is_leader && !dt_lease_is_held(&control->lease, now_ns))
        lose(control, control->checked_ns < control->lease.renew_ns ? "no round in the time of its lease"
                                                                    : "the store did not answer in time");
    control->checked_ns = now_ns;
    if (!control->is_leader)
        return acquire(control, now_ns);
    status = dt_lease_renew(&control->lease, now_ns);
    if (status == DT_AGAIN)
        lose(control, "its lease has ended");
    return status == DT_AGAIN ? DT_OK : status;
}

/* ---- Findings. ---- */
static void append_finding(struct dt_control *control, const struct dt_finding_record *record)
{
    struct dt_store *store = control->options.store;
    char *text = dt_finding_write(record);

    if (text && store->ops->append(store, DT_STREAM_FINDINGS, text, NULL) != DT_OK)
        note(control, true, "a finding is not recorded: %s", store->reason);
    free(text);
}

static void report_record(void *arg, const struct dt_finding_record *record)
{
    struct dt_control *control = arg;

    if (control->options.funcs.finding)
        control->options.funcs.finding(control->options.funcs_arg, record);
    if (control->is_leader)
        append_finding(control, record);
}

static void report_findings(struct dt_control *control, const struct dt_finding *findings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct dt_finding_record record;

        if (findings[i].state == DT_FINDING_GOES_ON)
            continue;
        record = dt_findings_record(&findings[i], control->time_ns);
        report_record(control, &record);
    }
}

/* What earlier controllers have left open, once this one's judge has had the time to find it. */
static void end_left(struct dt_control *control)
{
    if (!control->is_leader || !control->left_ns || control->now_ns < control->left_ns)
        return;
    if (dt_findings_end_left(control->options.store, control->findings, control->finding_count,
                             control->time_ns, report_record, control) == DT_OK)
        control->left_ns = 0;
}

/* ---- Decisions. ---- */
static enum dt_status append_pending(struct dt_control *control)
{
    struct dt_store *store = control->options.store;
    enum dt_status status = DT_OK;
    size_t done = 0;

    while (status == DT_OK && done < control->pending_count) {
        const struct dt_decision *decision = &control->pending[done];
        char *text = control->options.dry_run ? NULL : dt_decision_write(decision);

        if (!control->options.dry_run)
            status = text ? store->ops->append(store, DT_STREAM_DECISIONS, text, NULL) : DT_NO_MEMORY;
        free(text);
        if (status != DT_OK)
            break;
        dt_counts_decision(&control->counts, decision);
        if (control->options.funcs.decision)
            control->options.funcs.decision(control->options.funcs_arg, decision);
        done++;
    }
    control->pending_count -= done;
    memmove(control->pending, control->pending + done, control->pending_count * sizeof *control->pending);
    return status;
}

/* One more decision for the stream. */
static void add_pending(struct dt_control *control, const struct dt_decision *wanted)
{
    struct dt_decision *decision = &control->pending[control->pending_count++];

    *decision = *wanted;
    decision->number = ++control->number;
    decision->fence = control->options.dry_run ? 1 : (int64_t)control->lease.fence;
    decision->time_ns = control->time_ns;
}

static int64_t give_decision(void *arg, const struct dt_decision *decision)
{
    struct dt_control *control = arg;

    add_pending(control, decision);
    return control->number;
}

enum dt_status dt_control_order(struct dt_control *control, const struct dt_decision *wanted, int64_t *number)
{
    if (!control->is_leader || control->pending_count == DECISIONS_MAX)
        return DT_AGAIN;
    add_pending(control, wanted);
    *number = control->number;
    return DT_OK;
}

static bool take_request(void *arg, const char *id, const char *record, size_t bytes)
{
    struct dt_control *control = arg;
    struct dt_decision decision = {.from_rank = -1, .to_rank = -1};
    char reason[DT_RECORD_REASON_BYTES] = "older or newer than 10 s by this host's clock";
    struct dt_request request;

    copy_id(control->after_request, id);
    if (dt_request_read(record, bytes, &request, reason) != DT_OK ||
        request.time_ns < control->time_ns - DT_CONTROL_REQUEST_NS ||
        request.time_ns - DT_CONTROL_REQUEST_NS > control->time_ns) {
        refuse(control, DT_STREAM_REQUESTS, id, reason);
        return true;
    }
    decision.kind = request.kind;
    decision.hold_ns = request.hold_ns;
    memcpy(decision.host, request.host, sizeof decision.host);
    memcpy(decision.reason, request.reason, sizeof decision.reason);
    copy_id(decision.request, id);
    add_pending(control, &decision);
    return true;
}

/* Those that came after the last one that was decided, by this or an earlier controller. */
static enum dt_status take_requests(struct dt_control *control)
{
    char after[DT_STORE_ID_BYTES];

    copy_id(after, control->after_request);
    return read_stream(control, DT_STREAM_REQUESTS, after, REQUESTS_MAX, take_request, control);
}

static void decide(struct dt_control *control, const struct dt_finding *findings, uint32_t count,
                   uint64_t now_ns)
{
    struct dt_slow_link slow[SLOW_MAX];
    struct dt_decision decided[DECIDED_MAX];
    size_t decided_count;
    const struct dt_situation situation = {
        .findings = findings,
        .finding_count = count,
        .slow = slow,
        .slow_count = dt_min_u64(dt_judge_slow_links(control->judge, slow, SLOW_MAX), SLOW_MAX),
        .links = dt_known_links(control->known),
        .link_count = DT_KNOWN_LINKS_MAX,
        .job_starts = dt_known_job_starts(control->known),
    };

    decided_count = dt_decide(control->decide, &situation, now_ns, decided, DECIDED_MAX);
    for (size_t i = 0; i < decided_count; i++)
        add_pending(control, &decided[i]);
    if (control->treatment)
        dt_treatment_step(control->treatment, &situation, dt_known_host_count(control->known),
                          control->options.dry_run, now_ns, control->time_ns);
}

enum dt_status dt_control_step(struct dt_control *control, uint64_t now_ns, int64_t time_ns)
{
    const struct dt_finding *findings;
    enum dt_status status;
    uint32_t count = 0;

    control->time_ns = time_ns;
    control->now_ns = now_ns;
    status = keep_lease(control, now_ns);
    if (status == DT_OK)
        status = read_all(control);
    if (status != DT_OK)
        return status;
    if (dt_counts_loss(&control->counts, dt_judge_get_counts(control->judge).no_room))
        note(control, true, "%s", control->counts.loss);
    findings = dt_judge_decide(control->judge, (uint64_t)time_ns, &count);
    control->findings = findings;
    control->finding_count = count;
    dt_counts_findings(&control->counts, findings, count);
    report_findings(control, findings, count);
    end_left(control);
    if (!control->is_leader && !control->options.dry_run)
        return DT_OK;
    if (!control->pending_count) {
        status = control->options.dry_run ? DT_OK : take_requests(control);
        decide(control, findings, count, now_ns);
    }
    return status;
}

enum dt_status dt_control_append(struct dt_control *control, uint64_t now_ns)
{
    enum dt_status status = control->pending_count ? keep_lease(control, now_ns) : DT_OK;

    if (status == DT_OK)
        status = append_pending(control);
    return status == DT_OK ? remember_job(control, now_ns) : status;
}

void dt_control_read(const struct dt_control *control, struct dt_control_state *state)
{
    *state =
        (struct dt_control_state){.is_leader = control->is_leader,
                                  .hosts = dt_known_present_hosts(control->known, control->time_ns),
                                  .iteration_ns = dt_known_iteration_ns(control->known, control->time_ns),
                                  .counts = control->counts};
    for (uint32_t i = 0; i < control->finding_count && state->finding_count < DT_JUDGE_FINDINGS; i++) {
        if (control->findings[i].state != DT_FINDING_ENDED)
            state->findings[state->finding_count++] = control->findings[i];
    }
    if (!control->is_leader)
        return;
    state->is_held = dt_counts_is_held(&control->counts, control->time_ns);
    state->measures = dt_decide_in_force(control->decide);
    if (control->treatment)
        state->step = dt_treatment_in_force(control->treatment);
}
