/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detour sched adapt`: decides whether the present links call for a new schedule. Between iterations, or
 * with --now-ms for the rest of one.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/sched/run.h"

enum { GAIN_PERMILLE = 10, CHANGE_PERMILLE = 50, HORIZON_ITERATIONS = 100 };

/* One decision. */
struct adapt {
    struct dt_sched_run *run;
    struct detour_adapt_options options; /* with the defaults filled in, for the output */
    struct detour_adapt_note note;
    const struct detour_profile *planned; /* the profile for which the schedule was made */
    struct detour_profile undelayed;
    struct detour_link *no_delays; /* of `undelayed` */
    size_t *started;               /* [device] */
    uint64_t deadline_ns;
};

/* Adds --delays to run->profile. */
static int read_delays(struct dt_sched_run *run)
{
    const struct dt_sched_options *options = run->options;
    const struct detour_ranks ranks = {options->ranks.count, options->ranks.values};
    struct detour_profile *measured;
    size_t bytes;
    char *data;

    int code = dt_sched_read_file(run, options->delays_path, &data, &bytes);
    if (code != DT_EXIT_OK)
        return code;
    if (detour_delays_from_json(run->arena, run->profile, ranks.count ? &ranks : NULL,
                                dt_sched_name_of(options->delays_path), data, bytes, &measured, &run->error))
        code = dt_sched_fail(run, NULL);
    else
        run->profile = measured;
    free(data);
    return code;
}

/* The profile for which the schedule was made: see the help text. */
static int find_planned(struct adapt *adapt)
{
    struct dt_sched_run *run = adapt->run;

    if (run->options->planned_path) {
        int code = dt_sched_read_profile(run, run->options->planned_path, &run->planned);
        if (code != DT_EXIT_OK)
            return code;
    }
    adapt->planned = run->planned ? run->planned : run->profile;
    if (run->planned || run->options->delays_path)
        return DT_EXIT_OK;
    adapt->no_delays = calloc((size_t)run->profile->stage_count, sizeof(*adapt->no_delays));
    adapt->undelayed = *run->profile;
    adapt->undelayed.links = adapt->no_delays;
    adapt->planned = &adapt->undelayed;
    return adapt->no_delays ? DT_EXIT_OK : dt_sched_say(run->options, DT_EXIT_FAILED, "out of memory");
}

/* Writes the plan to use, with the decision; a line on standard error reports a plan that is kept. */
static int write_decision(struct adapt *adapt, const struct detour_adaptation *made,
                          const struct detour_plan *plan)
{
    struct dt_sched_run *run = adapt->run;

    if (made->verdict != DETOUR_ADAPT_CHANGE)
        dt_sched_say(run->options, 0, "%s", detour_adapt_verdict_text(made->verdict));
    adapt->note.adaptation = made;
    adapt->note.options = &adapt->options;
    run->options->picture.adapt = &adapt->note;
    return dt_sched_write_plan(run, plan);
}

static int decide(struct adapt *adapt)
{
    struct dt_sched_run *run = adapt->run;
    struct detour_adapt_state state = {0};
    struct detour_adaptation *made;
    struct detour_report *report;

    if (detour_adapt(run->arena, adapt->planned, run->profile, run->plan->schedule, &adapt->options, &state,
                     &made, &run->error))
        return dt_sched_fail(run, run->options->schedule_path);
    if (made->plan)
        return write_decision(adapt, made, made->plan);
    int code = dt_sched_time_schedule(run, &report);

    return code == DT_EXIT_OK ? write_decision(adapt, made, run->plan) : code;
}

/* ---- inside an iteration ------------------------------------------------------------------------------- */

/* From the first start to the last finish. */
static int64_t makespan_of(const struct detour_schedule *s)
{
    int64_t first_ns = INT64_MAX, last_ns = 0;

    for (size_t i = 0; i < s->op_count; i++) {
        first_ns = s->ops[i].start_ns < first_ns ? s->ops[i].start_ns : first_ns;
        last_ns = s->ops[i].finish_ns > last_ns ? s->ops[i].finish_ns : last_ns;
    }
    return s->op_count ? last_ns - first_ns : 0;
}

static int64_t longest_span_of(const struct detour_schedule *s)
{
    int64_t longest_ns = 0;

    for (int32_t d = 0; d < s->device_count; d++) {
        int64_t span_ns = s->ops[s->first[d + 1] - 1].finish_ns - s->ops[s->first[d]].start_ns;
        longest_ns = span_ns > longest_ns ? span_ns : longest_ns;
    }
    return longest_ns;
}

/* The value of --started, or the counts that the times imply. */
static int find_started(struct adapt *adapt)
{
    const struct dt_sched_options *options = adapt->run->options;
    const struct detour_schedule *s = adapt->run->plan->schedule;

    adapt->started = calloc((size_t)s->device_count, sizeof(*adapt->started));
    if (!adapt->started)
        return dt_sched_say(options, DT_EXIT_FAILED, "out of memory");
    if (options->started.count && options->started.count != s->device_count)
        return dt_sched_say(options, DT_EXIT_USAGE, "--started has %d numbers; %s has %d devices",
                            options->started.count, options->profile_path, s->device_count);
    for (int32_t d = 0; d < s->device_count; d++) {
        for (size_t i = s->first[d]; !options->started.count && i < s->first[d + 1]; i++)
            adapt->started[d] += s->ops[i].start_ns < options->now_ns;
        if (options->started.count)
            adapt->started[d] = (size_t)options->started.values[d];
    }
    return DT_EXIT_OK;
}

/* Whether the rest of this iteration gains enough; the horizon is this iteration. */
static bool pays(const struct adapt *adapt, const struct detour_adaptation *made)
{
    int64_t gain_ns = made->present_makespan_ns - made->candidate_makespan_ns;

    return gain_ns > adapt->options.switch_cost_ns &&
           (double)gain_ns * 1000 >=
               (double)made->present_makespan_ns * (double)adapt->options.gain_permille_min;
}

static int replan(struct adapt *adapt)
{
    struct dt_sched_run *run = adapt->run;
    struct detour_schedule *present = run->plan->schedule;
    struct detour_adaptation made = {.verdict = DETOUR_ADAPT_KEEP_NO_GAIN};
    int64_t now_ns = run->options->now_ns;
    struct detour_plan *plan;

    if (!present->timed && detour_simulate(run->arena, adapt->planned, present, NULL, &run->error))
        return dt_sched_fail(run, run->options->schedule_path);
    made.planned_makespan_ns = makespan_of(present);
    int code = find_started(adapt);
    if (code != DT_EXIT_OK)
        return code;
    if (detour_replan(run->arena, run->profile, present, adapt->started, now_ns, &adapt->options.generate,
                      &plan, &run->error) ||
        detour_simulate_from(run->arena, run->profile, present, adapt->started, now_ns,
                             &made.present_makespan_ns, &run->error))
        return dt_sched_fail(run, run->options->schedule_path);
    made.candidate_makespan_ns = plan->makespan_ns;
    adapt->note.started = adapt->started;
    adapt->note.now_ns = now_ns;
    if (pays(adapt, &made)) {
        made.verdict = DETOUR_ADAPT_CHANGE;
        return write_decision(adapt, &made, plan);
    }
    run->plan->makespan_ns = made.present_makespan_ns;
    run->plan->longest_span_ns = longest_span_of(present);
    run->plan->lower_bound_ns = plan->lower_bound_ns;
    run->plan->proven_optimal = plan->lower_bound_ns == made.present_makespan_ns;
    return write_decision(adapt, &made, run->plan);
}

int dt_sched_adapt(struct dt_sched_run *run)
{
    struct adapt adapt = {.run = run, .options = run->options->adapt};

    adapt.options.change_permille_min = CHANGE_PERMILLE;
    if (!adapt.options.gain_permille_min)
        adapt.options.gain_permille_min = GAIN_PERMILLE;
    if (!adapt.options.horizon_iterations)
        adapt.options.horizon_iterations = HORIZON_ITERATIONS;
    int code = dt_sched_set_budget(run, &adapt.options.generate, &adapt.deadline_ns);
    if (code == DT_EXIT_OK)
        code = find_planned(&adapt);
    if (code == DT_EXIT_OK && run->options->delays_path)
        code = read_delays(run);
    if (code == DT_EXIT_OK)
        code = run->options->replan ? replan(&adapt) : decide(&adapt);
    free(adapt.no_delays);
    free(adapt.started);
    return code;
}
