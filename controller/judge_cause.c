/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/judge_cause.h"

#include <math.h>

#include "base/util.h"

#define CLEAR_ERRORS   2.5 /* standard errors from half of the link's rise */
#define REFUTED_FACTOR 2
#define REFUTED_PART   4   /* a quarter */
#define PART           0.5 /* of the extra time that waits must explain: detect/processor.h */

enum answer { NO, NOT_YET, YES };

static bool is_of_host(const struct dt_judge *judge, const struct dt_judge_rank *rank,
                       const struct dt_series_level *level)
{
    uint32_t finding = rank->member.finding;
    bool is_device = finding != DT_JUDGE_NONE && judge->findings.list[finding].kind == DT_FINDING_DEVICE;

    return level->error > 0 && !is_device && dt_judge_is_recent(judge, &rank->member);
}

/* `sign` -1: takes it away again. */
static void add_rank(struct dt_judge_host_ranks *ranks, const struct dt_judge_rank *rank,
                     const struct dt_series_level *level, int sign)
{
    ranks->count += (uint32_t)sign;
    ranks->sum += sign * level->mean;
    ranks->squares += sign * level->error * level->error;
    ranks->shares += sign * rank->share;
}

void dt_judge_cause_begin(struct dt_judge *judge)
{
    for (uint32_t i = 0; i < judge->host_count; i++)
        judge->hosts[i].ranks = (struct dt_judge_host_ranks){0};
    for (uint32_t i = 0; i < judge->rank_count; i++) {
        const struct dt_judge_rank *rank = &judge->ranks[i];
        struct dt_series_level level = dt_series_lower_of_two(&rank->member.series);

        if (is_of_host(judge, rank, &level))
            add_rank(&judge->hosts[rank->host].ranks, rank, &level, 1);
    }
}

/*
 * Do the waits of this host's threads for a processor explain a rise? A few reports of an idle host have as
 * much as a rise of some percent needs, which itself took tens of reports to find: so the mean must have it.
 */
static enum answer explains(const struct dt_judge *judge, uint32_t host, double rise)
{
    const struct dt_judge_host *one = &judge->hosts[host];
    double needed = fmax(DT_JUDGE_BUSY, PART * (1 - exp(-rise)));

    if (one->share_ns == 0 || judge->now_ns > one->share_ns + DT_JUDGE_STALE_NS || one->share < needed)
        return NO;
    return one->share >= DT_JUDGE_CLEARLY_BUSY || one->mean >= needed ? YES : NOT_YET;
}

/*
 * Do the waits of its last report explain a rise? explains() follows a host that has just become busy only
 * after some reports.
 */
static bool may_explain(const struct dt_judge *judge, uint32_t host, double rise)
{
    return judge->hosts[host].share_last >= PART * (1 - exp(-rise));
}

/* Links that share something with a slow one: of one NIC, except those to the NIC at the other end of `link`.
 */
struct others {
    double sum, squares; /* of means, and of their standard errors */
    uint32_t count;
};

/*
 * Explained without the NIC `nic`: by the NIC or the host at its other end; or named as a link that is slow
 * by itself, and not since the same time as the other one, since a NIC or a processor delays its links at
 * once.
 */
static bool is_another_incident(const struct dt_judge *judge, const struct dt_judge_member *member,
                                uint32_t nic, uint64_t since_ns)
{
    if (member->finding == DT_JUDGE_NONE)
        return false;
    enum dt_finding_kind kind = judge->findings.list[member->finding].kind;
    uint32_t at = judge->findings.keys[member->finding][0];

    if (kind != DT_FINDING_LINK)
        return at != (kind == DT_FINDING_NIC ? nic : judge->nics[nic].host);
    uint64_t own_ns = dt_judge_since_ns(member);

    return dt_max_u64(own_ns, since_ns) - dt_min_u64(own_ns, since_ns) > judge->span_ns;
}

/* `nic`: the one that both links share. */
static void add_other(struct others *others, const struct dt_judge *judge, const struct dt_judge_link *other,
                      uint32_t nic, uint64_t since_ns)
{
    const struct dt_judge_member *member = &other->member;

    if (!dt_series_is_learned(&member->series) || !dt_judge_is_recent(judge, member) ||
        is_another_incident(judge, member, nic, since_ns))
        return;
    struct dt_series_level level = dt_series_level_since(&member->series, since_ns);

    if (level.error <= 0)
        return;
    others->sum += fmax(level.mean, member->outlier);
    others->squares += level.error * level.error;
    others->count++;
}

static uint32_t other_end(const struct dt_judge_link *link, uint32_t nic)
{
    return link->nic == nic ? link->peer_nic : link->nic;
}

static struct others others_of(const struct dt_judge *judge, const struct dt_judge_link *link, uint32_t nic,
                               bool is_out)
{
    const struct dt_judge_nic *end = &judge->nics[nic];
    uint64_t since_ns = dt_judge_since_ns(&link->member);
    uint32_t pair = other_end(link, nic);
    struct others others = {0};

    for (uint32_t i = is_out ? end->first_out : end->first_in; i != DT_JUDGE_NONE;
         i = is_out ? judge->links[i].next_out : judge->links[i].next_in) {
        if (other_end(&judge->links[i], nic) != pair)
            add_other(&others, judge, &judge->links[i], nic, since_ns);
    }
    return others;
}

static struct others together(struct others a, struct others b)
{
    return (struct others){a.sum + b.sum, a.squares + b.squares, a.count + b.count};
}

/* Standard errors by which their mean is above a level; below: negative. */
static double above(const struct others *others, double level)
{
    return (others->sum / others->count - level) / (sqrt(others->squares) / others->count);
}

struct side {
    double score;  /* the highest of all, of the outgoing and of the incoming others */
    double rise;   /* mean of these */
    bool is_clear; /* the others are healthy, or there are none */
    bool is_alone; /* there are none with reports since then */
};

/* A NIC may be slow in both directions or in one. */
static struct side side_of(const struct dt_judge *judge, const struct dt_judge_link *link, uint32_t nic)
{
    double rise = dt_judge_rise(&link->member);
    struct others out = others_of(judge, link, nic, true), in = others_of(judge, link, nic, false);
    struct others all = together(out, in);
    struct side side = {.score = -INFINITY, .is_clear = true, .is_alone = all.count == 0};
    const struct others *groups[] = {&all, &out, &in};

    for (uint32_t i = 0; i < 3; i++) {
        if (groups[i]->count == 0)
            continue;
        double score = above(groups[i], rise / 2);

        if (score > side.score) {
            side.score = score;
            side.rise = groups[i]->sum / groups[i]->count;
        }
        side.is_clear = side.is_clear && score < (i == 0 ? -CLEAR_ERRORS : 0);
    }
    return side;
}

/* The link itself, or its other direction if that is slow as well. */
static bool is_same(const struct dt_judge_link *link, const struct dt_judge_link *other)
{
    return other == link || (other->nic == link->peer_nic && other->peer_nic == link->nic &&
                             dt_judge_rise(&other->member) >= dt_judge_rise(&link->member) / REFUTED_PART);
}

/*
 * A busy processor delays all that the rank sends, and at the peer also what it receives. True: this link
 * takes more than REFUTED_FACTOR times its healthy time, and other such links have less than a part of its
 * rise. A link with a smaller rise may stand out of the links of a busy host by chance. The other direction
 * of a link that is slow both ways is not another link: is_same() leaves it out.
 */
static bool is_refuted(const struct dt_judge *judge, const struct dt_judge_link *link, bool is_peer)
{
    uint32_t nic = is_peer ? link->peer_nic : link->nic, rank = is_peer ? link->to_rank : link->from_rank;
    const struct dt_judge_nic *end = &judge->nics[nic];
    uint64_t since_ns = dt_judge_since_ns(&link->member);
    double rise = dt_judge_rise(&link->member);
    struct others others = {0};

    if (rise < log(REFUTED_FACTOR))
        return false;
    for (uint32_t i = end->first_out; i != DT_JUDGE_NONE; i = judge->links[i].next_out) {
        if (!is_same(link, &judge->links[i]) && judge->links[i].from_rank == rank)
            add_other(&others, judge, &judge->links[i], nic, since_ns);
    }
    for (uint32_t i = is_peer ? end->first_in : DT_JUDGE_NONE; i != DT_JUDGE_NONE;
         i = judge->links[i].next_in) {
        if (!is_same(link, &judge->links[i]) && judge->links[i].to_rank == rank)
            add_other(&others, judge, &judge->links[i], nic, since_ns);
    }
    return others.count > 0 && above(&others, rise / REFUTED_PART) < -CLEAR_ERRORS;
}

/* A host of either end has just become busy, and other links do not refute it. */
static bool has_busy_end(const struct dt_judge *judge, const struct dt_judge_link *link,
                         const struct dt_judge_cause *cause)
{
    const uint32_t hosts[] = {judge->nics[link->nic].host, judge->nics[link->peer_nic].host};
    double rise = dt_judge_rise(&link->member);

    for (int end = 0; end < 2; end++) {
        if (cause->refuted[end] != hosts[end] && may_explain(judge, hosts[end], rise))
            return true;
    }
    return false;
}

/* A NIC or the link; or the processors of the NIC's host, which explain the rise that its links have in
 * common though not the one of this link, which the noise of few reports may have raised. */
static void compare_with_others(const struct dt_judge *judge, const struct dt_judge_link *link,
                                struct dt_judge_cause *cause)
{
    struct side own = side_of(judge, link, link->nic), peer = side_of(judge, link, link->peer_nic);
    const struct side *nic = own.score >= peer.score ? &own : &peer;
    uint32_t at = nic == &own ? link->nic : link->peer_nic, host = judge->nics[at].host;
    bool is_early = dt_judge_is_early(&link->member);

    if (nic->score <= CLEAR_ERRORS) {
        cause->kind = DT_FINDING_LINK;
        cause->at = DT_JUDGE_NONE;
        cause->is_known = own.is_clear && peer.is_clear &&
                          (!is_early || (link->member.round == judge->round && !own.is_alone &&
                                         !peer.is_alone && !has_busy_end(judge, link, cause)));
        return;
    }
    enum answer answer = cause->refuted[nic == &peer] == host ? NO : explains(judge, host, nic->rise);

    cause->is_known = cause->is_known && answer != NOT_YET;
    cause->kind = answer == NO ? DT_FINDING_NIC : DT_FINDING_PROCESSOR;
    cause->at = answer == NO ? at : host;
}

struct dt_judge_cause dt_judge_cause_of_link(const struct dt_judge *judge, const struct dt_judge_link *link)
{
    double rise = dt_judge_rise(&link->member);
    uint32_t host = judge->nics[link->nic].host, peer_host = judge->nics[link->peer_nic].host;
    bool is_own = !is_refuted(judge, link, false), is_peer = !is_refuted(judge, link, true);
    if (host == peer_host) /* the processors of both ends are the same */
        is_own = is_peer = is_own && is_peer;
    enum answer own = !is_own ? NO : link->is_own_processor ? YES : explains(judge, host, rise);
    enum answer peer = is_peer ? explains(judge, peer_host, rise) : NO;

    /*
     * One report may be of a burst of a NIC or a processor. Only other links of both NICs that report healthy
     * times at once exclude that; later, their reports are of the time after the burst.
     */
    struct dt_judge_cause cause = {!dt_judge_is_early(&link->member),
                                   DT_FINDING_PROCESSOR,
                                   own >= peer ? host : peer_host,
                                   {is_own ? DT_JUDGE_NONE : host, is_peer ? DT_JUDGE_NONE : peer_host}};

    if (own == NO && peer == NO)
        compare_with_others(judge, link, &cause);
    else
        cause.is_known = cause.is_known && (own == YES || peer == YES);
    return cause;
}

/*
 * A rank that takes DT_JUDGE_SLOW times as long as a busy processor makes the others of its host take, in
 * each of two reports, and does not wait longer for a processor than they do. If the others are not slow,
 * they do not show what the processors do.
 */
static bool stands_out(const struct dt_judge *judge, const struct dt_judge_rank *rank)
{
    struct dt_series_level own = dt_series_lower_of_two(&rank->member.series);
    struct dt_judge_host_ranks others = judge->hosts[rank->host].ranks;

    if (is_of_host(judge, rank, &own))
        add_rank(&others, rank, &own, -1);
    if (others.count == 0)
        return false;
    double count = others.count, mean = others.sum / count, error = sqrt(fmax(0, others.squares)) / count;
    double above = own.mean - mean;

    return mean >= fmax(DT_SERIES_RISE, DT_SERIES_ERRORS * error) &&
           above >= fmax(log(DT_JUDGE_SLOW), DT_SERIES_ERRORS * hypot(own.error, error)) &&
           rank->share - others.shares / count < PART * (1 - exp(-above));
}

struct dt_judge_cause dt_judge_cause_of_rank(const struct dt_judge *judge, const struct dt_judge_rank *rank)
{
    double rise = dt_judge_rise(&rank->member);
    bool is_early = dt_judge_is_early(&rank->member);

    enum answer answer = explains(judge, rank->host, rise);

    if (answer != NO && stands_out(judge, rank))
        return (struct dt_judge_cause){true, DT_FINDING_DEVICE, DT_JUDGE_NONE, {rank->host, DT_JUDGE_NONE}};
    if (answer != NO)
        return (struct dt_judge_cause){
            !is_early && answer == YES, DT_FINDING_PROCESSOR, rank->host, {DT_JUDGE_NONE, DT_JUDGE_NONE}};
    bool is_certain = !is_early || !may_explain(judge, rank->host, rise);

    return (struct dt_judge_cause){
        is_certain, DT_FINDING_DEVICE, DT_JUDGE_NONE, {DT_JUDGE_NONE, DT_JUDGE_NONE}};
}
