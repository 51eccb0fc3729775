/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "obs/command.h"

static enum dt_status failed(int error, char *answer, size_t answer_bytes)
{
    switch (error) {
    case ENOENT:
    case ECONNREFUSED:
        snprintf(answer, answer_bytes, "it does not listen for commands");
        return DT_NOT_FOUND;
    case EAGAIN:
        snprintf(answer, answer_bytes, "no answer");
        return DT_TIMED_OUT;
    default:
        snprintf(answer, answer_bytes, "%s", strerror(error));
        return DT_SYSTEM;
    }
}

/* A connected socket with timeouts, or -1 with errno set. */
static int dial(const struct dt_runtime_dir *dir, int pid, unsigned timeout_ms)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    char name[32];
    int fd;
    int error;

    dt_runtime_file_name(DT_RUNTIME_SOCKET, pid, name, sizeof name);
    if (snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", dir->path, name) >=
        (int)sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) &&
        !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) &&
        !connect(fd, (struct sockaddr *)&address, sizeof address))
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Reads up to the newline, which is removed. */
static enum dt_status read_line(int fd, char *line, size_t line_bytes)
{
    size_t used = 0;

    while (used < line_bytes) {
        ssize_t got = recv(fd, line + used, line_bytes - used, 0);
        char *newline;

        if (got <= 0) {
            if (got < 0 && errno == EINTR)
                continue;
            return got < 0 ? DT_SYSTEM : DT_CLOSED;
        }
        newline = memchr(line + used, '\n', (size_t)got);
        if (newline) {
            *newline = '\0';
            return DT_OK;
        }
        used += (size_t)got;
    }
    return DT_PROTOCOL;
}

/* "ok TEXT" or "error STATUS TEXT". */
static enum dt_status parse_answer(const char *line, char *answer, size_t answer_bytes)
{
    unsigned long status;
    char *end;

    if (!strncmp(line, "ok ", 3)) {
        snprintf(answer, answer_bytes, "%s", line + 3);
        return DT_OK;
    }
    if (!strncmp(line, "error ", 6)) {
        status = strtoul(line + 6, &end, 10);
        if (status && status < 256 && *end == ' ') {
            snprintf(answer, answer_bytes, "%s", end + 1);
            return (enum dt_status)status;
        }
    }
    snprintf(answer, answer_bytes, "not an answer of Detour's");
    return DT_PROTOCOL;
}

static enum dt_status talk(int fd, const char *line, char *answer, size_t answer_bytes)
{
    char text[DT_COMMAND_LINE_BYTES + 1];
    char received[DT_COMMAND_ANSWER_BYTES];
    int length = snprintf(text, sizeof text, "%s\n", line);
    enum dt_status status;

    if (send(fd, text, (size_t)length, MSG_NOSIGNAL) != length)
        return failed(errno, answer, answer_bytes);
    status = read_line(fd, received, sizeof received);
    if (status == DT_OK)
        return parse_answer(received, answer, answer_bytes);
    if (status == DT_SYSTEM && errno == EAGAIN) { /* the process is stopped, or reads a large file */
        snprintf(answer, answer_bytes, "no answer in time; it has the order, and may still carry it out");
        return DT_TIMED_OUT;
    }
    if (status == DT_SYSTEM)
        return failed(errno, answer, answer_bytes);
    snprintf(answer, answer_bytes, "%s", dt_status_text(status));
    return status;
}

enum dt_status dt_client_call(const struct dt_runtime_dir *dir, int pid, const char *line,
                              unsigned timeout_ms, char *answer, size_t answer_bytes)
{
    enum dt_status status;
    int fd;

    if (strlen(line) + 1 > DT_COMMAND_LINE_BYTES || strchr(line, '\n')) {
        snprintf(answer, answer_bytes, "a command is one line of at most %u characters",
                 DT_COMMAND_LINE_BYTES - 1);
        return DT_INVALID;
    }
    fd = dial(dir, pid, timeout_ms);
    if (fd < 0)
        return failed(errno, answer, answer_bytes);
    status = talk(fd, line, answer, answer_bytes);
    close(fd);
    return status;
}
