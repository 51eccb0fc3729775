/* SPDX-License-Identifier: Apache-2.0 */
#include "job/rank.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/exit.h"

bool dt_job_rank_load(struct dt_job_rank *rank)
{
    struct dt_job_net *net = &rank->net;

    memset(net, 0, sizeof *net);
    net->rank = rank->link->rank;
    net->ranks = rank->link->ranks;
    return dt_job_plugin_load(&net->plugin, rank->options->plugin_path, net->rank, rank->options->log_level,
                              rank->error) &&
           dt_job_plugin_init(&net->plugin, rank->error);
}

void dt_job_rank_doing(struct dt_job_rank *rank, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(rank->doing, sizeof rank->doing, format, args);
    va_end(args);
}

/* ---- Watching work. ---- */

void dt_job_watch_begin(struct dt_job_watch *watch, uint64_t heartbeat, uint64_t now_ns)
{
    *watch = (struct dt_job_watch){.heartbeat = heartbeat, .seen_ns = now_ns};
}

bool dt_job_watch_continue(struct dt_job_watch *watch, uint64_t heartbeat, uint64_t now_ns, uint64_t limit_ns)
{
    const uint64_t most_ns = 2 * DT_JOB_TICK_MS * DT_NS_PER_MS;
    uint64_t passed_ns = now_ns - watch->seen_ns;

    watch->idle_ns += passed_ns < most_ns ? passed_ns : most_ns;
    if (heartbeat != watch->heartbeat)
        watch->idle_ns = 0;
    watch->heartbeat = heartbeat;
    watch->seen_ns = now_ns;
    return watch->idle_ns < limit_ns;
}

static bool fail_stalled(struct dt_job_rank *rank, unsigned limit_s)
{
    const struct dt_job_net *net = &rank->net;
    unsigned connected = dt_load_relaxed(&net->connected);

    if (connected < net->connection_count)
        return dt_job_fail(rank->error, DT_EXIT_FAILED,
                           "rank %u: no progress for %u s while %s (%u of %zu connections are up)", net->rank,
                           limit_s, rank->doing, connected, net->connection_count);
    return dt_job_fail(rank->error, DT_EXIT_FAILED, "rank %u: no progress for %u s while %s", net->rank,
                       limit_s, rank->doing);
}

static void tick(struct dt_job_rank *rank, uint64_t now_ns)
{
    if (rank->tick)
        rank->tick(rank->context, now_ns);
}

/* Gives a worker work and waits. A worker that hangs inside the plugin is found by the heartbeat, after
 * limit_s without one; 0: the job's limit. */
static bool do_work(struct dt_job_rank *rank, struct dt_job_worker *worker, dt_job_func *work, void *arg,
                    unsigned limit_s)
{
    struct dt_job_watch watch;
    bool is_link_readable;

    limit_s = limit_s ? limit_s : rank->options->timeout_s;
    dt_job_watch_begin(&watch, dt_load_relaxed(&rank->net.heartbeat), dt_clock_now_ns());
    dt_job_worker_give(worker, work, arg);
    while (!dt_job_worker_wait(worker, rank->link->fd, DT_JOB_TICK_MS, &is_link_readable)) {
        uint64_t beat = dt_load_relaxed(&rank->net.heartbeat);
        uint64_t now_ns = dt_clock_now_ns();

        if (is_link_readable && !dt_job_link_read(rank->link, rank->error))
            return false;
        if (!dt_job_watch_continue(&watch, beat, now_ns, limit_s * DT_NS_PER_S))
            return fail_stalled(rank, limit_s);
        tick(rank, now_ns);
    }
    tick(rank, dt_clock_now_ns());
    if (rank->work_error.exit_code)
        *rank->error = rank->work_error;
    return !rank->work_error.exit_code;
}

bool dt_job_rank_do_work(struct dt_job_rank *rank, dt_job_func *work, void *arg)
{
    return do_work(rank, &rank->progress, work, arg, 0);
}

/* ---- Set-up and teardown, on the service thread. ---- */

static void work_listen(void *arg)
{
    struct dt_job_rank *rank = arg;

    dt_job_net_listen(&rank->net, &rank->work_error);
}

static void work_connect(void *arg)
{
    struct dt_job_rank *rank = arg;

    dt_job_net_connect(&rank->net, &rank->work_error);
}

static void work_close(void *arg)
{
    struct dt_job_rank *rank = arg;

    dt_job_net_close(&rank->net, &rank->work_error);
}

bool dt_job_rank_connect(struct dt_job_rank *rank, struct dt_job_connection *connections, size_t count)
{
    rank->net.connections = connections;
    rank->net.connection_count = count;
    rank->net.connected = 0;
    if (!dt_job_worker_start(&rank->service, "job-service", rank->error) ||
        !dt_job_worker_start(&rank->progress, "job-progress", rank->error))
        return false;
    dt_job_rank_doing(rank, "listening");
    if (!do_work(rank, &rank->service, work_listen, rank, 0) ||
        !dt_job_net_exchange(&rank->net, rank->link, rank->error))
        return false;
    dt_job_rank_doing(rank, "connecting");
    return do_work(rank, &rank->service, work_connect, rank, rank->options->connect_timeout_s);
}

bool dt_job_rank_close(struct dt_job_rank *rank)
{
    dt_job_worker_stop(&rank->progress);
    dt_job_rank_doing(rank, "closing");
    if (!do_work(rank, &rank->service, work_close, rank, 0))
        return false;
    dt_job_worker_stop(&rank->service);
    return true;
}
