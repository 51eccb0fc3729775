/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/rank.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/util.h"
#include "cli/command.h"
#include "cli/perf/engine.h"
#include "cli/perf/report.h"
#include "cli/perf/ring.h"
#include "cli/perf/series.h"
#include "job/rank.h"

#define STATUS_PERIOD_NS DT_NS_PER_S
#define SMALL_BYTES      (1024ul * 1024) /* sizes up to this are checked until every buffer was used twice */

DT_STATIC_CHECK(sizeof(struct dt_perf_start) + DT_JOB_RANKS_MAX * sizeof(struct dt_perf_rank_info) <=
                    DT_JOB_FRAME_BYTES_MAX,
                "the start of the largest job fits in a frame");

struct rank {
    struct dt_job_rank job;
    const struct dt_perf_options *options;
    struct dt_perf_ring ring;
    struct dt_perf_engine *engine;
    struct dt_perf_tally tally;
    uint64_t next_iteration; /* numbers the data; the same on every rank */
    uint64_t size;           /* being measured */
    uint64_t measuring_ns;   /* start of the measurements; 0: not yet */
    uint64_t bytes_received; /* relaxed, written by the progress thread */
    uint64_t sampled_ns;
    uint64_t status_due_ns;
    uint64_t status_total; /* iterations of the work in progress; 0: no progress line */
    /* Arguments and results of the work on the progress thread. */
    struct dt_perf_run warmup;
    struct dt_perf_run timed;
    struct dt_perf_run checked;
    uint64_t elapsed_ns;
    uint64_t timed_iterations; /* that took it */
};

/* The result of a rank after a column of a size; rank 0 gathers them. */
struct column_result {
    uint64_t elapsed_ns;
    struct dt_perf_tally tally;
};

/* ---- Work of the progress thread. ---- */

static void work_measure(void *arg)
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

static void work_check(void *arg)
{
    struct rank *rank = arg;

    rank->engine->funcs->run(rank->engine, &rank->checked);
}

/* ---- While work is in progress. ---- */

static bool out_of_memory(struct rank *rank)
{
    return dt_job_fail(rank->job.error, DT_EXIT_FAILED, "rank %u: out of memory", rank->job.link->rank);
}

static void send_frame(struct rank *rank, enum dt_perf_frame_kind kind, const void *payload, size_t bytes)
{
    dt_job_frame_send(rank->job.link->fd, kind, payload, bytes);
}

static void send_status(struct rank *rank, uint64_t now_ns)
{
    char text[160];

    if (rank->job.link->rank || !rank->status_total || now_ns < rank->status_due_ns)
        return;
    rank->status_due_ns = now_ns + STATUS_PERIOD_NS;
    snprintf(text, sizeof text, "%s: iteration %" PRIu64 " of %" PRIu64, rank->job.doing,
             dt_load_relaxed(&rank->engine->iterations_done), rank->status_total);
    send_frame(rank, DT_PERF_FRAME_STATUS, text, strlen(text));
}

/* The periods of all ranks begin together, as far as clocks and the barrier allow. */
static void send_sample(struct rank *rank, uint64_t now_ns)
{
    struct dt_perf_sample sample = {
        .time_ns = now_ns - rank->measuring_ns,
        .bytes = dt_load_relaxed(&rank->bytes_received),
        .size = rank->size,
    };

    if (!rank->measuring_ns)
        return;
    rank->sampled_ns = now_ns;
    send_frame(rank, DT_PERF_FRAME_SAMPLE, &sample, sizeof sample);
}

static void tick(void *context, uint64_t now_ns)
{
    struct rank *rank = context;

    send_status(rank, now_ns);
    if (now_ns - rank->sampled_ns >= DT_PERF_SERIES_PERIOD_MS * DT_NS_PER_MS)
        send_sample(rank, now_ns);
}

/* Has the progress thread do `work`; the first progress line comes after a period. */
static bool do_work(struct rank *rank, dt_job_func *work)
{
    rank->status_due_ns = dt_clock_now_ns() + STATUS_PERIOD_NS;
    return dt_job_rank_do_work(&rank->job, work, rank);
}

/* ---- Set-up. ---- */

static void describe(struct rank *rank, struct dt_perf_rank_info *info)
{
    const struct dt_job_plugin *plugin = &rank->job.net.plugin;
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

/* The smallest number of devices of any rank. */
static bool agree_devices(struct rank *rank, int *least)
{
    int32_t mine = rank->job.net.plugin.device_count, *all = calloc(rank->job.net.ranks, sizeof *all);
    bool ok =
        all ? dt_job_exchange(rank->job.link, &mine, sizeof mine, all, rank->job.error) : out_of_memory(rank);

    *least = mine;
    for (unsigned i = 0; ok && i < rank->job.net.ranks; i++) {
        if (all[i] < 1)
            ok = dt_job_fail(rank->job.error, DT_EXIT_FAILED, "rank %u reports %d devices", i, all[i]);
        *least = all[i] < *least ? all[i] : *least;
    }
    free(all);
    return ok;
}

/* Rank 0 gathers the participants and sends the launcher the start of the run. */
static bool send_start(struct rank *rank, const struct dt_perf_start *start)
{
    unsigned ranks = rank->job.net.ranks;
    size_t bytes = sizeof *start + ranks * sizeof(struct dt_perf_rank_info);
    char *payload = malloc(bytes);
    struct dt_perf_rank_info mine, *all;
    bool ok;

    if (!payload)
        return out_of_memory(rank);
    describe(rank, &mine);
    memcpy(payload, start, sizeof *start);
    all = (void *)(payload + sizeof *start);
    ok = dt_job_gather(rank->job.link, &mine, sizeof mine, all, rank->job.error);
    if (ok && rank->job.link->rank == 0) {
        for (unsigned i = 0; i < ranks; i++)
            all[i].host[sizeof all[i].host - 1] = all[i].devices[sizeof all[i].devices - 1] = '\0';
        send_frame(rank, DT_PERF_FRAME_START, payload, bytes);
    }
    free(payload);
    return ok;
}

/* *channels defaults to the smallest number of devices of any rank. */
static bool meet_others(struct rank *rank, unsigned *channels)
{
    struct dt_perf_start start = {.channels = rank->options->channels};
    int device_count;

    if (!agree_devices(rank, &device_count))
        return false;
    if (!start.channels)
        start.channels = (unsigned)device_count;
    if (rank->options->op->channels_max && start.channels > rank->options->op->channels_max)
        start.channels = rank->options->op->channels_max;
    *channels = start.channels;
    snprintf(start.plugin, sizeof start.plugin, "%s", rank->job.net.plugin.net->name);
    return send_start(rank, &start);
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

static bool create_engine(struct rank *rank)
{
    const struct dt_perf_engine base = {
        .ring = &rank->ring,
        .plugin = &rank->job.net.plugin,
        .options = rank->options,
        .tally = &rank->tally,
        .error = &rank->job.work_error,
        .bytes_received = &rank->bytes_received,
    };

    rank->engine = rank->options->raw ? dt_perf_raw_engine_create(&base) : dt_perf_step_engine_create(&base);
    if (!rank->engine)
        *rank->job.error = rank->job.work_error;
    return rank->engine != NULL;
}

static bool set_up(struct rank *rank)
{
    const struct dt_perf_options *options = rank->options;
    size_t buffer_bytes =
        options->raw ? dt_perf_raw_buffer_bytes(options) : dt_perf_step_buffer_bytes(options);
    unsigned distances = distances_of(options->op, rank->job.link->ranks);
    unsigned channels;

    if (!dt_job_rank_load(&rank->job) || !meet_others(rank, &channels))
        return false;
    if (!dt_perf_ring_init(&rank->ring, &rank->job.net, channels, distances, buffer_bytes))
        return dt_job_fail(rank->job.error, DT_EXIT_FAILED, "rank %u: out of memory", rank->job.net.rank);
    return dt_job_rank_connect(&rank->job, rank->ring.connections, dt_perf_ring_count(&rank->ring)) &&
           create_engine(rank);
}

/* ---- Measuring. ---- */

/*
 * The number of checked iterations: enough that every buffer is used again after it was checked, which
 * reveals late writes, unless that is too much data.
 */
static uint64_t checked_iterations(const struct rank *rank, uint64_t bytes)
{
    uint64_t uses = rank->options->raw ? rank->options->window * rank->ring.channels : DT_PERF_STEPS;

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
    dt_job_rank_doing(&rank->job, "%s, %" PRIu64 " bytes, %s", options->op->name, bytes,
                      in_place ? "in place" : "out of place");
    memset(&rank->tally, 0, sizeof rank->tally);
}

static void fill_column(const struct rank *rank, const struct column_result *all, uint64_t bytes,
                        struct dt_perf_column *column, char *first_wrong)
{
    const struct dt_perf_op *op = rank->options->op;
    double seconds = 0;
    uint64_t wrong = 0;

    for (unsigned i = 0; i < rank->job.net.ranks; i++) {
        seconds += (double)all[i].elapsed_ns / DT_NS_PER_S / rank->job.net.ranks;
        wrong += dt_perf_tally_total(&all[i].tally);
        if (!first_wrong[0])
            snprintf(first_wrong, sizeof all[i].tally.first, "%.*s", (int)sizeof all[i].tally.first - 1,
                     all[i].tally.first);
    }
    seconds /= (double)rank->timed_iterations * op->hops(rank->job.net.ranks);
    column->ran = true;
    column->time_us = seconds * 1e6;
    column->alg_bw = seconds > 0 ? (double)bytes / seconds / 1e9 : 0;
    column->bus_bw = column->alg_bw * op->bus_factor(rank->job.net.ranks);
    column->wrong = rank->options->check == DT_PERF_CHECK_NEVER ? -1 : (int64_t)wrong;
}

/* Rank 0's clock decides whether the timed iterations are repeated. */
static bool is_over(struct rank *rank, bool *over)
{
    uint64_t elapsed_ns[DT_JOB_RANKS_MAX];

    *over = rank->options->seconds == 0;
    if (*over)
        return true;
    if (!dt_job_exchange(rank->job.link, &rank->elapsed_ns, sizeof rank->elapsed_ns, elapsed_ns,
                         rank->job.error))
        return false;
    *over = elapsed_ns[0] >= rank->options->seconds * DT_NS_PER_S;
    return true;
}

/* The timed iterations, repeated for --seconds, and then those that are only checked. */
static bool run_column(struct rank *rank, uint64_t bytes, bool in_place)
{
    const struct dt_perf_options *options = rank->options;
    bool over = false;

    do {
        rank->timed = next_run(rank, options->iterations, options->check == DT_PERF_CHECK_ALWAYS, in_place);
        if (!do_work(rank, work_measure) || !is_over(rank, &over))
            return false;
        rank->warmup.iterations = 0;
    } while (!over);
    rank->checked = next_run(rank, checked_iterations(rank, bytes), true, in_place);
    return !rank->checked.iterations || do_work(rank, work_check);
}

static bool measure_column(struct rank *rank, uint64_t bytes, bool in_place, struct dt_perf_row *row)
{
    struct column_result mine = {0};
    struct column_result *all;
    bool ok;

    plan_column(rank, bytes, in_place);
    ok = run_column(rank, bytes, in_place);
    rank->status_total = 0;
    /* Once all ranks have finished, a write into a receive buffer of this rank is an error. */
    if (!ok || !dt_job_exchange(rank->job.link, NULL, 0, NULL, rank->job.error))
        return false;
    send_sample(rank, dt_clock_now_ns());
    if (rank->checked.iterations)
        rank->engine->funcs->sweep(rank->engine);
    mine.elapsed_ns = rank->elapsed_ns;
    mine.tally = rank->tally;
    all = calloc(rank->job.link->rank ? 1 : rank->job.net.ranks, sizeof *all);
    if (!all)
        return out_of_memory(rank);
    ok = dt_job_gather(rank->job.link, &mine, sizeof mine, all, rank->job.error);
    if (ok && rank->job.link->rank == 0)
        fill_column(rank, all, bytes, &row->columns[in_place ? DT_PERF_IN_PLACE : DT_PERF_OUT_OF_PLACE],
                    row->first_wrong);
    free(all);
    return ok;
}

static bool measure_size(struct rank *rank, uint64_t size)
{
    const struct dt_perf_options *options = rank->options;
    unsigned ranks = rank->job.net.ranks;
    size_t count = dt_perf_op_count(options->op, options->type, ranks, size);
    struct dt_perf_row row = {.bytes = count * options->type->bytes * (options->op->has_shares ? ranks : 1),
                              .count = count};

    rank->size = row.bytes;
    if (!rank->engine->funcs->prepare(rank->engine, count)) {
        *rank->job.error = rank->job.work_error;
        return false;
    }
    if (!measure_column(rank, row.bytes, false, &row))
        return false;
    if (options->op->has_in_place && !measure_column(rank, row.bytes, true, &row))
        return false;
    if (rank->job.link->rank == 0)
        send_frame(rank, DT_PERF_FRAME_ROW, &row, sizeof row);
    return true;
}

static bool measure_all(struct rank *rank)
{
    uint64_t size = rank->options->bytes_min;

    if (!dt_job_exchange(rank->job.link, NULL, 0, NULL, rank->job.error))
        return false;
    rank->measuring_ns = dt_clock_now_ns();
    do {
        if (!measure_size(rank, size))
            return false;
        size = dt_perf_next_size(rank->options, size);
    } while (size);
    return true;
}

static bool tear_down(struct rank *rank)
{
    rank->engine->funcs->destroy(rank->engine);
    if (!dt_job_rank_close(&rank->job))
        return false;
    dt_perf_ring_free(&rank->ring);
    return true;
}

bool dt_perf_rank_run(const struct dt_perf_options *options, struct dt_job_link *link,
                      struct dt_job_error *error)
{
    struct rank *rank = calloc(1, sizeof *rank);

    if (!rank)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: out of memory", link->rank);
    rank->options = options;
    rank->job.options = &options->job;
    rank->job.link = link;
    rank->job.error = error;
    rank->job.tick = tick;
    rank->job.context = rank;
    if (!set_up(rank) || !measure_all(rank) || !tear_down(rank))
        return false;
    free(rank);
    return true;
}
