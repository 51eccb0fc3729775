/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stat_job.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/exit.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/job_store.h"
#include "cli/rounds.h"
#include "controller/agent.h"
#include "controller/findings.h"
#include "controller/record.h"
#include "detour/stat.h"
#include "detour/mitigate.h"

#define COMMAND "detour stat"

/* A process has ended if its host has sent no report about it for this time, but reports about others. */
#define ENDED_NS (5 * (int64_t)DT_NS_PER_S)

/* A link as one observation has it. */
struct row {
    char host[DT_STORE_NAME_BYTES];
    char process[DT_STORE_NAME_BYTES];
    int32_t pid;
    int32_t rank;
    int64_t time_ns;
    struct dt_observed_link link;
};

struct rows {
    struct row *list;
    size_t count, room;
};

/* The last record of everything that findings or decisions are about. */
struct facts {
    struct dt_finding_record *findings;
    size_t finding_count;
    struct dt_decision *decisions;
    size_t decision_count;
};

/* What a visit of a stream fills in. */
struct reading {
    struct rows rows;
    struct facts facts;
    uint64_t refused;
    bool is_out_of_memory;
};

error_t dt_stat_job_add_host(struct dt_stat_job *job, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0;

    if (job->host_count == DT_STAT_JOB_HOSTS_MAX)
        return dt_arg_refuse(COMMAND, "--host %s: at most %d hosts", text, DT_STAT_JOB_HOSTS_MAX);
    if (!equals || !equals[1] || length >= sizeof job->hosts[0].name)
        return dt_arg_refuse(COMMAND, "--host %s: expected NAME=DIRECTORY", text);
    snprintf(job->hosts[job->host_count].name, sizeof job->hosts[0].name, "%.*s", (int)length, text);
    if (!dt_store_is_name(job->hosts[job->host_count].name))
        return dt_arg_refuse(COMMAND, "--host %s: the name has letters, digits, '-', '_' and '.'", text);
    job->hosts[job->host_count++].runtime_dir = equals + 1;
    return 0;
}

/* ---- Observations. ---- */

/* By host, process and connection; the newest first. A process that has ended is another one than its
 * successor. */
static int compare_rows(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    int order = strcmp(a->host, b->host);

    if (!order)
        order = (a->pid > b->pid) - (a->pid < b->pid);
    if (order)
        return order;
    if (a->link.connection != b->link.connection)
        return a->link.connection < b->link.connection ? -1 : 1;
    return (a->time_ns < b->time_ns) - (a->time_ns > b->time_ns);
}

/* Sorts, and keeps the newest row of each connection. */
static void compact(struct rows *rows)
{
    size_t kept = 0;

    if (rows->count > 1)
        qsort(rows->list, rows->count, sizeof *rows->list, compare_rows);
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->list[i], *last = kept ? &rows->list[kept - 1] : NULL;

        if (last && !strcmp(last->host, row->host) && last->pid == row->pid &&
            last->link.connection == row->link.connection)
            continue;
        if (kept != i)
            rows->list[kept] = *row;
        kept++;
    }
    rows->count = kept;
}

/* NULL when out of memory. */
static struct row *add_row(struct rows *rows)
{
    size_t before = rows->count;

    if (rows->count == rows->room)
        compact(rows);
    if (before == rows->room && rows->count >= rows->room / 2) {
        size_t room = rows->room ? 2 * rows->room : 256;
        struct row *list = realloc(rows->list, room * sizeof *list);

        if (!list)
            return NULL;
        rows->list = list;
        rows->room = room;
    }
    return &rows->list[rows->count++];
}

static bool take_observation(void *arg, const char *id, const char *record, size_t bytes)
{
    static struct dt_observation observation; /* large; the command has one thread */
    struct reading *reading = arg;
    char reason[DT_RECORD_REASON_BYTES];

    (void)id;
    if (dt_observation_read(record, bytes, &observation, reason) != DT_OK) {
        reading->refused++;
        return true;
    }
    for (size_t i = 0; i < observation.link_count; i++) {
        struct row *row = add_row(&reading->rows);

        if (!row) {
            reading->is_out_of_memory = true;
            return false;
        }
        *row = (struct row){.pid = observation.pid,
                            .rank = observation.rank,
                            .time_ns = observation.time_ns,
                            .link = observation.links[i]};
        memcpy(row->host, observation.host, sizeof row->host);
        memcpy(row->process, observation.process, sizeof row->process);
    }
    return true;
}

/* Removes what a host has not reported since its newest report, by the host's own clock. Rows are compact. */
static void remove_ended(struct rows *rows)
{
    size_t kept = 0, end;

    for (size_t begin = 0; begin < rows->count; begin = end) {
        int64_t newest_ns = 0;

        for (end = begin; end < rows->count && !strcmp(rows->list[end].host, rows->list[begin].host); end++)
            newest_ns = rows->list[end].time_ns > newest_ns ? rows->list[end].time_ns : newest_ns;
        for (size_t i = begin; i < end; i++) {
            if (rows->list[i].time_ns >= newest_ns - ENDED_NS)
                rows->list[kept++] = rows->list[i];
        }
    }
    rows->count = kept;
}

/* ---- Findings and decisions. ---- */

/* The place of a record in `list`, of which `is_same` finds an earlier one; the end: a new one. NULL: no
 * memory. */
static void *place_of(void **list, size_t *count, size_t bytes, const void *record,
                      bool (*is_same)(const void *a, const void *b))
{
    char *grown;

    for (size_t i = 0; i < *count; i++) {
        if (is_same((char *)*list + i * bytes, record))
            return (char *)*list + i * bytes;
    }
    grown = realloc(*list, (*count + 1) * bytes);
    if (!grown)
        return NULL;
    *list = grown;
    return grown + (*count)++ * bytes;
}

static bool is_same_finding(const void *left, const void *right)
{
    return dt_findings_is_same(left, right);
}

static bool take_finding(void *arg, const char *id, const char *record, size_t bytes)
{
    struct reading *reading = arg;
    struct dt_finding_record finding;
    char reason[DT_RECORD_REASON_BYTES];
    void *list = reading->facts.findings, *place;

    (void)id;
    if (dt_finding_read(record, bytes, &finding, reason) != DT_OK) {
        reading->refused++;
        return true;
    }
    place = place_of(&list, &reading->facts.finding_count, sizeof finding, &finding, is_same_finding);
    reading->facts.findings = list;
    if (!place) {
        reading->is_out_of_memory = true;
        return false;
    }
    memcpy(place, &finding, sizeof finding);
    return true;
}

/* The kind whose effect a decision begins or ends, and whether it begins it. */
static enum dt_decision_kind effect_of(const struct dt_decision *decision, bool *begins)
{
    static const struct {
        enum dt_decision_kind effect;
        bool begins;
    } effects[DT_DECISION_KIND_COUNT] = {
        [DT_DECISION_REPLAN] = {DT_DECISION_REPLAN, true},
        [DT_DECISION_HOSTPATH_ON] = {DT_DECISION_HOSTPATH_ON, true},
        [DT_DECISION_HOSTPATH_OFF] = {DT_DECISION_HOSTPATH_ON, false},
        [DT_DECISION_MIGRATE] = {DT_DECISION_MIGRATE, true},
        [DT_DECISION_BACK] = {DT_DECISION_MIGRATE, false},
        [DT_DECISION_HOLD] = {DT_DECISION_HOLD, true},
        [DT_DECISION_RELEASE] = {DT_DECISION_HOLD, false},
        [DT_DECISION_REMEDY] = {DT_DECISION_REMEDY, true},
    };

    *begins = effects[decision->kind].begins;
    return effects[decision->kind].effect;
}

static bool is_same_effect(const void *left, const void *right)
{
    const struct dt_decision *a = left, *b = right;
    bool begins;

    return effect_of(a, &begins) == effect_of(b, &begins) && !strcmp(a->host, b->host) &&
           a->connection == b->connection && !strcmp(a->nic, b->nic);
}

static bool take_decision(void *arg, const char *id, const char *record, size_t bytes)
{
    static struct dt_decision decision; /* large, as above */
    struct reading *reading = arg;
    char reason[DT_RECORD_REASON_BYTES];
    void *list = reading->facts.decisions, *place;

    (void)id;
    if (dt_decision_read(record, bytes, &decision, reason) != DT_OK) {
        reading->refused++;
        return true;
    }
    place = place_of(&list, &reading->facts.decision_count, sizeof decision, &decision, is_same_effect);
    reading->facts.decisions = list;
    if (!place) {
        reading->is_out_of_memory = true;
        return false;
    }
    memcpy(place, &decision, sizeof decision);
    return true;
}

static bool is_in_force(const struct dt_decision *decision, int64_t now_ns)
{
    bool begins;

    switch (effect_of(decision, &begins)) {
    case DT_DECISION_REPLAN:
        return decision->link_count > 0; /* none: the planned schedule again */
    case DT_DECISION_HOLD:
        return begins && now_ns - decision->time_ns < decision->hold_ns;
    case DT_DECISION_REMEDY:
        return decision->step != DETOUR_STEP_S1;
    default:
        return begins;
    }
}

/* ---- Output. ---- */

static const char *rank_text(int32_t rank, char text[16])
{
    snprintf(text, 16, rank < 0 ? "-" : "%" PRId32, rank);
    return text;
}

static void print_links(const struct rows *rows, int64_t now_ns)
{
    char from[16], to[16];

    printf("%-12s %8s %-12s %5s %5s %-20s %-17s %4s %6s  %s\n", "HOST", "PID", "PROCESS", "FROM", "TO",
           "PEER", "NICS", "PATH", "AGE", "VERDICT");
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->list[i];
        const struct dt_observed_link *link = &row->link;
        bool is_slow = link->verdict == DETOUR_STAT_SLOW;
        char nics[2 * DT_RECORD_NIC_BYTES];

        snprintf(nics, sizeof nics, "%s-%s", link->nic[0] ? link->nic : "none",
                 link->peer_nic[0] ? link->peer_nic : "none");
        printf("%-12s %8" PRId32 " %-12s %5s %5s %-20s %-17s %4" PRId32 " %5.1fs  %s", row->host, row->pid,
               row->process, rank_text(link->from_rank, from), rank_text(link->to_rank, to), link->peer, nics,
               link->path, (double)(now_ns - row->time_ns) / 1e9,
               detour_stat_verdict_text((enum detour_stat_verdict)link->verdict));
        if (is_slow)
            printf(" %.2fx (%+.2f ms): %s", link->factor, (double)link->delay_ns / 1e6,
                   detour_stat_cause_text((enum detour_stat_cause)link->cause));
        putchar('\n');
    }
}

static void print_facts(const struct facts *facts, int64_t now_ns)
{
    for (size_t i = 0; i < facts->finding_count; i++) {
        if (!facts->findings[i].ended)
            printf("slow: %s: %s\n", facts->findings[i].kind, facts->findings[i].reason);
    }
    for (size_t i = 0; i < facts->decision_count; i++) {
        const struct dt_decision *decision = &facts->decisions[i];

        if (is_in_force(decision, now_ns))
            printf("in force: decision %" PRId64 ", %s%s%s: %s\n", decision->number,
                   dt_decision_kind_text((enum dt_decision_kind)decision->kind),
                   decision->host[0] ? " on " : "", decision->host, decision->reason);
    }
}

/* Appends a record as its stream has it. Takes the text. */
static void append_record(json_t *list, char *text)
{
    json_array_append_new(list, text ? json_loads(text, 0, NULL) : NULL);
    free(text);
}

static bool print_json(const struct dt_stat_job *job, const struct reading *reading, int64_t now_ns)
{
    json_t *links = json_array(), *findings = json_array(), *decisions = json_array();

    for (size_t i = 0; i < reading->rows.count; i++) {
        const struct row *row = &reading->rows.list[i];
        const struct dt_observed_link *link = &row->link;
        char id[24];

        snprintf(id, sizeof id, "%016" PRIx64, link->connection);
        json_array_append_new(
            links,
            json_pack(
                "{s:s, s:i, s:s, s:i, s:s, s:i, s:i, s:s, s:s, s:s, s:i, s:s, s:s, s:f, s:f, s:f}", "host",
                row->host, "pid", (int)row->pid, "process", row->process, "rank", (int)row->rank,
                "connection", id, "from", (int)link->from_rank, "to", (int)link->to_rank, "nic", link->nic,
                "peer", link->peer, "peer_nic", link->peer_nic, "path", (int)link->path, "verdict",
                detour_stat_verdict_text((enum detour_stat_verdict)link->verdict), "cause",
                detour_stat_cause_text((enum detour_stat_cause)link->cause), "factor", link->factor,
                "delay_ms", (double)link->delay_ns / 1e6, "age_s", (double)(now_ns - row->time_ns) / 1e9));
    }
    for (size_t i = 0; i < reading->facts.finding_count; i++) {
        if (!reading->facts.findings[i].ended)
            append_record(findings, dt_finding_write(&reading->facts.findings[i]));
    }
    for (size_t i = 0; i < reading->facts.decision_count; i++) {
        if (is_in_force(&reading->facts.decisions[i], now_ns))
            append_record(decisions, dt_decision_write(&reading->facts.decisions[i]));
    }
    json_t *document = json_pack("{s:i, s:s, s:o, s:o, s:o}", "version", 1, "job", job->name, "links", links,
                                 "findings", findings, "decisions", decisions);
    bool is_printed = document && json_dumpf(document, stdout, JSON_INDENT(1)) == 0;

    json_decref(document);
    putchar('\n');
    return is_printed;
}

/* ---- Reading. ---- */

static void note(void *arg, bool is_error, const char *text)
{
    (void)arg;
    if (is_error)
        dt_arg_refuse(COMMAND, "%s", text);
}

/* What `detour agent` does on the hosts goes into the store, which is in this process. */
static enum dt_status report_hosts(const struct dt_stat_job *job, struct dt_store *store)
{
    enum dt_status status = DT_OK;

    for (size_t i = 0; status == DT_OK && i < job->host_count; i++) {
        const struct dt_agent_options options = {.host = job->hosts[i].name,
                                                 .runtime_dir = job->hosts[i].runtime_dir,
                                                 .store = store,
                                                 .note = note};
        struct dt_agent *agent = dt_agent_create(&options);

        status = agent ? dt_agent_report(agent) : DT_NO_MEMORY;
        dt_agent_destroy(agent);
    }
    return status;
}

static int read_and_print(const struct dt_stat_job *job, struct dt_store *store, bool is_json,
                          struct reading *reading)
{
    enum dt_status status = report_hosts(job, store);

    if (status == DT_OK)
        status = store->ops->read(store, DT_STREAM_OBSERVATIONS, "", SIZE_MAX, take_observation, reading);
    if (status == DT_OK)
        status = store->ops->read(store, DT_STREAM_FINDINGS, "", SIZE_MAX, take_finding, reading);
    if (status == DT_OK)
        status = store->ops->read(store, DT_STREAM_DECISIONS, "", SIZE_MAX, take_decision, reading);
    if (status != DT_OK || reading->is_out_of_memory) {
        dt_arg_refuse(COMMAND, "job %s: %s", job->name,
                      reading->is_out_of_memory || status == DT_NO_MEMORY ? "out of memory" : store->reason);
        return DT_EXIT_FAILED;
    }
    if (reading->refused)
        dt_arg_refuse(COMMAND, "job %s: %" PRIu64 " records in the store are no valid records; left out",
                      job->name, reading->refused);
    compact(&reading->rows);
    remove_ended(&reading->rows);
    if (reading->rows.count == 0) {
        dt_arg_refuse(COMMAND, "job %s: no host reports a process that sends (%s)", job->name,
                      job->redis ? "is `detour agent` running there?" : "looked in the folders of --host");
        return DT_EXIT_FAILED;
    }
    if (is_json)
        return print_json(job, reading, dt_rounds_time_ns()) ? DT_EXIT_OK : DT_EXIT_FAILED;
    print_links(&reading->rows, dt_rounds_time_ns());
    print_facts(&reading->facts, dt_rounds_time_ns());
    return DT_EXIT_OK;
}

int dt_stat_job_show(const struct dt_stat_job *job, bool is_json)
{
    struct reading reading = {0};
    struct dt_store *store;
    int code = dt_job_store_open(COMMAND, job->redis, job->name, &store);

    if (code != DT_EXIT_OK)
        return code;
    code = read_and_print(job, store, is_json, &reading);
    store->ops->close(store);
    free(reading.rows.list);
    free(reading.facts.findings);
    free(reading.facts.decisions);
    return code;
}
