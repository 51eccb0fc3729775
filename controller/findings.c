/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

struct dt_finding_record dt_findings_record(const struct dt_finding *finding, int64_t time_ns)
{
    struct dt_finding_record record = {
        .time_ns = time_ns,
        .since_ns = (int64_t)dt_min_u64(finding->since_ns, INT64_MAX),
        .ended = finding->state == DT_FINDING_ENDED,
        .from_rank = finding->rank <= DT_RECORD_RANK_MAX ? (int32_t)finding->rank : -1,
        .to_rank = finding->peer_rank <= DT_RECORD_RANK_MAX ? (int32_t)finding->peer_rank : -1,
        .factor = finding->factor < 1e9 ? finding->factor : 1e9,
        .delay_ns = (int64_t)dt_min_u64(finding->delay_ns, INT64_MAX),
    };

    snprintf(record.kind, sizeof record.kind, "%s", dt_finding_kind_text(finding->kind));
    snprintf(record.from_host, sizeof record.from_host, "%s", finding->host);
    snprintf(record.to_host, sizeof record.to_host, "%s", finding->peer_host);
    snprintf(record.from_nic, sizeof record.from_nic, "%s", finding->nic);
    snprintf(record.to_nic, sizeof record.to_nic, "%s", finding->peer_nic);
    snprintf(record.reason, sizeof record.reason, "%s", finding->reason);
    return record;
}

static bool has_ends(const struct dt_finding_record *a, int32_t rank, const char *host, const char *nic,
                     bool from)
{
    return (from ? a->from_rank : a->to_rank) == rank && !strcmp(from ? a->from_host : a->to_host, host) &&
           !strcmp(from ? a->from_nic : a->to_nic, nic);
}

bool dt_findings_is_same(const struct dt_finding_record *a, const struct dt_finding_record *b)
{
    if (strcmp(a->kind, b->kind) != 0)
        return false;
    return (has_ends(a, b->from_rank, b->from_host, b->from_nic, true) &&
            has_ends(a, b->to_rank, b->to_host, b->to_nic, false)) ||
           (!strcmp(a->kind, dt_finding_kind_text(DT_FINDING_LINK)) &&
            has_ends(a, b->to_rank, b->to_host, b->to_nic, true) &&
            has_ends(a, b->from_rank, b->from_host, b->from_nic, false));
}

/* Open findings of the stream. */
struct left {
    size_t count;
    struct dt_finding_record list[DT_JUDGE_FINDINGS];
};

static size_t place_of(const struct left *left, const struct dt_finding_record *record)
{
    size_t i = 0;

    while (i < left->count && !dt_findings_is_same(&left->list[i], record))
        i++;
    return i;
}

static void take_out(struct left *left, size_t at)
{
    if (at < left->count)
        left->list[at] = left->list[--left->count];
}

static bool is_of_judge(const struct dt_finding_record *record)
{
    for (int kind = 0; kind < DT_FINDING_COUNT; kind++) {
        if (!strcmp(record->kind, dt_finding_kind_text((enum dt_finding_kind)kind)))
            return true;
    }
    return false;
}

static bool take_record(void *arg, const char *id, const char *text, size_t bytes)
{
    struct left *left = arg;
    struct dt_finding_record record;
    char reason[DT_RECORD_REASON_BYTES];

    (void)id;
    if (dt_finding_read(text, bytes, &record, reason) != DT_OK || !is_of_judge(&record))
        return true;
    take_out(left, place_of(left, &record));
    if (!record.ended && left->count < DT_COUNT_OF(left->list))
        left->list[left->count++] = record;
    return true;
}

enum dt_status dt_findings_end_left(struct dt_store *store, const struct dt_finding *findings, uint32_t count,
                                    int64_t time_ns, dt_findings_func *end, void *arg)
{
    struct left *left = calloc(1, sizeof *left);
    enum dt_status status = DT_NO_MEMORY;

    if (left)
        status = store->ops->read(store, DT_STREAM_FINDINGS, "", SIZE_MAX, take_record, left);
    for (uint32_t i = 0; status == DT_OK && i < count; i++) {
        const struct dt_finding_record record = dt_findings_record(&findings[i], time_ns);

        if (!record.ended)
            take_out(left, place_of(left, &record));
    }
    for (size_t i = 0; status == DT_OK && i < left->count; i++) {
        left->list[i].ended = 1;
        left->list[i].time_ns = time_ns;
        snprintf(left->list[i].reason, sizeof left->list[i].reason,
                 "the controller that found it has ended, and this one does not find it");
        end(arg, &left->list[i]);
    }
    free(left);
    return status;
}
