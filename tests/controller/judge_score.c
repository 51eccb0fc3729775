/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/controller/judge_score.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"
#include "detect/monitor.h"

#define START_NS     1000000000ull        /* times of reports are not zero */
#define AFTERGLOW_NS (16 * TRACE_TICK_NS) /* a finding may come that long after the end of its incident */

struct run {
    struct cluster_trace trace;
    struct dt_link_report links[TRACE_LINKS];
    struct dt_rank_report ranks[TRACE_RANKS];
    double iteration_ns[TRACE_LINKS]; /* sum of the reports of the present iteration */
    uint32_t reports[TRACE_LINKS];
    struct dt_monitor monitors[TRACE_LINKS];
    bool was_local[TRACE_LINKS];
    struct dt_judge *judge;
};

bool score_row(uint32_t row, enum trace_kind *kind, enum trace_band *band)
{
    static const struct {
        enum trace_kind kind;
        enum trace_band band;
    } rows[] = {
        {TRACE_KIND_QUIET, TRACE_BAND_SLOW},       {TRACE_KIND_FABRIC, TRACE_BAND_SLOW},
        {TRACE_KIND_LINK, TRACE_BAND_SLOW},        {TRACE_KIND_LINK_BOTH, TRACE_BAND_SLOW},
        {TRACE_KIND_FLUCTUATING, TRACE_BAND_SLOW}, {TRACE_KIND_NIC, TRACE_BAND_SLOW},
        {TRACE_KIND_DEVICE, TRACE_BAND_SLOW},      {TRACE_KIND_PROCESSOR, TRACE_BAND_SLOW},
        {TRACE_KIND_LINK, TRACE_BAND_MILD},        {TRACE_KIND_LINK_BOTH, TRACE_BAND_MILD},
        {TRACE_KIND_NIC, TRACE_BAND_MILD},         {TRACE_KIND_DEVICE, TRACE_BAND_MILD},
        {TRACE_KIND_PROCESSOR, TRACE_BAND_MILD},   {TRACE_KIND_LINK, TRACE_BAND_DRIFT},
        {TRACE_KIND_LINK_BOTH, TRACE_BAND_DRIFT},  {TRACE_KIND_NIC, TRACE_BAND_DRIFT},
        {TRACE_KIND_DEVICE, TRACE_BAND_DRIFT},     {TRACE_KIND_PROCESSOR, TRACE_BAND_DRIFT},
    };

    if (row >= DT_COUNT_OF(rows))
        return false;
    *kind = rows[row].kind;
    *band = rows[row].band;
    return true;
}

static void name_host(char *name, uint32_t rank)
{
    snprintf(name, DT_JUDGE_HOST_BYTES, "h%u", cluster_trace_host(rank));
}

static void name_nic(char *name, uint32_t rank)
{
    snprintf(name, DT_JUDGE_NIC_BYTES, "rnic%u", rank % TRACE_RANKS_PER_HOST);
}

static void make_reports(struct run *run)
{
    for (uint32_t i = 0; i < TRACE_LINKS; i++) {
        struct trace_link link = cluster_trace_link(i);
        struct dt_link_report *report = &run->links[i];

        report->from_rank = link.from;
        report->to_rank = link.to;
        name_host(report->host, link.from);
        name_host(report->peer_host, link.to);
        name_nic(report->nic, link.from);
        name_nic(report->peer_nic, link.to);
        report->transfer_bytes = link.is_ring ? TRACE_RING_BYTES : TRACE_PIPELINE_BYTES;
        report->samples = link.is_ring ? TRACE_TRANSFERS_RING : TRACE_TRANSFERS_PIPELINE;
        dt_monitor_init(&run->monitors[i]);
    }
    for (uint32_t i = 0; i < TRACE_RANKS; i++) {
        run->ranks[i].rank = i;
        run->ranks[i].stage = i / TRACE_REPLICAS;
        run->ranks[i].iteration_ns = TRACE_TICKS_PER_ITERATION * TRACE_TICK_NS;
        run->ranks[i].samples = 1;
        name_host(run->ranks[i].host, i);
    }
}

static uint64_t now_ns(const struct run *run)
{
    return START_NS + (run->trace.tick + 1) * TRACE_TICK_NS;
}

/* One rank of each host reports the waits in every tick. */
static void report(struct run *run)
{
    for (uint32_t i = 0; i < TRACE_LINKS; i++) {
        if (run->trace.service_ns[i] <= 0)
            continue;
        run->links[i].service_ns = (uint64_t)run->trace.service_ns[i];
        run->links[i].time_ns = now_ns(run);
        DT_CHECK(dt_judge_add_link(run->judge, &run->links[i]));
    }
    for (uint32_t i = 0; i < TRACE_RANKS; i++) {
        run->ranks[i].compute_ns = (uint64_t)run->trace.compute_ns[i];
        run->ranks[i].processor_share = run->trace.wait_share[cluster_trace_host(i)];
        run->ranks[i].time_ns = now_ns(run);
        if (run->ranks[i].compute_ns > 0 || i % TRACE_RANKS_PER_HOST == 0)
            DT_CHECK(dt_judge_add_rank(run->judge, &run->ranks[i]));
    }
}

/* ---- comparison ---- */

static bool is_under_way(const struct trace_incident *truth, uint64_t at_ns)
{
    return at_ns > START_NS + truth->start_ns &&
           at_ns < START_NS + truth->start_ns + truth->duration_ns + AFTERGLOW_NS;
}

static uint32_t host_number(const char *host)
{
    return (uint32_t)strtoul(host + 1, NULL, 10);
}

static bool is_of_link(enum trace_kind kind)
{
    return kind == TRACE_KIND_LINK || kind == TRACE_KIND_LINK_BOTH || kind == TRACE_KIND_FLUCTUATING;
}

static bool is_right(const struct trace_incident *truth, const struct dt_finding *finding)
{
    if (is_of_link(truth->kind))
        return finding->kind == DT_FINDING_LINK &&
               ((finding->rank == truth->rank && finding->peer_rank == truth->peer) ||
                (finding->rank == truth->peer && finding->peer_rank == truth->rank));
    if (truth->kind == TRACE_KIND_NIC)
        return finding->kind == DT_FINDING_NIC && finding->rank == truth->rank;
    if (truth->kind == TRACE_KIND_DEVICE)
        return finding->kind == DT_FINDING_DEVICE && finding->rank == truth->rank;
    return truth->kind == TRACE_KIND_PROCESSOR && finding->kind == DT_FINDING_PROCESSOR &&
           host_number(finding->host) == cluster_trace_host(truth->rank);
}

/* Could it be about the incident, though wrong? It names something that the incident makes slow. */
static bool is_about(const struct trace_incident *truth, const struct dt_finding *finding)
{
    uint32_t host = cluster_trace_host(truth->rank);
    bool is_end = finding->rank == truth->rank || finding->peer_rank == truth->rank;

    if (is_right(truth, finding))
        return true;
    if (truth->kind == TRACE_KIND_FABRIC)
        return false;
    if (truth->kind == TRACE_KIND_PROCESSOR)
        return host_number(finding->host) == host ||
               (finding->kind == DT_FINDING_LINK && host_number(finding->peer_host) == host);
    if (truth->kind == TRACE_KIND_DEVICE)
        return finding->kind != DT_FINDING_LINK && host_number(finding->host) == host;
    if (finding->kind == DT_FINDING_PROCESSOR)
        return host_number(finding->host) == host ||
               host_number(finding->host) == cluster_trace_host(truth->peer);
    return is_end || finding->rank == truth->peer || finding->peer_rank == truth->peer;
}

static void compare(struct score *score, const struct dt_finding *finding, uint64_t at_ns)
{
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < score->incident_count; i++) {
            struct score_incident *one = &score->incidents[i];
            bool is_it = pass == 0 ? is_right(&one->truth, finding) : is_about(&one->truth, finding);

            if (!is_it || !is_under_way(&one->truth, at_ns))
                continue;
            if (one->named_as == SCORE_NOT_NAMED) {
                one->named_as = finding->kind;
                one->is_right = pass == 0;
                one->latency_ns = at_ns - START_NS - one->truth.start_ns;
                one->factor = finding->factor;
            } else {
                one->wrong += pass == 1;
            }
            return;
        }
    }
    if (score->false_alarms < SCORE_ALARMS) {
        score->alarms[score->false_alarms] = *finding;
        score->alarm_ns[score->false_alarms] = at_ns - START_NS;
    }
    score->false_alarms++;
}

static bool is_of_direction(const struct trace_incident *truth, uint32_t from, uint32_t to)
{
    return is_of_link(truth->kind) &&
           ((truth->rank == from && truth->peer == to) ||
            (truth->kind == TRACE_KIND_LINK_BOTH && truth->rank == to && truth->peer == from));
}

/* A finding that goes on: it names an incident that began later only by the direction, of no other incident.
 */
static void compare_older(struct score *score, const struct dt_finding *finding, uint64_t at_ns)
{
    struct score_incident *found = NULL;

    if (finding->kind != DT_FINDING_LINK)
        return;
    for (uint32_t i = 0; i < score->incident_count; i++) {
        struct score_incident *one = &score->incidents[i];

        if (!is_of_direction(&one->truth, finding->rank, finding->peer_rank) ||
            !is_under_way(&one->truth, at_ns))
            continue;
        if (found)
            return;
        found = one;
    }
    if (!found || found->named_as != SCORE_NOT_NAMED)
        return;
    found->named_as = DT_FINDING_LINK;
    found->is_right = true;
    found->latency_ns = at_ns - START_NS - found->truth.start_ns;
    found->factor = finding->factor;
}

static bool is_named(const struct score *score)
{
    for (uint32_t i = 0; i < score->incident_count; i++) {
        if (score->incidents[i].named_as == SCORE_NOT_NAMED)
            return false;
    }
    return score->incident_count > 0;
}

/* ---- the monitors of detect/, each on its own link ---- */

static bool concerns(const struct trace_incident *truth, const struct trace_link *link)
{
    bool is_forward = link->from == truth->rank && link->to == truth->peer;
    bool is_backward = link->to == truth->rank && link->from == truth->peer;
    uint32_t host = cluster_trace_host(truth->rank);

    if (is_of_link(truth->kind))
        return is_forward || (truth->kind == TRACE_KIND_LINK_BOTH && is_backward);
    if (truth->kind == TRACE_KIND_NIC)
        return link->from == truth->rank || link->to == truth->rank;
    if (truth->kind == TRACE_KIND_PROCESSOR)
        return cluster_trace_host(link->from) == host || cluster_trace_host(link->to) == host;
    return truth->kind == TRACE_KIND_FABRIC;
}

static void note_local(struct score *score, uint32_t index, uint64_t at_ns)
{
    struct trace_link link = cluster_trace_link(index);

    for (uint32_t i = 0; i < score->incident_count; i++) {
        struct score_incident *one = &score->incidents[i];

        if (!concerns(&one->truth, &link) || at_ns <= START_NS + one->truth.start_ns)
            continue;
        one->local_ns = dt_min_u64(one->local_ns, at_ns - START_NS - one->truth.start_ns);
        return;
    }
    score->local_false_alarms++;
}

static void run_local(struct score *score, struct run *run)
{
    bool is_last = run->trace.tick % TRACE_TICKS_PER_ITERATION == TRACE_TICKS_PER_ITERATION - 1;

    for (uint32_t i = 0; i < TRACE_LINKS; i++) {
        run->iteration_ns[i] += run->trace.service_ns[i];
        run->reports[i] += run->trace.service_ns[i] > 0;
        if (!is_last)
            continue;
        dt_monitor_add(&run->monitors[i], run->iteration_ns[i] / run->reports[i]);
        run->iteration_ns[i] = 0;
        run->reports[i] = 0;
        bool is_slow = dt_monitor_verdict(&run->monitors[i]).is_slow;

        if (is_slow && !run->was_local[i])
            note_local(score, i, now_ns(run));
        run->was_local[i] = is_slow;
    }
}

void score_trace(struct score *score, enum trace_kind kind, enum trace_band band, uint64_t seed,
                 enum score_extent extent)
{
    uint64_t end_tick = TRACE_TICKS;
    struct run *run = calloc(1, sizeof *run);

    DT_CHECK(run);
    memset(score, 0, sizeof *score);
    run->judge = dt_judge_create(TRACE_LINKS, TRACE_RANKS);
    DT_CHECK(run->judge);
    make_reports(run);
    cluster_trace_start(&run->trace, kind, band, seed);
    score->incident_count = run->trace.incident_count;
    for (uint32_t i = 0; i < score->incident_count; i++)
        score->incidents[i] = (struct score_incident){
            .truth = run->trace.incidents[i], .named_as = SCORE_NOT_NAMED, .local_ns = UINT64_MAX};
    while (run->trace.next_tick < end_tick) {
        uint32_t count;

        cluster_trace_step(&run->trace);
        report(run);
        const struct dt_finding *findings = dt_judge_decide(run->judge, now_ns(run), &count);

        for (uint32_t i = 0; i < count; i++) {
            if (findings[i].state == DT_FINDING_NEW)
                compare(score, &findings[i], now_ns(run));
            else if (findings[i].state == DT_FINDING_GOES_ON)
                compare_older(score, &findings[i], now_ns(run));
        }
        if (extent == SCORE_LOCAL)
            run_local(score, run);
        if (extent == SCORE_NAMED && end_tick == TRACE_TICKS && is_named(score))
            end_tick = dt_min_u64(end_tick, run->trace.next_tick + SCORE_AFTER_TICKS);
    }
    score->simulated_ns = end_tick * TRACE_TICK_NS;
    dt_judge_destroy(run->judge);
    free(run);
}
