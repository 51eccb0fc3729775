/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf_meet.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/perf_link.h"

#define MAGIC           0x6465746f75727066ull
#define HELLO_TIME_S    1
#define REDIAL_PAUSE_MS 100

/* A rank introduces itself. */
struct hello {
    uint64_t magic;
    uint64_t options_digest;
    uint32_t rank;
    uint32_t frame_version; /* size of what is exchanged: a rank of another build would misread it */
};

static struct hello hello_of(const struct dt_perf_options *options, unsigned rank)
{
    return (struct hello){MAGIC, dt_perf_options_digest(options), rank, sizeof(struct dt_perf_error)};
}

/* Resolves HOST:PORT (the last colon counts, so that [::1]:5000 works); NULL with an error. */
static struct addrinfo *resolve(const struct dt_perf_options *options, bool passive,
                                struct dt_perf_error *error)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0};
    struct addrinfo *found = NULL;
    const char *colon = strrchr(options->rendezvous, ':');
    char host[256];
    size_t length = colon ? (size_t)(colon - options->rendezvous) : 0;
    const char *from = options->rendezvous;

    if (length >= 2 && from[0] == '[' && colon[-1] == ']') {
        from++;
        length -= 2;
    }
    if (!colon || !length || length >= sizeof host) {
        dt_perf_fail(error, DT_EXIT_USAGE, "--rendezvous %s: expected HOST:PORT, such as 10.0.0.1:5000",
                     options->rendezvous);
        return NULL;
    }
    memcpy(host, from, length);
    host[length] = '\0';
    int failed = getaddrinfo(host, colon + 1, &hints, &found);
    if (failed)
        dt_perf_fail(error, DT_EXIT_USAGE, "--rendezvous %s: %s", options->rendezvous, gai_strerror(failed));
    return failed ? NULL : found;
}

int dt_perf_meet_listen(const struct dt_perf_options *options, struct dt_perf_error *error)
{
    struct addrinfo *address = resolve(options, true, error);
    int one = 1;

    if (!address)
        return -1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
              !bind(fd, address->ai_addr, address->ai_addrlen) && !listen(fd, DT_PERF_RANKS_MAX);
    if (!ok) {
        dt_perf_fail(error, DT_EXIT_USAGE, "--rendezvous %s: cannot listen there: %s", options->rendezvous,
                     strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(address);
    return fd;
}

/* Time limit of a single receive, so that a silent peer cannot hold up the others; 0: none. */
static void set_receive_limit(int fd, long seconds)
{
    struct timeval limit = {.tv_sec = seconds};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

static void set_no_delay(int fd)
{
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
}

/* Reads the introduction. 0 or less: a stranger, drop it. */
static bool read_hello(int fd, struct hello *hello)
{
    struct dt_perf_frame frame;
    void *payload;

    set_receive_limit(fd, HELLO_TIME_S);
    if (!dt_perf_frame_receive(fd, &frame, &payload))
        return false;
    bool ok = frame.kind == DT_PERF_FRAME_HELLO && frame.bytes == sizeof *hello;
    if (ok)
        memcpy(hello, payload, sizeof *hello);
    free(payload);
    set_receive_limit(fd, 0);
    set_no_delay(fd);
    return ok && hello->magic == MAGIC;
}

/* Takes one connection in. False only when a rank does not fit this run. */
static bool admit(int fd, const struct dt_perf_options *options, int *fds, struct dt_perf_error *error)
{
    struct hello wanted = hello_of(options, 0);
    struct hello hello;

    if (!read_hello(fd, &hello)) {
        close(fd);
        return true;
    }
    if (hello.frame_version != wanted.frame_version)
        dt_perf_fail(error, DT_EXIT_USAGE, "rank %u runs another version of detour perf", hello.rank);
    else if (hello.options_digest != wanted.options_digest)
        dt_perf_fail(error, DT_EXIT_USAGE, "rank %u was started with other options than rank 0", hello.rank);
    else if (hello.rank == 0 || hello.rank >= options->ranks || fds[hello.rank] >= 0)
        dt_perf_fail(error, DT_EXIT_USAGE, "rank %u came twice or is none of the %u ranks", hello.rank,
                     options->ranks);
    if (error->exit_code) {
        dt_perf_frame_send(fd, DT_PERF_FRAME_ERROR, error, sizeof *error);
        close(fd);
        return false;
    }
    dt_perf_frame_send(fd, DT_PERF_FRAME_HELLO, NULL, 0);
    fds[hello.rank] = fd;
    return true;
}

static int first_missing(const struct dt_perf_options *options, const int *fds)
{
    for (unsigned rank = 1; rank < options->ranks; rank++) {
        if (fds[rank] < 0)
            return (int)rank;
    }
    return -1;
}

bool dt_perf_meet_accept(int listen_fd, const struct dt_perf_options *options, int stop_fd, int *fds,
                         struct dt_perf_error *error)
{
    uint64_t deadline_ns = dt_clock_now_ns() + options->timeout_s * DT_NS_PER_S;
    int missing;

    while ((missing = first_missing(options, fds)) >= 0) {
        struct pollfd polled[2] = {{listen_fd, POLLIN, 0}, {stop_fd, POLLIN, 0}};
        uint64_t now_ns = dt_clock_now_ns();

        if (now_ns >= deadline_ns)
            return dt_perf_fail(error, DT_EXIT_USAGE,
                                "rank %d of %u is missing: it did not come to %s within %u s", missing,
                                options->ranks, options->rendezvous, options->timeout_s);
        poll(polled, 2, (int)((deadline_ns - now_ns) / DT_NS_PER_MS) + 1);
        if (polled[1].revents)
            return dt_perf_fail(error, DT_EXIT_FAILED, "interrupted while waiting for rank %d", missing);
        if (!polled[0].revents)
            continue;
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && !admit(fd, options, fds, error))
            return false;
    }
    return true;
}

static int dial_once(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, address->ai_addr, address->ai_addrlen)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* The launcher takes this rank in, or says why not. */
static bool await_welcome(int fd, const struct dt_perf_options *options, struct dt_perf_error *error)
{
    struct dt_perf_frame frame;
    void *payload;

    set_receive_limit(fd, options->timeout_s);
    if (!dt_perf_frame_receive(fd, &frame, &payload))
        return dt_perf_fail(error, DT_EXIT_USAGE, "--rendezvous %s: no rank 0 of detour perf answers there",
                            options->rendezvous);
    if (frame.kind == DT_PERF_FRAME_ERROR && frame.bytes == sizeof *error)
        memcpy(error, payload, sizeof *error);
    else if (frame.kind != DT_PERF_FRAME_HELLO)
        dt_perf_fail(error, DT_EXIT_USAGE, "--rendezvous %s: something else than detour perf answers there",
                     options->rendezvous);
    free(payload);
    set_receive_limit(fd, 0);
    return !error->exit_code;
}

int dt_perf_meet_dial(const struct dt_perf_options *options, struct dt_perf_error *error)
{
    const struct timespec pause = {.tv_nsec = REDIAL_PAUSE_MS * (long)DT_NS_PER_MS};
    uint64_t deadline_ns = dt_clock_now_ns() + options->timeout_s * DT_NS_PER_S;
    struct hello hello = hello_of(options, (unsigned)options->rank);
    struct addrinfo *address = resolve(options, false, error);
    int fd = -1;

    if (!address)
        return -1;
    while ((fd = dial_once(address)) < 0 && dt_clock_now_ns() < deadline_ns)
        nanosleep(&pause, NULL);
    freeaddrinfo(address);
    if (fd < 0) {
        dt_perf_fail(error, DT_EXIT_USAGE, "rank 0 is missing: nobody listens at %s for %u s: %s",
                     options->rendezvous, options->timeout_s, strerror(errno));
        return -1;
    }
    set_no_delay(fd);
    dt_perf_frame_send(fd, DT_PERF_FRAME_HELLO, &hello, sizeof hello);
    if (await_welcome(fd, options, error))
        return fd;
    close(fd);
    return -1;
}
