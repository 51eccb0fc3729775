/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched plan`, `simulate`, `check` and `repair`. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/sched/sched.h"
#include "cli/sched/run.h"

/* A detour_should_stop_func; `arg` is a uint64_t, a point in time. */
static bool deadline_passed(void *arg)
{
    return dt_clock_now_ns() >= *(const uint64_t *)arg;
}

int dt_sched_set_budget(struct dt_sched_run *run, struct detour_options *generate, uint64_t *deadline_ns)
{
    struct dt_sched_options *options = run->options;

    *generate = options->generate;
    if (options->warmup.count && options->warmup.count != run->profile->stage_count)
        return dt_sched_say(options, DT_EXIT_USAGE, "--warmup has %d numbers; %s has %d stages",
                            options->warmup.count, options->profile_path, run->profile->stage_count);
    if (options->warmup.count)
        generate->warmup = options->warmup.values;
    if (!options->budget_ms)
        return DT_EXIT_OK;
    *deadline_ns = dt_deadline_ns(dt_clock_now_ns(), options->budget_ms * DT_NS_PER_MS);
    generate->should_stop = deadline_passed;
    generate->should_stop_arg = deadline_ns;
    generate->node_budget = detour_node_budget(run->profile, options->budget_ms * 1000);
    return DT_EXIT_OK;
}

int dt_sched_write_plan(struct dt_sched_run *run, const struct detour_plan *plan)
{
    struct detour_text text;

    if (detour_plan_write(run->arena, run->profile, plan, run->options->format, &run->options->picture, &text,
                          &run->error))
        return dt_sched_fail(run, run->error.status == DETOUR_ORDER ? run->options->schedule_path
                                                                    : run->options->profile_path);
    return dt_sched_write(run, text.data, text.bytes);
}

int dt_sched_write_json(struct dt_sched_run *run, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) : NULL;
    size_t bytes = text ? strlen(text) : 0;

    json_decref(value);
    if (!text)
        return dt_sched_say(run->options, DT_EXIT_FAILED, "out of memory");
    text[bytes] = '\n'; /* replaces the NUL */
    int code = dt_sched_write(run, text, bytes + 1);
    free(text);
    return code;
}

/* A bound for a plan whose makespan is known. Fused operations may go below the library's; 0 then. */
static int find_bound(struct dt_sched_run *run, struct detour_plan *plan)
{
    if (detour_lower_bound(run->arena, run->profile, &plan->lower_bound_ns, &run->error))
        return dt_sched_fail(run, run->options->profile_path);
    if (plan->lower_bound_ns > plan->makespan_ns)
        plan->lower_bound_ns = 0;
    plan->proven_optimal = plan->lower_bound_ns == plan->makespan_ns;
    return DT_EXIT_OK;
}

int dt_sched_plan(struct dt_sched_run *run)
{
    struct detour_options generate;
    struct detour_plan *plan;
    uint64_t deadline_ns;

    int code = dt_sched_set_budget(run, &generate, &deadline_ns);
    if (code != DT_EXIT_OK)
        return code;
    if (detour_generate(run->arena, run->profile, &generate, &plan, &run->error))
        return dt_sched_fail(run, run->options->profile_path);
    code = plan->lower_bound_ns ? DT_EXIT_OK : find_bound(run, plan); /* of algorithms that prove none */
    return code == DT_EXIT_OK ? dt_sched_write_plan(run, plan) : code;
}

int dt_sched_time_schedule(struct dt_sched_run *run, struct detour_report **report)
{
    struct detour_plan *plan = run->plan;

    if (detour_simulate(run->arena, run->profile, plan->schedule, report, &run->error))
        return dt_sched_fail(run, run->options->schedule_path);
    plan->makespan_ns = (*report)->makespan_ns;
    plan->longest_span_ns = (*report)->longest_span_ns;
    return find_bound(run, plan); /* the file's bound was that of its own profile */
}

int dt_sched_simulate(struct dt_sched_run *run)
{
    struct detour_report *report;

    int code = dt_sched_time_schedule(run, &report);
    if (code != DT_EXIT_OK)
        return code;
    run->options->picture.report = report;
    return dt_sched_write_plan(run, run->plan);
}

/* Whether the schedule's times were made for the links of this profile; true without a record. */
static bool has_times_for(const struct detour_profile *profile, const struct detour_profile *planned)
{
    size_t bytes = (size_t)(profile->stage_count - 1) * sizeof(*profile->links);

    return !planned || bytes == 0 || !memcmp(planned->links, profile->links, bytes);
}

static json_t *verdict_json(const struct dt_sched_run *run, enum detour_status status, bool times)
{
    const struct detour_schedule *schedule = run->plan->schedule;

    if (status)
        return json_pack("{s:i, s:b, s:s, s:s}", "version", 1, "valid", 0, "status",
                         detour_status_text(status), "problem", run->error.text);
    return json_pack("{s:i, s:b, s:i, s:i, s:i, s:I, s:b}", "version", 1, "valid", 1, "stages",
                     (int)schedule->stage_count, "devices", (int)schedule->device_count, "microbatches",
                     (int)schedule->microbatch_count, "operations", (json_int_t)schedule->op_count,
                     "times_checked", (int)times);
}

int dt_sched_check(struct dt_sched_run *run)
{
    struct detour_schedule *schedule = run->plan->schedule;

    schedule->timed = schedule->timed && has_times_for(run->profile, run->planned);
    enum detour_status status = detour_validate(run->arena, run->profile, schedule, &run->error);

    if (status == DETOUR_NO_MEMORY)
        return dt_sched_fail(run, NULL);
    int code = dt_sched_write_json(run, verdict_json(run, status, schedule->timed));

    return status && code == DT_EXIT_OK ? dt_sched_fail(run, run->options->schedule_path) : code;
}

/* What no order repairs, as a limit of memory that the order exceeds, is refused. */
int dt_sched_repair(struct dt_sched_run *run)
{
    const struct detour_repair *repair = &run->repair;
    struct detour_report *report;

    int code = dt_sched_time_schedule(run, &report);
    if (code != DT_EXIT_OK)
        return code;
    if (detour_validate(run->arena, run->profile, run->plan->schedule, &run->error))
        return dt_sched_fail(run, run->options->schedule_path);
    run->options->picture.report = report;
    code = dt_sched_write_plan(run, run->plan);
    if (code != DT_EXIT_OK)
        return code;
    if (!repair->problem[0])
        return dt_sched_say(run->options, DT_EXIT_OK, "no deadlock: nothing was changed");
    return dt_sched_say(run->options, DT_EXIT_OK, "repaired: %s; %" PRId32 " operations were brought forward",
                        repair->problem, repair->moved);
}
