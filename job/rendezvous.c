/* SPDX-License-Identifier: Apache-2.0 */
#include "job/rendezvous.h"

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
#include "base/digest.h"
#include "base/exit.h"
#include "detour/version.h"
#include "job/link.h"

#define MAGIC              0x6465746f75726a31ull
#define FRAMES_VERSION     2ull /* of kinds, contents and order of a job's frames */
#define HELLO_TIME_NS      DT_NS_PER_S
#define RECONNECT_PAUSE_MS 100
#define PENDING_MAX        16

/* The first frame of a rank. */
struct hello {
    uint64_t magic;
    uint64_t digest;
    uint32_t rank;
    uint32_t version; /* of the program and of the frames of a job: another one would misread them */
};

struct hello_frame {
    struct dt_job_frame frame;
    struct hello hello;
};

/* A connection that has not sent its HELLO yet. */
struct pending {
    int fd; /* -1: free */
    uint64_t deadline_ns;
};

struct rendezvous {
    const struct dt_job_options *options;
    struct dt_job_error *error;
    int listen_fd;
    int stop_fd;
    int *fds;
    struct pending pending[PENDING_MAX];
};

static struct hello hello_of(const struct dt_job_options *options, unsigned rank)
{
    const uint64_t frames = FRAMES_VERSION << 32 | sizeof(struct dt_job_error);
    uint64_t version = dt_digest_add(DT_DIGEST_EMPTY, &frames, sizeof frames);

    version = dt_digest_add(version, DETOUR_VERSION_STRING, sizeof DETOUR_VERSION_STRING);
    return (struct hello){MAGIC, options->digest, rank, (uint32_t)version};
}

/* Resolves HOST:PORT (the last colon counts, so that [::1]:5000 works); NULL with an error. */
static struct addrinfo *resolve(const struct dt_job_options *options, bool passive,
                                struct dt_job_error *error)
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
        dt_job_fail(error, DT_EXIT_USAGE, "--rendezvous %s: expected HOST:PORT, such as 10.0.0.1:5000",
                    options->rendezvous);
        return NULL;
    }
    memcpy(host, from, length);
    host[length] = '\0';
    int failed = getaddrinfo(host, colon + 1, &hints, &found);
    if (failed)
        dt_job_fail(error, DT_EXIT_USAGE, "--rendezvous %s: %s", options->rendezvous, gai_strerror(failed));
    return failed ? NULL : found;
}

int dt_job_rendezvous_listen(const struct dt_job_options *options, struct dt_job_error *error)
{
    struct addrinfo *address = resolve(options, true, error);
    int one = 1;

    if (!address)
        return -1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
              !bind(fd, address->ai_addr, address->ai_addrlen) && !listen(fd, DT_JOB_RANKS_MAX);
    if (!ok) {
        dt_job_fail(error, DT_EXIT_USAGE, "--rendezvous %s: cannot listen there: %s", options->rendezvous,
                    strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(address);
    return fd;
}

static void set_options(int fd)
{
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
}

/* ---- Accepting. ---- */

/* The socket becomes readable once this many bytes are there. */
static void set_low_water(int fd, int bytes)
{
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

/* Reads the HELLO, which is there as a whole or not at all. */
static bool read_hello(int fd, struct hello *hello)
{
    struct hello_frame received;
    ssize_t got = recv(fd, &received, sizeof received, MSG_DONTWAIT);

    if (got != sizeof received || received.frame.kind != DT_JOB_FRAME_HELLO ||
        received.frame.bytes != sizeof *hello || received.hello.magic != MAGIC)
        return false;
    *hello = received.hello;
    return true;
}

/* Checks that a rank belongs to this run; false with the error that it is sent, too. */
static bool check_hello(const struct rendezvous *meeting, const struct hello *hello)
{
    const struct dt_job_options *options = meeting->options;
    struct hello expected = hello_of(options, 0);
    struct dt_job_error *error = meeting->error;

    if (hello->version != expected.version)
        return dt_job_fail(error, DT_EXIT_USAGE, "rank %u runs another version of %s", hello->rank,
                           options->command);
    if (hello->digest != expected.digest)
        return dt_job_fail(error, DT_EXIT_USAGE, "rank %u was started with other options than rank 0",
                           hello->rank);
    if (hello->rank == 0 || hello->rank >= options->ranks)
        return dt_job_fail(error, DT_EXIT_USAGE, "rank %u connected; expected ranks 1 to %u", hello->rank,
                           options->ranks - 1);
    if (meeting->fds[hello->rank] >= 0)
        return dt_job_fail(error, DT_EXIT_USAGE, "rank %u was started twice", hello->rank);
    return true;
}

/* A pending connection is readable. False only when a rank does not fit this run. */
static bool admit(struct rendezvous *meeting, struct pending *pending)
{
    int fd = pending->fd;
    struct hello hello;

    pending->fd = -1;
    if (!read_hello(fd, &hello)) {
        close(fd);
        return true;
    }
    set_low_water(fd, 1);
    if (!check_hello(meeting, &hello)) {
        dt_job_frame_send(fd, DT_JOB_FRAME_ERROR, meeting->error, sizeof *meeting->error);
        close(fd);
        return false;
    }
    set_options(fd);
    dt_job_frame_send(fd, DT_JOB_FRAME_HELLO, NULL, 0);
    meeting->fds[hello.rank] = fd;
    return true;
}

static struct pending *free_pending(struct rendezvous *meeting)
{
    for (unsigned i = 0; i < PENDING_MAX; i++) {
        if (meeting->pending[i].fd < 0)
            return &meeting->pending[i];
    }
    return NULL;
}

static void accept_one(struct rendezvous *meeting, uint64_t now_ns)
{
    struct pending *pending = free_pending(meeting);
    int fd = accept4(meeting->listen_fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    dt_job_socket_limit(fd, 1); /* for an answer to a peer that does not read */
    set_low_water(fd, sizeof(struct hello_frame));
    *pending = (struct pending){fd, now_ns + HELLO_TIME_NS};
}

/* Closes pending connections whose time is over; returns the next deadline. */
static uint64_t expire(struct rendezvous *meeting, uint64_t now_ns, uint64_t deadline_ns)
{
    for (unsigned i = 0; i < PENDING_MAX; i++) {
        struct pending *pending = &meeting->pending[i];

        if (pending->fd >= 0 && now_ns >= pending->deadline_ns) {
            close(pending->fd);
            pending->fd = -1;
        }
        if (pending->fd >= 0)
            deadline_ns = dt_earlier_ns(deadline_ns, pending->deadline_ns);
    }
    return deadline_ns;
}

/* Waits for one event and handles it. False when the meeting has failed. */
static bool meet_once(struct rendezvous *meeting, int missing, uint64_t deadline_ns)
{
    struct pollfd polled[PENDING_MAX + 2];
    uint64_t now_ns = dt_clock_now_ns();

    deadline_ns = expire(meeting, now_ns, deadline_ns);
    for (unsigned i = 0; i < PENDING_MAX; i++)
        polled[i] = (struct pollfd){meeting->pending[i].fd, POLLIN, 0};
    polled[PENDING_MAX] = (struct pollfd){free_pending(meeting) ? meeting->listen_fd : -1, POLLIN, 0};
    polled[PENDING_MAX + 1] = (struct pollfd){meeting->stop_fd, POLLIN, 0};
    if (poll(polled, PENDING_MAX + 2, (int)((deadline_ns - now_ns) / DT_NS_PER_MS) + 1) <= 0)
        return true;
    if (polled[PENDING_MAX + 1].revents)
        return dt_job_fail(meeting->error, DT_EXIT_FAILED, "interrupted while waiting for rank %d", missing);
    for (unsigned i = 0; i < PENDING_MAX; i++) {
        if (polled[i].revents && !admit(meeting, &meeting->pending[i]))
            return false;
    }
    if (polled[PENDING_MAX].revents)
        accept_one(meeting, now_ns);
    return true;
}

static int first_missing(const struct dt_job_options *options, const int *fds)
{
    for (unsigned rank = 1; rank < options->ranks; rank++) {
        if (fds[rank] < 0)
            return (int)rank;
    }
    return -1;
}

bool dt_job_rendezvous_accept(int listen_fd, const struct dt_job_options *options, int stop_fd, int *fds,
                              struct dt_job_error *error)
{
    struct rendezvous meeting = {
        .options = options, .error = error, .listen_fd = listen_fd, .stop_fd = stop_fd, .fds = fds};
    uint64_t deadline_ns = dt_clock_now_ns() + options->timeout_s * DT_NS_PER_S;
    int missing;
    bool ok = true;

    for (unsigned i = 0; i < PENDING_MAX; i++)
        meeting.pending[i].fd = -1;
    while (ok && (missing = first_missing(options, fds)) >= 0) {
        if (dt_clock_now_ns() >= deadline_ns)
            ok = dt_job_fail(error, DT_EXIT_USAGE,
                             "rank %d of %u is missing: it did not connect to %s within %u s", missing,
                             options->ranks, options->rendezvous, options->timeout_s);
        else
            ok = meet_once(&meeting, missing, deadline_ns);
    }
    expire(&meeting, UINT64_MAX, UINT64_MAX);
    return ok;
}

/* ---- Connecting. ---- */

static int connect_once(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, address->ai_addr, address->ai_addrlen)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Reads the launcher's answer to the HELLO: accepted, or why not. */
static bool await_answer(int fd, const struct dt_job_options *options, struct dt_job_error *error)
{
    struct dt_job_frame frame;
    void *payload;

    dt_job_socket_limit(fd, options->timeout_s);
    if (!dt_job_frame_receive(fd, &frame, &payload))
        return dt_job_fail(error, DT_EXIT_USAGE, "--rendezvous %s: no rank 0 of %s answers there",
                           options->rendezvous, options->command);
    if (frame.kind == DT_JOB_FRAME_ERROR && frame.bytes == sizeof *error) {
        memcpy(error, payload, sizeof *error);
        error->text[sizeof error->text - 1] = '\0';
    } else if (frame.kind != DT_JOB_FRAME_HELLO) {
        dt_job_fail(error, DT_EXIT_USAGE, "--rendezvous %s: a program other than %s answers there",
                    options->rendezvous, options->command);
    }
    free(payload);
    dt_job_socket_limit(fd, 0);
    return !error->exit_code;
}

int dt_job_rendezvous_connect(const struct dt_job_options *options, struct dt_job_error *error)
{
    const struct timespec pause = {.tv_nsec = RECONNECT_PAUSE_MS * (long)DT_NS_PER_MS};
    uint64_t deadline_ns = dt_clock_now_ns() + options->timeout_s * DT_NS_PER_S;
    struct hello hello = hello_of(options, (unsigned)options->rank);
    struct addrinfo *address = resolve(options, false, error);
    int fd = -1;

    if (!address)
        return -1;
    while ((fd = connect_once(address)) < 0 && dt_clock_now_ns() < deadline_ns)
        nanosleep(&pause, NULL);
    freeaddrinfo(address);
    if (fd < 0) {
        dt_job_fail(error, DT_EXIT_USAGE, "rank 0 is missing: no connection to %s within %u s: %s",
                    options->rendezvous, options->timeout_s, strerror(errno));
        return -1;
    }
    set_options(fd);
    dt_job_frame_send(fd, DT_JOB_FRAME_HELLO, &hello, sizeof hello);
    if (await_answer(fd, options, error))
        return fd;
    close(fd);
    return -1;
}
