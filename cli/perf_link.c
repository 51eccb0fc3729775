/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cli/command.h"

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

bool dt_perf_frame_send(int fd, enum dt_perf_frame_kind kind, const void *payload, size_t bytes)
{
    struct dt_perf_frame frame = {kind, (uint32_t)bytes};

    return send_all(fd, &frame, sizeof frame) && send_all(fd, payload, bytes);
}

bool dt_perf_frame_receive(int fd, struct dt_perf_frame *frame, void **payload)
{
    if (!receive_all(fd, frame, sizeof *frame) || frame->bytes > DT_PERF_FRAME_BYTES_MAX)
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

bool dt_perf_link_ended(struct dt_perf_link *link, struct dt_perf_error *error)
{
    struct dt_perf_frame frame;
    void *payload;

    if (!dt_perf_frame_receive(link->fd, &frame, &payload))
        return dt_perf_fail(error, DT_EXIT_FAILED, "rank %u lost its launcher", link->rank);
    if (frame.kind == DT_PERF_FRAME_ERROR && frame.bytes == sizeof *error)
        memcpy(error, payload, sizeof *error);
    else
        dt_perf_fail(error, DT_EXIT_FAILED, "rank %u does not understand its launcher (frame %u)", link->rank,
                     frame.kind);
    free(payload);
    return false;
}

bool dt_perf_exchange(struct dt_perf_link *link, const void *mine, size_t bytes, void *all,
                      struct dt_perf_error *error)
{
    struct dt_perf_frame frame;
    void *payload = NULL;
    bool ok;

    /* When sending fails, the launcher's last word may still be there to be read. */
    dt_perf_frame_send(link->fd, DT_PERF_FRAME_EXCHANGE, mine, bytes);
    if (!dt_perf_frame_receive(link->fd, &frame, &payload))
        return dt_perf_fail(error, DT_EXIT_FAILED, "rank %u lost its launcher", link->rank);
    ok = frame.kind == DT_PERF_FRAME_EXCHANGE && frame.bytes == bytes * link->ranks;
    if (ok && bytes)
        memcpy(all, payload, frame.bytes);
    else if (frame.kind == DT_PERF_FRAME_ERROR && frame.bytes == sizeof *error)
        memcpy(error, payload, sizeof *error);
    else if (!ok)
        dt_perf_fail(error, DT_EXIT_FAILED, "rank %u does not understand its launcher (frame %u)", link->rank,
                     frame.kind);
    free(payload);
    return ok;
}
