/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/agent.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "controller/execute.h"
#include "controller/lease.h"
#include "controller/window.h"
#include "detour/stat.h"

struct dt_agent {
    struct dt_agent_options options;
    struct dt_window window;
    /* The lease. */
    struct dt_lease lease; /* its name is also that of the field with the last decision */
    bool has_waited;       /* and the operator has the line */
    /* The decisions. */
    bool has_begun; /* the members below are those of the store */
    bool has_place; /* `after` is a place in the stream */
    char after[DT_STORE_ID_BYTES];
    int64_t number;                 /* of the last decision taken */
    int64_t fence;                  /* the highest seen */
    struct dt_acknowledgement owed; /* not appended yet */
    bool owes;
    bool has_looked;                          /* into the runtime directory */
    char last_error[DETOUR_STAT_ERROR_BYTES]; /* why nothing is reported now; "": there is no reason */
    struct dt_observation observation;
    struct dt_decision decision;
};

struct dt_agent *dt_agent_create(const struct dt_agent_options *options)
{
    struct dt_agent *agent = calloc(1, sizeof *agent);

    if (!agent)
        return NULL;
    agent->options = *options;
    agent->lease = (struct dt_lease){.store = options->store, .ms = DT_AGENT_LEASE_MS};
    snprintf(agent->lease.name, sizeof agent->lease.name, "agent:%.*s", DT_STORE_NAME_BYTES - 8,
             options->host);
    return agent;
}

void dt_agent_destroy(struct dt_agent *agent)
{
    if (!agent)
        return;
    dt_lease_release(&agent->lease);
    dt_window_free(&agent->window);
    free(agent);
}

static void note(const struct dt_agent *agent, bool is_error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note(const struct dt_agent *agent, bool is_error, const char *format, ...)
{
    char text[640];
    va_list args;

    if (!agent->options.note)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    agent->options.note(agent->options.note_arg, is_error, text);
}

/* ---- Observations. ---- */

/* Copies what is printable; a name that a process chose must not make its record invalid. */
static void copy_text(char *to, size_t bytes, const char *from)
{
    size_t i;

    for (i = 0; from && from[i] && i + 1 < bytes; i++)
        to[i] = (char)(from[i] >= ' ' && from[i] <= '~' ? from[i] : '?');
    to[i] = '\0';
}

static int64_t to_i64(uint64_t value)
{
    return value < INT64_MAX ? (int64_t)value : INT64_MAX;
}

static void add_link(struct dt_observation *observation, const struct detour_stat_connection *c,
                     const struct dt_window_counts *grown)
{
    struct dt_observed_link *link = &observation->links[observation->link_count++];

    *link = (struct dt_observed_link){
        .connection = c->id,
        .from_rank = c->from_rank >= 0 && c->from_rank <= DT_RECORD_RANK_MAX ? c->from_rank : -1,
        .to_rank = c->to_rank >= 0 && c->to_rank <= DT_RECORD_RANK_MAX ? c->to_rank : -1,
        .path = c->path,
        .verdict = c->verdict,
        .cause = c->cause,
        .factor = c->factor < 1e9 ? c->factor : 1e9,
        .delay_ns = to_i64(c->delay_ns),
        .transfer_bytes = to_i64(c->transfer_bytes),
        .samples = to_i64(c->samples),
        .since_ns = c->since_ns,
        .messages = to_i64(grown->messages),
        .bytes = to_i64(grown->bytes),
        .service_ns = to_i64(grown->service_ns),
    };
    copy_text(link->peer, sizeof link->peer, c->peer);
    copy_text(link->nic, sizeof link->nic, c->nic);
    copy_text(link->peer_nic, sizeof link->peer_nic, c->peer_nic);
}

static enum dt_status append_observation(struct dt_agent *agent)
{
    struct dt_store *store = agent->options.store;
    char *text = dt_observation_write(&agent->observation);
    enum dt_status status =
        text ? store->ops->append(store, DT_STREAM_OBSERVATIONS, text, NULL) : DT_NO_MEMORY;

    free(text);
    return status;
}

static void begin_observation(struct dt_agent *agent, const struct detour_stat_process *process,
                              int64_t time_ns, int64_t window_ns)
{
    struct dt_observation *observation = &agent->observation;

    memset(observation, 0, offsetof(struct dt_observation, links));
    copy_text(observation->host, sizeof observation->host, agent->options.host);
    copy_text(observation->page_host, sizeof observation->page_host, process->host);
    copy_text(observation->process, sizeof observation->process, process->name);
    observation->pid = process->pid;
    observation->rank = process->job_rank >= 0 ? process->job_rank : process->rank;
    if (observation->rank < 0 || observation->rank > DT_RECORD_RANK_MAX)
        observation->rank = -1;
    observation->time_ns = time_ns;
    observation->window_ns = window_ns;
    observation->number = agent->number;
}

/* The load of the process's threads, and the pace of the job if there were iterations since the last report:
 * an old one is no new sample. */
static void add_process(struct dt_agent *agent, const struct detour_stat_process *process)
{
    struct dt_observation *observation = &agent->observation;
    struct dt_window_process grown;
    struct dt_run_queue run_queue;

    dt_run_queue_read(process->pid, &run_queue); /* of a process that has just ended: zero */
    if (!dt_window_take_process(&agent->window, process, &run_queue, &grown))
        return;
    observation->processor_share = grown.processor_share;
    if (!grown.iterations)
        return;
    observation->iteration_ns = to_i64(process->iteration_ns);
    observation->compute_ns = to_i64(process->compute_ns);
    observation->iterations = to_i64(grown.iterations);
}

static enum dt_status report_process(struct dt_agent *agent, const struct detour_stat_process *process,
                                     int64_t time_ns)
{
    enum dt_status status = DT_OK;
    int64_t window_ns = dt_window_length_ns(&agent->window, time_ns);

    begin_observation(agent, process, time_ns, window_ns);
    add_process(agent, process);
    for (size_t i = 0; status == DT_OK && i < process->connection_count; i++) {
        const struct detour_stat_connection *c = detour_stat_get_connection(process, i);
        struct dt_window_counts grown;

        if (!c->is_send || !dt_window_take(&agent->window, process->pid, c, &grown))
            continue;
        add_link(&agent->observation, c, &grown);
        if (agent->observation.link_count == DT_RECORD_LINKS_MAX) {
            status = append_observation(agent);
            begin_observation(agent, process, time_ns, window_ns);
        }
    }
    return status == DT_OK ? append_observation(agent) : status;
}

enum dt_status dt_agent_report(struct dt_agent *agent)
{
    struct detour_stat_snapshot *snapshot;
    enum dt_status status = DT_OK;
    char error[DETOUR_STAT_ERROR_BYTES];

    switch (detour_stat_read(agent->options.runtime_dir, 0, &snapshot, error)) {
    case DETOUR_STAT_OK:
        agent->last_error[0] = '\0';
        break;
    case DETOUR_STAT_NOT_FOUND: /* no process has created it yet */
        return DT_OK;
    default:
        if (strcmp(agent->last_error, error) != 0)
            note(agent, true, "%s", error);
        copy_text(agent->last_error, sizeof agent->last_error, error);
        return DT_OK;
    }
    if (!detour_stat_process_count(snapshot) && !agent->has_looked)
        note(agent, false, "no process uses Detour in %s yet",
             agent->options.runtime_dir ? agent->options.runtime_dir : "the default runtime directory");
    agent->has_looked = true;
    dt_window_begin(&agent->window);
    for (size_t i = 0; status == DT_OK && i < detour_stat_process_count(snapshot); i++)
        status = report_process(agent, detour_stat_get_process(snapshot, i), detour_stat_time_ns(snapshot));
    dt_window_end(&agent->window, detour_stat_time_ns(snapshot));
    detour_stat_free(snapshot);
    return status;
}

/* ---- The lease. ---- */
static enum dt_status acquire(struct dt_agent *agent, uint64_t now_ns)
{
    enum dt_status status = dt_lease_acquire(&agent->lease, now_ns);

    if (status == DT_AGAIN && !agent->has_waited)
        note(agent, true, "another agent of host %s has its lease; waiting for it", agent->options.host);
    if (status == DT_OK && agent->has_waited)
        note(agent, false, "this is the agent of host %s now", agent->options.host);
    if (status == DT_OK || status == DT_AGAIN)
        agent->has_waited = status == DT_AGAIN;
    if (status == DT_OK)
        agent->has_begun = false; /* the other agent may have taken decisions */
    return status;
}

enum dt_status dt_agent_keep_lease(struct dt_agent *agent, const char *holder, uint64_t now_ns)
{
    enum dt_status status;

    copy_text(agent->lease.holder, sizeof agent->lease.holder, holder);
    status = dt_lease_renew(&agent->lease, now_ns);
    return status == DT_AGAIN ? acquire(agent, now_ns) : status;
}

/* ---- Decisions. ---- */
static bool remember_last(void *arg, const char *id, const char *record, size_t bytes)
{
    struct dt_agent *agent = arg;

    (void)record;
    (void)bytes;
    memcpy(agent->after, id, strnlen(id, DT_STORE_ID_BYTES - 1) + 1);
    return true;
}

/* Where to begin: after the last decision that an earlier agent of this host has taken, or at the end. */
static enum dt_status find_begin(struct dt_agent *agent, int64_t time_ns)
{
    struct dt_store *store = agent->options.store;
    char value[DT_STORE_NAME_BYTES];
    struct dt_decision last = {0};
    enum dt_status status;

    status = store->ops->get(store, agent->lease.name, value, sizeof value);
    if (status == DT_OK && sscanf(value, "%" SCNd64 " %" SCNd64, &last.number, &last.fence) == 2 &&
        dt_decision_is_near(&last, last.number, time_ns)) {
        agent->number = last.number > agent->number ? last.number : agent->number;
        agent->fence = last.fence > agent->fence ? last.fence : agent->fence;
        agent->has_begun = agent->has_place = true;
        return DT_OK;
    }
    if (status != DT_OK && status != DT_NOT_FOUND)
        return status;
    status = agent->has_place
                 ? DT_OK
                 : store->ops->read(store, DT_STREAM_DECISIONS, "", SIZE_MAX, remember_last, agent);
    agent->has_begun = agent->has_place = status == DT_OK;
    return status;
}

static enum dt_status remember(struct dt_agent *agent, const struct dt_decision *decision)
{
    struct dt_store *store = agent->options.store;
    char value[DT_STORE_NAME_BYTES];

    snprintf(value, sizeof value, "%" PRId64 " %" PRId64, decision->number, decision->fence);
    return store->ops->set(store, agent->lease.name, value);
}

/* A store that fails here gets it at the next call; that it gets it twice does no harm. */
static enum dt_status append_owed(struct dt_agent *agent)
{
    struct dt_store *store = agent->options.store;
    enum dt_status status = DT_NO_MEMORY;
    char *record = dt_acknowledgement_write(&agent->owed);

    if (record)
        status = store->ops->append(store, DT_STREAM_ACKNOWLEDGEMENTS, record, NULL);
    free(record);
    agent->owes = status != DT_OK;
    return status;
}

static enum dt_status acknowledge(struct dt_agent *agent, const struct dt_decision *decision, int64_t time_ns,
                                  enum dt_status result, const char *text)
{
    agent->owed = (struct dt_acknowledgement){
        .number = decision->number, .fence = decision->fence, .time_ns = time_ns, .status = (int32_t)result};
    copy_text(agent->owed.host, sizeof agent->owed.host, agent->options.host);
    copy_text(agent->owed.text, sizeof agent->owed.text, text);
    note(agent, result != DT_OK, "decision %" PRId64 " (%s): %s", decision->number,
         dt_decision_kind_text((enum dt_decision_kind)decision->kind), text);
    return append_owed(agent);
}

static bool is_for_host(const struct dt_agent *agent, const struct dt_decision *decision)
{
    return !decision->host[0] || !strcmp(decision->host, agent->options.host);
}

/*
 * The number is stored first: a decision may be lost with its agent, but is never executed twice. A store
 * that fails here is tried again with the same decision.
 */
static enum dt_status take(struct dt_agent *agent, const struct dt_decision *decision, int64_t time_ns)
{
    char text[DT_RECORD_TEXT_BYTES];
    enum dt_status status, result;

    if (decision->number <= agent->number)
        return DT_OK; /* the controller was not sure that the first record has arrived */
    if (decision->fence < agent->fence)
        return acknowledge(agent, decision, time_ns, DT_CLOSED, "refused: the controller's lease has ended");
    status = remember(agent, decision);
    if (status != DT_OK)
        return status;
    agent->number = decision->number;
    agent->fence = decision->fence;
    if (!is_for_host(agent, decision))
        return DT_OK;
    result = dt_execute(agent->options.runtime_dir, decision, text);
    return acknowledge(agent, decision, time_ns, result, text);
}

/* One record of the stream of decisions. */
struct taken {
    bool is_there;
    bool is_valid;
    char id[DT_STORE_ID_BYTES];
    char reason[DT_RECORD_REASON_BYTES];
    struct dt_decision *decision;
};

static bool take_record(void *arg, const char *id, const char *record, size_t bytes)
{
    struct taken *taken = arg;

    taken->is_there = true;
    snprintf(taken->id, sizeof taken->id, "%s", id);
    taken->is_valid = dt_decision_read(record, bytes, taken->decision, taken->reason) == DT_OK;
    return false;
}

enum dt_status dt_agent_follow(struct dt_agent *agent, int64_t time_ns)
{
    struct dt_store *store = agent->options.store;
    enum dt_status status = agent->has_begun ? DT_OK : find_begin(agent, time_ns);

    if (status == DT_OK && agent->owes)
        status = append_owed(agent);
    while (status == DT_OK) {
        struct taken taken = {.decision = &agent->decision};

        status = store->ops->read(store, DT_STREAM_DECISIONS, agent->after, 1, take_record, &taken);
        if (status != DT_OK || !taken.is_there)
            break;
        if (taken.is_valid && !dt_decision_is_near(taken.decision, agent->number, time_ns)) {
            taken.is_valid = false;
            snprintf(taken.reason, sizeof taken.reason, "number or fence: far above those of the job");
        }
        if (taken.is_valid)
            status = take(agent, &agent->decision, time_ns);
        else
            note(agent, true, "record %s of the stream of decisions is refused: %s", taken.id, taken.reason);
        if (status == DT_OK)
            memcpy(agent->after, taken.id, sizeof agent->after);
    }
    return status;
}
