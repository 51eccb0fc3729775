/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/judge_findings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"

/* Findings move together; members keep positions, so these are updated. */
static void forget(struct dt_judge *judge, uint32_t at)
{
    struct dt_judge_findings *findings = &judge->findings;
    uint32_t last = --findings->count;

    for (uint32_t i = 0; i < judge->link_count + judge->rank_count; i++) {
        struct dt_judge_member *member =
            i < judge->link_count ? &judge->links[i].member : &judge->ranks[i - judge->link_count].member;

        if (member->finding == at)
            member->finding = DT_JUDGE_NONE;
        else if (member->finding == last)
            member->finding = at;
    }
    findings->list[at] = findings->list[last];
    findings->touched[at] = findings->touched[last];
    memcpy(findings->keys[at], findings->keys[last], sizeof findings->keys[at]);
}

void dt_judge_findings_begin(struct dt_judge *judge)
{
    struct dt_judge_findings *findings = &judge->findings;

    for (uint32_t i = findings->count; i-- > 0;) {
        struct dt_finding *finding = &findings->list[i];

        if (finding->state == DT_FINDING_ENDED) {
            forget(judge, i);
            continue;
        }
        finding->state = DT_FINDING_GOES_ON;
        finding->count = 0;
    }
}

static uint32_t lookup(const struct dt_judge_findings *findings, enum dt_finding_kind kind,
                       const uint32_t key[2])
{
    for (uint32_t i = 0; i < findings->count; i++) {
        if (findings->list[i].kind == kind && findings->keys[i][0] == key[0] &&
            findings->keys[i][1] == key[1])
            return i;
    }
    return DT_JUDGE_NONE;
}

static uint32_t create(struct dt_judge *judge, enum dt_finding_kind kind, const uint32_t key[2])
{
    struct dt_judge_findings *findings = &judge->findings;
    uint32_t at = findings->count;

    if (at == DT_JUDGE_FINDINGS)
        return DT_JUDGE_NONE;
    findings->count++;
    memcpy(findings->keys[at], key, sizeof findings->keys[at]);
    findings->list[at] = (struct dt_finding){.number = ++findings->next_number,
                                             .kind = kind,
                                             .state = DT_FINDING_NEW,
                                             .rank = DT_JUDGE_UNKNOWN,
                                             .peer_rank = DT_JUDGE_UNKNOWN,
                                             .since_ns = UINT64_MAX};
    return at;
}

/* The extra time of one transfer or of one iteration's computing. */
static uint64_t delay_ns(const struct dt_judge_member *member)
{
    double healthy = member->series.reference;

    if (!member->series.is_slow)
        healthy -= member->outlier;
    return (uint64_t)(exp(healthy) * (exp(dt_judge_rise(member)) - 1));
}

/* The slowest member gives the numbers. True: it is the slowest until now. */
static bool count_member(struct dt_judge *judge, uint32_t at, struct dt_judge_member *member)
{
    struct dt_finding *finding = &judge->findings.list[at];
    double factor = exp(dt_judge_rise(member));

    member->finding = at;
    judge->findings.touched[at] = judge->round;
    finding->since_ns = dt_min_u64(finding->since_ns, dt_judge_since_ns(member));
    if (finding->count++ > 0 && factor <= finding->factor)
        return false;
    finding->factor = factor;
    finding->delay_ns = delay_ns(member);
    return true;
}

static void name_nic(const struct dt_judge *judge, struct dt_finding *finding, uint32_t nic)
{
    snprintf(finding->nic, sizeof finding->nic, "%s", judge->nics[nic].name);
    snprintf(finding->host, sizeof finding->host, "%s", judge->hosts[judge->nics[nic].host].name);
}

static void name_link(const struct dt_judge *judge, struct dt_finding *finding,
                      const struct dt_judge_link *link)
{
    name_nic(judge, finding, link->nic);
    snprintf(finding->peer_nic, sizeof finding->peer_nic, "%s", judge->nics[link->peer_nic].name);
    snprintf(finding->peer_host, sizeof finding->peer_host, "%s",
             judge->hosts[judge->nics[link->peer_nic].host].name);
    finding->rank = link->from_rank;
    finding->peer_rank = link->to_rank;
}

/* A finding for this cause, an old one or a new one. */
static uint32_t finding_for(struct dt_judge *judge, enum dt_finding_kind kind, uint32_t one, uint32_t other)
{
    const uint32_t key[2] = {one < other ? one : other, one < other ? other : one};
    uint32_t at = lookup(&judge->findings, kind, key);

    return at != DT_JUDGE_NONE ? at : create(judge, kind, key);
}

void dt_judge_findings_add_link(struct dt_judge *judge, struct dt_judge_link *link,
                                const struct dt_judge_cause *cause)
{
    bool is_link = cause->kind == DT_FINDING_LINK;
    uint32_t at = finding_for(judge, cause->kind, is_link ? link->nic : cause->at,
                              is_link ? link->peer_nic : cause->at);

    link->member.finding = DT_JUDGE_NONE;
    if (at == DT_JUDGE_NONE)
        return;
    struct dt_finding *finding = &judge->findings.list[at];
    bool is_slowest = count_member(judge, at, &link->member);

    if (is_link && is_slowest)
        name_link(judge, finding, link);
    if (cause->kind == DT_FINDING_NIC) {
        name_nic(judge, finding, cause->at);
        finding->rank = judge->nics[cause->at].rank;
    }
    if (cause->kind == DT_FINDING_PROCESSOR)
        snprintf(finding->host, sizeof finding->host, "%s", judge->hosts[cause->at].name);
}

void dt_judge_findings_add_rank(struct dt_judge *judge, struct dt_judge_rank *rank,
                                const struct dt_judge_cause *cause)
{
    uint32_t key = cause->kind == DT_FINDING_PROCESSOR ? cause->at : rank->rank;
    uint32_t at = finding_for(judge, cause->kind, key, key);

    rank->member.finding = DT_JUDGE_NONE;
    if (at == DT_JUDGE_NONE)
        return;
    struct dt_finding *finding = &judge->findings.list[at];

    count_member(judge, at, &rank->member);
    snprintf(finding->host, sizeof finding->host, "%s", judge->hosts[rank->host].name);
    if (cause->kind == DT_FINDING_DEVICE)
        finding->rank = rank->rank;
}

static void write_reason(struct dt_judge *judge, uint32_t at)
{
    struct dt_finding *finding = &judge->findings.list[at];
    double percent = 100 * (finding->factor - 1), ms = (double)finding->delay_ns / 1e6;
    int written = 0;

    switch (finding->kind) {
    case DT_FINDING_LINK:
        written =
            snprintf(finding->reason, sizeof finding->reason,
                     "%.0f %% (%.3f ms a transfer) slower than its kind; other links of both NICs are not",
                     percent, ms);
        break;
    case DT_FINDING_NIC:
        written = snprintf(finding->reason, sizeof finding->reason,
                           "%u of its links slow, up to %.0f %% (%.3f ms a transfer), and its others as well",
                           finding->count, percent, ms);
        break;
    case DT_FINDING_DEVICE:
        written = snprintf(finding->reason, sizeof finding->reason,
                           "computes %.0f %% (%.3f ms an iteration) longer than before or its stage; the "
                           "processors are not busy",
                           percent, ms);
        break;
    case DT_FINDING_PROCESSOR:
        written = snprintf(
            finding->reason, sizeof finding->reason,
            "its threads wait for a processor %.0f %% of the time: %u links or ranks slow, up to %.0f %%",
            100 * judge->hosts[judge->findings.keys[at][0]].share, finding->count, percent);
        break;
    default:
        break;
    }
    DT_CHECK(written >= 0);
}

void dt_judge_findings_finish(struct dt_judge *judge)
{
    struct dt_judge_findings *findings = &judge->findings;

    for (uint32_t i = 0; i < findings->count; i++) {
        if (findings->touched[i] == judge->round)
            write_reason(judge, i);
        else
            findings->list[i].state = DT_FINDING_ENDED;
    }
}

const char *dt_finding_kind_text(enum dt_finding_kind kind)
{
    static const char *const texts[] = {
#define FINDING_TEXT(name, text) text,
        DT_FINDINGS(FINDING_TEXT)
#undef FINDING_TEXT
    };

    return (uint32_t)kind < DT_COUNT_OF(texts) ? texts[kind] : "unknown";
}
