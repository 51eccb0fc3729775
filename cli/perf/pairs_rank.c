/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the own pairs, passes, computing. */
#include "cli/perf/pairs_rank.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/param.h"
#include "cli/command.h"
#include "cli/perf/gemm.h"
#include "cli/perf/pairs_judge.h"
#include "cli/validation.h"
#include "job/rank.h"

#define COMPUTE_RUNS 7
#define COMPUTE_SIDE 96 /* of the matrices that a run multiplies */

DT_STATIC_CHECK(DT_VALIDATION_LINKS_MAX <= DT_PERF_PAIRS_MAX, "a list of links is a plan");
DT_STATIC_CHECK(sizeof(struct dt_perf_pairs_times) <= DT_JOB_FRAME_BYTES_MAX, "the times fit in a frame");

struct pairs_rank {
    struct dt_job_rank job;
    const struct dt_perf_options *options;
    struct detour_arena *arena;
    const struct detour_validation *plan;  /* of the passes now */
    struct dt_job_connection *connections; /* two for each own pair: the one that sends, then the other */
    int32_t *pair_of;                      /* [own pair]: its number in the plan */
    size_t own_count;
    int64_t *pair_ns;  /* [pair] of the plan; 0 where another rank measures */
    int64_t *round_ns; /* [iteration] */
    int32_t pass;
    struct dt_perf_pairs_times times;
};

static bool out_of_memory(struct pairs_rank *rank)
{
    return dt_job_fail(rank->job.error, DT_EXIT_FAILED, "rank %u: out of memory", rank->job.net.rank);
}

/* ---- A pass, on the progress thread. ---- */

/* Waits until the request is done; `call` posts it first, again and again until it is taken. */
typedef bool post_func(struct pairs_rank *rank, struct dt_job_connection *connection, void **request);

static bool post_isend(struct pairs_rank *rank, struct dt_job_connection *c, void **request)
{
    return dt_job_isend(&rank->job.net.plugin, c->comm, c->buffer, rank->options->bytes_min, c->mhandle,
                        request, &rank->job.work_error);
}

static bool post_irecv(struct pairs_rank *rank, struct dt_job_connection *c, void **request)
{
    return dt_job_irecv(&rank->job.net.plugin, c->comm, c->buffer, rank->options->bytes_min, (int)c->peer,
                        c->mhandle, request, &rank->job.work_error);
}

static void beat(struct pairs_rank *rank)
{
    dt_store_relaxed(&rank->job.net.heartbeat, dt_load_relaxed(&rank->job.net.heartbeat) + 1);
}

static bool post(struct pairs_rank *rank, struct dt_job_connection *c, post_func *call, void **request)
{
    *request = NULL;
    while (!*request) {
        if (!call(rank, c, request))
            return false;
        if (!*request)
            sched_yield();
    }
    beat(rank);
    return true;
}

static bool finish(struct pairs_rank *rank, void *request)
{
    bool done = false;
    size_t bytes;

    while (!done) {
        if (!dt_job_test(&rank->job.net.plugin, request, &done, &bytes, &rank->job.work_error))
            return false;
        if (!done)
            sched_yield();
    }
    beat(rank);
    return true;
}

/* The number of the message, at both ends of it: it was delivered whole, and is no earlier one. */
static void stamp(char *buffer, size_t bytes, uint64_t number)
{
    memcpy(buffer, &number, sizeof number);
    memcpy(buffer + bytes - sizeof number, &number, sizeof number);
}

static bool check_stamp(struct pairs_rank *rank, const struct dt_job_connection *c, uint64_t number)
{
    char expected[2 * sizeof number];
    size_t bytes = rank->options->bytes_min;

    stamp(expected, sizeof expected, number);
    if (memcmp(c->buffer, expected, sizeof number) == 0 &&
        memcmp(c->buffer + bytes - sizeof number, expected, sizeof number) == 0)
        return true;
    return dt_job_fail(&rank->job.work_error, DT_EXIT_FAILED,
                       "rank %u: message %" PRIu64 " from rank %u arrived with wrong data",
                       rank->job.net.rank, number, c->peer);
}

/* One message there and one back. */
static bool round_trip(struct pairs_rank *rank, struct dt_job_connection *own, bool is_first, uint64_t number)
{
    struct dt_job_connection *to = &own[0], *from = &own[1];
    void *send, *receive;

    stamp(to->buffer, rank->options->bytes_min, number);
    if (!post(rank, from, post_irecv, &receive))
        return false;
    if (is_first)
        return post(rank, to, post_isend, &send) && finish(rank, send) && finish(rank, receive) &&
               check_stamp(rank, from, number);
    return finish(rank, receive) && check_stamp(rank, from, number) && post(rank, to, post_isend, &send) &&
           finish(rank, send);
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void work_pass(void *arg)
{
    struct pairs_rank *rank = arg;
    uint64_t warmup = rank->options->warmup_iterations, count = rank->options->iterations;

    for (size_t own = 0; own < rank->own_count; own++) {
        int32_t pair = rank->pair_of[own];
        bool is_first = rank->plan->pairs[pair].from == (int32_t)rank->job.net.rank;

        if (pair < rank->plan->first_pair[rank->pass] || pair >= rank->plan->first_pair[rank->pass + 1])
            continue;
        for (uint64_t i = 0; i < warmup + count; i++) {
            uint64_t start_ns = dt_clock_now_ns();

            if (!round_trip(rank, &rank->connections[2 * own], is_first, i))
                return;
            if (i >= warmup)
                rank->round_ns[i - warmup] = (int64_t)(dt_clock_now_ns() - start_ns);
        }
        qsort(rank->round_ns, count, sizeof rank->round_ns[0], compare_ns);
        if (is_first)
            rank->pair_ns[pair] = rank->round_ns[count / 2] > 0 ? rank->round_ns[count / 2] : 1;
    }
}

/* ---- A plan. ---- */

static bool list_connections(struct pairs_rank *rank)
{
    const struct detour_validation *plan = rank->plan;
    int32_t self = (int32_t)rank->job.net.rank;

    rank->own_count = 0;
    rank->connections = calloc((size_t)plan->pair_count * 2 + 1, sizeof *rank->connections);
    rank->pair_of = calloc((size_t)plan->pair_count + 1, sizeof *rank->pair_of);
    if (!rank->connections || !rank->pair_of)
        return out_of_memory(rank);
    for (int32_t i = 0; i < plan->pair_count; i++) {
        const struct detour_rank_pair *pair = &plan->pairs[i];

        if (pair->from != self && pair->to != self)
            continue;
        for (unsigned k = 0; k < 2; k++)
            rank->connections[2 * rank->own_count + k] =
                (struct dt_job_connection){.peer = (unsigned)(pair->from == self ? pair->to : pair->from),
                                           .channel = (unsigned)i,
                                           .sends = k == 0,
                                           .buffer_bytes = rank->options->bytes_min};
        rank->pair_of[rank->own_count++] = i;
    }
    return true;
}

static bool barrier(struct pairs_rank *rank)
{
    return dt_job_exchange(rank->job.link, NULL, 0, NULL, rank->job.error);
}

/*
 * The times of all pairs, from the ranks that measured them. A rank is in one pair of a pass at most, so that
 * it gives one time for each pass, whatever the number of pairs.
 */
static bool share_times(struct pairs_rank *rank)
{
    const struct detour_validation *plan = rank->plan;
    size_t passes = (size_t)plan->pass_count;
    int64_t *mine = calloc(passes * (rank->job.net.ranks + 1), sizeof *mine), *all;
    bool ok;

    if (!mine)
        return out_of_memory(rank);
    all = mine + passes;
    for (size_t pass = 0; pass < passes; pass++) {
        for (int32_t i = plan->first_pair[pass]; i < plan->first_pair[pass + 1]; i++)
            mine[pass] = plan->pairs[i].from == (int32_t)rank->job.net.rank ? rank->pair_ns[i] : mine[pass];
    }
    ok = dt_job_exchange(rank->job.link, mine, passes * sizeof *mine, all, rank->job.error);
    for (size_t pass = 0; ok && pass < passes; pass++) {
        for (int32_t i = plan->first_pair[pass]; i < plan->first_pair[pass + 1]; i++)
            rank->pair_ns[i] = all[(size_t)plan->pairs[i].from * passes + pass];
    }
    free(mine);
    return ok;
}

/* Connects the pairs, runs the passes, all ranks together, and closes. */
static bool run_plan(struct pairs_rank *rank, const struct detour_validation *plan, int64_t *pair_ns)
{
    uint64_t start_ns = dt_clock_now_ns();

    DT_CHECK(plan->pair_count <= DT_PERF_PAIRS_MAX);
    rank->plan = plan;
    rank->pair_ns = pair_ns;
    if (!list_connections(rank) || !dt_job_rank_connect(&rank->job, rank->connections, 2 * rank->own_count) ||
        !barrier(rank))
        return false;
    rank->times.setup_ns += (int64_t)(dt_clock_now_ns() - start_ns);
    start_ns = dt_clock_now_ns();
    for (rank->pass = 0; rank->pass < plan->pass_count; rank->pass++) {
        dt_job_rank_doing(&rank->job, "exchanging messages of pass %d", (int)rank->pass);
        if (!dt_job_rank_do_work(&rank->job, work_pass, rank) || !barrier(rank))
            return false;
    }
    rank->times.exchange_ns += (int64_t)(dt_clock_now_ns() - start_ns);
    if (!share_times(rank) || !dt_job_rank_close(&rank->job))
        return false;
    free(rank->connections);
    free(rank->pair_of);
    return true;
}

/* ---- Computing. ---- */

static int64_t compute_once_ns(float (*m)[COMPUTE_SIDE][COMPUTE_SIDE])
{
    uint64_t start_ns = dt_clock_now_ns();

    for (int i = 0; i < COMPUTE_SIDE; i++) {
        for (int k = 0; k < COMPUTE_SIDE; k++) {
            for (int j = 0; j < COMPUTE_SIDE; j++)
                m[2][i][j] += m[0][i][k] * m[1][k][j];
        }
    }
    __asm__ volatile("" : : "r"(m) : "memory"); /* the product is needed */
    return (int64_t)(dt_clock_now_ns() - start_ns);
}

/* All ranks at once, as they do in a job. */
static bool run_loop(struct pairs_rank *rank)
{
    float(*m)[COMPUTE_SIDE][COMPUTE_SIDE] = calloc(3, sizeof *m);
    int64_t least_ns = DETOUR_TIME_MAX_NS;
    bool ok;

    if (!m)
        return out_of_memory(rank);
    ok = barrier(rank);
    for (int run = 0; run < COMPUTE_RUNS && ok; run++) {
        int64_t ns = compute_once_ns(m);

        least_ns = ns < least_ns ? ns : least_ns;
    }
    free(m);
    least_ns = least_ns > 0 ? least_ns : 1;
    return ok && dt_job_exchange(rank->job.link, &least_ns, sizeof least_ns, rank->times.compute_ns,
                                 rank->job.error);
}

static bool run_gemm(struct pairs_rank *rank, struct dt_gemm *gemm)
{
    char reason[DT_GEMM_REASON_BYTES];
    int64_t median_ns;

    if (!barrier(rank))
        return false;
    if (dt_gemm_run(gemm, &median_ns, reason) != DT_OK)
        return dt_job_fail(rank->job.error, DT_EXIT_FAILED, "rank %u: the product on the GPU: %s",
                           rank->job.net.rank, reason);
    return dt_job_exchange(rank->job.link, &median_ns, sizeof median_ns, rank->times.compute_ns,
                           rank->job.error);
}

/* What a rank can compute with. */
struct offer {
    uint32_t has_gemm;
    char text[DT_GEMM_REASON_BYTES]; /* the library, or what is missing */
};

static struct dt_gemm *open_gemm(const struct pairs_rank *rank, struct offer *offer)
{
    static const char *const libraries[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", NULL};
    const char *driver = dt_getenv_process(NULL, "DETOUR_CUDA_LIB");
    struct dt_gemm *gemm = NULL;

    *offer = (struct offer){0};
    offer->has_gemm = dt_gemm_open(driver && *driver ? driver : "libcuda.so.1", libraries, rank->job.net.rank,
                                   &gemm, offer->text) == DT_OK;
    if (gemm)
        snprintf(offer->text, sizeof offer->text, "%s", dt_gemm_library(gemm));
    return gemm;
}

/* Rank 0 names the library, or the first rank that has none. */
static void name_offer(struct pairs_rank *rank, const struct offer *offers, unsigned without)
{
    if (rank->times.is_gemm)
        snprintf(rank->times.compute_text, sizeof rank->times.compute_text, "%s", offers[0].text);
    else
        snprintf(rank->times.compute_text, sizeof rank->times.compute_text, "rank %u: %s", without,
                 offers[without].text);
}

/* The times of all ranks have to be of the same work. */
static bool agree(struct pairs_rank *rank, const struct offer *mine)
{
    unsigned ranks = rank->job.net.ranks, without = 0;
    uint32_t *has_gemm = calloc(ranks, sizeof *has_gemm);
    struct offer *offers = calloc(ranks, sizeof *offers);
    bool ok = has_gemm && offers;

    ok = ok ? dt_job_exchange(rank->job.link, &mine->has_gemm, sizeof mine->has_gemm, has_gemm,
                              rank->job.error) &&
                  dt_job_gather(rank->job.link, mine, sizeof *mine, offers, rank->job.error)
            : out_of_memory(rank);
    while (ok && without < ranks && has_gemm[without])
        without++;
    rank->times.is_gemm = without == ranks;
    if (ok && rank->job.net.rank == 0)
        name_offer(rank, offers, without);
    free(has_gemm);
    free(offers);
    return ok;
}

static bool compute(struct pairs_rank *rank)
{
    struct offer mine;
    struct dt_gemm *gemm;
    bool ok;

    dt_job_rank_doing(&rank->job, "computing");
    gemm = open_gemm(rank, &mine);
    ok = agree(rank, &mine) && (rank->times.is_gemm ? run_gemm(rank, gemm) : run_loop(rank));
    dt_gemm_close(gemm);
    return ok;
}

/* ---- The whole validation. ---- */

static bool refuse(struct pairs_rank *rank, const struct detour_error *error)
{
    return dt_job_fail(rank->job.error, DT_EXIT_FAILED, "rank %u: %s", rank->job.net.rank, error->text);
}

static bool validate(struct pairs_rank *rank)
{
    struct detour_error error = {.status = DETOUR_OK};
    struct dt_perf_pairs_result result;
    const struct detour_validation *plan;

    if (dt_validation_make(rank->arena, rank->options->pairs, (int32_t)rank->job.net.ranks, &plan, &error))
        return refuse(rank, &error);
    if (!compute(rank) || !run_plan(rank, plan, rank->times.pair_ns))
        return false;
    rank->times.pair_count = (uint32_t)plan->pair_count;
    if (dt_perf_pairs_judge(rank->arena, rank->options->pairs, rank->job.net.ranks,
                            rank->options->slow_permille, &rank->times, &result, &error))
        return refuse(rank, &error);
    /* All ranks have the same times, and so the same diagnosis. */
    if (result.confirm && !run_plan(rank, result.confirm, rank->times.confirm_ns))
        return false;
    rank->times.confirm_count = result.confirm ? (uint32_t)result.confirm->pair_count : 0;
    if (rank->job.link->rank == 0)
        dt_job_frame_send(rank->job.link->fd, DT_PERF_FRAME_PAIRS, &rank->times, sizeof rank->times);
    return true;
}

bool dt_perf_pairs_rank_run(const struct dt_perf_options *options, struct dt_job_link *link,
                            struct dt_job_error *error)
{
    struct pairs_rank *rank = calloc(1, sizeof *rank);

    if (!rank)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: out of memory", link->rank);
    rank->options = options;
    rank->job.options = &options->job;
    rank->job.link = link;
    rank->job.error = error;
    rank->arena = detour_arena_create();
    rank->round_ns = calloc(options->iterations, sizeof *rank->round_ns);
    if (!rank->arena || !rank->round_ns)
        return out_of_memory(rank);
    if (!dt_job_rank_load(&rank->job) || !validate(rank))
        return false;
    detour_arena_destroy(rank->arena);
    free(rank->round_ns);
    free(rank);
    return true;
}
