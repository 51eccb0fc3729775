/* SPDX-License-Identifier: Apache-2.0 */
#include "job/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/exit.h"
#include "job/link.h"

size_t dt_job_part_bytes_max(unsigned ranks)
{
    return DT_JOB_FRAME_BYTES_MAX / ranks;
}

bool dt_job_parts_init(struct dt_job_parts *parts, unsigned ranks)
{
    *parts = (struct dt_job_parts){.ranks = ranks, .missing = ranks};
    parts->part = calloc(ranks, sizeof *parts->part);
    parts->first = calloc((size_t)ranks + 1, sizeof *parts->first);
    return parts->part && parts->first;
}

void dt_job_parts_clear(struct dt_job_parts *parts)
{
    for (unsigned rank = 0; parts->part && rank < parts->ranks; rank++) {
        free(parts->part[rank].data);
        parts->part[rank] = (struct dt_job_part){0};
    }
    free(parts->all);
    parts->all = NULL;
    parts->missing = parts->ranks;
}

void dt_job_parts_free(struct dt_job_parts *parts)
{
    dt_job_parts_clear(parts);
    free(parts->part);
    free(parts->first);
    *parts = (struct dt_job_parts){0};
}

bool dt_job_parts_take(struct dt_job_parts *parts, unsigned rank, unsigned kind, void *payload, size_t bytes,
                       struct dt_job_error *error)
{
    struct dt_job_part *part = &parts->part[rank];
    bool is_second = part->kind != 0;

    if (is_second || bytes > dt_job_part_bytes_max(parts->ranks)) {
        free(payload);
        return dt_job_fail(error, DT_EXIT_FAILED,
                           is_second ? "rank %u gave a second part to an exchange (%zu bytes)"
                                     : "rank %u gave too large a part to an exchange (%zu bytes)",
                           rank, bytes);
    }
    *part = (struct dt_job_part){kind, (uint32_t)bytes, payload};
    parts->missing--;
    return true;
}

/* ---- Answers. ---- */

static uint32_t record_bytes_of(const struct dt_job_part *part)
{
    struct dt_job_delivery delivery;

    if (part->bytes < sizeof delivery)
        return 0;
    memcpy(&delivery, part->data, sizeof delivery);
    return delivery.record_bytes;
}

/* Parts of one kind, and of one size: of a part, or of a record. */
static bool check_parts(const struct dt_job_parts *parts, struct dt_job_error *error)
{
    const struct dt_job_part *first = &parts->part[0];

    for (unsigned rank = 0; rank < parts->ranks; rank++) {
        const struct dt_job_part *part = &parts->part[rank];

        if (part->kind != first->kind)
            return dt_job_fail(error, DT_EXIT_FAILED,
                               "ranks 0 and %u disagree on an exchange: kinds %u and %u", rank, first->kind,
                               part->kind);
        if (part->kind != DT_JOB_FRAME_DELIVER && part->bytes != first->bytes)
            return dt_job_fail(error, DT_EXIT_FAILED,
                               "ranks 0 and %u disagree on an exchange: %u and %u bytes", rank, first->bytes,
                               part->bytes);
        if (part->kind == DT_JOB_FRAME_DELIVER && record_bytes_of(part) != record_bytes_of(first))
            return dt_job_fail(error, DT_EXIT_FAILED,
                               "ranks 0 and %u disagree on an exchange: records of %u and %u bytes", rank,
                               record_bytes_of(first), record_bytes_of(part));
    }
    return true;
}

static void join_parts(struct dt_job_parts *parts)
{
    size_t bytes = parts->part[0].bytes;

    for (unsigned rank = 0; rank < parts->ranks; rank++)
        memcpy(parts->all + rank * bytes, parts->part[rank].data, bytes);
}

/* Calls `each` for every record. False: it has no valid rank, or the part no whole number of records. */
typedef void record_func(struct dt_job_parts *parts, struct dt_job_record record, unsigned from,
                         const char *data, size_t bytes);

static bool walk_records(struct dt_job_parts *parts, unsigned from, size_t record_bytes, record_func *each)
{
    const struct dt_job_part *part = &parts->part[from];
    const char *at = (const char *)part->data + sizeof(struct dt_job_delivery);
    const char *end = (const char *)part->data + part->bytes;

    if (record_bytes < sizeof(struct dt_job_record) || (size_t)(end - at) % record_bytes)
        return false;
    for (; at < end; at += record_bytes) {
        struct dt_job_record record;

        memcpy(&record, at, sizeof record);
        if (record.rank >= parts->ranks)
            return false;
        each(parts, record, from, at, record_bytes);
    }
    return true;
}

static void count_record(struct dt_job_parts *parts, struct dt_job_record record, unsigned from,
                         const char *data, size_t bytes)
{
    (void)from, (void)data;
    parts->first[record.rank] += bytes;
}

/* first[] of the rank moves to the place of its next record. */
static void place_record(struct dt_job_parts *parts, struct dt_job_record record, unsigned from,
                         const char *data, size_t bytes)
{
    struct dt_job_record arrived = {from};
    char *place = parts->all + parts->first[record.rank];

    memcpy(place, data, bytes);
    memcpy(place, &arrived, sizeof arrived);
    parts->first[record.rank] += bytes;
}

/* Sorts the records by the ranks that they are for: counted first, then each at its place. */
static bool sort_records(struct dt_job_parts *parts, struct dt_job_error *error)
{
    size_t record_bytes = record_bytes_of(&parts->part[0]), sum = 0;

    memset(parts->first, 0, (parts->ranks + 1) * sizeof *parts->first);
    for (unsigned rank = 0; rank < parts->ranks; rank++) {
        if (!walk_records(parts, rank, record_bytes, count_record))
            return dt_job_fail(error, DT_EXIT_FAILED,
                               "rank %u gave a malformed part to an exchange (%u bytes)", rank,
                               parts->part[rank].bytes);
    }
    for (unsigned rank = 0; rank <= parts->ranks; rank++) {
        size_t bytes = parts->first[rank];

        parts->first[rank] = sum;
        sum += bytes;
    }
    for (unsigned rank = 0; rank < parts->ranks; rank++)
        walk_records(parts, rank, record_bytes, place_record);
    /* Each begin is now the next rank's. */
    memmove(&parts->first[1], &parts->first[0], parts->ranks * sizeof *parts->first);
    parts->first[0] = 0;
    return true;
}

bool dt_job_parts_answer(struct dt_job_parts *parts, struct dt_job_error *error)
{
    size_t bytes = 0;

    DT_CHECK(parts->missing == 0);
    if (!check_parts(parts, error))
        return false;
    for (unsigned rank = 0; rank < parts->ranks; rank++)
        bytes += parts->part[rank].bytes;
    parts->all = malloc(bytes + 1);
    if (!parts->all)
        return dt_job_fail(error, DT_EXIT_FAILED, "out of memory");
    if (parts->part[0].kind == DT_JOB_FRAME_DELIVER)
        return sort_records(parts, error);
    join_parts(parts);
    return true;
}

const void *dt_job_parts_for(const struct dt_job_parts *parts, unsigned rank, size_t *bytes)
{
    uint32_t kind = parts->part[0].kind;

    if (kind == DT_JOB_FRAME_DELIVER) {
        *bytes = parts->first[rank + 1] - parts->first[rank];
        return parts->all + parts->first[rank];
    }
    *bytes = kind == DT_JOB_FRAME_GATHER && rank > 0 ? 0 : (size_t)parts->ranks * parts->part[0].bytes;
    return parts->all;
}
