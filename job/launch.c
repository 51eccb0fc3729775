/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/exit.h"
#include "job/exchange.h"
#include "job/rendezvous.h"

/* A rank may report that a peer failed before that peer's death is known; the death is the cause to report.
 */
#define DEATH_GRACE_NS (300 * DT_NS_PER_MS)

/* For remote ranks to read why the run ends, all together. */
#define DISMISSAL_NS DT_NS_PER_S

/* Descriptors of the launcher beside one for each rank: standard streams, files, connections that wait. */
#define OTHER_DESCRIPTORS 32

struct member {
    int fd;    /* -1: not connected */
    pid_t pid; /* 0: not a child of this process, or reaped */
    bool done;
    bool reported; /* an error of its own */
};

struct dt_job_launcher {
    const struct dt_job_options *options;
    const struct dt_job_funcs *funcs;
    void *context;
    struct member members[DT_JOB_RANKS_MAX];
    struct dt_job_parts parts; /* of the exchange in progress */
    int signal_fd;
    int signal_taken; /* SIGINT or SIGTERM: the signal that ended the run */
    struct dt_job_error error;
    uint64_t error_stands_ns; /* when the error that a rank reported is taken for the cause */
};

/* ---- Starting. ---- */

/* Raises the soft limit of descriptors where the ranks need more, so that no rank is started in vain. */
static bool reserve_descriptors(struct dt_job_launcher *launcher)
{
    rlim_t needed = launcher->options->ranks + OTHER_DESCRIPTORS;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= needed)
        return true;
    limit.rlim_cur = needed;
    if (limit.rlim_max >= needed && !setrlimit(RLIMIT_NOFILE, &limit))
        return true;
    return dt_job_fail(&launcher->error, DT_EXIT_USAGE,
                       "%u ranks need %llu open files in the process of rank 0, which may have %llu; raise "
                       "its limit (ulimit -Hn)",
                       launcher->options->ranks, (unsigned long long)needed,
                       (unsigned long long)limit.rlim_max);
}

static void blocked_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

/* Runs a rank and sends the launcher its outcome. */
static bool run_rank(const struct dt_job_funcs *funcs, void *context, struct dt_job_link *link,
                     struct dt_job_error *error)
{
    bool ok = funcs->run_rank(context, link, error);

    if (ok)
        dt_job_frame_send(link->fd, DT_JOB_FRAME_DONE, NULL, 0);
    else
        dt_job_frame_send(link->fd, DT_JOB_FRAME_ERROR, error, sizeof *error);
    return ok;
}

/* A forked rank's process. The launcher ends it, so the terminal's signals are ignored. */
static void be_rank(struct dt_job_launcher *launcher, unsigned rank, int fd, pid_t parent)
{
    struct dt_job_link link = {.fd = fd, .rank = rank, .ranks = launcher->options->ranks};
    struct dt_job_error error = {0};
    char number[16];
    sigset_t set;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(DT_EXIT_FAILED);
    for (unsigned i = 0; i < launcher->options->ranks; i++) {
        if (launcher->members[i].fd >= 0)
            close(launcher->members[i].fd);
    }
    close(launcher->signal_fd);
    snprintf(number, sizeof number, "%u", rank);
    setenv("DETOUR_RANK", number, 1); /* a launcher's variables count this process' ranks as one */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    blocked_signals(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    if (!run_rank(launcher->funcs, launcher->context, &link, &error))
        _exit(error.exit_code);
    exit(DT_EXIT_OK);
}

static bool fork_rank(struct dt_job_launcher *launcher, unsigned rank)
{
    struct member *member = &launcher->members[rank];
    pid_t parent = getpid();
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return dt_job_fail(&launcher->error, DT_EXIT_FAILED, "cannot make a socket pair: %s",
                           strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        be_rank(launcher, rank, pair[1], parent);
    }
    close(pair[1]);
    member->fd = pair[0];
    dt_job_socket_limit(member->fd, launcher->options->timeout_s);
    if (pid < 0)
        return dt_job_fail(&launcher->error, DT_EXIT_FAILED, "cannot start rank %u: %s", rank,
                           strerror(errno));
    member->pid = pid;
    return true;
}

/* Rank 0 is a child of this process; the others connect by TCP. */
static bool gather_ranks(struct dt_job_launcher *launcher)
{
    const struct dt_job_options *options = launcher->options;
    int fds[DT_JOB_RANKS_MAX];
    int listen_fd = dt_job_rendezvous_listen(options, &launcher->error);
    bool ok;

    if (listen_fd < 0)
        return false;
    memset(fds, -1, sizeof fds);
    ok = dt_job_rendezvous_accept(listen_fd, options, launcher->signal_fd, fds, &launcher->error);
    close(listen_fd);
    for (unsigned rank = 1; rank < options->ranks; rank++) {
        launcher->members[rank].fd = fds[rank];
        if (fds[rank] >= 0)
            dt_job_socket_limit(fds[rank], options->timeout_s);
    }
    return ok && fork_rank(launcher, 0);
}

static bool start_ranks(struct dt_job_launcher *launcher)
{
    if (!reserve_descriptors(launcher))
        return false;
    if (!dt_job_parts_init(&launcher->parts, launcher->options->ranks))
        return dt_job_fail(&launcher->error, DT_EXIT_FAILED, "out of memory");
    if (launcher->options->rank >= 0)
        return gather_ranks(launcher);
    for (unsigned rank = 0; rank < launcher->options->ranks; rank++) {
        if (!fork_rank(launcher, rank))
            return false;
    }
    return true;
}

/* ---- Deaths. ---- */

/* Waits for a child for up to `limit_ns`; false when it still runs. */
static bool reap(struct member *member, uint64_t limit_ns, int *status)
{
    const struct timespec pause = {.tv_nsec = (long)DT_NS_PER_MS};
    uint64_t deadline_ns = dt_deadline_ns(dt_clock_now_ns(), limit_ns);

    while (waitpid(member->pid, status, WNOHANG) == 0) {
        if (dt_clock_now_ns() >= deadline_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    member->pid = 0;
    return true;
}

/* A rank died without reporting an error: that is the cause, and the errors of other ranks follow from it. */
static void record_loss(struct dt_job_launcher *launcher, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void record_loss(struct dt_job_launcher *launcher, const char *format, ...)
{
    char text[sizeof launcher->error.text];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memset(&launcher->error, 0, sizeof launcher->error);
    dt_job_fail(&launcher->error, DT_EXIT_FAILED, "%s", text);
    launcher->error_stands_ns = 0;
}

static void record_death(struct dt_job_launcher *launcher, unsigned rank, pid_t pid, int status)
{
    if (WIFSIGNALED(status))
        record_loss(launcher, "rank %u (pid %d) was killed by signal %d (%s)", rank, (int)pid,
                    WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        record_loss(launcher, "rank %u (pid %d) ended early with exit code %d", rank, (int)pid,
                    WEXITSTATUS(status));
}

static void report_end(const struct dt_job_launcher *launcher, unsigned rank, bool completed)
{
    if (launcher->funcs->rank_ended)
        launcher->funcs->rank_ended(launcher->context, rank, completed);
}

/* A rank's socket is closed, or broken. */
static void lose(struct dt_job_launcher *launcher, unsigned rank)
{
    struct member *member = &launcher->members[rank];
    pid_t pid = member->pid;
    int status;

    DT_CHECK(member->fd >= 0); /* a rank is lost once */
    close(member->fd);
    member->fd = -1;
    if (member->done)
        return;
    report_end(launcher, rank, false);
    if (member->reported)
        return;
    if (pid && reap(member, DT_NS_PER_S, &status))
        record_death(launcher, rank, pid, status);
    else
        record_loss(launcher, "rank %u is lost: its connection to the launcher is closed or broken", rank);
}

/* ---- Serving. ---- */

/* Every rank's part has arrived. A rank that does not take its answer is lost, and the others need none. */
static void answer_exchange(struct dt_job_launcher *launcher)
{
    struct dt_job_parts *parts = &launcher->parts;
    uint32_t kind = parts->part[0].kind;
    bool ok = dt_job_parts_answer(parts, &launcher->error);

    for (unsigned rank = 0; ok && rank < launcher->options->ranks; rank++) {
        int fd = launcher->members[rank].fd;
        size_t bytes;
        const void *answer = dt_job_parts_for(parts, rank, &bytes);

        if (fd >= 0 && !dt_job_frame_send(fd, kind, answer, bytes))
            lose(launcher, rank);
        ok = !launcher->error.exit_code;
    }
    dt_job_parts_clear(parts);
}

/* Keeps the payload. */
static void take_part(struct dt_job_launcher *launcher, unsigned rank, const struct dt_job_frame *frame,
                      void *payload)
{
    if (dt_job_parts_take(&launcher->parts, rank, frame->kind, payload, frame->bytes, &launcher->error) &&
        !launcher->parts.missing)
        answer_exchange(launcher);
}

static void take_error(struct dt_job_launcher *launcher, unsigned rank, const struct dt_job_error *error)
{
    bool open = !launcher->error.exit_code || launcher->error_stands_ns; /* not decided yet */

    launcher->members[rank].reported = true;
    if (!open || (launcher->error.exit_code && launcher->error.when_ns <= error->when_ns))
        return;
    launcher->error = *error;
    launcher->error.text[sizeof error->text - 1] = '\0';
    if (error->exit_code == DT_EXIT_FAILED)
        launcher->error_stands_ns = dt_clock_now_ns() + DEATH_GRACE_NS;
}

static void take_done(struct dt_job_launcher *launcher, unsigned rank)
{
    launcher->members[rank].done = true;
    report_end(launcher, rank, true);
}

static bool take_command_frame(struct dt_job_launcher *launcher, unsigned rank,
                               const struct dt_job_frame *frame, const void *payload)
{
    return frame->kind >= DT_JOB_FRAME_COMMAND && launcher->funcs->take_frame &&
           launcher->funcs->take_frame(launcher->context, launcher, rank, frame, payload);
}

static void take_frame(struct dt_job_launcher *launcher, unsigned rank, const struct dt_job_frame *frame,
                       void *payload)
{
    if (frame->kind == DT_JOB_FRAME_EXCHANGE || frame->kind == DT_JOB_FRAME_GATHER ||
        frame->kind == DT_JOB_FRAME_DELIVER) {
        take_part(launcher, rank, frame, payload);
        return;
    }
    if (frame->kind == DT_JOB_FRAME_ERROR && frame->bytes == sizeof(struct dt_job_error))
        take_error(launcher, rank, payload);
    else if (frame->kind == DT_JOB_FRAME_DONE && !launcher->members[rank].done)
        take_done(launcher, rank);
    else if (!take_command_frame(launcher, rank, frame, payload))
        dt_job_fail(&launcher->error, DT_EXIT_FAILED, "rank %u sent an unknown frame (kind %u, %u bytes)",
                    rank, frame->kind, frame->bytes);
    free(payload);
}

static void take_signal(struct dt_job_launcher *launcher)
{
    struct signalfd_siginfo info;

    if (read(launcher->signal_fd, &info, sizeof info) != sizeof info)
        return;
    launcher->signal_taken = (int)info.ssi_signo;
    memset(&launcher->error, 0, sizeof launcher->error);
    dt_job_fail(&launcher->error, DT_EXIT_FAILED, "interrupted by signal %d (%s)", launcher->signal_taken,
                strsignal(launcher->signal_taken));
    launcher->error_stands_ns = 0;
}

/* Waits for one event and handles it. */
static void serve_once(struct dt_job_launcher *launcher)
{
    unsigned ranks = launcher->options->ranks;
    struct pollfd fds[DT_JOB_RANKS_MAX + 1];

    for (unsigned rank = 0; rank < ranks; rank++)
        fds[rank] = (struct pollfd){launcher->members[rank].fd, POLLIN, 0};
    fds[ranks] = (struct pollfd){launcher->signal_fd, POLLIN, 0};
    if (poll(fds, ranks + 1, launcher->error_stands_ns ? 20 : -1) < 0)
        return;
    if (fds[ranks].revents)
        take_signal(launcher);
    for (unsigned rank = 0; rank < ranks; rank++) {
        struct dt_job_frame frame;
        void *payload;

        /* Serving the ranks before it may have found that it is lost. */
        if (!fds[rank].revents || launcher->members[rank].fd < 0)
            continue;
        if (dt_job_frame_receive(launcher->members[rank].fd, &frame, &payload))
            take_frame(launcher, rank, &frame, payload);
        else
            lose(launcher, rank);
    }
}

static bool all_done(const struct dt_job_launcher *launcher)
{
    for (unsigned rank = 0; rank < launcher->options->ranks; rank++) {
        if (!launcher->members[rank].done)
            return false;
    }
    return true;
}

static void serve(struct dt_job_launcher *launcher)
{
    while (!all_done(launcher)) {
        if (launcher->error.exit_code && dt_clock_now_ns() >= launcher->error_stands_ns)
            return;
        serve_once(launcher);
    }
}

/* ---- Ending. ---- */

/* Reads what has arrived. False: the rank has closed its end. */
static bool drain(int fd)
{
    char rest[4096];
    ssize_t got = recv(fd, rest, sizeof rest, MSG_DONTWAIT);

    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/*
 * Sends the remote ranks the reason for the end. The frames that they have sent meanwhile are read before
 * their sockets are closed: closing a socket with unread data resets the connection, and the rank would not
 * receive the reason.
 */
static void dismiss_remote(struct dt_job_launcher *launcher)
{
    unsigned ranks = launcher->options->ranks, open = 0;
    struct pollfd fds[DT_JOB_RANKS_MAX];
    uint64_t deadline_ns;

    for (unsigned rank = 0; rank < ranks; rank++) {
        const struct member *member = &launcher->members[rank];

        fds[rank] = (struct pollfd){member->pid ? -1 : member->fd, POLLIN, 0};
        if (fds[rank].fd < 0)
            continue;
        dt_job_socket_limit(fds[rank].fd, 1);
        dt_job_frame_send(fds[rank].fd, DT_JOB_FRAME_ERROR, &launcher->error, sizeof launcher->error);
        shutdown(fds[rank].fd, SHUT_WR);
        open++;
    }
    deadline_ns = dt_deadline_ns(dt_clock_now_ns(), DISMISSAL_NS);
    while (open && dt_clock_now_ns() < deadline_ns) {
        poll(fds, ranks, 20);
        for (unsigned rank = 0; rank < ranks; rank++) {
            if (fds[rank].fd >= 0 && fds[rank].revents && !drain(fds[rank].fd)) {
                fds[rank].fd = -1;
                open--;
            }
        }
    }
}

/* Sends the reason to the remote ranks and kills the local ones. */
static void end_all(struct dt_job_launcher *launcher)
{
    for (unsigned rank = 0; rank < launcher->options->ranks; rank++) {
        if (launcher->members[rank].pid)
            kill(launcher->members[rank].pid, SIGKILL);
    }
    if (launcher->error.exit_code)
        dismiss_remote(launcher);
    for (unsigned rank = 0; rank < launcher->options->ranks; rank++) {
        struct member *member = &launcher->members[rank];
        int status;

        if (member->pid)
            waitpid(member->pid, &status, 0);
        member->pid = 0;
    }
}

/* All ranks are done; their processes end by themselves. */
static void await_exits(struct dt_job_launcher *launcher)
{
    for (unsigned rank = 0; rank < launcher->options->ranks; rank++) {
        struct member *member = &launcher->members[rank];
        pid_t pid = member->pid;
        int status;

        if (!pid)
            continue;
        if (!reap(member, launcher->options->timeout_s * DT_NS_PER_S, &status))
            dt_job_fail(&launcher->error, DT_EXIT_FAILED,
                        "rank %u (pid %d) has not ended after its work was done", rank, (int)pid);
        else if (!WIFEXITED(status) || WEXITSTATUS(status))
            record_death(launcher, rank, pid, status);
    }
}

static void release(struct dt_job_launcher *launcher)
{
    for (unsigned rank = 0; rank < launcher->options->ranks; rank++) {
        if (launcher->members[rank].fd >= 0)
            close(launcher->members[rank].fd);
    }
    dt_job_parts_free(&launcher->parts);
    close(launcher->signal_fd);
}

/* Ends this process by the signal, so that its parent sees which one it was. */
static void die_of(int signal_number)
{
    sigset_t set;

    signal(signal_number, SIG_DFL);
    blocked_signals(&set);
    raise(signal_number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void dt_job_launcher_send(struct dt_job_launcher *launcher, unsigned rank, unsigned kind, const void *payload,
                          size_t bytes)
{
    DT_CHECK(rank < launcher->options->ranks && kind >= DT_JOB_FRAME_COMMAND);
    if (launcher->members[rank].fd >= 0 && !launcher->members[rank].done)
        dt_job_frame_send(launcher->members[rank].fd, kind, payload, bytes);
}

int dt_job_launch(const struct dt_job_options *options, const struct dt_job_funcs *funcs, void *context)
{
    struct dt_job_launcher launcher = {.options = options, .funcs = funcs, .context = context};
    sigset_t set;

    for (unsigned rank = 0; rank < DT_JOB_RANKS_MAX; rank++)
        launcher.members[rank].fd = -1;
    blocked_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    launcher.signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (start_ranks(&launcher))
        serve(&launcher);
    if (!launcher.error.exit_code)
        await_exits(&launcher);
    end_all(&launcher);
    release(&launcher);
    int exit_code = funcs->finish(context, &launcher.error);
    if (launcher.signal_taken)
        die_of(launcher.signal_taken);
    return launcher.error.exit_code ? launcher.error.exit_code : exit_code;
}

int dt_job_join(const struct dt_job_options *options, const struct dt_job_funcs *funcs, void *context)
{
    struct dt_job_error error = {0};
    struct dt_job_link link = {.fd = -1, .rank = (unsigned)options->rank, .ranks = options->ranks};

    link.fd = dt_job_rendezvous_connect(options, &error);
    if (link.fd < 0 || !run_rank(funcs, context, &link, &error)) {
        fprintf(stderr, "%s: %s\n", options->command, error.text);
        fflush(NULL);
        _exit(error.exit_code);
    }
    close(link.fd);
    return DT_EXIT_OK;
}
