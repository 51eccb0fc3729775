/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/rank.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/exit.h"
#include "base/util.h"
#include "cli/pipeline/adapt.h"
#include "cli/pipeline/courier.h"
#include "cli/pipeline/plan.h"
#include "cli/pipeline/rules.h"
#include "delay/timer.h"
#include "job/rank.h"
#include "pipeline/agreement.h"
#include "pipeline/executor.h"

/* What ranks exchange after an iteration. */
struct result {
    struct dt_executor_account account;
    uint64_t cpu_ns;
    struct dt_pipeline_verdicts verdicts;
    struct dt_agreement_part part;
    struct dt_pipeline_delays proposed; /* of rank 0 */
};

/* Decided after iteration k, sent after k + 1, confirmed after k + 2, used from k + 3 on. */
#define ROUNDS_OF_A_PROPOSAL 2

struct rank {
    struct dt_job_rank job;
    const struct dt_pipeline_options *options;
    struct dt_pipeline_plan plan;
    struct dt_executor *executor;
    struct dt_pipeline_courier *courier;
    struct dt_pipeline_process processes[DT_JOB_RANKS_MAX];
    struct dt_pipeline_rules rules;
    struct dt_delay_timer timer;
    uint32_t iteration;
    struct result *results; /* of all ranks */
    /* --adapt */
    struct dt_agreement agreement;
    struct detour_adapt_state adapt_state; /* rank 0 */
    struct dt_pipeline_candidate present;  /* the schedule in use, if it is not the plan's */
    struct dt_pipeline_candidate next;     /* prepared */
    struct dt_pipeline_delays planned;     /* that the schedule in use was made for */
    struct dt_pipeline_delays proposed;    /* that the next one is made for */
};

/* ---- Work of the progress thread. ---- */

static void sleep_until(uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / DT_NS_PER_S),
                                   .tv_nsec = (long)(until_ns % DT_NS_PER_S)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* Sleeps until the device is due, by the timer's means, or until it is time to poll, whichever is earlier. */
static void wait_a_moment(struct rank *rank, uint64_t now_ns)
{
    uint64_t due_ns = dt_executor_due_ns(rank->executor);
    uint64_t poll_ns = now_ns + DT_PIPELINE_POLL_US * DT_NS_PER_US;

    if (due_ns > poll_ns) {
        sleep_until(poll_ns);
        return;
    }
    uint64_t until_ns = dt_delay_timer_sleep_until_ns(&rank->timer, due_ns);
    if (until_ns > now_ns) {
        sleep_until(until_ns);
        dt_delay_timer_slept(&rank->timer, now_ns, until_ns, dt_clock_now_ns());
    }
    uint64_t began_ns = dt_clock_now_ns(), at_ns = began_ns;
    while (at_ns < due_ns)
        at_ns = dt_clock_now_ns();
    dt_delay_timer_spun(&rank->timer, at_ns - began_ns);
}

static void work_iteration(void *arg)
{
    struct rank *rank = arg;
    const struct dt_executor_work work = {
        .profile = &rank->plan.profile,
        .program = rank->present.arena ? rank->present.program : rank->plan.program,
        .iteration = rank->iteration,
        .compute_permille =
            dt_pipeline_slow_permille(&rank->options->slow, (int32_t)rank->job.net.rank, rank->iteration),
    };
    struct dt_executor_order order;

    if (!dt_executor_begin(rank->executor, &work, dt_clock_now_ns())) {
        dt_job_fail(&rank->job.work_error, DT_EXIT_FAILED, "rank %u: out of memory", rank->job.net.rank);
        return;
    }
    while (!dt_executor_is_done(rank->executor)) {
        uint64_t completed = 0, now_ns = dt_clock_now_ns();

        while (dt_executor_next(rank->executor, now_ns, &order))
            dt_pipeline_courier_take(rank->courier, &order);
        if (!dt_pipeline_courier_progress(rank->courier, &rank->job.net.plugin, &completed,
                                          &rank->job.work_error))
            return;
        dt_fetch_add_relaxed(&rank->job.net.heartbeat,
                             completed + (dt_executor_due_ns(rank->executor) != DT_NEVER_NS));
        if (!completed && !dt_executor_is_done(rank->executor))
            wait_a_moment(rank, dt_clock_now_ns());
    }
    dt_pipeline_courier_reset(rank->courier);
}

/* ---- Set-up. ---- */

static bool fail_memory(struct rank *rank)
{
    return dt_job_fail(rank->job.error, DT_EXIT_FAILED, "rank %u: out of memory", rank->job.link->rank);
}

/* The own host path frees sends in the modes that promise it. Before the plugin reads its environment. */
static void set_environment(const struct dt_pipeline_options *options)
{
    if (options->mode != DT_PIPELINE_NCCL)
        setenv("DETOUR_HOSTPATH", "on", 0);
}

static bool make_executor(struct rank *rank)
{
    const struct dt_pipeline_options *options = rank->options;
    const struct dt_executor_options made = {
        .device = (int32_t)rank->job.link->rank,
        .mode = options->mode,
        .message_bytes = options->payload_bytes,
        .slice_bytes = options->slice_bytes,
    };
    struct detour_error reason;

    if (!dt_pipeline_plan_make(&rank->plan, options, &reason))
        return dt_job_fail(rank->job.error, DT_EXIT_USAGE, "--schedule %s: %s",
                           detour_algorithm_name(options->algorithm), reason.text);
    rank->executor = dt_executor_create(&made, &rank->plan.profile);
    if (rank->executor)
        rank->courier =
            dt_pipeline_courier_create(rank->executor, options->payload_bytes, options->microbatches);
    return rank->courier || fail_memory(rank);
}

/* The RNIC of --kill exists. */
static bool check_kill(struct rank *rank)
{
    const struct dt_job_plugin *plugin = &rank->job.net.plugin;
    const char *nic = rank->options->slow.kill.nic;
    bool found = !nic[0];

    for (int i = 0; i < plugin->device_count; i++)
        found = found || !strcmp(plugin->devices[i].name, nic);
    return found || dt_job_fail(rank->job.error, DT_EXIT_USAGE,
                                "--kill %s: the plugin has no such device; its first is %s", nic,
                                plugin->devices[0].name);
}

static bool set_up(struct rank *rank)
{
    struct dt_pipeline_process self;

    dt_pipeline_process_self(&self);
    dt_delay_timer_init(&rank->timer);
    set_environment(rank->options);
    if (!make_executor(rank) || !dt_job_rank_load(&rank->job) ||
        !dt_job_exchange(rank->job.link, &self, sizeof self, rank->processes, rank->job.error))
        return false;
    rank->rules = (struct dt_pipeline_rules){
        .device = (int32_t)rank->job.link->rank,
        .processes = rank->processes,
        .kill_after_ns = dt_pipeline_plan_predict_ns(&rank->plan, rank->plan.schedule, 0) / 2};
    if (!check_kill(rank))
        return false;
    return dt_job_rank_connect(&rank->job, dt_pipeline_courier_connections(rank->courier),
                               dt_executor_flow_count(rank->executor));
}

/* ---- Iterations. ---- */

static uint64_t cpu_now_ns(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * DT_NS_PER_S +
           ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * DT_NS_PER_US;
}

static const struct detour_schedule *present_schedule(const struct rank *rank)
{
    return rank->present.arena ? rank->present.schedule : rank->plan.schedule;
}

static void send_iteration(struct rank *rank, const struct result *results)
{
    struct dt_pipeline_iteration iteration = {
        .number = rank->iteration,
        .schedule = rank->agreement.adopted,
        .predicted_ns = dt_pipeline_plan_predict_ns(&rank->plan, present_schedule(rank), rank->iteration),
    };
    uint64_t compute_ns = 0, cpu_ns = 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    for (unsigned i = 0; i < rank->job.net.ranks; i++) {
        const struct dt_executor_account *account = &results[i].account;
        int64_t time_ns = (int64_t)(account->end_ns - account->start_ns);

        iteration.time_ns = time_ns > iteration.time_ns ? time_ns : iteration.time_ns;
        iteration.held_ns += (int64_t)account->held_ns;
        iteration.wait_ns += (int64_t)account->wait_ns;
        compute_ns += account->compute_ns;
        cpu_ns += results[i].cpu_ns;
    }
    if (iteration.time_ns > 0) {
        iteration.bubble = 1 - (double)compute_ns / ((double)iteration.time_ns * rank->job.net.ranks);
        iteration.cpu = (double)cpu_ns / ((double)iteration.time_ns * (double)(cores > 0 ? cores : 1));
    }
    dt_job_frame_send(rank->job.link->fd, DT_PIPELINE_FRAME_ITERATION, &iteration, sizeof iteration);
}

/* Rank 0: a new proposal, when the verdicts call for another schedule. */
static void propose(struct rank *rank, const struct result *results)
{
    struct dt_pipeline_verdicts verdicts[DT_JOB_RANKS_MAX];
    struct dt_pipeline_delays measured;

    if (rank->agreement.own.number)
        return;
    for (unsigned i = 0; i < rank->job.net.ranks; i++)
        verdicts[i] = results[i].verdicts;
    dt_pipeline_delays_from_verdicts(&rank->plan.profile, verdicts, &measured);
    if (!dt_pipeline_adapt_decide(&rank->plan, present_schedule(rank), &rank->planned, &measured,
                                  &rank->adapt_state))
        return;
    rank->proposed = measured;
    dt_agreement_propose(&rank->agreement, rank->iteration + 1 + ROUNDS_OF_A_PROPOSAL);
}

/* The round that brought the proposal: every rank makes the schedule and confirms it in the next round. */
static void prepare(struct rank *rank, const struct result *results)
{
    rank->proposed = results[0].proposed;
    dt_pipeline_candidate_free(&rank->next);
    if (dt_pipeline_adapt_prepare(&rank->plan, present_schedule(rank), &rank->planned, &rank->proposed,
                                  &rank->next))
        dt_agreement_prepared(&rank->agreement, rank->next.digest);
}

static void adopt(struct rank *rank)
{
    dt_pipeline_candidate_free(&rank->present);
    rank->present = rank->next;
    rank->next = (struct dt_pipeline_candidate){0};
    rank->planned = rank->proposed;
    rank->adapt_state = (struct detour_adapt_state){0};
}

/* The round between this iteration and the next. */
static void adapt(struct rank *rank, const struct result *results)
{
    struct dt_agreement_part parts[DT_JOB_RANKS_MAX];

    for (unsigned i = 0; i < rank->job.net.ranks; i++)
        parts[i] = results[i].part;
    switch (dt_agreement_round(&rank->agreement, parts, rank->job.net.ranks, rank->iteration + 1)) {
    case DT_AGREEMENT_PREPARE:
        prepare(rank, results);
        break;
    case DT_AGREEMENT_ADOPT:
        adopt(rank);
        break;
    case DT_AGREEMENT_DISCARD:
        dt_pipeline_candidate_free(&rank->next);
        break;
    case DT_AGREEMENT_KEEP:
        break;
    }
    if (rank->job.link->rank == 0)
        propose(rank, results);
}

static bool run_iteration(struct rank *rank)
{
    struct result *results = rank->results, mine;

    if (!dt_pipeline_rules_set(&rank->rules, &rank->options->slow, rank->iteration, rank->job.error) ||
        !dt_job_exchange(rank->job.link, NULL, 0, NULL, rank->job.error))
        return false;
    uint64_t cpu_ns = cpu_now_ns();
    dt_job_rank_doing(&rank->job, "executing iteration %u", rank->iteration);
    if (!dt_job_rank_do_work(&rank->job, work_iteration, rank))
        return false;
    mine = (struct result){.account = dt_executor_get_account(rank->executor),
                           .cpu_ns = cpu_now_ns() - cpu_ns,
                           .part = rank->agreement.own,
                           .proposed = rank->proposed};
    if (rank->options->adapt)
        dt_pipeline_verdicts_read(&mine.verdicts);
    if (!dt_job_exchange(rank->job.link, &mine, sizeof mine, results, rank->job.error))
        return false;
    if (rank->job.link->rank == 0)
        send_iteration(rank, results);
    if (rank->options->adapt)
        adapt(rank, results);
    return true;
}

static bool run_all(struct rank *rank)
{
    if (!dt_pipeline_rules_start(&rank->rules, &rank->plan.profile, rank->job.error))
        return false;
    for (rank->iteration = 0; rank->iteration < rank->options->iterations; rank->iteration++) {
        if (!run_iteration(rank))
            return false;
    }
    return true;
}

static bool tear_down(struct rank *rank)
{
    if (!dt_job_rank_close(&rank->job))
        return false;
    dt_pipeline_courier_destroy(rank->courier);
    dt_executor_destroy(rank->executor);
    dt_pipeline_candidate_free(&rank->present);
    dt_pipeline_candidate_free(&rank->next);
    dt_pipeline_plan_free(&rank->plan);
    return true;
}

bool dt_pipeline_rank_run(const struct dt_pipeline_options *options, struct dt_job_link *link,
                          struct dt_job_error *error)
{
    struct rank *rank = calloc(1, sizeof *rank);
    struct result *results = calloc(link->ranks, sizeof *results);

    if (!rank || !results)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: out of memory", link->rank);
    rank->results = results;
    rank->options = options;
    rank->job.options = &options->job;
    rank->job.link = link;
    rank->job.error = error;
    rank->job.context = rank;
    if (!set_up(rank) || !run_all(rank) || !tear_down(rank))
        return false;
    free(results);
    free(rank);
    return true;
}
