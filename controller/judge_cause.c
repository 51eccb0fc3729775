/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/judge_cause.h"

#include <math.h>

#define CLEAR_ERRORS 2.5 /* standard errors from half of the link's rise */
#define PART         0.5 /* of the extra time that waits must explain: detect/processor.h */

/* Do the waits of this host's threads for a processor explain a rise? */
static bool explains(const struct dt_judge *judge, uint32_t host, double rise)
{
    const struct dt_judge_host *one = &judge->hosts[host];

    if (one->share_ns == 0 || judge->now_ns > one->share_ns + DT_JUDGE_STALE_NS || one->share < DT_JUDGE_BUSY)
        return false;
    return one->share >= PART * (1 - exp(-rise));
}

/* The other links of one NIC, except those to the NIC at the other end of `link`. */
struct others {
    double sum, squares; /* of means, and of their standard errors */
    uint32_t count;
};

static void add_other(struct others *others, const struct dt_judge *judge, const struct dt_judge_link *other,
                      uint64_t since_ns)
{
    const struct dt_judge_member *member = &other->member;

    if (!dt_series_is_learned(&member->series) || !dt_judge_is_recent(judge, member))
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
            add_other(&others, judge, &judge->links[i], since_ns);
    }
    return others;
}

static struct others together(struct others a, struct others b)
{
    return (struct others){a.sum + b.sum, a.squares + b.squares, a.count + b.count};
}

/* Standard errors by which their mean is above half of the rise; below: negative. */
static double above_half(const struct others *others, double rise)
{
    return (others->sum / others->count - rise / 2) / (sqrt(others->squares) / others->count);
}

struct side {
    double score;  /* the highest of all, of the outgoing and of the incoming others */
    bool is_clear; /* the others are healthy */
};

/* A NIC may be slow in both directions or in one. */
static struct side side_of(const struct dt_judge *judge, const struct dt_judge_link *link, uint32_t nic)
{
    double rise = dt_judge_rise(&link->member);
    struct others out = others_of(judge, link, nic, true), in = others_of(judge, link, nic, false);
    struct others all = together(out, in);
    struct side side = {.score = -INFINITY, .is_clear = true};
    const struct others *groups[] = {&all, &out, &in};

    for (uint32_t i = 0; i < 3; i++) {
        if (groups[i]->count == 0)
            continue;
        double score = above_half(groups[i], rise);

        side.score = fmax(side.score, score);
        side.is_clear = side.is_clear && score < (i == 0 ? -CLEAR_ERRORS : 0);
    }
    return side;
}

struct dt_judge_cause dt_judge_cause_of_link(const struct dt_judge *judge, const struct dt_judge_link *link)
{
    double rise = dt_judge_rise(&link->member);
    uint32_t host = judge->nics[link->nic].host, peer_host = judge->nics[link->peer_nic].host;

    if (link->is_own_processor || explains(judge, host, rise))
        return (struct dt_judge_cause){true, DT_FINDING_PROCESSOR, host};
    if (explains(judge, peer_host, rise))
        return (struct dt_judge_cause){true, DT_FINDING_PROCESSOR, peer_host};
    struct side own = side_of(judge, link, link->nic), peer = side_of(judge, link, link->peer_nic);

    if (fmax(own.score, peer.score) > CLEAR_ERRORS)
        return (struct dt_judge_cause){true, DT_FINDING_NIC,
                                       own.score >= peer.score ? link->nic : link->peer_nic};
    return (struct dt_judge_cause){own.is_clear && peer.is_clear, DT_FINDING_LINK, DT_JUDGE_NONE};
}

struct dt_judge_cause dt_judge_cause_of_rank(const struct dt_judge *judge, const struct dt_judge_rank *rank)
{
    if (explains(judge, rank->host, dt_judge_rise(&rank->member)))
        return (struct dt_judge_cause){true, DT_FINDING_PROCESSOR, rank->host};
    return (struct dt_judge_cause){true, DT_FINDING_DEVICE, DT_JUDGE_NONE};
}
