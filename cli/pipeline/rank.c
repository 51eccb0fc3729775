/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/rank.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/exit.h"
#include "base/util.h"
#include "cli/pipeline/courier.h"
#include "cli/pipeline/place.h"
#include "cli/pipeline/plan.h"
#include "cli/pipeline/replan.h"
#include "cli/pipeline/replicas.h"
#include "cli/pipeline/timeline.h"
#include "cli/pipeline/wait.h"
#include "detour/mitigate.h"
#include "job/rank.h"

struct rank {
    struct dt_job_rank job;
    struct dt_pipeline_options options_now;    /* with the controller's remedies */
    const struct dt_pipeline_options *options; /* = &options_now */
    struct dt_pipeline_plan plan;
    struct dt_pipeline_place place;
    struct dt_executor *executor;
    struct dt_gradients *gradients; /* NULL without replicas */
    struct dt_pipeline_courier *courier;
    int64_t pause_ns;                                /* before this iteration: an exchange of ranks */
    struct dt_pipeline_checkpoint_result checkpoint; /* after this iteration */
    struct dt_pipeline_process processes[DT_PIPELINE_RANKS_MAX];
    struct dt_pipeline_rules rules;
    struct dt_delay_timer timer;
    uint32_t iteration;
    struct dt_pipeline_result *results; /* of all ranks */
    struct dt_pipeline_replan replan;
    uint64_t staged_messages; /* of all ranks, before this iteration (rank 0); as the next */
    uint64_t pool_full;
    struct dt_pipeline_remedy offered; /* rank 0 */
    struct dt_pipeline_remedy remedy;  /* in force */
    uint32_t remedied;                 /* before this iteration the grid changes */
};

/* ---- Work of the progress thread. ---- */

/* What this rank's replica executes in this iteration. */
static struct dt_pipeline_variant present_variant(const struct rank *rank)
{
    return dt_pipeline_replan_of(&rank->replan, rank->place.position.replica, rank->iteration);
}

static bool next_order(struct rank *rank, uint64_t now_ns, struct dt_executor_order *order)
{
    return dt_executor_next(rank->executor, now_ns, order) ||
           (rank->gradients &&
            dt_gradients_next(rank->gradients, dt_executor_get_account(rank->executor).end_ns > 0, order));
}

static bool is_done(const struct rank *rank)
{
    return dt_executor_is_done(rank->executor) && (!rank->gradients || dt_gradients_is_done(rank->gradients));
}

/* Each element is the sum over the replicas. */
static void check_gradients(struct rank *rank)
{
    uint64_t wrong;

    if (rank->gradients && !dt_gradients_check(rank->gradients, &wrong))
        dt_job_fail(&rank->job.work_error, DT_EXIT_FAILED,
                    "rank %u: the gradients of iteration %" PRIu32
                    " are not the sum over the replicas at byte %" PRIu64,
                    rank->job.net.rank, rank->iteration, wrong);
}

static void work_iteration(void *arg)
{
    struct rank *rank = arg;
    const struct dt_pipeline_variant variant = present_variant(rank);
    const struct dt_executor_work work = {
        .profile = &variant.profile,
        .program = variant.program,
        .iteration = rank->iteration,
        .compute_permille =
            dt_pipeline_slow_permille(&rank->options->slow, rank->place.home, rank->iteration),
    };
    struct dt_executor_order order;

    if (rank->gradients)
        dt_gradients_begin(
            rank->gradients, rank->iteration,
            dt_pipeline_options_share(rank->options, rank->place.position.replica, rank->iteration));
    if (!dt_executor_begin(rank->executor, &work, dt_clock_now_ns())) {
        dt_job_fail(&rank->job.work_error, DT_EXIT_FAILED, "rank %u: out of memory", rank->job.net.rank);
        return;
    }
    while (!is_done(rank)) {
        uint64_t completed = 0, now_ns = dt_clock_now_ns();

        while (next_order(rank, now_ns, &order))
            dt_pipeline_courier_take(rank->courier, &order);
        if (!dt_pipeline_courier_progress(rank->courier, &rank->job.net.plugin, &completed,
                                          &rank->job.work_error))
            return;
        dt_fetch_add_relaxed(&rank->job.net.heartbeat,
                             completed + (dt_executor_due_ns(rank->executor) != DT_NEVER_NS));
        if (!completed && !is_done(rank))
            dt_pipeline_wait(&rank->timer, dt_executor_due_ns(rank->executor), dt_clock_now_ns());
    }
    dt_pipeline_courier_reset(rank->courier);
    check_gradients(rank);
    if (rank->place.parameters.elements)
        dt_pipeline_parameters_add(&rank->place.parameters, dt_gradients_sums(rank->gradients));
}

/* ---- Set-up. ---- */

static bool fail_memory(struct rank *rank)
{
    return dt_job_fail(rank->job.error, DT_EXIT_FAILED, "rank %u: out of memory", rank->job.link->rank);
}

static bool make_courier(struct rank *rank)
{
    const struct dt_pipeline_options *options = rank->options;
    struct dt_gradients_options gradients =
        dt_pipeline_replicas_gradients(options, &rank->plan.profile, rank->place.position);

    gradients.first_flow = dt_executor_flow_count(rank->executor);
    if (options->replicas > 1 && !(rank->gradients = dt_gradients_create(&gradients)))
        return false;
    const struct dt_pipeline_courier_options made = {.executor = rank->executor,
                                                     .message_bytes = options->payload_bytes,
                                                     .microbatches =
                                                         dt_pipeline_options_microbatches_max(options),
                                                     .devices = options->devices,
                                                     .position = rank->place.position,
                                                     .gradients = rank->gradients,
                                                     .gradient_slots = gradients.slots,
                                                     .gradient_slice_bytes = gradients.slice_bytes,
                                                     .ranks = rank->place.ranks};
    rank->courier = dt_pipeline_courier_create(&made);
    return rank->courier;
}

static bool make_executor(struct rank *rank)
{
    const struct dt_pipeline_options *options = rank->options;
    const struct dt_executor_options made = {
        .device = rank->place.position.device,
        .mode = options->mode,
        .message_bytes = options->payload_bytes,
        .slice_bytes = options->slice_bytes,
        .launch = options->launch,
    };
    struct detour_profile largest = rank->plan.profile;

    largest.microbatch_count = dt_pipeline_options_microbatches_max(options);
    rank->executor = dt_executor_create(&made, &largest);
    return (rank->executor && make_courier(rank)) || fail_memory(rank);
}

static bool make_plan(struct rank *rank)
{
    const struct dt_pipeline_options *options = rank->options;
    struct detour_error reason;

    return dt_pipeline_plan_make(&rank->plan, options, &reason) ||
           dt_job_fail(rank->job.error, DT_EXIT_USAGE, "--schedule %s: %s",
                       detour_algorithm_name(options->algorithm), reason.text);
}

static bool set_up(struct rank *rank)
{
    struct dt_pipeline_process self;

    dt_pipeline_process_self(&self);
    dt_delay_timer_init(&rank->timer);
    if (!dt_pipeline_staging_prepare(&rank->replan.staging, rank->options, rank->place.position))
        return fail_memory(rank);
    if (!make_plan(rank) || !dt_pipeline_place_create_parameters(&rank->place, &rank->plan.profile) ||
        !make_executor(rank) ||
        !dt_pipeline_place_check_folder(&rank->place, rank->job.link->rank, rank->job.error) ||
        !dt_job_rank_load(&rank->job) ||
        !dt_job_exchange(rank->job.link, &self, sizeof self, rank->processes, rank->job.error))
        return false;
    rank->rules =
        (struct dt_pipeline_rules){.position = rank->place.position,
                                   .devices = rank->options->devices,
                                   .processes = rank->processes,
                                   .kill_after_ns = dt_pipeline_plan_predict_ns(&rank->plan, NULL, 0) / 2};
    if (!dt_pipeline_rules_find_kill(&rank->rules, &rank->options->slow.kill, &rank->job.net.plugin,
                                     rank->job.error))
        return false;
    return dt_job_rank_connect(&rank->job, dt_pipeline_courier_connections(rank->courier),
                               dt_pipeline_courier_connection_count(rank->courier));
}

/* ---- Iterations. ---- */

static uint64_t cpu_now_ns(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * DT_NS_PER_S +
           ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * DT_NS_PER_US;
}

static int64_t later(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* What a count has grown by. It falls when a rank could not read a row of its counters this time. */
static uint64_t beyond(uint64_t count, uint64_t *before)
{
    uint64_t grown = count > *before ? count - *before : 0;

    *before += grown;
    return grown;
}

/* What the plugins of all ranks report, and what was ordered. */
static void describe_links(struct rank *rank, const struct dt_pipeline_result *results,
                           struct dt_pipeline_iteration *iteration)
{
    const int64_t least_ns = dt_pipeline_least_delay_ns(&rank->plan.profile);
    uint64_t staged = 0, full = 0;

    for (int32_t from = 0; from < (int32_t)rank->job.net.ranks; from++) {
        const struct dt_pipeline_verdicts *verdicts = &results[from].verdicts;

        staged += verdicts->staged_messages;
        full += verdicts->pool_full;
        for (size_t i = 0; i < DT_PIPELINE_VERDICTS_MAX && iteration->slow_count < DT_PIPELINE_FLOWS_SHOWN;
             i++) {
            if (verdicts->slow[i].to_rank >= 0 && verdicts->slow[i].delay_ns > least_ns)
                iteration->slow[iteration->slow_count++] =
                    (struct dt_pipeline_flow){from, verdicts->slow[i].to_rank, verdicts->slow[i].delay_ns};
        }
    }
    iteration->hostpath_count =
        dt_pipeline_staging_flows(&rank->replan.staging, &rank->plan.profile, &rank->replan.staged,
                                  rank->place.ranks, rank->job.net.ranks, iteration->hostpath);
    iteration->staged = beyond(staged, &rank->staged_messages);
    iteration->pool_full = beyond(full, &rank->pool_full);
}

/* After an iteration, when one is due at any rank, and before a remedy ends the run. */
static bool save_checkpoint(struct rank *rank, const struct dt_pipeline_result *results)
{
    const struct dt_pipeline_checkpoints *checkpoints = &rank->options->checkpoints;
    const struct dt_checkpoint_id id = dt_pipeline_place_checkpoint(&rank->place, rank->iteration + 1);
    uint64_t began_ns = dt_clock_now_ns();
    bool is_requested = dt_pipeline_remedy_ends_run(&rank->remedy, &results[0].remedy);

    for (unsigned i = 0; i < rank->job.net.ranks; i++)
        is_requested |= results[i].wants_checkpoint;
    rank->checkpoint = (struct dt_pipeline_checkpoint_result){
        .kind = dt_pipeline_checkpoint_due(checkpoints, rank->iteration + 1, is_requested)};
    if (!rank->checkpoint.kind)
        return true;
    dt_job_rank_doing(&rank->job, "writing a checkpoint");
    if (!dt_pipeline_checkpoint_save(checkpoints, &id, &rank->place.parameters, rank->job.link,
                                     &rank->checkpoint.kind, rank->checkpoint.reason, rank->job.error))
        return false;
    rank->checkpoint.took_ns = (int64_t)(dt_clock_now_ns() - began_ns);
    return true;
}

static void send_iteration(struct rank *rank, const struct dt_pipeline_result *results)
{
    struct dt_pipeline_iteration iteration = {
        .number = rank->iteration,
        .begin_ns = (int64_t)results[0].account.start_ns,
        .schedule = rank->replan.schedule,
        .predicted_ns = dt_pipeline_replan_predict_ns(&rank->replan, rank->iteration),
        .pause_ns = rank->pause_ns,
        .remedy = dt_pipeline_remedy_ends_run(&rank->remedy, &results[0].remedy) ? (int32_t)DETOUR_STEP_S4
                                                                                 : rank->remedy.step,
        .checkpoint = rank->checkpoint,
    };
    uint64_t compute_ns = 0, cpu_ns = 0;
    int64_t pipeline_ns = 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    for (unsigned i = 0; i < rank->job.net.ranks; i++) {
        const struct dt_executor_account *account = &results[i].account;
        uint64_t ended_ns = dt_max_u64(account->end_ns, results[i].summed_ns);

        iteration.time_ns = later(iteration.time_ns, (int64_t)(ended_ns - account->start_ns));
        pipeline_ns = later(pipeline_ns, (int64_t)(account->end_ns - account->start_ns));
        iteration.held_ns += (int64_t)account->held_ns;
        iteration.wait_ns += (int64_t)account->wait_ns;
        compute_ns += account->compute_ns;
        cpu_ns += results[i].cpu_ns;
    }
    iteration.dp_ns = iteration.time_ns - pipeline_ns;
    if (iteration.time_ns > 0) {
        iteration.bubble = 1 - (double)compute_ns / ((double)iteration.time_ns * rank->job.net.ranks);
        iteration.cpu = (double)cpu_ns / ((double)iteration.time_ns * (double)(cores > 0 ? cores : 1));
    }
    describe_links(rank, results, &iteration);
    dt_job_frame_send(rank->job.link->fd, DT_PIPELINE_FRAME_ITERATION, &iteration, sizeof iteration);
}

/* Every rank: the remedy of this round, with these delays, holds from the next iteration on. */
static bool take_remedy(struct rank *rank, const struct dt_pipeline_remedy *remedy,
                        const struct dt_pipeline_delays *delays)
{
    rank->remedy = *remedy;
    if (remedy->step == DETOUR_STEP_S4)
        return true; /* this iteration was the last one */
    rank->remedied = rank->iteration + 1;
    if (!dt_pipeline_remedy_set(remedy, rank->remedied, &rank->options_now, &rank->plan, rank->job.error))
        return false;
    dt_pipeline_replan_remedied(&rank->replan, delays, rank->remedied);
    return true;
}

/* The launcher gets the times of the iteration that the options ask for, before its result. */
static bool send_records(struct rank *rank)
{
    const struct dt_job_link *link = rank->job.link;

    if (!dt_pipeline_options_has_timeline(rank->options) ||
        rank->iteration != rank->options->timeline_iteration || rank->place.position.replica != 0)
        return true;
    return dt_pipeline_timeline_send(
               link->fd, rank->executor, present_variant(rank).program, (int32_t)link->rank,
               !dt_pipeline_process_is_near(&rank->processes[0], &rank->processes[link->rank])) ||
           dt_job_fail(rank->job.error, DT_EXIT_FAILED, "rank %u: cannot send its times to the launcher",
                       link->rank);
}

static bool check_schedules(const struct rank *rank, const struct dt_pipeline_result *results)
{
    struct dt_pipeline_used used[DT_PIPELINE_RANKS_MAX];

    for (unsigned i = 0; i < rank->job.net.ranks; i++)
        used[i] = results[i].used;
    return dt_pipeline_adapt_check(used, rank->job.net.ranks, rank->iteration, rank->job.error);
}

/* Rank 0. */
static void read_remedy(struct rank *rank)
{
    dt_pipeline_remedy_read(rank->options, &rank->offered);
    if (dt_pipeline_remedy_is_new(&rank->remedy, &rank->offered))
        dt_pipeline_replan_offer(&rank->replan, &rank->offered);
}

static uint32_t position_of(const struct rank *rank)
{
    return dt_pipeline_rank_of(rank->options->devices, rank->place.position);
}

static bool run_iteration(struct rank *rank)
{
    struct dt_pipeline_result *results = rank->results, mine;

    if (!dt_pipeline_rules_set(&rank->rules, &rank->options->slow, rank->iteration, rank->job.error) ||
        !dt_job_exchange(rank->job.link, NULL, 0, NULL, rank->job.error))
        return false;
    uint64_t cpu_ns = cpu_now_ns();
    dt_job_rank_doing(&rank->job, "executing iteration %u", rank->iteration);
    if (rank->options->adapt == DT_PIPELINE_ADAPT_CONTROL && rank->job.link->rank == 0 &&
        !rank->replan.agreement.own.number)
        read_remedy(rank);
    if (!dt_job_rank_do_work(&rank->job, work_iteration, rank))
        return false;
    mine = (struct dt_pipeline_result){
        .account = dt_executor_get_account(rank->executor),
        .summed_ns = rank->gradients ? dt_gradients_end_ns(rank->gradients) : 0,
        .cpu_ns = cpu_now_ns() - cpu_ns,
        .used = {rank->replan.schedule, rank->place.position.replica,
                 dt_pipeline_schedule_digest(present_variant(rank).schedule)},
        .part = rank->replan.agreement.own,
        .proposed = rank->replan.proposed,
        .remedy = rank->offered,
        .wants_checkpoint = rank->options->checkpoints.directory &&
                            dt_checkpoint_take_request(rank->options->checkpoints.directory)};
    dt_pipeline_verdicts_read(&mine.verdicts);
    if (!send_records(rank) ||
        !dt_job_exchange(rank->job.link, &mine, sizeof mine, results, rank->job.error) ||
        !check_schedules(rank, results) || !save_checkpoint(rank, results))
        return false;
    if (rank->job.link->rank == 0)
        send_iteration(rank, results);
    if (dt_pipeline_remedy_is_new(&rank->remedy, &results[0].remedy))
        return take_remedy(rank, &results[0].remedy, &results[0].proposed);
    return !rank->options->adapt || dt_pipeline_replan_round(&rank->replan, position_of(rank), results,
                                                             rank->iteration + 1, rank->job.error);
}

/* ---- Exchanges of ranks. ---- */

/* With its connections. */
static bool close_pipeline(struct rank *rank)
{
    if (!dt_job_rank_close(&rank->job))
        return false;
    dt_pipeline_courier_destroy(rank->courier);
    dt_gradients_destroy(rank->gradients);
    dt_executor_destroy(rank->executor);
    rank->courier = NULL;
    rank->gradients = NULL;
    rank->executor = NULL;
    return true;
}

/* Before this iteration: from the end of the one before on all ranks until all have their new connections. */
static bool exchange_ranks(struct rank *rank)
{
    uint64_t began_ns;

    rank->pause_ns = 0;
    if (rank->remedied != rank->iteration &&
        !dt_pipeline_exchanges_has(&rank->options->exchanges, rank->iteration))
        return true;
    if (!dt_job_exchange(rank->job.link, NULL, 0, NULL, rank->job.error))
        return false;
    began_ns = dt_clock_now_ns();
    if (!close_pipeline(rank) || !dt_pipeline_place_change(&rank->place, &rank->job, rank->iteration) ||
        !dt_pipeline_place_check(&rank->place, rank->iteration, rank->job.error) || !make_executor(rank) ||
        !dt_job_rank_connect(&rank->job, dt_pipeline_courier_connections(rank->courier),
                             dt_pipeline_courier_connection_count(rank->courier)) ||
        !dt_pipeline_replan_connected(&rank->replan, position_of(rank), rank->job.error) ||
        !dt_job_exchange(rank->job.link, NULL, 0, NULL, rank->job.error))
        return false;
    rank->pause_ns = (int64_t)(dt_clock_now_ns() - began_ns);
    rank->plan.options = &rank->place.moved;
    rank->staged_messages = rank->pool_full = 0; /* the counters are those of open connections */
    return true;
}

static bool run_all(struct rank *rank)
{
    if (!dt_pipeline_rules_start(&rank->rules, &rank->plan.profile, rank->job.error) ||
        !dt_pipeline_staging_start(&rank->replan.staging, rank->job.error))
        return false;
    rank->remedied = UINT32_MAX;
    if (!dt_pipeline_place_resume(&rank->place, &rank->job, &rank->iteration))
        return false;
    dt_pipeline_follow_begin(&rank->replan.follow, &rank->options->checkpoints, rank->iteration,
                             rank->place.ranks);
    if (!dt_pipeline_remedy_begin(rank->options, &rank->job, rank->iteration, &rank->offered))
        return false;
    for (; rank->iteration < rank->options->iterations && rank->remedy.step != DETOUR_STEP_S4;
         rank->iteration++) {
        if (!exchange_ranks(rank) || !run_iteration(rank))
            return false;
    }
    return dt_pipeline_place_check(&rank->place, rank->iteration, rank->job.error);
}

static bool tear_down(struct rank *rank)
{
    if (!close_pipeline(rank))
        return false;
    dt_pipeline_place_free(&rank->place);
    dt_pipeline_replan_free(&rank->replan);
    dt_pipeline_plan_free(&rank->plan);
    return true;
}

bool dt_pipeline_rank_run(const struct dt_pipeline_options *options, struct dt_job_link *link,
                          struct dt_job_error *error)
{
    struct rank *rank = calloc(1, sizeof *rank);

    if (!rank || !(rank->results = calloc(link->ranks, sizeof *rank->results))) {
        free(rank);
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: out of memory", link->rank);
    }
    rank->options_now = *options;
    rank->options = &rank->options_now;
    dt_pipeline_place_init(&rank->place, rank->options, link->rank);
    rank->replan = (struct dt_pipeline_replan){.options = rank->options,
                                               .plan = &rank->plan,
                                               .ranks = rank->place.ranks,
                                               .processes = rank->processes,
                                               .rank_count = link->ranks,
                                               .rank = link->rank};
    rank->job.options = &options->job;
    rank->job.link = link;
    rank->job.error = error;
    rank->job.context = rank;
    if (!set_up(rank) || !run_all(rank) || !tear_down(rank))
        return false;
    free(rank->results);
    free(rank);
    return true;
}
