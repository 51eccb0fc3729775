/* SPDX-License-Identifier: Apache-2.0 */
/* The public reader of telemetry pages: detour/stat.h in terms of page.h. */
#include "detour/stat.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/util.h"
#include "obs/page.h"

#define PROCESSES_MAX 1024
#define HOST_BYTES    64 /* of a page's header */

DT_STATIC_CHECK(DETOUR_STAT_BUCKETS == DT_PAGE_SERVICE_BUCKETS, "one histogram");
DT_STATIC_CHECK((int)DETOUR_STAT_LEARNING == (int)DT_PAGE_VERDICT_LEARNING &&
                    (int)DETOUR_STAT_HEALTHY == (int)DT_PAGE_VERDICT_HEALTHY &&
                    (int)DETOUR_STAT_SLOW == (int)DT_PAGE_VERDICT_SLOW &&
                    (int)DETOUR_STAT_WAITING == (int)DT_PAGE_VERDICT_WAITING,
                "verdicts of the page are shown as they are");

struct process {
    struct detour_stat_process shown; /* first member, so that a pointer to it converts */
    struct dt_page_copy copy;         /* owns the texts */
    struct detour_stat_connection *connections;
    struct detour_stat_event *events;
    struct dt_event_record *records; /* own the texts of the events */
};

struct detour_stat_snapshot {
    int64_t time_ns;
    size_t count;
    struct process *processes;
};

int detour_stat_api(void)
{
    return DETOUR_STAT_API;
}

const char *detour_stat_verdict_text(enum detour_stat_verdict verdict)
{
    static const char *const texts[] = {
#define TEXT(name, value, text) [value] = text,
        DETOUR_STAT_VERDICTS(TEXT)};

    return (size_t)verdict < DT_COUNT_OF(texts) ? texts[verdict] : "unknown";
}

const char *detour_stat_cause_text(enum detour_stat_cause cause)
{
    static const char *const texts[] = {DETOUR_STAT_CAUSES(TEXT)};
#undef TEXT

    return (size_t)cause < DT_COUNT_OF(texts) ? texts[cause] : "unknown";
}

/* ------------------------------------------------------------------------------------------------------------
 * One process
 */

/* A time on the clock of the events as time since 1970. */
static int64_t moment_ns(const struct dt_page_header *header, uint64_t ns)
{
    return (int64_t)(header->start_realtime_ns + (ns - header->start_ns));
}

static void show_health(const struct dt_page_header *header, const struct dt_page_health *health,
                        struct detour_stat_connection *shown)
{
    bool is_since = health->verdict == DT_PAGE_VERDICT_SLOW || health->verdict == DT_PAGE_VERDICT_WAITING;

    shown->verdict = (int32_t)health->verdict;
    shown->cause = (int32_t)health->cause;
    shown->since_ns = is_since ? moment_ns(header, health->since_ns) : 0;
    shown->factor = health->factor_permille ? (double)health->factor_permille / 1000 : 1;
    shown->delay_ns = health->delay_ns;
    shown->transfer_bytes = health->transfer_bytes;
    shown->samples = health->sample_count;
    shown->merged = health->merged_count;
}

static void show_connection(const struct dt_page_header *header, const struct dt_page_connection *row,
                            struct detour_stat_connection *shown)
{
    bool has_path = row->path_now < DT_PAGE_PATHS && row->path_now < row->path_count;

    *shown = (struct detour_stat_connection){
        .id = row->id,
        .opened_ns = moment_ns(header, row->opened_ns),
        .peer = row->peer,
        .nic = has_path ? row->path[row->path_now].own : "",
        .peer_nic = has_path ? row->path[row->path_now].peer : "",
        .is_send = row->is_send != 0,
        .from_rank = row->from_rank,
        .to_rank = DETOUR_STAT_RANK_UNKNOWN,
        .path = has_path ? (int32_t)row->path_now : -1,
        .messages = row->message_count,
        .bytes = row->payload_bytes,
        .service_ns = row->service_ns,
        .refused = row->refused_count,
        .staged_messages = row->staged_count,
        .staged_bytes = row->staged_bytes,
        .flushes = row->flush_count,
        .takeovers = row->takeover_count,
        .errors = row->error_count,
        .switches = row->path_down_count,
        .recoveries = row->path_up_count,
        .retries = row->rewound_count,
        .failover_ns = row->failover_ns,
        .pool_full = row->full_count,
        .held = row->held_count,
        .held_ns = row->held_ns,
    };
    memcpy(shown->service_count, row->service_count, sizeof shown->service_count);
    show_health(header, &row->health, shown);
}

static bool show_connections(struct process *process)
{
    const struct dt_page_header *header = process->copy.header;
    size_t count = 0;

    for (uint32_t row = 0; row < header->connection_count; row++)
        count += dt_page_copy_connection(&process->copy, row) != NULL;
    process->connections = calloc(count + 1, sizeof *process->connections);
    if (!process->connections)
        return false;
    for (uint32_t row = 0; row < header->connection_count; row++) {
        const struct dt_page_connection *connection = dt_page_copy_connection(&process->copy, row);

        if (connection)
            show_connection(header, connection, &process->connections[process->shown.connection_count++]);
    }
    return true;
}

static void show_event(const struct dt_page_header *header, const struct dt_event_record *record,
                       struct detour_stat_event *shown)
{
    bool is_verdict = record->verdict != DT_EVENT_NO_VERDICT;

    *shown = (struct detour_stat_event){
        .time_ns = moment_ns(header, record->time_ns),
        .kind = dt_event_kind_text(record->kind),
        .text = record->text,
        .value = record->value,
        .number = record->mark - 1,
        .rank = header->rank,
        .peer_rank = DETOUR_STAT_RANK_UNKNOWN,
        .connection = record->connection,
        .is_send = record->is_send != 0,
        .from_rank = record->from_rank,
        .to_rank = DETOUR_STAT_RANK_UNKNOWN,
        .peer = record->peer,
        .nic = record->nic,
        .peer_nic = record->peer_nic,
        .path = record->path,
        .verdict = is_verdict ? (int32_t)record->verdict : -1,
        .cause = (int32_t)record->cause,
        .since_ns = record->since_ns ? moment_ns(header, record->since_ns) : 0,
        .factor = is_verdict ? (double)record->factor_permille / 1000 : 0,
        .delay_ns = record->delay_ns,
        .next_nic = record->next_nic,
    };
}

static bool show_events(struct process *process)
{
    const struct dt_event_ring *ring = dt_page_copy_events(&process->copy);
    uint64_t first = ring->written > DT_EVENT_SLOTS ? ring->written - DT_EVENT_SLOTS : 0;

    process->events = calloc(DT_EVENT_SLOTS, sizeof *process->events);
    process->records = calloc(DT_EVENT_SLOTS, sizeof *process->records);
    if (!process->events || !process->records)
        return false;
    for (uint64_t number = first; number < ring->written; number++) {
        struct dt_event_record *record = &process->records[process->shown.event_count];

        if (!dt_event_read(ring, number, record)) {
            if (ring->written - number < DT_EVENT_SLOTS / 2)
                break; /* is being written: a reader that follows must not miss it */
            continue;  /* was being overwritten */
        }
        show_event(process->copy.header, record, &process->events[process->shown.event_count++]);
    }
    return true;
}

/* The rank that all connections with a known rank agree on. */
static int32_t agree(int32_t so_far, int32_t rank)
{
    if (rank == DETOUR_STAT_RANK_UNKNOWN || so_far == rank)
        return so_far;
    return so_far == DETOUR_STAT_RANK_UNKNOWN ? rank : DETOUR_STAT_RANK_SEVERAL;
}

static void show_pace(const struct dt_page_header *header, const struct dt_page_pace *pace,
                      struct detour_stat_process *shown)
{
    bool is_slow = pace->verdict == DT_PAGE_VERDICT_SLOW;

    shown->iteration_ns = pace->iteration_ns;
    shown->compute_ns = pace->compute_ns;
    shown->iterations = pace->iterations;
    shown->compute_verdict = (int32_t)pace->verdict;
    shown->compute_factor = pace->factor_permille ? (double)pace->factor_permille / 1000 : 1;
    shown->compute_since_ns = is_slow ? moment_ns(header, pace->since_ns) : 0;
}

static bool show_process(struct process *process)
{
    const struct dt_page_header *header = process->copy.header;

    process->shown = (struct detour_stat_process){
        .pid = header->pid,
        .rank = DETOUR_STAT_RANK_UNKNOWN,
        .start_ns = (int64_t)header->start_realtime_ns,
        .name = header->process_name,
        .version = header->detour_version,
        .host = header->host,
        .job_rank = header->rank,
    };
    show_pace(header, dt_page_copy_pace(&process->copy), &process->shown);
    if (!show_connections(process) || !show_events(process))
        return false;
    for (size_t i = 0; i < process->shown.connection_count; i++) {
        if (process->connections[i].is_send)
            process->shown.rank = agree(process->shown.rank, process->connections[i].from_rank);
    }
    return true;
}

static void free_process(struct process *process)
{
    dt_page_copy_free(&process->copy);
    free(process->connections);
    free(process->events);
    free(process->records);
}

/* ------------------------------------------------------------------------------------------------------------
 * The rank of the peer. Tags name the sender, so a rank is known from the messages it sends.
 */

/* From the peer's messages to this process. */
static int32_t rank_by_receivers(const struct process *process, const char *peer)
{
    int32_t rank = DETOUR_STAT_RANK_UNKNOWN;

    for (size_t i = 0; i < process->shown.connection_count; i++) {
        const struct detour_stat_connection *c = &process->connections[i];

        if (!c->is_send && !strcmp(c->peer, peer))
            rank = agree(rank, c->from_rank);
    }
    return rank;
}

/* The peer, if it is a process of this host with a page in the snapshot; or NULL. */
static const struct detour_stat_process *find_peer(const struct detour_stat_snapshot *snapshot,
                                                   const char *peer)
{
    char name[HOST_BYTES + 16];

    for (size_t i = 0; i < snapshot->count; i++) {
        const struct detour_stat_process *process = &snapshot->processes[i].shown;

        snprintf(name, sizeof name, "%s:%d", process->host, (int)process->pid);
        if (!strcmp(name, peer))
            return process;
    }
    return NULL;
}

/* From its messages to any process. */
static int32_t rank_by_page(const struct detour_stat_snapshot *snapshot, const char *peer)
{
    const struct detour_stat_process *process = find_peer(snapshot, peer);

    return process ? process->rank : DETOUR_STAT_RANK_UNKNOWN;
}

static void find_ranks(const struct detour_stat_snapshot *snapshot, struct process *process)
{
    for (size_t i = 0; i < process->shown.connection_count; i++) {
        struct detour_stat_connection *c = &process->connections[i];

        if (!c->is_send) {
            c->to_rank = process->shown.rank;
            continue;
        }
        c->to_rank = rank_by_receivers(process, c->peer);
        if (c->to_rank == DETOUR_STAT_RANK_UNKNOWN)
            c->to_rank = rank_by_page(snapshot, c->peer);
    }
}

/* The ranks that the record of an event does not have. */
static void find_event_ranks(const struct detour_stat_snapshot *snapshot, struct process *process)
{
    for (size_t i = 0; i < process->shown.event_count; i++) {
        struct detour_stat_event *event = &process->events[i];
        const struct detour_stat_process *peer = *event->peer ? find_peer(snapshot, event->peer) : NULL;

        if (peer)
            event->peer_rank = peer->job_rank;
        for (size_t j = 0; event->connection && j < process->shown.connection_count; j++) {
            const struct detour_stat_connection *c = &process->connections[j];

            if (c->id == event->connection && c->is_send == event->is_send) {
                event->from_rank = c->from_rank;
                event->to_rank = c->to_rank;
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * All processes
 */
static enum detour_stat_status refuse(enum detour_stat_status status, char *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum detour_stat_status refuse(enum detour_stat_status status, char *error, const char *format, ...)
{
    va_list args;

    if (!error)
        return status;
    va_start(args, format);
    vsnprintf(error, DETOUR_STAT_ERROR_BYTES, format, args);
    va_end(args);
    return status;
}

static enum detour_stat_status explain(enum dt_status status, const struct dt_runtime_dir *dir, int pid,
                                       char *error)
{
    if (status == DT_NO_MEMORY)
        return refuse(DETOUR_STAT_NO_MEMORY, error, "out of memory");
    if (status == DT_NOT_FOUND)
        return refuse(DETOUR_STAT_NOT_FOUND, error,
                      "process %d does not use Detour, or has ended (looked in %s)", pid, dir->path);
    if (status == DT_PROTOCOL)
        return refuse(DETOUR_STAT_REFUSED, error,
                      "the page of process %d in %s is of another version of Detour than this program", pid,
                      dir->path);
    return refuse(DETOUR_STAT_REFUSED, error, "the page of process %d in %s cannot be read", pid, dir->path);
}

/* On an error the snapshot is unchanged. */
static enum dt_status read_one(const struct dt_runtime_dir *dir, int pid,
                               struct detour_stat_snapshot *snapshot)
{
    struct process *process = &snapshot->processes[snapshot->count];
    enum dt_status status = dt_page_read(dir, pid, &process->copy);

    if (status != DT_OK)
        return status;
    snapshot->count++; /* a partial entry is freed with the others */
    return show_process(process) ? DT_OK : DT_NO_MEMORY;
}

/* When all processes are read, pages of another version are skipped. */
static enum dt_status read_all(const struct dt_runtime_dir *dir, struct detour_stat_snapshot *snapshot)
{
    int pids[PROCESSES_MAX];
    size_t count = dt_runtime_dir_list(dir, DT_RUNTIME_PAGE, pids, PROCESSES_MAX);

    snapshot->processes = calloc(count + 1, sizeof *snapshot->processes);
    if (!snapshot->processes)
        return DT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (read_one(dir, pids[i], snapshot) == DT_NO_MEMORY)
            return DT_NO_MEMORY;
    }
    return DT_OK;
}

static enum dt_status read_some(const struct dt_runtime_dir *dir, int pid,
                                struct detour_stat_snapshot *snapshot)
{
    dt_runtime_dir_sweep(dir);
    if (!pid)
        return read_all(dir, snapshot);
    snapshot->processes = calloc(1, sizeof *snapshot->processes);
    return snapshot->processes ? read_one(dir, pid, snapshot) : DT_NO_MEMORY;
}

static int64_t realtime_ns(void)
{
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

enum detour_stat_status detour_stat_read(const char *path, int pid, struct detour_stat_snapshot **out,
                                         char error[DETOUR_STAT_ERROR_BYTES])
{
    struct detour_stat_snapshot *snapshot = calloc(1, sizeof *snapshot);
    struct dt_runtime_dir dir;
    char reason[DETOUR_STAT_ERROR_BYTES];
    enum detour_stat_status shown = DETOUR_STAT_OK;
    enum dt_status status;

    *out = NULL;
    if (!snapshot)
        return refuse(DETOUR_STAT_NO_MEMORY, error, "out of memory");
    snapshot->time_ns = realtime_ns();
    status = dt_runtime_dir_open(path, 0, &dir, reason, sizeof reason);
    if (status == DT_NOT_FOUND && !pid) {
        *out = snapshot;
        return DETOUR_STAT_OK;
    }
    if (status != DT_OK) {
        free(snapshot);
        return refuse(status == DT_NOT_FOUND ? DETOUR_STAT_NOT_FOUND : DETOUR_STAT_REFUSED, error, "%s",
                      reason);
    }
    status = read_some(&dir, pid, snapshot);
    if (status != DT_OK)
        shown = explain(status, &dir, pid, error);
    dt_runtime_dir_close(&dir);
    if (status != DT_OK) {
        detour_stat_free(snapshot);
        return shown;
    }
    for (size_t i = 0; i < snapshot->count; i++)
        find_ranks(snapshot, &snapshot->processes[i]);
    for (size_t i = 0; i < snapshot->count; i++)
        find_event_ranks(snapshot, &snapshot->processes[i]);
    *out = snapshot;
    return DETOUR_STAT_OK;
}

void detour_stat_free(struct detour_stat_snapshot *snapshot)
{
    if (!snapshot)
        return;
    for (size_t i = 0; i < snapshot->count; i++)
        free_process(&snapshot->processes[i]);
    free(snapshot->processes);
    free(snapshot);
}

int64_t detour_stat_time_ns(const struct detour_stat_snapshot *snapshot)
{
    return snapshot->time_ns;
}

size_t detour_stat_process_count(const struct detour_stat_snapshot *snapshot)
{
    return snapshot->count;
}

const struct detour_stat_process *detour_stat_get_process(const struct detour_stat_snapshot *snapshot,
                                                          size_t index)
{
    return index < snapshot->count ? &snapshot->processes[index].shown : NULL;
}

const struct detour_stat_connection *detour_stat_get_connection(const struct detour_stat_process *shown,
                                                                size_t index)
{
    const struct process *process = (const struct process *)(const void *)shown;

    return index < shown->connection_count ? &process->connections[index] : NULL;
}

const struct detour_stat_event *detour_stat_get_event(const struct detour_stat_process *shown, size_t index)
{
    const struct process *process = (const struct process *)(const void *)shown;

    return index < shown->event_count ? &process->events[index] : NULL;
}

uint64_t detour_stat_service_quantile_ns(const struct detour_stat_connection *connection, double share)
{
    uint64_t total = 0, seen = 0;

    for (uint32_t i = 0; i < DETOUR_STAT_BUCKETS; i++)
        total += connection->service_count[i];
    for (uint32_t i = 0; i < DETOUR_STAT_BUCKETS && total; i++) {
        seen += connection->service_count[i];
        if ((double)seen >= share * (double)total)
            return 1ull << (10 + i);
    }
    return 0;
}
