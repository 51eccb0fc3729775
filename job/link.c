/* SPDX-License-Identifier: Apache-2.0 */
#include "job/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/exit.h"

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

/* The reason that the launcher gives for the end of the run, or that its frame is not understood. */
static void take_end(const struct dt_job_link *link, const struct dt_job_frame *frame, const void *payload,
                     struct dt_job_error *error)
{
    if (frame->kind == DT_JOB_FRAME_ERROR && frame->bytes == sizeof *error) {
        memcpy(error, payload, sizeof *error);
        error->text[sizeof error->text - 1] = '\0';
        return;
    }
    dt_job_fail(error, DT_EXIT_FAILED, "rank %u: unexpected frame of the launcher (kind %u, %u bytes)",
                link->rank, frame->kind, frame->bytes);
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

bool dt_job_exchange(struct dt_job_link *link, const void *mine, size_t bytes, void *all,
                     struct dt_job_error *error)
{
    struct dt_job_frame frame;
    void *payload = NULL;
    bool ok;

    if (bytes * link->ranks > DT_JOB_FRAME_BYTES_MAX)
        return dt_job_fail(error, DT_EXIT_FAILED,
                           "rank %u: %u ranks cannot exchange %zu bytes each; at most %u "
                           "bytes in all",
                           link->rank, link->ranks, bytes, DT_JOB_FRAME_BYTES_MAX);
    /* When sending fails, the launcher's reason for ending the run may still be there to be read. */
    dt_job_frame_send(link->fd, DT_JOB_FRAME_EXCHANGE, mine, bytes);
    if (!read_frame(link, false, &frame, &payload, error))
        return false;
    ok = frame.kind == DT_JOB_FRAME_EXCHANGE && frame.bytes == bytes * link->ranks;
    if (!ok)
        take_end(link, &frame, payload, error);
    else if (bytes)
        memcpy(all, payload, frame.bytes);
    free(payload);
    return ok;
}
