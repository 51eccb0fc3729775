/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "base/util.h"
#include "controller/judge_findings.h"
#include "controller/judge_kind.h"
#include "detour/stat.h"

#define SHARE_WEIGHT   0.4          /* of one report in the smoothed share of waits of a host */
#define MEAN_WEIGHT    0.1          /* of one report in the mean share of waits of a host */
#define OUTLIER_STAYS  0.8          /* of the bound: an outlier is none again below it */
#define OUTLIER_WINDOW 4            /* that of 7 reports, for its present level */
#define DURATION_MAX   (1ull << 53) /* of nanoseconds and bytes: above it a report is wrong */
#define TABLE_PER_ITEM 2

/* ---- tables ---- */

static bool open_index(struct dt_judge_index *index, uint32_t items)
{
    uint64_t size = dt_round_up_power_of_two((uint64_t)items * TABLE_PER_ITEM);

    index->slots = malloc(size * sizeof *index->slots);
    if (!index->slots)
        return false;
    memset(index->slots, 0xff, size * sizeof *index->slots);
    index->mask = (uint32_t)(size - 1);
    return true;
}

struct dt_judge *dt_judge_create(uint32_t links_max, uint32_t ranks_max)
{
    const uint32_t limit = 1u << 24;
    struct dt_judge *judge;

    if (links_max == 0 || ranks_max == 0 || links_max > limit || ranks_max > limit)
        return NULL;
    judge = calloc(1, sizeof *judge);
    if (!judge)
        return NULL;
    judge->link_max = links_max;
    judge->rank_max = ranks_max;
    judge->nic_max = 2 * links_max;
    judge->host_max = 2 * links_max + ranks_max;
    judge->links = calloc(judge->link_max, sizeof *judge->links);
    judge->ranks = calloc(judge->rank_max, sizeof *judge->ranks);
    judge->nics = calloc(judge->nic_max, sizeof *judge->nics);
    judge->hosts = calloc(judge->host_max, sizeof *judge->hosts);
    judge->scratch = calloc((size_t)links_max + ranks_max, sizeof *judge->scratch);
    if (judge->links && judge->ranks && judge->nics && judge->hosts && judge->scratch &&
        open_index(&judge->link_index, judge->link_max) && open_index(&judge->rank_index, judge->rank_max) &&
        open_index(&judge->nic_index, judge->nic_max) && open_index(&judge->host_index, judge->host_max))
        return judge;
    dt_judge_destroy(judge);
    return NULL;
}

void dt_judge_destroy(struct dt_judge *judge)
{
    if (!judge)
        return;
    free(judge->links);
    free(judge->ranks);
    free(judge->nics);
    free(judge->hosts);
    free(judge->scratch);
    free(judge->link_index.slots);
    free(judge->rank_index.slots);
    free(judge->nic_index.slots);
    free(judge->host_index.slots);
    free(judge);
}

typedef bool is_it_func(const struct dt_judge *judge, uint32_t at, const void *key);

/* The slot that holds the position of `key`, or the free one where it belongs. There is always a free one. */
static uint32_t *probe(const struct dt_judge *judge, const struct dt_judge_index *index, uint64_t digest,
                       is_it_func *is_it, const void *key)
{
    for (uint64_t i = digest ^ digest >> 32;; i++) {
        uint32_t *slot = &index->slots[i & index->mask];

        if (*slot == DT_JUDGE_NONE || is_it(judge, *slot, key))
            return slot;
    }
}

static bool is_host(const struct dt_judge *judge, uint32_t at, const void *key)
{
    return strcmp(judge->hosts[at].name, key) == 0;
}

static uint32_t find_host(struct dt_judge *judge, const char *name)
{
    uint32_t *slot =
        probe(judge, &judge->host_index, dt_digest_add(DT_DIGEST_EMPTY, name, strlen(name)), is_host, name);

    if (*slot != DT_JUDGE_NONE || judge->host_count == judge->host_max)
        return *slot;
    *slot = judge->host_count;
    strcpy(judge->hosts[judge->host_count].name, name); /* its length was checked with the report */
    return judge->host_count++;
}

static bool is_nic(const struct dt_judge *judge, uint32_t at, const void *key)
{
    const struct dt_judge_nic *nic = &judge->nics[at], *wanted = key;

    return nic->host == wanted->host && nic->unnamed_rank == wanted->unnamed_rank &&
           strcmp(nic->name, wanted->name) == 0;
}

static uint32_t find_nic(struct dt_judge *judge, const char *host, const char *name, uint32_t rank)
{
    struct dt_judge_nic key = {.host = find_host(judge, host),
                               .rank = rank,
                               .unnamed_rank = *name ? DT_JUDGE_UNKNOWN : rank,
                               .first_out = DT_JUDGE_NONE,
                               .first_in = DT_JUDGE_NONE};

    if (key.host == DT_JUDGE_NONE)
        return DT_JUDGE_NONE;
    strcpy(key.name, name);
    uint64_t digest = dt_digest_add(DT_DIGEST_EMPTY, &key.host, sizeof key.host);
    digest = dt_digest_add(digest, &key.unnamed_rank, sizeof key.unnamed_rank);
    uint32_t *slot = probe(judge, &judge->nic_index, dt_digest_add(digest, name, strlen(name)), is_nic, &key);

    if (*slot != DT_JUDGE_NONE) {
        if (judge->nics[*slot].rank != rank)
            judge->nics[*slot].rank = DT_JUDGE_UNKNOWN;
        return *slot;
    }
    if (judge->nic_count == judge->nic_max)
        return DT_JUDGE_NONE;
    *slot = judge->nic_count;
    judge->nics[judge->nic_count] = key;
    return judge->nic_count++;
}

/* With too many kinds, the rest is one kind. */
static uint32_t find_kind(struct dt_judge *judge, const struct dt_judge_kind *wanted)
{
    for (uint32_t i = 0; i < judge->kind_count; i++) {
        const struct dt_judge_kind *kind = &judge->kinds[i];

        if (kind->is_rank == wanted->is_rank && kind->group == wanted->group &&
            kind->size_class == wanted->size_class && kind->is_inside == wanted->is_inside)
            return i;
    }
    if (judge->kind_count == DT_JUDGE_KINDS)
        return DT_JUDGE_KINDS - 1;
    judge->kinds[judge->kind_count] = *wanted;
    return judge->kind_count++;
}

static void open_member(struct dt_judge_member *member, uint32_t kind, uint64_t time_ns)
{
    dt_series_init(&member->series);
    member->kind = kind;
    member->first_ns = time_ns;
    member->finding = DT_JUDGE_NONE;
}

struct link_key {
    uint32_t from_rank, to_rank, nic, peer_nic, group, size_class;
};

static bool is_link(const struct dt_judge *judge, uint32_t at, const void *key)
{
    const struct dt_judge_link *link = &judge->links[at];
    const struct link_key *wanted = key;

    return link->nic == wanted->nic && link->peer_nic == wanted->peer_nic &&
           link->from_rank == wanted->from_rank && link->to_rank == wanted->to_rank &&
           link->group == wanted->group && link->size_class == wanted->size_class;
}

static uint32_t *slot_of_link(struct dt_judge *judge, const struct link_key *key)
{
    return probe(judge, &judge->link_index, dt_digest_add(DT_DIGEST_EMPTY, key, sizeof *key), is_link, key);
}

static void open_link(struct dt_judge *judge, uint32_t at, const struct link_key *key, uint64_t time_ns)
{
    struct dt_judge_link *link = &judge->links[at];
    struct dt_judge_nic *nic = &judge->nics[key->nic], *peer_nic = &judge->nics[key->peer_nic];
    struct dt_judge_kind kind = {
        .group = key->group, .size_class = key->size_class, .is_inside = nic->host == peer_nic->host};

    link->from_rank = key->from_rank;
    link->to_rank = key->to_rank;
    link->nic = key->nic;
    link->peer_nic = key->peer_nic;
    link->group = key->group;
    link->size_class = key->size_class;
    link->next_out = nic->first_out;
    nic->first_out = at;
    link->next_in = peer_nic->first_in;
    peer_nic->first_in = at;
    open_member(&link->member, find_kind(judge, &kind), time_ns);
    struct link_key back = {.from_rank = key->to_rank,
                            .to_rank = key->from_rank,
                            .nic = key->peer_nic,
                            .peer_nic = key->nic,
                            .group = key->group,
                            .size_class = key->size_class};

    link->back = *slot_of_link(judge, &back);
    if (link->back != DT_JUDGE_NONE)
        judge->links[link->back].back = at;
}

static struct dt_judge_link *find_link(struct dt_judge *judge, const struct dt_link_report *report)
{
    struct link_key key = {
        .from_rank = report->from_rank,
        .to_rank = report->to_rank,
        .nic = find_nic(judge, report->host, report->nic, report->from_rank),
        .peer_nic = find_nic(judge, report->peer_host, report->peer_nic, report->to_rank),
        .group = report->group,
        .size_class = 64 - (uint32_t)__builtin_clzll(report->transfer_bytes),
    };

    if (key.nic == DT_JUDGE_NONE || key.peer_nic == DT_JUDGE_NONE)
        return NULL;
    uint32_t *slot = slot_of_link(judge, &key);

    if (*slot == DT_JUDGE_NONE) {
        if (judge->link_count == judge->link_max)
            return NULL;
        *slot = judge->link_count++;
        open_link(judge, *slot, &key, report->time_ns);
    }
    return &judge->links[*slot];
}

static bool is_rank(const struct dt_judge *judge, uint32_t at, const void *key)
{
    return judge->ranks[at].rank == *(const uint32_t *)key;
}

static struct dt_judge_rank *find_rank(struct dt_judge *judge, const struct dt_rank_report *report,
                                       uint32_t host)
{
    const uint32_t *key = &report->rank;
    uint32_t *slot =
        probe(judge, &judge->rank_index, dt_digest_add(DT_DIGEST_EMPTY, key, sizeof *key), is_rank, key);
    struct dt_judge_kind kind = {.is_rank = true, .group = report->stage};

    if (*slot == DT_JUDGE_NONE && judge->rank_count == judge->rank_max)
        return NULL;
    if (*slot == DT_JUDGE_NONE) {
        *slot = judge->rank_count++;
        judge->ranks[*slot].rank = report->rank;
        open_member(&judge->ranks[*slot].member, find_kind(judge, &kind), report->time_ns);
    }
    struct dt_judge_rank *rank = &judge->ranks[*slot];

    /* A rank that moved to another host or stage begins anew. */
    if (rank->host != host || rank->stage != report->stage)
        open_member(&rank->member, find_kind(judge, &kind), report->time_ns);
    rank->host = host;
    rank->stage = report->stage;
    return rank;
}

/* ---- reports ---- */

static bool is_name(const char *name, uint32_t room)
{
    return memchr(name, 0, room) != NULL;
}

static bool is_duration(uint64_t value)
{
    return value > 0 && value < DURATION_MAX;
}

static bool drop(uint64_t *count)
{
    ++*count;
    return false;
}

static void add_value(struct dt_judge *judge, struct dt_judge_member *member, uint64_t value_ns,
                      uint64_t samples, uint64_t time_ns)
{
    member->last = log((double)value_ns);
    member->sum += member->last * (double)samples;
    member->samples += samples;
    member->gap_ns = member->last_ns ? time_ns - member->last_ns : 0;
    member->last_ns = time_ns;
    judge->kinds[member->kind].is_news = true;
    member->seen_ns = judge->kinds[member->kind].seen_ns = judge->now_ns;
}

bool dt_judge_add_link(struct dt_judge *judge, const struct dt_link_report *report)
{
    if (!is_name(report->host, DT_JUDGE_HOST_BYTES) || !is_name(report->peer_host, DT_JUDGE_HOST_BYTES) ||
        !is_name(report->nic, DT_JUDGE_NIC_BYTES) || !is_name(report->peer_nic, DT_JUDGE_NIC_BYTES) ||
        !is_duration(report->service_ns) || !is_duration(report->transfer_bytes) ||
        !is_duration(report->samples) || report->time_ns == 0)
        return drop(&judge->counts.invalid);
    struct dt_judge_link *link = find_link(judge, report);

    if (!link)
        return drop(&judge->counts.no_room);
    if (report->time_ns <= link->member.last_ns)
        return drop(&judge->counts.invalid);
    link->is_own_processor = report->cause == DETOUR_STAT_CAUSE_OWN_PROCESSOR;
    add_value(judge, &link->member, report->service_ns, report->samples, report->time_ns);
    return true;
}

/* Smoothed over reports. Of ranks that report at one time, the one that waits most counts. */
static void add_share(struct dt_judge_host *host, double share, uint64_t time_ns)
{
    if (time_ns < host->share_ns)
        return;
    if (host->share_ns == 0 || time_ns > host->share_ns + DT_JUDGE_STALE_NS) {
        host->share_before = host->share = share;
        host->mean_before = host->mean = share;
    } else if (time_ns > host->share_ns) {
        host->share_before = host->share;
        host->mean_before = host->mean;
        host->share = host->mean = 0;
    }
    host->share_last = fmax(time_ns > host->share_ns ? 0 : host->share_last, share);
    host->share_ns = time_ns;
    host->share = fmax(host->share, host->share_before + SHARE_WEIGHT * (share - host->share_before));
    host->mean = fmax(host->mean, host->mean_before + MEAN_WEIGHT * (share - host->mean_before));
}

bool dt_judge_add_rank(struct dt_judge *judge, const struct dt_rank_report *report)
{
    bool has_compute = report->compute_ns > 0;

    if (report->rank == DT_JUDGE_UNKNOWN || !is_name(report->host, DT_JUDGE_HOST_BYTES) ||
        report->time_ns == 0 || report->compute_ns >= DURATION_MAX || report->iteration_ns >= DURATION_MAX ||
        (has_compute && !is_duration(report->samples)) ||
        !(report->processor_share >= 0 && report->processor_share <= 1))
        return drop(&judge->counts.invalid);
    uint32_t host = find_host(judge, report->host);
    struct dt_judge_rank *rank = host == DT_JUDGE_NONE ? NULL : find_rank(judge, report, host);

    if (!rank)
        return drop(&judge->counts.no_room);
    if (report->time_ns <= rank->member.last_ns)
        return drop(&judge->counts.invalid);
    add_share(&judge->hosts[host], report->processor_share, report->time_ns);
    rank->share += SHARE_WEIGHT * (report->processor_share - rank->share);
    rank->reported_ns = report->time_ns;
    if (report->iteration_ns > 0) /* an agent reports each iteration once */
        rank->iteration_ns = report->iteration_ns;
    if (has_compute)
        add_value(judge, &rank->member, report->compute_ns, report->samples, report->time_ns);
    return true;
}

/* ---- rounds ---- */

bool dt_judge_is_recent(const struct dt_judge *judge, const struct dt_judge_member *member)
{
    return member->last_ns > 0 && judge->now_ns <= member->last_ns + DT_JUDGE_STALE_NS;
}

/* Ranks of unknown stages may have different work. */
static bool has_equals(const struct dt_judge_kind *kind)
{
    return kind->count >= DT_JUDGE_KIND_MIN && !(kind->is_rank && kind->group == DT_JUDGE_UNKNOWN);
}

/* Slow from its first report on, against its kind? */
static void judge_outlier(struct dt_judge_member *member, const struct dt_judge_kind *kind)
{
    double bound = fmax(log(DT_JUDGE_SLOW), DT_JUDGE_OUTLIER * kind->spread);
    double above = member->series.reference - kind->level, present = 0;

    /* The reference follows a recovery only after some hundred reports. */
    dt_series_window(&member->series, OUTLIER_WINDOW, &present);
    if (!has_equals(kind) || kind->spread <= 0 ||
        above + fmin(present, 0) < bound * (member->outlier > 0 ? OUTLIER_STAYS : 1))
        above = 0;
    member->outlier = above;
}

static void judge_member(struct dt_judge *judge, struct dt_judge_member *member)
{
    struct dt_judge_kind *kind = &judge->kinds[member->kind];

    if (member->samples > 0) {
        dt_series_add(&member->series, member->sum / (double)member->samples - kind->change, member->samples,
                      member->last_ns);
        if (!dt_series_judge(&member->series, kind->count < DT_JUDGE_KIND_MIN ? NULL : &kind->errors,
                             judge->span_ns) &&
            member->finding != DT_JUDGE_NONE) {
            kind->is_spiky = true;
            kind->errors.one[0] = 0;
        }
        member->sum = 0;
        member->samples = 0;
        member->round = judge->round;
    }
    if (dt_series_is_learned(&member->series))
        judge_outlier(member, kind);
}

/* Each pair once, after a report of either: the second of the two has no `other`. */
static void judge_both(struct dt_judge *judge, uint32_t at)
{
    struct dt_judge_member *one = &judge->links[at].member, *other = dt_judge_back(judge, at);

    if (other && (one->round == judge->round || other->round == judge->round) &&
        dt_judge_is_recent(judge, one) && dt_judge_is_recent(judge, other))
        dt_series_judge_both(&one->series, &other->series, &judge->kinds[one->kind].errors, judge->span_ns);
}

/* A burst is shorter than half a second or an iteration, whichever is longer. */
static uint64_t burst_ns(struct dt_judge *judge)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < judge->rank_count; i++) {
        const struct dt_judge_rank *rank = &judge->ranks[i];

        if (rank->iteration_ns > 0 && judge->now_ns <= rank->reported_ns + DT_JUDGE_STALE_NS)
            judge->scratch[count++] = (double)rank->iteration_ns;
    }
    return dt_max_u64(DT_JUDGE_SPAN_NS, count ? (uint64_t)dt_judge_median(judge->scratch, count) : 0);
}

/*
 * A cause once found stays as long as the link is slow, with two exceptions. The cause of a link may turn
 * out to be its NIC, or a host that is clearly busy; and other links may show that no processor is the cause.
 */
static struct dt_judge_cause cause_of(const struct dt_judge *judge, const struct dt_judge_member *member,
                                      struct dt_judge_cause cause)
{
    if (member->finding == DT_JUDGE_NONE)
        return cause;
    enum dt_finding_kind kind = judge->findings.list[member->finding].kind;
    uint32_t at = judge->findings.keys[member->finding][0];
    bool is_open = kind == DT_FINDING_LINK || kind == DT_FINDING_DEVICE ||
                   (kind == DT_FINDING_PROCESSOR && (cause.refuted[0] == at || cause.refuted[1] == at));
    bool is_clear =
        cause.kind != DT_FINDING_PROCESSOR || judge->hosts[cause.at].share >= DT_JUDGE_CLEARLY_BUSY;

    if (is_open && cause.is_known && is_clear)
        return cause;
    return (struct dt_judge_cause){true, kind, at, {DT_JUDGE_NONE, DT_JUDGE_NONE}};
}

static void find_causes(struct dt_judge *judge)
{
    dt_judge_cause_begin(judge);
    for (uint32_t i = 0; i < judge->link_count + judge->rank_count; i++) {
        struct dt_judge_member *member = dt_judge_member_at(judge, i);
        bool is_link = i < judge->link_count;
        struct dt_judge_rank *rank = is_link ? NULL : &judge->ranks[i - judge->link_count];

        if (!dt_judge_is_slow(member) || !dt_judge_is_recent(judge, member)) {
            member->finding = DT_JUDGE_NONE;
            continue;
        }
        struct dt_judge_cause cause = cause_of(judge, member,
                                               is_link ? dt_judge_cause_of_link(judge, &judge->links[i])
                                                       : dt_judge_cause_of_rank(judge, rank));
        if (!cause.is_known)
            continue;
        if (is_link)
            dt_judge_findings_add_link(judge, &judge->links[i], &cause);
        else
            dt_judge_findings_add_rank(judge, rank, &cause);
    }
}

const struct dt_finding *dt_judge_decide(struct dt_judge *judge, uint64_t now_ns, uint32_t *count)
{
    judge->now_ns = dt_max_u64(judge->now_ns, now_ns);
    judge->round++;
    judge->span_ns = burst_ns(judge);
    dt_judge_findings_begin(judge);
    for (uint32_t i = 0; i < judge->kind_count; i++)
        dt_judge_kind_measure(judge, i);
    for (uint32_t i = 0; i < judge->link_count + judge->rank_count; i++)
        judge_member(judge, dt_judge_member_at(judge, i));
    for (uint32_t i = 0; i < judge->link_count; i++)
        judge_both(judge, i);
    for (uint32_t i = 0; i < judge->kind_count; i++)
        judge->kinds[i].is_news = false;
    find_causes(judge);
    dt_judge_findings_finish(judge);
    *count = judge->findings.count;
    return judge->findings.list;
}

uint32_t dt_judge_slow_links(const struct dt_judge *judge, struct dt_slow_link *links, uint32_t room)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < judge->link_count; i++) {
        const struct dt_judge_link *link = &judge->links[i];
        const struct dt_judge_member *member = &link->member;

        if (!dt_judge_is_slow(member) || !dt_judge_is_recent(judge, member))
            continue;
        if (count < room) {
            double rise = dt_judge_rise(member);
            double healthy = member->series.reference - (member->series.is_slow ? 0 : member->outlier);

            links[count] = (struct dt_slow_link){
                .from_rank = link->from_rank,
                .to_rank = link->to_rank,
                .factor = exp(rise),
                .delay_ns = (uint64_t)(exp(healthy) * (exp(rise) - 1)),
                .finding =
                    member->finding == DT_JUDGE_NONE ? 0 : judge->findings.list[member->finding].number};
        }
        count++;
    }
    return count;
}

struct dt_judge_counts dt_judge_get_counts(const struct dt_judge *judge)
{
    struct dt_judge_counts counts = judge->counts;

    counts.links = judge->link_count;
    counts.ranks = judge->rank_count;
    counts.hosts = judge->host_count;
    return counts;
}
