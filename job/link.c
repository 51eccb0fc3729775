/* SPDX-License-Identifier: Apache-2.0 */
#include "job/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/exit.h"
#include "job/exchange.h"

static bool send_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;

    while (bytes) {
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

static bool receive_all(int fd, void *data, size_t bytes)
{
    char *at = data;

    while (bytes) {
        ssize_t got = recv(fd, at, bytes, MSG_WAITALL);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

void dt_job_socket_limit(int fd, unsigned seconds)
{
    struct timeval limit = {.tv_sec = (time_t)seconds};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

bool dt_job_frame_send(int fd, unsigned kind, const void *payload, size_t bytes)
{
    struct dt_job_frame frame = {kind, (uint32_t)bytes};

    DT_CHECK(bytes <= DT_JOB_FRAME_BYTES_MAX);
    return send_all(fd, &frame, sizeof frame) && send_all(fd, payload, bytes);
}

bool dt_job_frame_receive(int fd, struct dt_job_frame *frame, void **payload)
{
    if (!receive_all(fd, frame, sizeof *frame) || frame->bytes > DT_JOB_FRAME_BYTES_MAX)
        return false;
    char *data = malloc((size_t)frame->bytes + 1);
    if (!data)
        return false;
    if (!receive_all(fd, data, frame->bytes)) {
        free(data);
        return false;
    }
    data[frame->bytes] = '\0';
    *payload = data;
    return true;
}

/*
 * Reads frames until one of the job's own kinds arrives, or, with `one_frame`, a single frame. *frame.kind is
 * DT_JOB_FRAME_COMMAND, and *payload NULL, after a frame of the command that `take` has had.
 */
static bool read_frame(struct dt_job_link *link, bool one_frame, struct dt_job_frame *frame, void **payload,
                       struct dt_job_error *error)
{
    do {
        if (!dt_job_frame_receive(link->fd, frame, payload))
            return dt_job_fail(error, DT_EXIT_FAILED, "rank %u lost its launcher", link->rank);
        if (frame->kind < DT_JOB_FRAME_COMMAND || !link->take)
            return true;
        link->take(link->context, frame, *payload);
        free(*payload);
        *payload = NULL;
        frame->kind = DT_JOB_FRAME_COMMAND;
    } while (!one_frame);
    return true;
}

static bool fail_unexpected(const struct dt_job_link *link, unsigned kind, size_t bytes,
                            struct dt_job_error *error)
{
    return dt_job_fail(error, DT_EXIT_FAILED,
                       "rank %u: unexpected frame of the launcher (kind %u, %zu bytes)", link->rank, kind,
                       bytes);
}

/* The reason that the launcher gives for the end of the run, or that its frame is not understood. */
static void take_end(const struct dt_job_link *link, const struct dt_job_frame *frame, const void *payload,
                     struct dt_job_error *error)
{
    if (frame->kind == DT_JOB_FRAME_ERROR && frame->bytes == sizeof *error) {
        memcpy(error, payload, sizeof *error);
        error->text[sizeof error->text - 1] = '\0';
        return;
    }
    fail_unexpected(link, frame->kind, frame->bytes, error);
}

bool dt_job_link_read(struct dt_job_link *link, struct dt_job_error *error)
{
    struct dt_job_frame frame;
    void *payload;

    if (!read_frame(link, true, &frame, &payload, error))
        return false;
    if (!payload)
        return true;
    take_end(link, &frame, payload, error);
    free(payload);
    return false;
}

/* ---- Exchanges. ---- */

/* Gives this rank's part and reads the launcher's answer, which is malloc'ed. */
static bool exchange(struct dt_job_link *link, enum dt_job_frame_kind kind, const void *mine, size_t bytes,
                     size_t *answer_bytes, void **answer, struct dt_job_error *error)
{
    struct dt_job_frame frame;

    *answer = NULL;
    if (bytes > dt_job_part_bytes_max(link->ranks))
        return dt_job_fail(error, DT_EXIT_FAILED,
                           "rank %u: %u ranks cannot exchange %zu bytes each; at most %u "
                           "bytes in all",
                           link->rank, link->ranks, bytes, DT_JOB_FRAME_BYTES_MAX);
    /* When sending fails, the launcher's reason for ending the run may still be there to be read. */
    dt_job_frame_send(link->fd, kind, mine, bytes);
    if (!read_frame(link, false, &frame, answer, error))
        return false;
    *answer_bytes = frame.bytes;
    if (frame.kind == kind)
        return true;
    take_end(link, &frame, *answer, error);
    free(*answer);
    *answer = NULL;
    return false;
}

/* The answer has to be `expected` bytes, which become the caller's. */
static bool exchange_bytes(struct dt_job_link *link, enum dt_job_frame_kind kind, const void *mine,
                           size_t bytes, size_t expected, void *all, struct dt_job_error *error)
{
    size_t answer_bytes;
    void *answer;
    bool ok;

    if (!exchange(link, kind, mine, bytes, &answer_bytes, &answer, error))
        return false;
    ok = answer_bytes == expected || fail_unexpected(link, kind, answer_bytes, error);
    if (ok && expected)
        memcpy(all, answer, expected);
    free(answer);
    return ok;
}

bool dt_job_exchange(struct dt_job_link *link, const void *mine, size_t bytes, void *all,
                     struct dt_job_error *error)
{
    return exchange_bytes(link, DT_JOB_FRAME_EXCHANGE, mine, bytes, bytes * link->ranks, all, error);
}

bool dt_job_gather(struct dt_job_link *link, const void *mine, size_t bytes, void *all,
                   struct dt_job_error *error)
{
    return exchange_bytes(link, DT_JOB_FRAME_GATHER, mine, bytes, link->rank ? 0 : bytes * link->ranks, all,
                          error);
}

/* ---- Deliveries. ---- */

/* A rank's delivery: its part of a round, and the records that have arrived. */
struct delivery {
    struct dt_job_link *link;
    size_t record_bytes;
    size_t per_round;
    char *part;
    char *arrived;
    size_t arrived_bytes;
};

static bool fail_memory(const struct dt_job_link *link, struct dt_job_error *error)
{
    return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: out of memory", link->rank);
}

static bool keep_arrived(struct delivery *delivery, const void *answer, size_t bytes,
                         struct dt_job_error *error)
{
    char *more;

    if (bytes % delivery->record_bytes)
        return fail_unexpected(delivery->link, DT_JOB_FRAME_DELIVER, bytes, error);
    more = realloc(delivery->arrived, delivery->arrived_bytes + bytes + 1);
    if (!more)
        return fail_memory(delivery->link, error);
    memcpy(more + delivery->arrived_bytes, answer, bytes);
    delivery->arrived = more;
    delivery->arrived_bytes += bytes;
    return true;
}

static bool deliver_round(struct delivery *delivery, const void *records, size_t count,
                          struct dt_job_error *error)
{
    const struct dt_job_delivery head = {(uint32_t)delivery->record_bytes};
    size_t bytes = count * delivery->record_bytes, answer_bytes;
    void *answer;
    bool ok;

    memcpy(delivery->part, &head, sizeof head);
    if (bytes)
        memcpy(delivery->part + sizeof head, records, bytes);
    if (!exchange(delivery->link, DT_JOB_FRAME_DELIVER, delivery->part, sizeof head + bytes, &answer_bytes,
                  &answer, error))
        return false;
    ok = keep_arrived(delivery, answer, answer_bytes, error);
    free(answer);
    return ok;
}

/* The largest number of records that any rank gives. */
static bool agree_count(struct dt_job_link *link, size_t count, size_t *most, struct dt_job_error *error)
{
    uint32_t mine = (uint32_t)count, *all = malloc(link->ranks * sizeof *all);
    bool ok = all ? dt_job_exchange(link, &mine, sizeof mine, all, error) : fail_memory(link, error);

    *most = 0;
    for (unsigned rank = 0; ok && rank < link->ranks; rank++)
        *most = *most > all[rank] ? *most : all[rank];
    free(all);
    return ok;
}

bool dt_job_deliver(struct dt_job_link *link, const void *records, size_t count, size_t record_bytes,
                    void **arrived, size_t *arrived_count, struct dt_job_error *error)
{
    size_t part_bytes = dt_job_part_bytes_max(link->ranks), most = 0, done = 0;
    struct delivery delivery = {.link = link, .record_bytes = record_bytes};
    bool ok;

    DT_CHECK(record_bytes >= sizeof(struct dt_job_record) &&
             record_bytes + sizeof(struct dt_job_delivery) <= part_bytes);
    *arrived = NULL;
    delivery.per_round = (part_bytes - sizeof(struct dt_job_delivery)) / record_bytes;
    delivery.part = malloc(part_bytes);
    ok = delivery.part ? agree_count(link, count, &most, error) : fail_memory(link, error);
    for (size_t round = 0; ok && round * delivery.per_round < most; round++) {
        size_t now = count - done < delivery.per_round ? count - done : delivery.per_round;

        ok = deliver_round(&delivery, (const char *)records + done * record_bytes, now, error);
        done += now;
    }
    free(delivery.part);
    if (!ok) {
        free(delivery.arrived);
        return false;
    }
    *arrived = delivery.arrived;
    *arrived_count = delivery.arrived_bytes / record_bytes;
    return true;
}
