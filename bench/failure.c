/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of a failing link. Two processes, each sends messages to the other and polls; then the link of
 * the plugin's first device fails at one of them.
 *
 *   bench-failure PLUGIN pause CONNECTIONS VERB_US down|silent
 *
 * All connections are the first device's, with one message of 4 KiB in flight in each direction. VERB_US is
 * what each verb on a queue pair costs. With `down` the port reports that its link is down, with `silent`
 * no event does. Prints the median and the longest time from the fault to the arrival of a message that was
 * sent after it, and the processor time and the number of wake-ups of the plugin's threads of that process
 * meanwhile. The time of each step is in the plugin's log (NCCL_DEBUG=INFO).
 *
 *   bench-failure PLUGIN death CONNECTIONS
 *
 * The same traffic; then the other process is killed. Prints the median and the longest time from the kill to
 * the error that NCCL sees, of all connections in both directions.
 *
 *   bench-failure PLUGIN threads CONNECTIONS BUSY [BURST PERIOD_MS]
 *
 * The first BUSY connections send BURST messages (1 to 8) in each direction every PERIOD_MS, without these
 * arguments one every 10 ms; the others send only one at the start. Prints the processor time of the plugin's
 * threads in one of the processes, as parts of a core.
 *
 *   bench-failure PLUGIN bandwidth CONNECTIONS RATE[,RATE...]
 *
 * Connection i is device i's; RATE is each device's, in bytes per second. Messages of 1 MiB go one way, 8 at
 * a time and connection, each connection as fast as it can. Prints what each carries before the failure and
 * after it.
 *
 * DETOUR_RUNTIME_DIR must name a folder of mode 0700.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "bench/threads.h"
#include "cli/perf/ring.h"
#include "obs/client.h"

#define WARM_NS     (300 * DT_NS_PER_MS)
#define MEASURE_NS  (2 * DT_NS_PER_S)
#define REST_NS     (3 * DT_NS_PER_S) /* until resting connections are left out of the rounds */
#define PATIENCE_NS (60 * DT_NS_PER_S)
#define TIMEOUT_MS  10000
#define WINDOW_MAX  8
#define DEVICES_MAX 16
#define PIECE_BYTES 16384

enum measure { MEASURE_PAUSE, MEASURE_BANDWIDTH, MEASURE_DEATH, MEASURE_THREADS };

struct plan {
    const char *plugin;
    unsigned connections;
    enum measure measure;
    pid_t other; /* the second process */
    bool is_silent;
    const char *verb_us;
    const char *rate[DEVICES_MAX];
    unsigned devices; /* in use, as backups too */
    size_t bytes;     /* of a message */
    unsigned window;  /* messages in flight in a lane */
    unsigned busy;    /* THREADS: connections with traffic in a rhythm, and its period */
    uint64_t period_ns;
};

/* One direction of a connection. */
struct lane {
    struct dt_job_connection *connection;
    void *request[WINDOW_MAX];
    uint64_t posted_ns[WINDOW_MAX];
    uint64_t posted;
    uint64_t done;       /* messages; atomic */
    uint64_t resumed_ns; /* first message posted after the order; 0: none yet; atomic */
    uint64_t failed_ns;  /* a call returned an error; 0: none did; atomic */
};

struct rank {
    const struct plan *plan;
    struct dt_job_net net;
    struct dt_perf_ring ring;
    struct dt_job_error error;
    int peer_fd;
    struct lane *sends;
    struct lane *receives;
    uint64_t order_ns;
    uint64_t obeyed_ns; /* atomic; 0: the order was not given yet */
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench-failure: %s\n", what);
    fflush(NULL);
    _exit(1);
}

static void sleep_ns(uint64_t ns)
{
    const struct timespec pause = {(time_t)(ns / DT_NS_PER_S), (long)(ns % DT_NS_PER_S)};

    nanosleep(&pause, NULL);
}

/* ---- Set-up. ---- */

/* In pieces that fit the socket's buffer, since both processes send first. */
static void transfer(int fd, char *mine, char *theirs, size_t bytes)
{
    for (size_t at = 0, piece; at < bytes; at += piece) {
        piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        if (send(fd, mine + at, piece, MSG_NOSIGNAL) != (ssize_t)piece ||
            recv(fd, theirs + at, piece, MSG_WAITALL) != (ssize_t)piece)
            die("the other process has ended");
    }
}

/* Passes the handles of the receiving connections to the other process. */
static void exchange_handles(struct rank *rank)
{
    unsigned connections = rank->plan->connections;
    size_t bytes = (size_t)connections * NCCL_NET_HANDLE_MAXSIZE;
    char *mine = calloc(2, bytes);
    char *theirs = mine + bytes;

    if (!mine)
        die("out of memory");
    for (unsigned i = 0; i < connections; i++)
        memcpy(mine + i * NCCL_NET_HANDLE_MAXSIZE, dt_perf_ring_receiving(&rank->ring, i, 1)->handle,
               NCCL_NET_HANDLE_MAXSIZE);
    transfer(rank->peer_fd, mine, theirs, bytes);
    for (unsigned i = 0; i < connections; i++)
        memcpy(dt_perf_ring_sending(&rank->ring, i, 1)->handle, theirs + i * NCCL_NET_HANDLE_MAXSIZE,
               NCCL_NET_HANDLE_MAXSIZE);
    free(mine);
}

static void set_up(struct rank *rank, unsigned index)
{
    const struct plan *plan = rank->plan;
    unsigned connections = plan->connections;
    struct dt_job_net *net = &rank->net;

    rank->sends = calloc(connections, sizeof *rank->sends);
    rank->receives = calloc(connections, sizeof *rank->receives);
    if (!rank->sends || !rank->receives)
        die("out of memory");
    if (!dt_job_plugin_load(&net->plugin, plan->plugin, index, getenv("NCCL_DEBUG"), &rank->error) ||
        !dt_job_plugin_init(&net->plugin, &rank->error))
        die(rank->error.text);
    if (net->plugin.device_count < (int)plan->devices)
        die("there are too few devices (DETOUR_SOFT_DEVICES)");
    net->plugin.device_count =
        plan->measure != MEASURE_BANDWIDTH ? 1 : (int)connections; /* connections take these in turn */
    net->rank = index;
    net->ranks = 2;
    if (!dt_perf_ring_init(&rank->ring, net, connections, 1, plan->bytes * plan->window))
        die("out of memory");
    net->connections = rank->ring.connections;
    net->connection_count = dt_perf_ring_count(&rank->ring);
    if (!dt_job_net_listen(net, &rank->error))
        die(rank->error.text);
    exchange_handles(rank);
    if (!dt_job_net_connect(net, &rank->error))
        die(rank->error.text);
    for (unsigned i = 0; i < connections; i++) {
        rank->sends[i].connection = dt_perf_ring_sending(&rank->ring, i, 1);
        rank->receives[i].connection = dt_perf_ring_receiving(&rank->ring, i, 1);
    }
}

/* ---- Traffic. ---- */

/* Errors are expected once the other process is killed. */
static void fail(const struct rank *rank, struct lane *lane)
{
    if (rank->plan->measure != MEASURE_DEATH || !dt_load_acquire(&rank->obeyed_ns))
        die(rank->error.text);
    dt_store_release(&lane->failed_ns, dt_clock_now_ns());
}

/* Up to `limit` messages since the start. */
static void post(struct rank *rank, struct lane *lane, uint64_t limit)
{
    struct dt_job_connection *c = lane->connection;
    unsigned i = lane->posted % rank->plan->window;
    char *data = c->buffer + i * rank->plan->bytes;

    if (lane->posted - lane->done == rank->plan->window || lane->failed_ns || lane->posted >= limit)
        return;
    bool ok = c->sends ? dt_job_isend(&rank->net.plugin, c->comm, data, rank->plan->bytes, c->mhandle,
                                      &lane->request[i], &rank->error)
                       : dt_job_irecv(&rank->net.plugin, c->comm, data, rank->plan->bytes, (int)c->peer,
                                      c->mhandle, &lane->request[i], &rank->error);
    if (!ok)
        fail(rank, lane);
    if (!ok || !lane->request[i])
        return;
    lane->posted_ns[i] = dt_clock_now_ns();
    lane->posted++;
}

static void test(struct rank *rank, struct lane *lane)
{
    uint64_t obeyed_ns = dt_load_acquire(&rank->obeyed_ns);
    unsigned i = lane->done % rank->plan->window;
    size_t bytes;
    bool done;

    if (lane->done == lane->posted || lane->failed_ns)
        return;
    if (!dt_job_test(&rank->net.plugin, lane->request[i], &done, &bytes, &rank->error)) {
        fail(rank, lane);
        return;
    }
    if (!done)
        return;
    if (obeyed_ns && !lane->resumed_ns && lane->posted_ns[i] > obeyed_ns)
        dt_store_release(&lane->resumed_ns, dt_clock_now_ns());
    dt_store_release(&lane->done, lane->done + 1);
}

static void *progress(void *arg)
{
    struct rank *rank = arg;
    bool is_both_ways = rank->plan->measure != MEASURE_BANDWIDTH;

    for (;;) {
        for (unsigned i = 0; i < rank->ring.channels; i++) {
            if (is_both_ways || rank->net.rank == 1) {
                post(rank, &rank->receives[i], UINT64_MAX);
                test(rank, &rank->receives[i]);
            }
            if (is_both_ways || rank->net.rank == 0) {
                post(rank, &rank->sends[i], UINT64_MAX);
                test(rank, &rank->sends[i]);
            }
        }
        sched_yield();
    }
    return NULL;
}

/* One round of calls for the first `count` connections. Returns whether all their messages are complete. */
static bool call(struct rank *rank, unsigned count, uint64_t limit)
{
    bool is_done = true;

    for (unsigned i = 0; i < count; i++) {
        struct lane *lanes[] = {&rank->receives[i], &rank->sends[i]};
        uint64_t wanted = i < rank->plan->busy ? limit : 1;

        for (unsigned k = 0; k < 2; k++) {
            for (unsigned n = 0; n < rank->plan->window && lanes[k]->posted < wanted; n++)
                post(rank, lanes[k], wanted);
            for (unsigned n = 0; n < rank->plan->window && lanes[k]->done < lanes[k]->posted; n++)
                test(rank, lanes[k]);
            is_done &= lanes[k]->done >= wanted;
        }
    }
    return is_done;
}

/* All connections carry a message; then the busy ones have a rhythm, and the others are not called. */
static void *keep_rhythm(void *arg)
{
    struct rank *rank = arg;
    uint64_t period_ns = rank->plan->period_ns, next_ns = dt_clock_now_ns(), limit = 1;

    while (!call(rank, rank->ring.channels, limit))
        sched_yield();
    for (;;) {
        limit += rank->plan->window;
        while (!call(rank, rank->plan->busy, limit))
            sched_yield();
        for (next_ns += period_ns; dt_clock_now_ns() < next_ns;)
            sleep_ns(next_ns - dt_clock_now_ns());
    }
    return NULL;
}

/* ---- The failure. ---- */

static void order(const char *line)
{
    struct dt_runtime_dir dir;
    char answer[512];

    if (!getenv("DETOUR_RUNTIME_DIR") ||
        dt_runtime_dir_open(getenv("DETOUR_RUNTIME_DIR"), 1, &dir, answer, sizeof answer) != DT_OK)
        die("DETOUR_RUNTIME_DIR must name a folder of mode 0700");
    if (dt_client_call(&dir, getpid(), line, TIMEOUT_MS, answer, sizeof answer) != DT_OK)
        die(answer);
    dt_runtime_dir_close(&dir);
}

static void order_each(const char *what, const char *const *value, unsigned count)
{
    char line[128];

    for (unsigned i = 0; i < count; i++) {
        snprintf(line, sizeof line, "nic soft%u %s %s", i, what, value[i]);
        order(line);
    }
}

static bool all_have(const struct rank *rank, bool resumed)
{
    for (unsigned i = 0; i < rank->ring.channels; i++) {
        if (resumed ? !dt_load_acquire(&rank->sends[i].resumed_ns) : !dt_load_acquire(&rank->sends[i].done))
            return false;
    }
    return true;
}

static void await(const struct rank *rank, bool resumed)
{
    uint64_t end_ns = dt_clock_now_ns() + PATIENCE_NS;

    while (!all_have(rank, resumed)) {
        if (dt_clock_now_ns() > end_ns)
            die(resumed ? "not all connections have resumed" : "not all connections have traffic");
        sleep_ns(DT_NS_PER_MS);
    }
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void measure_pause(struct rank *rank)
{
    const struct plan *plan = rank->plan;
    unsigned count = plan->connections;
    uint64_t *pause_ns = calloc(count, sizeof *pause_ns);
    struct bench_threads before[BENCH_THREADS], after[BENCH_THREADS];
    uint64_t median_ns;

    if (!pause_ns)
        die("out of memory");
    bench_threads_read(before);
    rank->order_ns = dt_clock_now_ns();
    order(plan->is_silent ? "nic soft0 drop 100%" : "nic soft0 down");
    dt_store_release(&rank->obeyed_ns, dt_clock_now_ns());
    await(rank, true);
    bench_threads_read(after);
    for (unsigned i = 0; i < count; i++)
        pause_ns[i] = rank->sends[i].resumed_ns - rank->order_ns;
    qsort(pause_ns, count, sizeof *pause_ns, compare);
    median_ns = pause_ns[count / 2];
    printf("connections %u verb_us %s fault %s median_us %.1f longest_us %.1f\n", count, plan->verb_us,
           plan->is_silent ? "silent" : "down", (double)median_ns / DT_NS_PER_US,
           (double)pause_ns[count - 1] / DT_NS_PER_US);
    for (int i = 0; i < BENCH_THREADS && after[i].name[0]; i++)
        printf("thread %s busy_us %.1f wake-ups %llu\n", after[i].name,
               (double)(after[i].busy_ns - before[i].busy_ns) / DT_NS_PER_US,
               (unsigned long long)(after[i].sleeps - before[i].sleeps));
    free(pause_ns);
}

static void measure_threads(struct rank *rank)
{
    unsigned busy = rank->plan->busy;
    struct bench_threads before[BENCH_THREADS], after[BENCH_THREADS];
    uint64_t messages = 0;

    sleep_ns(REST_NS);
    for (unsigned i = 0; i < busy; i++)
        messages -= dt_load_acquire(&rank->sends[i].done);
    bench_threads_read(before);
    uint64_t start_ns = dt_clock_now_ns();
    sleep_ns(MEASURE_NS);
    bench_threads_read(after);
    double ns = (double)(dt_clock_now_ns() - start_ns);
    for (unsigned i = 0; i < busy; i++)
        messages += dt_load_acquire(&rank->sends[i].done);
    printf("connections %u busy %u messages_per_s %.0f\n", rank->plan->connections, busy,
           (double)messages * DT_NS_PER_S / ns);
    for (int i = 0; i < BENCH_THREADS && after[i].name[0]; i++)
        printf("thread %s core_percent %.2f wake-ups_per_s %.0f\n", after[i].name,
               100 * (double)(after[i].busy_ns - before[i].busy_ns) / ns,
               (double)(after[i].sleeps - before[i].sleeps) * DT_NS_PER_S / ns);
}

static bool all_failed(const struct rank *rank)
{
    for (unsigned i = 0; i < rank->ring.channels; i++) {
        if (!dt_load_acquire(&rank->sends[i].failed_ns) || !dt_load_acquire(&rank->receives[i].failed_ns))
            return false;
    }
    return true;
}

static void measure_death(struct rank *rank)
{
    unsigned count = rank->plan->connections;
    uint64_t *after_ns = calloc(2 * (size_t)count, sizeof *after_ns);
    uint64_t end_ns;

    if (!after_ns)
        die("out of memory");
    rank->order_ns = dt_clock_now_ns();
    dt_store_release(&rank->obeyed_ns, rank->order_ns);
    kill(rank->plan->other, SIGKILL);
    end_ns = rank->order_ns + PATIENCE_NS;
    while (!all_failed(rank)) {
        if (dt_clock_now_ns() > end_ns)
            die("not all connections have failed");
        sleep_ns(DT_NS_PER_MS);
    }
    for (unsigned i = 0; i < count; i++) {
        after_ns[2 * i] = rank->sends[i].failed_ns - rank->order_ns;
        after_ns[2 * i + 1] = rank->receives[i].failed_ns - rank->order_ns;
    }
    qsort(after_ns, 2 * (size_t)count, sizeof *after_ns, compare);
    printf("connections %u peer killed median_us %.1f longest_us %.1f\n", count,
           (double)after_ns[count] / DT_NS_PER_US, (double)after_ns[2 * count - 1] / DT_NS_PER_US);
    free(after_ns);
}

static void measure_rates(struct rank *rank, const char *when)
{
    uint64_t before[DEVICES_MAX];
    uint64_t start_ns = dt_clock_now_ns();
    double total = 0;

    for (unsigned i = 0; i < rank->plan->connections; i++)
        before[i] = dt_load_acquire(&rank->sends[i].done);
    sleep_ns(MEASURE_NS);
    double seconds = (double)(dt_clock_now_ns() - start_ns) / DT_NS_PER_S;
    printf("%s failure MB/s", when);
    for (unsigned i = 0; i < rank->plan->connections; i++) {
        uint64_t done = dt_load_acquire(&rank->sends[i].done) - before[i];
        double rate = (double)done * (double)rank->plan->bytes / seconds / 1e6;

        printf(" %.1f", rate);
        total += rate;
    }
    printf(" together %.1f\n", total);
}

static void measure_bandwidth(struct rank *rank)
{
    measure_rates(rank, "before the");
    order("nic soft0 down");
    sleep_ns(WARM_NS);
    measure_rates(rank, "after the");
}

/* No connection is closed: the processes end during their traffic. */
static void run(const struct plan *plan, unsigned index, int peer_fd)
{
    struct rank *rank = calloc(1, sizeof *rank);
    static void (*const measures[])(struct rank *) = {measure_pause, measure_bandwidth, measure_death,
                                                      measure_threads};
    const char *verb_us[] = {plan->verb_us, plan->verb_us};
    pthread_t thread;
    char byte = 0;

    if (!rank)
        die("out of memory");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    rank->plan = plan;
    rank->peer_fd = peer_fd;
    set_up(rank, index);
    if (plan->measure == MEASURE_PAUSE)
        order_each("verbs", verb_us, 2);
    else if (plan->measure == MEASURE_BANDWIDTH)
        order_each("rate", plan->rate, plan->devices);
    transfer(peer_fd, &byte, &byte, 1);
    if (pthread_create(&thread, NULL, plan->measure == MEASURE_THREADS ? keep_rhythm : progress, rank))
        die("cannot start a thread");
    if (index == 1) {
        recv(peer_fd, &byte, 1, 0); /* until the other process ends */
    } else {
        await(rank, false);
        sleep_ns(WARM_NS);
        measures[plan->measure](rank);
        sleep_ns(WARM_NS); /* for the plugins' last lines */
    }
    fflush(NULL);
    _exit(0);
}

static pid_t start(const struct plan *plan, unsigned index, const int pair[2])
{
    pid_t pid = fork();

    if (pid < 0)
        die(strerror(errno));
    if (pid == 0) {
        close(pair[!index]);
        run(plan, index, pair[index]);
    }
    return pid;
}

static bool parse_pause(int argc, char **argv, struct plan *plan)
{
    plan->measure = MEASURE_PAUSE;
    plan->verb_us = argv[4];
    plan->is_silent = argc == 6 && !strcmp(argv[5], "silent");
    return argc == 6 && (plan->is_silent || !strcmp(argv[5], "down"));
}

static bool parse_threads(int argc, char **argv, struct plan *plan)
{
    plan->measure = MEASURE_THREADS;
    plan->busy = argc >= 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    plan->window = argc == 7 ? (unsigned)strtoul(argv[5], NULL, 10) : 1;
    plan->period_ns = (argc == 7 ? strtoul(argv[6], NULL, 10) : 10) * DT_NS_PER_MS;
    return (argc == 5 || argc == 7) && plan->busy > 0 && plan->busy <= plan->connections &&
           plan->window > 0 && plan->window <= WINDOW_MAX && plan->period_ns > 0;
}

static bool parse_bandwidth(int argc, char **argv, struct plan *plan)
{
    unsigned rates = 0;
    char *rest = NULL;

    for (char *rate = argc == 5 ? strtok_r(argv[4], ",", &rest) : NULL; rate && rates < DEVICES_MAX;
         rate = strtok_r(NULL, ",", &rest))
        plan->rate[rates++] = rate;
    plan->measure = MEASURE_BANDWIDTH;
    plan->devices = rates;
    plan->bytes = 1024 * 1024;
    plan->window = WINDOW_MAX;
    return rates > 1 && plan->connections <= rates;
}

static bool parse(int argc, char **argv, struct plan *plan)
{
    if (argc < 4)
        return false;
    *plan = (struct plan){.plugin = argv[1],
                          .connections = (unsigned)strtoul(argv[3], NULL, 10),
                          .measure = MEASURE_DEATH,
                          .devices = 2,
                          .bytes = 4096,
                          .window = 1};
    if (!plan->connections || plan->connections > 4096)
        return false;
    if (!strcmp(argv[2], "pause"))
        return parse_pause(argc, argv, plan);
    if (!strcmp(argv[2], "bandwidth"))
        return parse_bandwidth(argc, argv, plan);
    if (!strcmp(argv[2], "threads"))
        return parse_threads(argc, argv, plan);
    return argc == 4 && !strcmp(argv[2], "death");
}

int main(int argc, char **argv)
{
    struct plan plan;
    int pair[2], status;

    if (!parse(argc, argv, &plan)) {
        fprintf(stderr, "usage: bench-failure PLUGIN pause CONNECTIONS VERB_US down|silent\n"
                        "       bench-failure PLUGIN death CONNECTIONS\n"
                        "       bench-failure PLUGIN threads CONNECTIONS BUSY [BURST PERIOD_MS]\n"
                        "       bench-failure PLUGIN bandwidth CONNECTIONS RATE,RATE[,RATE...]\n");
        return 2;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        die(strerror(errno));
    setenv("DETOUR_VERBS", "soft", 1);
    pid_t other = start(&plan, 1, pair);
    plan.other = other;
    pid_t first = start(&plan, 0, pair);
    close(pair[0]);
    close(pair[1]);
    waitpid(first, &status, 0);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
