/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/control_metrics.h"

#include <inttypes.h>

/* The name and the labels of a sample up to `kind` (NULL: only the job). */
static void write_sample(FILE *out, const char *name, const char *job, const char *kind)
{
    fprintf(out, "%s{", name);
    dt_metrics_label(out, "job", job);
    if (kind) {
        putc(',', out);
        dt_metrics_label(out, "kind", kind);
    }
}

static void write_count(FILE *out, const char *name, const char *job, const char *kind, uint64_t count)
{
    write_sample(out, name, job, kind);
    fprintf(out, "} %" PRIu64 "\n", count);
}

static void write_gauge(FILE *out, const char *name, const char *job, const char *help, uint64_t value)
{
    dt_metrics_head(out, name, "gauge", help);
    write_count(out, name, job, NULL, value);
}

/* ---- Findings. ---- */
static int64_t rank_of(uint32_t rank)
{
    return rank == DT_JUDGE_UNKNOWN ? -1 : (int64_t)rank;
}

static void write_finding(FILE *out, const char *name, const char *job, const struct dt_finding *finding)
{
    const struct {
        const char *name, *value;
    } texts[] = {{"host", finding->host},
                 {"nic", finding->nic},
                 {"peer_host", finding->peer_host},
                 {"peer_nic", finding->peer_nic}};

    write_sample(out, name, job, dt_finding_kind_text(finding->kind));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        putc(',', out);
        dt_metrics_label(out, texts[i].name, texts[i].value);
    }
    putc(',', out);
    dt_metrics_label_number(out, "rank", rank_of(finding->rank));
    putc(',', out);
    dt_metrics_label_number(out, "peer_rank", rank_of(finding->peer_rank));
    fprintf(out, "} %.9g\n", finding->factor);
}

static void write_findings(FILE *out, const struct dt_control_state *state, const char *job)
{
    static const char name[] = "detour_job_finding", open_name[] = "detour_job_open_findings",
                      total_name[] = "detour_job_findings_total";
    uint64_t open[DT_FINDING_COUNT] = {0};

    dt_metrics_head(out, name, "gauge", "an open finding: time of the slow part divided by its healthy time");
    for (uint32_t i = 0; i < state->finding_count; i++) {
        write_finding(out, name, job, &state->findings[i]);
        open[state->findings[i].kind]++;
    }
    dt_metrics_head(out, open_name, "gauge", "open findings by kind");
    for (int kind = 0; kind < DT_FINDING_COUNT; kind++)
        write_count(out, open_name, job, dt_finding_kind_text((enum dt_finding_kind)kind), open[kind]);
    dt_metrics_head(out, total_name, "counter", "findings of this controller since it started");
    for (int kind = 0; kind < DT_FINDING_COUNT; kind++)
        write_count(out, total_name, job, dt_finding_kind_text((enum dt_finding_kind)kind),
                    state->counts.found[kind]);
}

/* ---- Decisions. ---- */
static void write_decisions(FILE *out, const struct dt_control_state *state, const char *job)
{
    static const char name[] = "detour_job_decisions_total";

    dt_metrics_head(out, name, "counter", "decisions of this controller since it started");
    for (int kind = 0; kind < DT_DECISION_KIND_COUNT; kind++) {
        if (kind != DT_DECISION_REMEDY)
            write_count(out, name, job, dt_decision_kind_text((enum dt_decision_kind)kind),
                        state->counts.decided[kind]);
    }
    for (int step = 0; step < DETOUR_STEP_COUNT; step++)
        write_count(out, name, job, detour_step_name((enum detour_step)step), state->counts.remedied[step]);
}

static void write_in_force(FILE *out, const struct dt_control_state *state, const char *job)
{
    static const char name[] = "detour_job_in_force", last_name[] = "detour_job_last_decision_time_seconds";
    const struct {
        const char *kind;
        uint64_t count;
    } rows[] = {{"replan", state->measures.links},       {"hostpath", state->measures.connections},
                {"migrate", state->measures.migrations}, {"hold", state->is_held},
                {"S2", state->step == DETOUR_STEP_S2},   {"S3", state->step == DETOUR_STEP_S3},
                {"S4", state->step == DETOUR_STEP_S4}};

    if (!state->is_leader)
        return;
    dt_metrics_head(out, name, "gauge", "delays, connections, RNICs or steps in force by decisions");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        write_count(out, name, job, rows[i].kind, rows[i].count);
    if (!state->counts.decided_ns)
        return;
    dt_metrics_head(out, last_name, "gauge", "when the job's last decision was made");
    write_sample(out, last_name, job, NULL);
    fprintf(out, "} %.3f\n", (double)state->counts.decided_ns / 1e9);
}

/* ---- Losses. ---- */
static void write_losses(FILE *out, const struct dt_counts *counts, const char *job)
{
    static const char overruns_name[] = "detour_job_overruns_total",
                      dropped_name[] = "detour_job_dropped_reports_total";

    dt_metrics_head(out, overruns_name, "counter", "rounds that have read as much as the store keeps");
    write_count(out, overruns_name, job, NULL, counts->overruns);
    dt_metrics_head(out, dropped_name, "counter", "reports of links and ranks without room in the judge");
    write_count(out, dropped_name, job, NULL, counts->no_room);
}

/* ---- All. ---- */
void dt_control_metrics_write(FILE *out, const struct dt_control_state *state, const char *job)
{
    static const char iteration_name[] = "detour_job_iteration_seconds";

    write_gauge(out, "detour_job_has_lease", job, "1: this controller decides for the job", state->is_leader);
    write_gauge(out, "detour_job_hosts", job, "hosts whose agents report processes of the job", state->hosts);
    if (state->iteration_ns) {
        dt_metrics_head(out, iteration_name, "gauge", "time of an iteration: median of the ranks' last ones");
        write_sample(out, iteration_name, job, NULL);
        fprintf(out, "} %.9f\n", (double)state->iteration_ns / 1e9);
    }
    write_losses(out, &state->counts, job);
    write_findings(out, state, job);
    write_decisions(out, state, job);
    write_in_force(out, state, job);
}

void dt_control_metrics_update(struct dt_control_metrics *metrics, const struct dt_control *control)
{
    pthread_mutex_lock(&metrics->lock);
    dt_control_read(control, &metrics->state);
    pthread_mutex_unlock(&metrics->lock);
}

bool dt_control_metrics_answer(void *arg, FILE *out, char *reason, size_t reason_bytes)
{
    struct dt_control_metrics *metrics = arg;

    (void)reason;
    (void)reason_bytes;
    pthread_mutex_lock(&metrics->lock);
    dt_control_metrics_write(out, &metrics->state, metrics->job);
    pthread_mutex_unlock(&metrics->lock);
    return true;
}
