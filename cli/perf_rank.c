/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf_rank.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/util.h"
#include "cli/command.h"
#include "cli/perf_engine.h"
#include "cli/perf_net.h"
#include "cli/perf_report.h"
#include "cli/perf_series.h"
#include "cli/perf_worker.h"

#define WATCH_PERIOD_MS  DT_PERF_SERIES_PERIOD_MS
#define STATUS_PERIOD_NS DT_NS_PER_S
#define SMALL_BYTES      (1024ul * 1024) /* checked as often as it takes */

struct rank {
    const struct dt_perf_options *options;
    struct dt_perf_link *link;
    struct dt_perf_error *error;
    struct dt_perf_net net;
    struct dt_perf_engine *engine;
    struct dt_perf_tally tally;
    struct dt_perf_worker service;
    struct dt_perf_worker progress;
    uint64_t heartbeat;
    uint64_t next_iteration; /* numbers the data; the same on every rank */
    char doing[96];          /* for the watchdog's message and the progress line */
    uint64_t size;           /* being measured */
    uint64_t measuring_ns;   /* since then; 0: not yet */
    uint64_t sampled_ns;
    uint64_t status_due_ns;
    uint64_t status_total; /* iterations of the job; 0: no progress line */
    /* Arguments and results of the jobs. */
    char *handles;
    char *all_handles;
    struct dt_perf_run warmup;
    struct dt_perf_run timed;
    struct dt_perf_run checked;
    uint64_t elapsed_ns;
    uint64_t timed_iterations; /* that took it */
    struct dt_perf_error job_error;
};

/* What ranks tell each other after a column of a size. */
struct column_result {
    uint64_t elapsed_ns;
    struct dt_perf_tally tally;
};

/* ---- Jobs, on the service or the progress thread. ---- */

static void job_listen(void *arg)
{
    struct rank *rank = arg;

    dt_perf_net_listen(&rank->net, rank->handles, &rank->job_error);
}

static void job_connect(void *arg)
{
    struct rank *rank = arg;

    dt_perf_net_connect(&rank->net, rank->all_handles, &rank->job_error);
}

static void job_close(void *arg)
{
    struct rank *rank = arg;

    dt_perf_net_close(&rank->net, &rank->job_error);
}

static void job_measure(void *arg)
{
    struct rank *rank = arg;
    struct dt_perf_engine *engine = rank->engine;

    if (!engine->funcs->run(engine, &rank->warmup))
        return;
    uint64_t start_ns = dt_clock_now_ns();
    if (!engine->funcs->run(engine, &rank->timed))
        return;
    rank->elapsed_ns += dt_clock_now_ns() - start_ns;
    rank->timed_iterations += rank->timed.iterations;
}

static void job_check(void *arg)
{
    struct rank *rank = arg;

    rank->engine->funcs->run(rank->engine, &rank->checked);
}

/* ---- Watching a job. ---- */

static void send_status(struct rank *rank, uint64_t now_ns)
{
    char text[160];

    if (rank->link->rank || !rank->status_total || now_ns < rank->status_due_ns)
        return;
    rank->status_due_ns = now_ns + STATUS_PERIOD_NS;
    snprintf(text, sizeof text, "%s: iteration %" PRIu64 " of %" PRIu64, rank->doing,
             dt_load_relaxed(&rank->engine->iterations_done), rank->status_total);
    dt_perf_frame_send(rank->link->fd, DT_PERF_FRAME_STATUS, text, strlen(text));
}

/* Periods of all ranks begin together, as far as clocks and the barrier allow. */
static void send_sample(struct rank *rank, uint64_t now_ns)
{
    struct dt_perf_sample sample = {
        .time_ns = now_ns - rank->measuring_ns,
        .bytes = dt_load_relaxed(&rank->net.bytes_received),
        .size = rank->size,
    };

    if (!rank->measuring_ns)
        return;
    rank->sampled_ns = now_ns;
    dt_perf_frame_send(rank->link->fd, DT_PERF_FRAME_SAMPLE, &sample, sizeof sample);
}

static void sample_if_due(struct rank *rank, uint64_t now_ns)
{
    if (now_ns - rank->sampled_ns >= DT_PERF_SERIES_PERIOD_MS * DT_NS_PER_MS)
        send_sample(rank, now_ns);
}

static bool stalled(struct rank *rank)
{
    unsigned connections = 2 * (unsigned)dt_perf_net_handle_count(&rank->net);
    unsigned connected = dt_load_relaxed(&rank->net.connected);

    if (connected < connections)
        return dt_perf_fail(rank->error, DT_EXIT_FAILED,
                            "rank %u: no progress for %u s while %s (%u of %u connections are up)",
                            rank->net.rank, rank->options->timeout_s, rank->doing, connected, connections);
    return dt_perf_fail(rank->error, DT_EXIT_FAILED, "rank %u: no progress for %u s while %s", rank->net.rank,
                        rank->options->timeout_s, rank->doing);
}

/*
 * Has a worker do a job and waits. Fails when the job fails, when nothing moves for the time limit (the
 * worker may hang inside the plugin), or when the launcher ends the run.
 */
static bool do_job(struct rank *rank, struct dt_perf_worker *worker, dt_perf_job_func *job)
{
    uint64_t seen = dt_load_relaxed(&rank->heartbeat);
    uint64_t now_ns = dt_clock_now_ns();
    uint64_t limit_ns = rank->options->timeout_s * DT_NS_PER_S;
    uint64_t deadline_ns = now_ns + limit_ns;
    bool launcher_spoke;

    rank->status_due_ns = now_ns + STATUS_PERIOD_NS;
    dt_perf_worker_give(worker, job, rank);
    while (!dt_perf_worker_wait(worker, rank->link->fd, WATCH_PERIOD_MS, &launcher_spoke)) {
        uint64_t beat = dt_load_relaxed(&rank->heartbeat);

        if (launcher_spoke)
            return dt_perf_link_ended(rank->link, rank->error);
        now_ns = dt_clock_now_ns();
        if (beat != seen)
            deadline_ns = now_ns + limit_ns;
        else if (now_ns >= deadline_ns)
            return stalled(rank);
        seen = beat;
        send_status(rank, now_ns);
        sample_if_due(rank, now_ns);
    }
    sample_if_due(rank, dt_clock_now_ns());
    if (rank->job_error.exit_code)
        *rank->error = rank->job_error;
    return !rank->job_error.exit_code;
}

/* ---- Set-up. ---- */

static void describe(struct rank *rank, struct dt_perf_rank_info *info)
{
    const struct dt_perf_plugin *plugin = &rank->net.plugin;
    size_t length = 0;

    memset(info, 0, sizeof *info);
    info->pid = getpid();
    info->device_count = plugin->device_count;
    gethostname(info->host, sizeof info->host - 1);
    for (int dev = 0; dev < plugin->device_count && length < sizeof info->devices; dev++) {
        int added = snprintf(info->devices + length, sizeof info->devices - length, "%s%s", dev ? " " : "",
                             plugin->devices[dev].name);
        length += added > 0 ? (size_t)added : 0;
    }
}

/* Tells who is here; the number of channels follows from the fewest devices anybody has. */
static bool meet_others(struct rank *rank)
{
    struct dt_perf_start start = {.channels = rank->options->channels};
    struct dt_perf_rank_info mine;
    int device_count = rank->net.plugin.device_count;

    describe(rank, &mine);
    if (!dt_perf_exchange(rank->link, &mine, sizeof mine, start.ranks, rank->error))
        return false;
    for (unsigned i = 0; i < rank->net.ranks; i++) {
        if (start.ranks[i].device_count < device_count)
            device_count = start.ranks[i].device_count;
    }
    if (!start.channels)
        start.channels = (unsigned)device_count;
    if (rank->options->op->channels_max && start.channels > rank->options->op->channels_max)
        start.channels = rank->options->op->channels_max;
    rank->net.channels = start.channels;
    snprintf(start.plugin, sizeof start.plugin, "%s", rank->net.plugin.net->name);
    if (rank->link->rank == 0)
        dt_perf_frame_send(rank->link->fd, DT_PERF_FRAME_START, &start, sizeof start);
    return true;
}

/* The largest distance that any program of the operation uses. */
static unsigned distances_of(const struct dt_perf_op *op, unsigned ranks)
{
    unsigned distances = 1;

    for (unsigned program = 0; program < op->program_count(ranks); program++) {
        struct dt_perf_ends ends = op->ends(program);

        distances = (unsigned)dt_max_u64(distances, dt_max_u64(ends.send_distance, ends.receive_distance));
    }
    return distances;
}

static bool connect_all(struct rank *rank)
{
    size_t bytes = dt_perf_net_handle_count(&rank->net) * NCCL_NET_HANDLE_MAXSIZE;

    rank->handles = calloc(1, bytes);
    rank->all_handles = calloc(rank->net.ranks, bytes);
    if (!rank->handles || !rank->all_handles)
        return dt_perf_fail(rank->error, DT_EXIT_FAILED, "rank %u: out of memory", rank->net.rank);
    snprintf(rank->doing, sizeof rank->doing, "listening");
    if (!do_job(rank, &rank->service, job_listen) ||
        !dt_perf_exchange(rank->link, rank->handles, bytes, rank->all_handles, rank->error))
        return false;
    snprintf(rank->doing, sizeof rank->doing, "connecting");
    return do_job(rank, &rank->service, job_connect);
}

static bool set_up(struct rank *rank, const char *plugin_path)
{
    const struct dt_perf_options *options = rank->options;
    struct dt_perf_net *net = &rank->net;

    if (!dt_perf_plugin_load(&net->plugin, plugin_path, rank->link->rank, rank->error) ||
        !dt_perf_plugin_init(&net->plugin, rank->error))
        return false;
    net->rank = rank->link->rank;
    net->ranks = rank->link->ranks;
    net->distances = distances_of(options->op, net->ranks);
    net->buffer_bytes = options->raw ? dt_perf_raw_buffer_bytes(options) : dt_perf_step_buffer_bytes(options);
    net->heartbeat = &rank->heartbeat;
    if (!meet_others(rank) || !dt_perf_net_init(net, rank->error))
        return false;
    if (!dt_perf_worker_start(&rank->service, "perf-service", rank->error) ||
        !dt_perf_worker_start(&rank->progress, "perf-progress", rank->error) || !connect_all(rank))
        return false;
    rank->engine = (options->raw ? dt_perf_raw_engine_create
                                 : dt_perf_step_engine_create)(net, options, &rank->tally, &rank->job_error);
    if (!rank->engine)
        *rank->error = rank->job_error;
    return rank->engine != NULL;
}

/* ---- Measuring. ---- */

/*
 * How many iterations are checked: enough for every buffer to be used again after it was checked, which is
 * what shows late writes, as long as that is not too much data.
 */
static uint64_t checked_iterations(const struct rank *rank, uint64_t bytes)
{
    uint64_t uses = rank->options->raw ? rank->options->window * rank->net.channels : DT_PERF_STEPS;

    if (rank->options->check == DT_PERF_CHECK_NEVER)
        return 0;
    if (bytes <= SMALL_BYTES)
        return 2 * uses + 1;
    if (rank->options->raw)
        return uses + 1;
    return bytes <= 16 * SMALL_BYTES ? 3 : 1;
}

static struct dt_perf_run next_run(struct rank *rank, uint64_t iterations, bool is_checked, bool in_place)
{
    struct dt_perf_run run = {.iterations = iterations,
                              .first_iteration = rank->next_iteration,
                              .checked = is_checked,
                              .in_place = in_place};

    rank->next_iteration += iterations;
    return run;
}

static void plan_column(struct rank *rank, uint64_t bytes, bool in_place)
{
    const struct dt_perf_options *options = rank->options;

    rank->warmup =
        next_run(rank, options->warmup_iterations, options->check == DT_PERF_CHECK_ALWAYS, in_place);
    rank->elapsed_ns = rank->timed_iterations = 0;
    rank->status_total = options->iterations;
    snprintf(rank->doing, sizeof rank->doing, "%s, %" PRIu64 " bytes, %s", options->op->name, bytes,
             in_place ? "in place" : "out of place");
    memset(&rank->tally, 0, sizeof rank->tally);
}

static void fill_column(const struct rank *rank, const struct column_result *all, uint64_t bytes,
                        struct dt_perf_column *column, char *first_wrong)
{
    const struct dt_perf_op *op = rank->options->op;
    double seconds = 0;
    uint64_t wrong = 0;

    for (unsigned i = 0; i < rank->net.ranks; i++) {
        seconds += (double)all[i].elapsed_ns / DT_NS_PER_S / rank->net.ranks;
        wrong += dt_perf_tally_total(&all[i].tally);
        if (!first_wrong[0])
            memcpy(first_wrong, all[i].tally.first, sizeof all[i].tally.first);
    }
    seconds /= (double)rank->timed_iterations * op->hops(rank->net.ranks);
    column->ran = true;
    column->time_us = seconds * 1e6;
    column->alg_bw = seconds > 0 ? (double)bytes / seconds / 1e9 : 0;
    column->bus_bw = column->alg_bw * op->bus_factor(rank->net.ranks);
    column->wrong = rank->options->check == DT_PERF_CHECK_NEVER ? -1 : (int64_t)wrong;
}

/* The clock of rank 0 says whether the timed iterations are to be done again. */
static bool is_over(struct rank *rank, bool *over)
{
    uint64_t elapsed_ns[DT_PERF_RANKS_MAX];

    *over = rank->options->seconds == 0;
    if (*over)
        return true;
    if (!dt_perf_exchange(rank->link, &rank->elapsed_ns, sizeof rank->elapsed_ns, elapsed_ns, rank->error))
        return false;
    *over = elapsed_ns[0] >= rank->options->seconds * DT_NS_PER_S;
    return true;
}

/* The timed iterations, as often as is asked for, and those that are only checked. */
static bool run_column(struct rank *rank, uint64_t bytes, bool in_place)
{
    const struct dt_perf_options *options = rank->options;
    bool over = false;

    do {
        rank->timed = next_run(rank, options->iterations, options->check == DT_PERF_CHECK_ALWAYS, in_place);
        if (!do_job(rank, &rank->progress, job_measure) || !is_over(rank, &over))
            return false;
        rank->warmup.iterations = 0;
    } while (!over);
    rank->checked = next_run(rank, checked_iterations(rank, bytes), true, in_place);
    return !rank->checked.iterations || do_job(rank, &rank->progress, job_check);
}

static bool measure_column(struct rank *rank, uint64_t bytes, bool in_place, struct dt_perf_row *row)
{
    struct column_result mine = {0};
    struct column_result *all;
    bool ok;

    plan_column(rank, bytes, in_place);
    ok = run_column(rank, bytes, in_place);
    rank->status_total = 0;
    /* When all ranks are through, nobody has a reason left to write into our buffers. */
    if (!ok || !dt_perf_exchange(rank->link, NULL, 0, NULL, rank->error))
        return false;
    send_sample(rank, dt_clock_now_ns());
    if (rank->checked.iterations)
        rank->engine->funcs->sweep(rank->engine);
    mine.elapsed_ns = rank->elapsed_ns;
    mine.tally = rank->tally;
    all = calloc(rank->net.ranks, sizeof *all);
    if (!all)
        return dt_perf_fail(rank->error, DT_EXIT_FAILED, "rank %u: out of memory", rank->net.rank);
    ok = dt_perf_exchange(rank->link, &mine, sizeof mine, all, rank->error);
    if (ok)
        fill_column(rank, all, bytes, &row->columns[in_place ? DT_PERF_IN_PLACE : DT_PERF_OUT_OF_PLACE],
                    row->first_wrong);
    free(all);
    return ok;
}

static bool measure_size(struct rank *rank, uint64_t size)
{
    const struct dt_perf_options *options = rank->options;
    unsigned ranks = rank->net.ranks;
    size_t count = dt_perf_op_count(options->op, options->type, ranks, size);
    struct dt_perf_row row = {.bytes = count * options->type->bytes * (options->op->has_shares ? ranks : 1),
                              .count = count};

    rank->size = row.bytes;
    if (!rank->engine->funcs->prepare(rank->engine, count)) {
        *rank->error = rank->job_error;
        return false;
    }
    if (!measure_column(rank, row.bytes, false, &row))
        return false;
    if (options->op->has_in_place && !measure_column(rank, row.bytes, true, &row))
        return false;
    if (rank->link->rank == 0)
        dt_perf_frame_send(rank->link->fd, DT_PERF_FRAME_ROW, &row, sizeof row);
    return true;
}

static bool measure_all(struct rank *rank)
{
    uint64_t size = rank->options->bytes_min;

    if (!dt_perf_exchange(rank->link, NULL, 0, NULL, rank->error))
        return false;
    rank->measuring_ns = dt_clock_now_ns();
    do {
        if (!measure_size(rank, size))
            return false;
        size = dt_perf_next_size(rank->options, size);
    } while (size);
    return true;
}

/* ---- Teardown, in NCCL's order: the progress thread is joined before anything is closed. ---- */

static bool tear_down(struct rank *rank)
{
    rank->engine->funcs->destroy(rank->engine);
    dt_perf_worker_stop(&rank->progress);
    snprintf(rank->doing, sizeof rank->doing, "closing");
    if (!do_job(rank, &rank->service, job_close))
        return false;
    dt_perf_worker_stop(&rank->service);
    free(rank->handles);
    free(rank->all_handles);
    dt_perf_frame_send(rank->link->fd, DT_PERF_FRAME_DONE, NULL, 0);
    return true;
}

int dt_perf_rank_run(const struct dt_perf_options *options, const char *plugin_path,
                     struct dt_perf_link *link, struct dt_perf_error *error)
{
    struct rank *rank = calloc(1, sizeof *rank);

    memset(error, 0, sizeof *error);
    if (!rank) {
        dt_perf_fail(error, DT_EXIT_FAILED, "rank %u: out of memory", link->rank);
    } else {
        rank->options = options;
        rank->link = link;
        rank->error = error;
        if (set_up(rank, plugin_path) && measure_all(rank) && tear_down(rank))
            free(rank);
    }
    if (error->exit_code)
        dt_perf_frame_send(link->fd, DT_PERF_FRAME_ERROR, error, sizeof *error);
    return error->exit_code;
}
