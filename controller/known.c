/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/known.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "controller/peers.h"
#include "detour/stat.h"

struct host {
    char name[DT_STORE_NAME_BYTES];
    int64_t offset_ns; /* from its clock to this one's: the least that was seen, so the fastest record's */
    int64_t seen_ns;   /* its last observation, on this clock */
};

struct pace {
    int64_t iteration_ns; /* the last one that was reported; 0: none yet */
    int64_t seen_ns;
};

struct process {
    char host[DT_STORE_NAME_BYTES];
    int64_t pid;
    int64_t reported_ns; /* the last time, on this clock */
};

struct dt_known {
    uint32_t job_starts;
    struct process first; /* of rank 0, once job_starts is not 0 */
    size_t host_count;
    struct host hosts[DT_KNOWN_HOSTS_MAX];
    struct dt_peers *peers;
    bool is_reported[DT_KNOWN_RANKS_MAX];  /* of ranks: a process has been */
    struct pace paces[DT_KNOWN_RANKS_MAX]; /* of ranks */
    int64_t sorted_ns[DT_KNOWN_RANKS_MAX]; /* of dt_known_iteration_ns() */
    size_t link_count;
    struct dt_known_link links[DT_KNOWN_LINKS_MAX]; /* open addressing by connection and host */
    int64_t peerless_ns[DT_KNOWN_LINKS_MAX];        /* since when no report has named the peer; 0: one has */
};

struct dt_known *dt_known_create(void)
{
    struct dt_known *known = calloc(1, sizeof *known);

    if (known && (known->peers = dt_peers_create()))
        return known;
    free(known);
    return NULL;
}

void dt_known_destroy(struct dt_known *known)
{
    if (known)
        dt_peers_destroy(known->peers);
    free(known);
}

const struct dt_known_link *dt_known_links(const struct dt_known *known)
{
    return known->links;
}

uint32_t dt_known_job_starts(const struct dt_known *known)
{
    return known->job_starts;
}

void dt_known_job(const struct dt_known *known, char job[DT_KNOWN_JOB_BYTES])
{
    job[0] = '\0';
    if (known->job_starts)
        snprintf(job, DT_KNOWN_JOB_BYTES, "%s %" PRId64, known->first.host, known->first.pid);
}

uint32_t dt_known_resume_job(struct dt_known *known, const char *job, int64_t time_ns)
{
    struct process first = {.reported_ns = time_ns};
    char present[DT_KNOWN_JOB_BYTES], *end = NULL;
    const char *space = strchr(job, ' ');

    if (!space || space - job >= (ptrdiff_t)sizeof first.host)
        return 0;
    memcpy(first.host, job, (size_t)(space - job));
    first.pid = strtoll(space + 1, &end, 10);
    if (*end || end == space + 1)
        return 0;
    dt_known_job(known, present);
    if (present[0] && strcmp(present, job) != 0)
        return known->job_starts++;
    if (!present[0]) {
        known->first = first;
        known->job_starts = 1;
    }
    return known->job_starts;
}

size_t dt_known_host_count(const struct dt_known *known)
{
    return known->host_count;
}

size_t dt_known_present_hosts(const struct dt_known *known, int64_t time_ns)
{
    size_t count = 0;

    for (size_t i = 0; i < known->host_count; i++)
        count += time_ns - known->hosts[i].seen_ns < (int64_t)DT_JUDGE_STALE_NS;
    return count;
}

static int compare_ns(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

uint64_t dt_known_iteration_ns(struct dt_known *known, int64_t time_ns)
{
    size_t count = 0;

    for (size_t i = 0; i < DT_KNOWN_RANKS_MAX; i++) {
        const struct pace *pace = &known->paces[i];
        int64_t age_ns = time_ns - pace->seen_ns;

        if (pace->iteration_ns && (age_ns < (int64_t)DT_JUDGE_STALE_NS || age_ns / 3 < pace->iteration_ns))
            known->sorted_ns[count++] = pace->iteration_ns;
    }
    if (!count)
        return 0;
    qsort(known->sorted_ns, count, sizeof *known->sorted_ns, compare_ns);
    return (uint64_t)(known->sorted_ns[(count - 1) / 2] / 2 + known->sorted_ns[count / 2] / 2);
}

/* The host's time on this clock. */
static int64_t to_own_time(struct dt_known *known, const struct dt_observation *observation, int64_t time_ns)
{
    int64_t offset_ns = time_ns - observation->time_ns;
    struct host *host = NULL;

    for (size_t i = 0; i < known->host_count && !host; i++) {
        if (!strcmp(known->hosts[i].name, observation->host))
            host = &known->hosts[i];
    }
    if (!host) {
        if (known->host_count == DT_KNOWN_HOSTS_MAX)
            known->host_count = 0;
        host = &known->hosts[known->host_count++];
        memcpy(host->name, observation->host, sizeof host->name);
        host->offset_ns = offset_ns;
    }
    if (offset_ns < host->offset_ns || offset_ns - host->offset_ns > (int64_t)DT_JUDGE_STALE_NS)
        host->offset_ns = offset_ns; /* or the host's clock was set back */
    host->seen_ns = time_ns;
    return observation->time_ns + host->offset_ns;
}

/* The place of a connection; a new one if it is not there yet. */
static struct dt_known_link *place_of(struct dt_known *known, const char *host, uint64_t connection)
{
    size_t at = (size_t)(connection * 0x9e3779b97f4a7c15ull >> 32);

    if (known->link_count > DT_KNOWN_LINKS_MAX / 2) {
        memset(known->links, 0, sizeof known->links);
        memset(known->peerless_ns, 0, sizeof known->peerless_ns);
        known->link_count = 0;
    }
    for (;; at++) {
        struct dt_known_link *link = &known->links[at % DT_KNOWN_LINKS_MAX];

        if (link->connection == connection && !strcmp(link->host, host))
            return link;
        if (link->connection)
            continue;
        known->link_count++;
        link->connection = connection;
        snprintf(link->host, sizeof link->host, "%s", host);
        return link;
    }
}

/* The rank of a peer that no agent reports, unless the communicator shows that its ranks are not the job's.
 */
static int32_t rank_by_communicator(const struct dt_known *known, const struct dt_observation *observation,
                                    const struct dt_observed_link *link)
{
    if (link->from_rank != observation->rank || link->to_rank < 0 || link->to_rank >= DT_KNOWN_RANKS_MAX ||
        known->is_reported[link->to_rank])
        return -1;
    return link->to_rank;
}

/*
 * The ranks of both ends in the job, and the host of the peer. False: the peer has not been reported yet. Its
 * first report may be next, and would make the link another one to the judge.
 */
static bool find_ends(struct dt_known *known, const struct dt_observation *observation,
                      const struct dt_observed_link *link, int64_t time_ns, struct dt_known_link *place,
                      char peer_host[DT_JUDGE_HOST_BYTES])
{
    const struct dt_peer *peer = dt_peers_find(known->peers, link->peer, time_ns);
    int64_t *peerless_ns = &known->peerless_ns[place - known->links];
    size_t length = dt_min_u64(strcspn(link->peer, ":"), DT_JUDGE_HOST_BYTES - 1);

    place->from_rank = observation->rank;
    if (peer) {
        *peerless_ns = 0;
        place->to_rank = peer->rank;
        snprintf(peer_host, DT_JUDGE_HOST_BYTES, "%s", peer->host);
        return true;
    }
    if (!*peerless_ns)
        *peerless_ns = time_ns;
    place->to_rank = rank_by_communicator(known, observation, link);
    snprintf(peer_host, DT_JUDGE_HOST_BYTES, "%.*s", (int)length, link->peer);
    return time_ns - *peerless_ns >= DT_KNOWN_PEER_NS;
}

static uint32_t judge_rank(int32_t rank)
{
    return rank >= 0 ? (uint32_t)rank : DT_JUDGE_UNKNOWN;
}

/*
 * The host's own verdict counts as far as it is about the present time of a message: one that explains less
 * than half of it is about something smaller, which may have been there before.
 */
static enum detour_stat_cause present_cause(const struct dt_observed_link *link, uint64_t service_ns)
{
    return link->verdict == DETOUR_STAT_SLOW && (uint64_t)link->delay_ns >= service_ns / 2
               ? (enum detour_stat_cause)link->cause
               : DETOUR_STAT_CAUSE_NONE;
}

static void take_link(struct dt_known *known, const struct dt_observation *observation,
                      const struct dt_observed_link *link, int64_t time_ns, struct dt_judge *judge)
{
    struct dt_known_link *place;
    struct dt_link_report report = {.delay_ns = (uint64_t)link->delay_ns,
                                    .verdict = (uint32_t)link->verdict,
                                    .samples = (uint64_t)link->messages,
                                    .time_ns = (uint64_t)time_ns};
    bool is_peer_known;

    if (!link->connection || link->messages <= 0)
        return; /* no traffic since the last report */
    place = place_of(known, observation->host, link->connection);
    is_peer_known = find_ends(known, observation, link, time_ns, place, report.peer_host);
    memcpy(place->nic, link->nic, sizeof place->nic);
    place->service_ns = (uint64_t)(link->service_ns / link->messages);
    place->message_bytes = (uint64_t)(link->bytes / link->messages);
    if (!is_peer_known)
        return;
    report.from_rank = judge_rank(place->from_rank);
    report.to_rank = judge_rank(place->to_rank);
    report.service_ns = place->service_ns;
    report.cause = (uint32_t)present_cause(link, place->service_ns);
    report.transfer_bytes = place->message_bytes;
    snprintf(report.host, sizeof report.host, "%s", observation->host);
    snprintf(report.nic, sizeof report.nic, "%.*s", DT_JUDGE_NIC_BYTES - 1, link->nic);
    snprintf(report.peer_nic, sizeof report.peer_nic, "%.*s", DT_JUDGE_NIC_BYTES - 1, link->peer_nic);
    dt_judge_add_link(judge, &report);
}

/* A program beside the job, for example a measurement, may have a rank 0 too: it is no start of the job. One
 * between two processes of the job counts as a start, and so does the job after it. */
static void look_for_start(struct dt_known *known, const struct dt_observation *observation, int64_t time_ns)
{
    struct process *first = &known->first;

    if (observation->rank != 0)
        return;
    if (known->job_starts && first->pid == observation->pid && !strcmp(first->host, observation->host)) {
        first->reported_ns = time_ns;
        return;
    }
    if (known->job_starts && time_ns - first->reported_ns < DT_KNOWN_GONE_NS)
        return;
    memcpy(first->host, observation->host, sizeof first->host);
    first->pid = observation->pid;
    first->reported_ns = time_ns;
    known->job_starts++;
}

void dt_known_take(struct dt_known *known, const struct dt_observation *observation, uint32_t stage,
                   int64_t time_ns, struct dt_judge *judge)
{
    int64_t own_ns = to_own_time(known, observation, time_ns);
    struct dt_rank_report rank = {.rank = judge_rank(observation->rank),
                                  .stage = stage,
                                  .iteration_ns = (uint64_t)observation->iteration_ns,
                                  .compute_ns = (uint64_t)observation->compute_ns,
                                  .processor_share = observation->processor_share,
                                  .samples = (uint64_t)observation->iterations};

    if (own_ns <= 0)
        return;
    look_for_start(known, observation, time_ns);
    dt_peers_take(known->peers, observation, own_ns);
    rank.time_ns = (uint64_t)own_ns;
    if (observation->rank >= 0 && observation->rank < DT_KNOWN_RANKS_MAX) {
        known->is_reported[observation->rank] = true;
        if (observation->iteration_ns > 0)
            known->paces[observation->rank] = (struct pace){observation->iteration_ns, time_ns};
    }
    snprintf(rank.host, sizeof rank.host, "%s", observation->host);
    if (observation->rank >= 0)
        dt_judge_add_rank(judge, &rank);
    for (size_t i = 0; i < observation->link_count; i++)
        take_link(known, observation, &observation->links[i], own_ns, judge);
}
