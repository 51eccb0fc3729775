/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/util.h"
#include "controller/backup.h"
#include "controller/delay.h"
#include "controller/replan.h"
#include "controller/unseen.h"

#define FASTER        1.1 /* how much slower than a backup an RNIC or a connection has to be */
#define DOUBLINGS_MAX 6

/* ---- The states of a measure. ---- */
enum state { OFF, RISING, ON, FALLING, STATE_COUNT };
enum event { WANTED, NOT_WANTED, USELESS, EVENT_COUNT };
enum action { NONE, ENACT, REVOKE };

/* `after`: the state has to have lasted that long; until then the state stays. */
enum wait { AT_ONCE, CONFIRM, CLEAR };

struct transition {
    enum state next;
    enum wait after;
    enum action action;
};

static const struct transition transitions[STATE_COUNT][EVENT_COUNT] = {
    /* WANTED, NOT_WANTED, USELESS */
    [OFF] = {{RISING, AT_ONCE, NONE}, {OFF, AT_ONCE, NONE}, {OFF, AT_ONCE, NONE}},
    [RISING] = {{ON, CONFIRM, ENACT}, {OFF, AT_ONCE, NONE}, {OFF, AT_ONCE, NONE}},
    [ON] = {{ON, AT_ONCE, NONE}, {FALLING, AT_ONCE, NONE}, {OFF, AT_ONCE, REVOKE}},
    [FALLING] = {{ON, AT_ONCE, NONE}, {OFF, CLEAR, REVOKE}, {OFF, AT_ONCE, REVOKE}},
};

struct measure {
    enum dt_decision_kind kind; /* that enacts it: HOSTPATH_ON or MIGRATE, of one connection or an RNIC */
    enum state state;
    uint64_t since_ns;
    uint32_t enacted_count; /* migrate: how often */
    bool is_wanted;         /* by the situation of this call */
    double ns_a_byte;       /* of a connection before it moves; 0: not known */
    uint64_t moved_ns;      /* when that was decided */
    uint64_t retry_ns;      /* a move that was useless is not repeated before */
    struct dt_unseen unseen;
    int64_t delay_ns; /* of its messages, for which the host path is switched on; 0: not known */
    /* What it is about. */
    char host[DT_STORE_NAME_BYTES];
    char nic[DT_RECORD_NIC_BYTES];
    uint64_t connection;
    int32_t from_rank, to_rank;
    char reason[DT_RECORD_TEXT_BYTES];
};

struct dt_decider {
    struct dt_decide_options options;
    size_t measure_count;
    struct measure measures[DT_DECIDE_MEASURES_MAX];
    struct dt_replan replan;
};

struct dt_decide_options dt_decide_defaults(void)
{
    return (struct dt_decide_options){
        .replan = true,
        .migrate = true,
        .confirm_ns = 300 * DT_NS_PER_MS,
        .clear_ns = 5 * DT_NS_PER_S,
        .replan_gap_ns = 3 * DT_NS_PER_S,
        .drained_ns = 600 * DT_NS_PER_S,
        .delay_min_ns = (int64_t)DT_NS_PER_MS,
    };
}

struct dt_decider *dt_decide_create(const struct dt_decide_options *options)
{
    struct dt_decider *decide = calloc(1, sizeof *decide);

    if (decide)
        decide->options = *options;
    return decide;
}

void dt_decide_destroy(struct dt_decider *decide)
{
    free(decide);
}

/* ---- Measures about connections and RNICs. ---- */
static bool is_same(const struct measure *a, const struct measure *b)
{
    return a->kind == b->kind && a->connection == b->connection && !strcmp(a->host, b->host) &&
           (a->kind == DT_DECISION_HOSTPATH_ON || !strcmp(a->nic, b->nic));
}

/* NULL: there is no room. Measures that are off make room for others, but for the counts of drained RNICs,
 * from which the time of the next drain follows. Connections end with their job. */
static struct measure *find_measure(struct dt_decider *decide, const struct measure *like)
{
    struct measure *unused = NULL;

    for (size_t i = 0; i < decide->measure_count; i++) {
        struct measure *measure = &decide->measures[i];

        if (is_same(measure, like))
            return measure;
        if (measure->state == OFF && !measure->is_wanted && (measure->connection || !measure->enacted_count))
            unused = measure;
    }
    if (decide->measure_count < DT_DECIDE_MEASURES_MAX)
        unused = &decide->measures[decide->measure_count++];
    if (unused)
        *unused = *like;
    return unused;
}

static void want(struct dt_decider *decide, const struct measure *like)
{
    struct measure *measure = find_measure(decide, like);

    if (!measure)
        return;
    measure->is_wanted = true;
    measure->unseen = (struct dt_unseen){0};
    measure->delay_ns = like->delay_ns;
    measure->ns_a_byte = like->ns_a_byte;
    memcpy(measure->reason, like->reason, sizeof measure->reason);
}

static bool is_of_finding(const struct dt_finding *finding, const struct dt_known_link *link)
{
    if (finding->kind == DT_FINDING_NIC)
        return !strcmp(link->host, finding->host) && !strcmp(link->nic, finding->nic);
    return link->from_rank >= 0 && link->to_rank >= 0 &&
           (((uint32_t)link->from_rank == finding->rank && (uint32_t)link->to_rank == finding->peer_rank) ||
            ((uint32_t)link->from_rank == finding->peer_rank && (uint32_t)link->to_rank == finding->rank));
}

static void want_hostpath(struct dt_decider *decide, const struct dt_situation *situation,
                          const struct dt_finding *finding)
{
    for (size_t i = 0; i < situation->link_count; i++) {
        const struct dt_known_link *link = &situation->links[i];
        struct measure measure = {.kind = DT_DECISION_HOSTPATH_ON,
                                  .connection = link->connection,
                                  .from_rank = link->from_rank,
                                  .to_rank = link->to_rank,
                                  .delay_ns = (int64_t)dt_min_u64(
                                      link->service_ns, dt_min_u64(finding->delay_ns, DT_DELAY_MAX_NS))};

        if (!link->connection || !is_of_finding(finding, link))
            continue;
        memcpy(measure.host, link->host, sizeof measure.host);
        snprintf(measure.reason, sizeof measure.reason, "%s", finding->reason);
        want(decide, &measure);
    }
}

/* `measure`: an RNIC of a host, or a connection over it. */
static void want_if_faster(struct dt_decider *decide, const struct dt_situation *situation,
                           const struct dt_finding *finding, struct measure *measure)
{
    double gain = dt_backup_gain(situation->links, situation->link_count, measure->host, measure->nic,
                                 measure->connection);

    if (gain < FASTER)
        return;
    measure->kind = DT_DECISION_MIGRATE;
    snprintf(measure->reason, sizeof measure->reason,
             "the other RNICs of %.40s take %.1f times less for such messages: %.140s", measure->host, gain,
             finding->reason);
    want(decide, measure);
}

static void want_drain(struct dt_decider *decide, const struct dt_situation *situation,
                       const struct dt_finding *finding)
{
    struct measure measure = {.from_rank = -1, .to_rank = -1};

    snprintf(measure.host, sizeof measure.host, "%s", finding->host);
    snprintf(measure.nic, sizeof measure.nic, "%s", finding->nic);
    want_if_faster(decide, situation, finding, &measure);
}

static double ns_a_byte(const struct dt_known_link *link)
{
    return link->message_bytes ? (double)link->service_ns / (double)link->message_bytes : 0;
}

/*
 * The connection has moved and is not faster: the cause is not its RNIC. Where it is now the judge has no
 * healthy time of it, so it goes back.
 */
static bool is_useless(const struct dt_decider *decide, const struct dt_situation *situation,
                       const struct measure *measure, uint64_t now_ns)
{
    if (!measure->connection || measure->ns_a_byte <= 0 ||
        (measure->state != ON && measure->state != FALLING) ||
        now_ns < dt_deadline_ns(measure->moved_ns, decide->options.clear_ns))
        return false;
    for (size_t i = 0; i < situation->link_count; i++) {
        const struct dt_known_link *link = &situation->links[i];

        if (link->connection == measure->connection && !strcmp(link->host, measure->host))
            return strcmp(link->nic, measure->nic) != 0 && ns_a_byte(link) * FASTER > measure->ns_a_byte;
    }
    return false;
}

/* The connection has left an RNIC already: it has no further backup that is known to be faster. */
static bool has_moved(const struct dt_decider *decide, const struct dt_known_link *link)
{
    for (size_t i = 0; i < decide->measure_count; i++) {
        const struct measure *measure = &decide->measures[i];

        if (measure->kind == DT_DECISION_MIGRATE && measure->connection == link->connection &&
            !strcmp(measure->host, link->host) && strcmp(measure->nic, link->nic) != 0 &&
            (measure->state == ON || measure->state == FALLING))
            return true;
    }
    return false;
}

/* Of a link, the connections between its two RNICs: others of the same ranks may be healthy. */
static void want_moves(struct dt_decider *decide, const struct dt_situation *situation,
                       const struct dt_finding *finding)
{
    for (size_t i = 0; i < situation->link_count; i++) {
        const struct dt_known_link *link = &situation->links[i];
        struct measure measure = {.connection = link->connection,
                                  .from_rank = link->from_rank,
                                  .to_rank = link->to_rank,
                                  .ns_a_byte = ns_a_byte(link)};
        bool is_first_end;

        if (!link->connection || !is_of_finding(finding, link))
            continue;
        is_first_end = (uint32_t)link->from_rank == finding->rank;
        if (strcmp(link->nic, is_first_end ? finding->nic : finding->peer_nic) != 0 ||
            has_moved(decide, link))
            continue;
        memcpy(measure.host, link->host, sizeof measure.host);
        memcpy(measure.nic, link->nic, sizeof measure.nic);
        want_if_faster(decide, situation, finding, &measure);
    }
}

static void want_all(struct dt_decider *decide, const struct dt_situation *situation)
{
    for (size_t i = 0; i < decide->measure_count; i++)
        decide->measures[i].is_wanted = false;
    for (size_t i = 0; i < situation->finding_count; i++) {
        const struct dt_finding *finding = &situation->findings[i];

        if (finding->state == DT_FINDING_ENDED)
            continue;
        if (decide->options.hostpath && (finding->kind == DT_FINDING_LINK || finding->kind == DT_FINDING_NIC))
            want_hostpath(decide, situation, finding);
        if (decide->options.migrate && finding->kind == DT_FINDING_NIC)
            want_drain(decide, situation, finding);
        if (decide->options.migrate && finding->kind == DT_FINDING_LINK)
            want_moves(decide, situation, finding);
    }
}

/* Without traffic nothing measures an RNIC: each time after twice the time. */
static uint64_t drained_ns(const struct dt_decider *decide, const struct measure *measure)
{
    uint32_t doublings = measure->enacted_count > 0 ? measure->enacted_count - 1 : 0;

    return decide->options.drained_ns << (doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX);
}

static uint64_t wait_ns(const struct dt_decider *decide, const struct measure *measure, enum wait wait)
{
    if (wait == AT_ONCE)
        return 0;
    if (wait == CONFIRM)
        return decide->options.confirm_ns;
    if (measure->kind == DT_DECISION_MIGRATE)
        return drained_ns(decide, measure);
    return decide->options.clear_ns;
}

static void describe(const struct measure *measure, enum action action, struct dt_decision *decision)
{
    const bool enacts = action == ENACT;

    *decision = (struct dt_decision){
        .from_rank = measure->from_rank, .to_rank = measure->to_rank, .connection = measure->connection};
    if (measure->kind == DT_DECISION_MIGRATE)
        decision->kind = enacts ? DT_DECISION_MIGRATE : DT_DECISION_BACK;
    else
        decision->kind = enacts ? DT_DECISION_HOSTPATH_ON : DT_DECISION_HOSTPATH_OFF;
    if (decision->kind == DT_DECISION_HOSTPATH_ON && measure->delay_ns && measure->from_rank >= 0 &&
        measure->to_rank >= 0) {
        decision->link_count = 1;
        decision->links[0] =
            (struct dt_decided_link){measure->from_rank, measure->to_rank, measure->delay_ns};
    }
    memcpy(decision->host, measure->host, sizeof decision->host);
    memcpy(decision->nic, measure->nic, sizeof decision->nic);
    if (enacts)
        memcpy(decision->reason, measure->reason, sizeof decision->reason);
    else
        snprintf(decision->reason, sizeof decision->reason, "over: %.240s", measure->reason);
}

static enum event event_of(const struct dt_decider *decide, const struct dt_situation *situation,
                           const struct measure *measure, uint64_t now_ns)
{
    const struct dt_decided_link link = {measure->from_rank, measure->to_rank, measure->delay_ns};

    if (is_useless(decide, situation, measure, now_ns))
        return USELESS;
    if (dt_unseen_stays(measure->unseen, now_ns) &&
        !dt_delay_is_refuted(situation, &link, measure->connection))
        return WANTED;
    return measure->is_wanted && now_ns >= measure->retry_ns ? WANTED : NOT_WANTED;
}

/* True: *decision is to be carried out. */
static bool step(const struct dt_decider *decide, const struct dt_situation *situation,
                 struct measure *measure, uint64_t now_ns, struct dt_decision *decision)
{
    const enum event event = event_of(decide, situation, measure, now_ns);
    const struct transition *transition = &transitions[measure->state][event];

    if (transition->next == measure->state ||
        now_ns < dt_deadline_ns(measure->since_ns, wait_ns(decide, measure, transition->after)))
        return false;
    measure->state = transition->next;
    measure->since_ns = now_ns;
    if (transition->action == NONE)
        return false;
    if (transition->action == ENACT) {
        measure->enacted_count++;
        measure->moved_ns = now_ns;
    }
    describe(measure, transition->action, decision);
    if (event == USELESS) {
        measure->retry_ns = dt_deadline_ns(now_ns, drained_ns(decide, measure));
        snprintf(decision->reason, sizeof decision->reason, "it is not faster over another RNIC: %.200s",
                 measure->reason);
    }
    return true;
}

/* ---- All. ---- */
size_t dt_decide(struct dt_decider *decide, const struct dt_situation *situation, uint64_t now_ns,
                 struct dt_decision *decisions, size_t room)
{
    size_t count = 0;

    if (!room)
        return 0;
    if (decide->options.replan &&
        dt_replan_decide(&decide->replan, &decide->options, situation, now_ns, &decisions[count]))
        count++;
    want_all(decide, situation);
    for (size_t i = 0; i < decide->measure_count && count < room; i++)
        count += step(decide, situation, &decide->measures[i], now_ns, &decisions[count]);
    return count;
}

void dt_decide_adopt(struct dt_decider *decide, const struct dt_decision *decision, bool is_seen,
                     uint64_t now_ns)
{
    const bool enacts = decision->kind == DT_DECISION_MIGRATE || decision->kind == DT_DECISION_HOSTPATH_ON;
    const struct dt_unseen unseen = dt_unseen_adopt(is_seen, now_ns, decide->options.drained_ns);
    struct measure like = {
        .connection = decision->connection, .from_rank = decision->from_rank, .to_rank = decision->to_rank};
    struct measure *measure;

    switch ((enum dt_decision_kind)decision->kind) {
    case DT_DECISION_REPLAN:
        dt_replan_adopt(&decide->replan, decision, unseen, now_ns);
        return;
    case DT_DECISION_MIGRATE:
    case DT_DECISION_BACK:
        like.kind = DT_DECISION_MIGRATE;
        break;
    case DT_DECISION_HOSTPATH_ON:
    case DT_DECISION_HOSTPATH_OFF:
        like.kind = DT_DECISION_HOSTPATH_ON;
        break;
    default:
        return;
    }
    memcpy(like.host, decision->host, sizeof like.host);
    memcpy(like.nic, decision->nic, sizeof like.nic);
    memcpy(like.reason, decision->reason, sizeof like.reason);
    measure = find_measure(decide, &like);
    if (!measure)
        return;
    measure->state = enacts ? ON : OFF;
    measure->since_ns = now_ns;
    measure->enacted_count += enacts;
    if (enacts && like.kind == DT_DECISION_HOSTPATH_ON)
        measure->unseen = unseen;
    measure->delay_ns = enacts && decision->link_count ? decision->links[0].delay_ns : 0;
}

void dt_decide_adopt_job(struct dt_decider *decide, uint32_t job_starts)
{
    decide->replan.job_starts = job_starts;
}

bool dt_decide_is_for_job(const struct dt_decider *decide, uint32_t job_starts)
{
    return !decide->options.replan || (decide->replan.job_starts == job_starts && !decide->replan.is_owed);
}

struct dt_in_force dt_decide_in_force(const struct dt_decider *decide)
{
    struct dt_in_force in_force = {.links = decide->replan.link_count};

    for (size_t i = 0; i < decide->measure_count; i++) {
        const struct measure *measure = &decide->measures[i];

        if (measure->state != ON && measure->state != FALLING)
            continue;
        if (measure->kind == DT_DECISION_MIGRATE)
            in_force.migrations++;
        else
            in_force.connections++;
    }
    return in_force;
}
