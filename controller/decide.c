/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/util.h"

#define FASTER_PERMILLE 1100 /* how much slower than a backup an RNIC has to be */
#define REPLAN_PERMILLE 200  /* of the largest delay: a smaller change is none */
#define DOUBLINGS_MAX   6

/* ---- The states of a measure. ---- */
enum state { OFF, RISING, ON, FALLING, STATE_COUNT };
enum event { WANTED, NOT_WANTED, EVENT_COUNT };
enum action { NONE, ENACT, REVOKE };

/* `after`: the state has to have lasted that long; until then the state stays. */
enum wait { AT_ONCE, CONFIRM, CLEAR };

struct transition {
    enum state next;
    enum wait after;
    enum action action;
};

static const struct transition transitions[STATE_COUNT][EVENT_COUNT] = {
    [OFF] = {[WANTED] = {RISING, AT_ONCE, NONE}, [NOT_WANTED] = {OFF, AT_ONCE, NONE}},
    [RISING] = {[WANTED] = {ON, CONFIRM, ENACT}, [NOT_WANTED] = {OFF, AT_ONCE, NONE}},
    [ON] = {[WANTED] = {ON, AT_ONCE, NONE}, [NOT_WANTED] = {FALLING, AT_ONCE, NONE}},
    [FALLING] = {[WANTED] = {ON, AT_ONCE, NONE}, [NOT_WANTED] = {OFF, CLEAR, REVOKE}},
};

struct measure {
    enum dt_decision_kind kind; /* that enacts it: HOSTPATH_ON or MIGRATE */
    enum state state;
    uint64_t since_ns;
    uint32_t enacted_count; /* migrate: how often */
    bool is_wanted;         /* by the situation of this call */
    bool is_unseen;         /* adopted, and not wanted since: see dt_decide_adopt() */
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
    /* replan */
    enum state replan_state; /* OFF or RISING */
    uint64_t replan_since_ns;
    uint64_t replanned_ns;
    bool has_replanned;
    uint32_t job_starts; /* at the last call */
    bool is_owed;        /* the decided links, to a job that has started again */
    size_t link_count;   /* decided */
    struct dt_decided_link links[DT_RECORD_LINKS_MAX];
    bool is_unseen[DT_RECORD_LINKS_MAX]; /* [link]: adopted, and not found slow since */
    uint64_t unseen_until_ns;
    bool is_recheck; /* the time above has ended for a link */
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

/* NULL: there is no room. Measures that are off make room for others, but for the counts of drains, from
 * which the time of the next one follows. */
static struct measure *find_measure(struct dt_decider *decide, const struct measure *like)
{
    struct measure *unused = NULL;

    for (size_t i = 0; i < decide->measure_count; i++) {
        struct measure *measure = &decide->measures[i];

        if (is_same(measure, like))
            return measure;
        if (measure->state == OFF && !measure->is_wanted &&
            (measure->kind == DT_DECISION_HOSTPATH_ON || !measure->enacted_count))
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
    measure->is_unseen = false;
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
                                  .to_rank = link->to_rank};

        if (!link->connection || !is_of_finding(finding, link))
            continue;
        memcpy(measure.host, link->host, sizeof measure.host);
        snprintf(measure.reason, sizeof measure.reason, "%s", finding->reason);
        want(decide, &measure);
    }
}

/* The mean time of a byte over the RNIC's messages; 0: it has sent none. `other`: over the others of the
 * host, for messages of at least half and at most twice the size. */
static uint64_t mean_ps_per_byte(const struct dt_situation *situation, const struct dt_finding *finding,
                                 bool other, uint64_t like_bytes, uint64_t *message_bytes)
{
    uint64_t service_ns = 0, bytes = 0, count = 0;

    for (size_t i = 0; i < situation->link_count; i++) {
        const struct dt_known_link *link = &situation->links[i];

        if (!link->message_bytes || !link->nic[0] || strcmp(link->host, finding->host) != 0 ||
            (strcmp(link->nic, finding->nic) != 0) != other)
            continue;
        if (like_bytes && (link->message_bytes < like_bytes / 2 || link->message_bytes / 2 > like_bytes))
            continue;
        service_ns += dt_min_u64(link->service_ns, DT_NS_PER_S * 1000) / 64;
        bytes += dt_min_u64(link->message_bytes, UINT64_MAX / 1024 / 4096);
        count++;
    }
    *message_bytes = count ? bytes / count : 0;
    return bytes ? service_ns * 1000 / bytes * 64 : 0;
}

static void want_migrate(struct dt_decider *decide, const struct dt_situation *situation,
                         const struct dt_finding *finding)
{
    struct measure measure = {.kind = DT_DECISION_MIGRATE, .from_rank = -1, .to_rank = -1};
    uint64_t bytes, other_bytes;
    uint64_t own_ps = mean_ps_per_byte(situation, finding, false, 0, &bytes);
    uint64_t backup_ps = mean_ps_per_byte(situation, finding, true, bytes, &other_bytes);

    snprintf(measure.host, sizeof measure.host, "%s", finding->host);
    snprintf(measure.nic, sizeof measure.nic, "%s", finding->nic);
    if (!finding->nic[0] || !own_ps || !backup_ps || own_ps / FASTER_PERMILLE * 1000 < backup_ps)
        return;
    snprintf(measure.reason, sizeof measure.reason,
             "the other RNICs of %.40s take %.1f times less for such messages: %.140s", finding->host,
             (double)own_ps / (double)backup_ps, finding->reason);
    want(decide, &measure);
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
            want_migrate(decide, situation, finding);
    }
}

static uint64_t wait_ns(const struct dt_decider *decide, const struct measure *measure, enum wait wait)
{
    if (wait == AT_ONCE)
        return 0;
    if (wait == CONFIRM)
        return decide->options.confirm_ns;
    if (measure->kind != DT_DECISION_MIGRATE)
        return measure->is_unseen ? decide->options.drained_ns : decide->options.clear_ns;
    uint32_t doublings = measure->enacted_count > 0 ? measure->enacted_count - 1 : 0;
    return decide->options.drained_ns << (doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX);
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
    memcpy(decision->host, measure->host, sizeof decision->host);
    memcpy(decision->nic, measure->nic, sizeof decision->nic);
    if (enacts)
        memcpy(decision->reason, measure->reason, sizeof decision->reason);
    else
        snprintf(decision->reason, sizeof decision->reason, "over: %.240s", measure->reason);
}

/* True: *decision is to be carried out. */
static bool step(const struct dt_decider *decide, struct measure *measure, uint64_t now_ns,
                 struct dt_decision *decision)
{
    const struct transition *transition =
        &transitions[measure->state][measure->is_wanted ? WANTED : NOT_WANTED];

    if (transition->next == measure->state ||
        now_ns < dt_deadline_ns(measure->since_ns, wait_ns(decide, measure, transition->after)))
        return false;
    measure->state = transition->next;
    measure->since_ns = now_ns;
    if (transition->action == NONE)
        return false;
    if (transition->action == ENACT)
        measure->enacted_count++;
    describe(measure, transition->action, decision);
    return true;
}

/* ---- Replan. ---- */

/* Whether a schedule can do something about it: a busy processor delays everything. */
static bool is_for_schedule(const struct dt_situation *situation, const struct dt_slow_link *link)
{
    for (size_t i = 0; i < situation->finding_count; i++) {
        const struct dt_finding *finding = &situation->findings[i];

        if (finding->number == link->finding && finding->state != DT_FINDING_ENDED)
            return finding->kind == DT_FINDING_LINK || finding->kind == DT_FINDING_NIC;
    }
    return false;
}

/* The place of the link between the same ranks; `count`: there is none. */
static size_t place_of(const struct dt_decided_link *links, size_t count, const struct dt_decided_link *of)
{
    size_t i = 0;

    while (i < count && (links[i].from_rank != of->from_rank || links[i].to_rank != of->to_rank))
        i++;
    return i;
}

/* Whether its messages take less than half of the delay, all in all: then it has no such delay. */
static bool is_refuted(const struct dt_situation *situation, const struct dt_decided_link *decided)
{
    uint64_t longest_ns = 0;

    for (size_t i = 0; i < situation->link_count; i++) {
        const struct dt_known_link *link = &situation->links[i];

        if (link->connection && link->from_rank == decided->from_rank && link->to_rank == decided->to_rank &&
            link->service_ns > longest_ns)
            longest_ns = link->service_ns;
    }
    return longest_ns && longest_ns < (uint64_t)decided->delay_ns / 2;
}

/*
 * Adds the adopted links that this controller's judge has not found slow. A judge that has begun with the
 * link slow takes that for its healthy time: that it finds nothing, or only a part of the delay, is no sign
 * of a recovery.
 */
static size_t add_unseen(struct dt_decider *decide, const struct dt_situation *situation,
                         struct dt_decided_link *links, size_t count, uint64_t now_ns)
{
    for (size_t i = 0; i < decide->link_count; i++) {
        const struct dt_decided_link *decided = &decide->links[i];
        size_t at = place_of(links, count, decided);

        if (!decide->is_unseen[i] || at == DT_RECORD_LINKS_MAX)
            continue;
        decide->is_recheck |= now_ns >= decide->unseen_until_ns;
        decide->is_unseen[i] =
            now_ns < decide->unseen_until_ns && (at == count || links[at].delay_ns < decided->delay_ns / 2);
        if (!decide->is_unseen[i] || is_refuted(situation, decided))
            continue;
        links[at] = *decided;
        count += at == count;
    }
    return count;
}

static size_t wanted_links(struct dt_decider *decide, const struct dt_situation *situation, uint64_t now_ns,
                           struct dt_decided_link links[DT_RECORD_LINKS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < situation->slow_count && count < DT_RECORD_LINKS_MAX; i++) {
        const struct dt_slow_link *slow = &situation->slow[i];

        if (slow->from_rank > DT_RECORD_RANK_MAX || slow->to_rank > DT_RECORD_RANK_MAX ||
            slow->delay_ns < (uint64_t)decide->options.delay_min_ns || slow->delay_ns > 1000 * DT_NS_PER_S ||
            !is_for_schedule(situation, slow))
            continue;
        links[count++] = (struct dt_decided_link){(int32_t)slow->from_rank, (int32_t)slow->to_rank,
                                                  (int64_t)slow->delay_ns};
    }
    return add_unseen(decide, situation, links, count, now_ns);
}

static int64_t delay_of(const struct dt_decided_link *links, size_t count, const struct dt_decided_link *of)
{
    size_t at = place_of(links, count, of);

    return at < count ? links[at].delay_ns : 0;
}

/* By how much the delay of a link of `left` is above that in `right`, at most. */
static int64_t largest_rise_ns(const struct dt_decided_link *left, size_t left_count,
                               const struct dt_decided_link *right, size_t right_count)
{
    int64_t largest_ns = 0;

    for (size_t i = 0; i < left_count; i++) {
        int64_t rise_ns = left[i].delay_ns - delay_of(right, right_count, &left[i]);

        largest_ns = rise_ns > largest_ns ? rise_ns : largest_ns;
    }
    return largest_ns;
}

enum change { SAME, WORSE, BETTER };

/* From the links that are decided to those that are wanted now. */
static enum change compare(const struct dt_decider *decide, const struct dt_decided_link *links, size_t count)
{
    int64_t longest_ns = largest_rise_ns(links, count, NULL, 0);
    int64_t decided_ns = largest_rise_ns(decide->links, decide->link_count, NULL, 0);
    int64_t least_ns = (longest_ns > decided_ns ? longest_ns : decided_ns) / 1000 * REPLAN_PERMILLE;

    if (largest_rise_ns(links, count, decide->links, decide->link_count) > least_ns)
        return WORSE;
    return largest_rise_ns(decide->links, decide->link_count, links, count) > least_ns ? BETTER : SAME;
}

static void set_links(struct dt_decider *decide, const struct dt_decided_link *links, size_t count,
                      uint64_t now_ns)
{
    bool is_unseen[DT_RECORD_LINKS_MAX];

    DT_CHECK(count <= DT_RECORD_LINKS_MAX);
    for (size_t i = 0; i < count; i++) {
        size_t at = place_of(decide->links, decide->link_count, &links[i]);

        is_unseen[i] = at < decide->link_count && decide->is_unseen[at];
    }
    memcpy(decide->is_unseen, is_unseen, count * sizeof *is_unseen);
    memcpy(decide->links, links, count * sizeof *links);
    decide->link_count = count;
    decide->replan_state = OFF;
    decide->replanned_ns = now_ns;
    decide->has_replanned = true;
    decide->is_owed = decide->is_recheck = false;
}

static void describe_replan(const struct dt_decider *decide, const struct dt_situation *situation,
                            struct dt_decision *decision)
{
    *decision = (struct dt_decision){
        .kind = DT_DECISION_REPLAN, .from_rank = -1, .to_rank = -1, .link_count = decide->link_count};
    memcpy(decision->links, decide->links, decide->link_count * sizeof *decide->links);
    snprintf(decision->reason, sizeof decision->reason, "no link is slow any more");
    for (size_t i = 0; decision->link_count && i < situation->finding_count; i++) {
        const struct dt_finding *finding = &situation->findings[i];

        if (finding->state == DT_FINDING_ENDED ||
            (finding->kind != DT_FINDING_LINK && finding->kind != DT_FINDING_NIC))
            continue;
        snprintf(decision->reason, sizeof decision->reason, "%s", finding->reason);
        break;
    }
}

static void look_for_start(struct dt_decider *decide, uint32_t job_starts)
{
    if (decide->job_starts && job_starts != decide->job_starts)
        decide->is_owed = decide->link_count > 0;
    decide->job_starts = job_starts;
}

static bool is_due(struct dt_decider *decide, enum change change, uint64_t now_ns)
{
    uint64_t after_ns = change == WORSE ? decide->options.confirm_ns : decide->options.clear_ns;

    if (change == SAME) {
        decide->replan_state = OFF;
        return false;
    }
    if (decide->replan_state == OFF) {
        decide->replan_state = RISING;
        decide->replan_since_ns = now_ns;
    }
    return now_ns >= dt_deadline_ns(decide->replan_since_ns, after_ns) &&
           (!decide->has_replanned ||
            now_ns >= dt_deadline_ns(decide->replanned_ns, decide->options.replan_gap_ns));
}

static bool replan(struct dt_decider *decide, const struct dt_situation *situation, uint64_t now_ns,
                   struct dt_decision *decision)
{
    struct dt_decided_link links[DT_RECORD_LINKS_MAX];
    size_t count = wanted_links(decide, situation, now_ns, links);

    look_for_start(decide, situation->job_starts);
    if (is_due(decide, compare(decide, links, count), now_ns)) {
        const bool is_recheck = decide->is_recheck;

        set_links(decide, links, count, now_ns);
        describe_replan(decide, situation, decision);
        if (!count && is_recheck)
            snprintf(decision->reason, sizeof decision->reason,
                     "this controller has measured no slow link in its recheck time");
        return true;
    }
    if (!decide->is_owed)
        return false;
    decide->is_owed = false;
    describe_replan(decide, situation, decision);
    snprintf(decision->reason, sizeof decision->reason, "the job has started again: the re-plan in force");
    return true;
}

/* ---- All. ---- */
size_t dt_decide(struct dt_decider *decide, const struct dt_situation *situation, uint64_t now_ns,
                 struct dt_decision *decisions, size_t room)
{
    size_t count = 0;

    if (!room)
        return 0;
    if (decide->options.replan && replan(decide, situation, now_ns, &decisions[count]))
        count++;
    want_all(decide, situation);
    for (size_t i = 0; i < decide->measure_count && count < room; i++)
        count += step(decide, &decide->measures[i], now_ns, &decisions[count]);
    return count;
}

void dt_decide_adopt(struct dt_decider *decide, const struct dt_decision *decision, bool is_seen,
                     uint64_t now_ns)
{
    const bool enacts = decision->kind == DT_DECISION_MIGRATE || decision->kind == DT_DECISION_HOSTPATH_ON;
    struct measure like = {
        .connection = decision->connection, .from_rank = decision->from_rank, .to_rank = decision->to_rank};
    struct measure *measure;

    switch ((enum dt_decision_kind)decision->kind) {
    case DT_DECISION_REPLAN:
        set_links(decide, decision->links, decision->link_count, now_ns);
        if (!is_seen) {
            memset(decide->is_unseen, true, sizeof decide->is_unseen);
            decide->unseen_until_ns = dt_deadline_ns(now_ns, decide->options.drained_ns);
        }
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
    measure->is_unseen = enacts && !is_seen;
}

void dt_decide_adopt_job(struct dt_decider *decide, uint32_t job_starts)
{
    decide->job_starts = job_starts;
}

bool dt_decide_is_for_job(const struct dt_decider *decide, uint32_t job_starts)
{
    return decide->job_starts == job_starts && !decide->is_owed;
}

struct dt_in_force dt_decide_in_force(const struct dt_decider *decide)
{
    struct dt_in_force in_force = {.links = decide->link_count};

    for (size_t i = 0; i < decide->measure_count; i++) {
        const struct measure *measure = &decide->measures[i];

        if (measure->state != ON && measure->state != FALLING)
            continue;
        if (measure->kind == DT_DECISION_MIGRATE)
            in_force.nics++;
        else
            in_force.connections++;
    }
    return in_force;
}
