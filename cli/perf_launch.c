/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf_launch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/perf_link.h"
#include "cli/perf_meet.h"
#include "cli/perf_rank.h"

/* A rank that sees its peer fail may speak before the peer's death is known; the death is the better news. */
#define DEATH_GRACE_NS (300 * DT_NS_PER_MS)

struct member {
    int fd;    /* -1: not there */
    pid_t pid; /* 0: not our child, or reaped */
    bool done;
    bool spoke; /* told an error of its own */
    bool gave;  /* its part of the exchange under way */
    void *part;
    size_t part_bytes;
};

struct launcher {
    const struct dt_perf_options *options;
    const char *plugin_path;
    struct dt_perf_report *report;
    struct member members[DT_PERF_RANKS_MAX];
    int signal_fd;
    int signal_taken; /* SIGINT or SIGTERM: what ended the run */
    struct dt_perf_error error;
    uint64_t error_stands_ns; /* when a rank's own word is taken for the cause */
};

/* ---- Starting. ---- */

static void blocked_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

/* The life of a forked rank; the launcher ends it, so the terminal's signals are not for it. */
static void be_rank(struct launcher *launcher, unsigned rank, int fd, pid_t parent)
{
    struct dt_perf_link link = {fd, rank, launcher->options->ranks};
    struct dt_perf_error error;
    sigset_t set;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(DT_EXIT_FAILED);
    for (unsigned i = 0; i < rank; i++) {
        if (launcher->members[i].fd >= 0)
            close(launcher->members[i].fd);
    }
    close(launcher->signal_fd);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    blocked_signals(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    if (dt_perf_rank_run(launcher->options, launcher->plugin_path, &link, &error))
        _exit(error.exit_code);
    exit(DT_EXIT_OK);
}

static bool fork_rank(struct launcher *launcher, unsigned rank)
{
    struct member *member = &launcher->members[rank];
    pid_t parent = getpid();
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return dt_perf_fail(&launcher->error, DT_EXIT_FAILED, "cannot make a socket pair: %s",
                            strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        be_rank(launcher, rank, pair[1], parent);
    }
    close(pair[1]);
    member->fd = pair[0];
    if (pid < 0)
        return dt_perf_fail(&launcher->error, DT_EXIT_FAILED, "cannot start rank %u: %s", rank,
                            strerror(errno));
    member->pid = pid;
    return true;
}

/* Rank 0 here and the others by TCP. */
static bool gather_ranks(struct launcher *launcher)
{
    const struct dt_perf_options *options = launcher->options;
    int fds[DT_PERF_RANKS_MAX];
    int listen_fd = dt_perf_meet_listen(options, &launcher->error);
    bool ok;

    if (listen_fd < 0)
        return false;
    memset(fds, -1, sizeof fds);
    ok = dt_perf_meet_accept(listen_fd, options, launcher->signal_fd, fds, &launcher->error);
    close(listen_fd);
    ok = ok && fork_rank(launcher, 0);
    for (unsigned rank = 1; rank < options->ranks; rank++)
        launcher->members[rank].fd = fds[rank];
    return ok;
}

static bool start_ranks(struct launcher *launcher)
{
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

/* A rank is gone without a word of its own: that is the cause, and what other ranks said about it is not. */
static void record_loss(struct launcher *launcher, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void record_loss(struct launcher *launcher, const char *format, ...)
{
    char text[sizeof launcher->error.text];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memset(&launcher->error, 0, sizeof launcher->error);
    dt_perf_fail(&launcher->error, DT_EXIT_FAILED, "%s", text);
    launcher->error_stands_ns = 0;
}

static void record_death(struct launcher *launcher, unsigned rank, pid_t pid, int status)
{
    if (WIFSIGNALED(status))
        record_loss(launcher, "rank %u (pid %d) was killed by signal %d (%s)", rank, (int)pid,
                    WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        record_loss(launcher, "rank %u (pid %d) ended early with exit code %d", rank, (int)pid,
                    WEXITSTATUS(status));
}

/* A rank's socket is closed. */
static void lose(struct launcher *launcher, unsigned rank)
{
    struct member *member = &launcher->members[rank];
    pid_t pid = member->pid;
    int status;

    close(member->fd);
    member->fd = -1;
    if (member->done || member->spoke)
        return;
    if (pid && reap(member, DT_NS_PER_S, &status))
        record_death(launcher, rank, pid, status);
    else
        record_loss(launcher, "rank %u went away: its connection is closed", rank);
}

/* ---- Serving. ---- */

/* Everybody has given their part: hand out all of them. */
static void answer_exchange(struct launcher *launcher)
{
    unsigned ranks = launcher->options->ranks;
    size_t bytes = launcher->members[0].part_bytes;
    char *all = malloc(bytes * ranks + 1);

    for (unsigned rank = 0; rank < ranks; rank++) {
        if (launcher->members[rank].part_bytes != bytes)
            dt_perf_fail(&launcher->error, DT_EXIT_FAILED, "ranks 0 and %u are out of step", rank);
        else if (all)
            memcpy(all + rank * bytes, launcher->members[rank].part, bytes);
    }
    for (unsigned rank = 0; rank < ranks; rank++) {
        struct member *member = &launcher->members[rank];

        member->gave = false;
        free(member->part);
        member->part = NULL;
        if (all && !launcher->error.exit_code)
            dt_perf_frame_send(member->fd, DT_PERF_FRAME_EXCHANGE, all, bytes * ranks);
    }
    if (!all)
        dt_perf_fail(&launcher->error, DT_EXIT_FAILED, "out of memory");
    free(all);
}

/* Keeps the payload. */
static void take_part(struct launcher *launcher, unsigned rank, void *payload, size_t bytes)
{
    struct member *member = &launcher->members[rank];

    free(member->part);
    member->part = payload;
    member->part_bytes = bytes;
    member->gave = true;
    for (unsigned i = 0; i < launcher->options->ranks; i++) {
        if (!launcher->members[i].gave)
            return;
    }
    answer_exchange(launcher);
}

static void take_error(struct launcher *launcher, unsigned rank, const struct dt_perf_error *error)
{
    bool open = !launcher->error.exit_code || launcher->error_stands_ns; /* not decided yet */

    launcher->members[rank].spoke = true;
    if (!open || (launcher->error.exit_code && launcher->error.when_ns <= error->when_ns))
        return;
    launcher->error = *error;
    launcher->error.text[sizeof error->text - 1] = '\0';
    if (error->exit_code == DT_EXIT_FAILED)
        launcher->error_stands_ns = dt_clock_now_ns() + DEATH_GRACE_NS;
}

static void take_frame(struct launcher *launcher, unsigned rank, const struct dt_perf_frame *frame,
                       void *payload)
{
    struct dt_perf_report *report = launcher->report;

    if (frame->kind == DT_PERF_FRAME_EXCHANGE) {
        take_part(launcher, rank, payload, frame->bytes);
        return;
    }
    if (frame->kind == DT_PERF_FRAME_START && frame->bytes == sizeof(struct dt_perf_start))
        dt_perf_report_start(report, payload);
    else if (frame->kind == DT_PERF_FRAME_ROW && frame->bytes == sizeof(struct dt_perf_row))
        dt_perf_report_row(report, payload);
    else if (frame->kind == DT_PERF_FRAME_STATUS)
        dt_perf_report_status(report, payload, dt_clock_now_ns());
    else if (frame->kind == DT_PERF_FRAME_SAMPLE && frame->bytes == sizeof(struct dt_perf_sample))
        dt_perf_series_add(&report->series, rank, payload);
    else if (frame->kind == DT_PERF_FRAME_ERROR && frame->bytes == sizeof(struct dt_perf_error))
        take_error(launcher, rank, payload);
    else if (frame->kind == DT_PERF_FRAME_DONE)
        launcher->members[rank].done = true;
    else
        dt_perf_fail(&launcher->error, DT_EXIT_FAILED, "rank %u sent a frame of unknown kind %u", rank,
                     frame->kind);
    free(payload);
}

static void take_signal(struct launcher *launcher)
{
    struct signalfd_siginfo info;

    if (read(launcher->signal_fd, &info, sizeof info) != sizeof info)
        return;
    launcher->signal_taken = (int)info.ssi_signo;
    memset(&launcher->error, 0, sizeof launcher->error);
    dt_perf_fail(&launcher->error, DT_EXIT_FAILED, "interrupted by signal %d (%s)", launcher->signal_taken,
                 strsignal(launcher->signal_taken));
    launcher->error_stands_ns = 0;
}

/* Waits for one thing to happen and deals with it. */
static void serve_once(struct launcher *launcher)
{
    unsigned ranks = launcher->options->ranks;
    struct pollfd fds[DT_PERF_RANKS_MAX + 1];

    for (unsigned rank = 0; rank < ranks; rank++)
        fds[rank] = (struct pollfd){launcher->members[rank].fd, POLLIN, 0};
    fds[ranks] = (struct pollfd){launcher->signal_fd, POLLIN, 0};
    if (poll(fds, ranks + 1, launcher->error_stands_ns ? 20 : -1) < 0)
        return;
    if (fds[ranks].revents)
        take_signal(launcher);
    for (unsigned rank = 0; rank < ranks; rank++) {
        struct dt_perf_frame frame;
        void *payload;

        if (!fds[rank].revents)
            continue;
        if (dt_perf_frame_receive(launcher->members[rank].fd, &frame, &payload))
            take_frame(launcher, rank, &frame, payload);
        else
            lose(launcher, rank);
    }
}

static bool all_done(const struct launcher *launcher)
{
    for (unsigned rank = 0; rank < launcher->options->ranks; rank++) {
        if (!launcher->members[rank].done)
            return false;
    }
    return true;
}

static void serve(struct launcher *launcher)
{
    while (!all_done(launcher)) {
        if (launcher->error.exit_code && dt_clock_now_ns() >= launcher->error_stands_ns)
            return;
        serve_once(launcher);
    }
}

/* ---- Ending. ---- */

/* A remote rank hears why; what it had sent meanwhile is read, or a reset would take the word from it. */
static void dismiss(struct launcher *launcher, struct member *member)
{
    const struct timeval limit = {.tv_usec = 500000};
    char rest[4096];

    dt_perf_frame_send(member->fd, DT_PERF_FRAME_ERROR, &launcher->error, sizeof launcher->error);
    shutdown(member->fd, SHUT_WR);
    setsockopt(member->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    while (recv(member->fd, rest, sizeof rest, 0) > 0)
        ;
}

/* Tells the others why, and kills what is ours. */
static void end_all(struct launcher *launcher)
{
    for (unsigned rank = 0; rank < launcher->options->ranks; rank++) {
        struct member *member = &launcher->members[rank];

        if (member->pid)
            kill(member->pid, SIGKILL);
        else if (member->fd >= 0 && launcher->error.exit_code)
            dismiss(launcher, member);
    }
    for (unsigned rank = 0; rank < launcher->options->ranks; rank++) {
        struct member *member = &launcher->members[rank];
        int status;

        if (member->pid)
            waitpid(member->pid, &status, 0);
        member->pid = 0;
    }
}

/* All is measured; the ranks' processes end by themselves, and properly. */
static void await_exits(struct launcher *launcher)
{
    for (unsigned rank = 0; rank < launcher->options->ranks; rank++) {
        struct member *member = &launcher->members[rank];
        pid_t pid = member->pid;
        int status;

        if (!pid)
            continue;
        if (!reap(member, launcher->options->timeout_s * DT_NS_PER_S, &status))
            dt_perf_fail(&launcher->error, DT_EXIT_FAILED, "rank %u (pid %d) does not end after it is done",
                         rank, (int)pid);
        else if (!WIFEXITED(status) || WEXITSTATUS(status))
            record_death(launcher, rank, pid, status);
    }
}

static void release(struct launcher *launcher)
{
    for (unsigned rank = 0; rank < launcher->options->ranks; rank++) {
        free(launcher->members[rank].part);
        if (launcher->members[rank].fd >= 0)
            close(launcher->members[rank].fd);
    }
    close(launcher->signal_fd);
}

/* Lets whoever started us see which signal it was. */
static void die_of(int signal_number)
{
    sigset_t set;

    signal(signal_number, SIG_DFL);
    blocked_signals(&set);
    raise(signal_number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int dt_perf_launch(const struct dt_perf_options *options, const char *plugin_path,
                   struct dt_perf_report *report)
{
    struct launcher launcher = {.options = options, .plugin_path = plugin_path, .report = report};
    sigset_t set;

    for (unsigned rank = 0; rank < DT_PERF_RANKS_MAX; rank++)
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
    bool is_written = dt_perf_report_finish(report, &launcher.error);
    if (launcher.signal_taken)
        die_of(launcher.signal_taken);
    if (launcher.error.exit_code)
        return launcher.error.exit_code;
    return report->wrong || !is_written ? DT_EXIT_FAILED : DT_EXIT_OK;
}

int dt_perf_join(const struct dt_perf_options *options, const char *plugin_path)
{
    struct dt_perf_error error = {0};
    struct dt_perf_link link = {-1, (unsigned)options->rank, options->ranks};

    link.fd = dt_perf_meet_dial(options, &error);
    if (link.fd < 0 || dt_perf_rank_run(options, plugin_path, &link, &error)) {
        fprintf(stderr, "detour perf: %s\n", error.text);
        fflush(NULL);
        _exit(error.exit_code);
    }
    close(link.fd);
    return DT_EXIT_OK;
}
