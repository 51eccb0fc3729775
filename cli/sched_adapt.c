/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched adapt`: is a new schedule worth it, now that the links are as --profile says? */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/sched_run.h"

static const char *verdict_name(enum detour_adapt_verdict verdict)
{
    switch (verdict) {
    case DETOUR_ADAPT_KEEP_UNCHANGED:
        return "keep: the links are as planned";
    case DETOUR_ADAPT_KEEP_UNCONFIRMED:
        return "keep: the change is not confirmed yet";
    case DETOUR_ADAPT_KEEP_NO_GAIN:
        return "keep: no schedule found that pays for the change";
    case DETOUR_ADAPT_CHANGE:
        return "change";
    }
    return "?";
}

/* The profile the schedule was made for: --planned or the links that its file records, else without any
 * delay. */
static const struct detour_profile *
planned_profile(struct dt_sched_run *run, struct detour_profile *undelayed, struct detour_link *links)
{
    if (run->planned)
        return run->planned;
    *undelayed = *run->profile;
    undelayed->links = links;
    return undelayed;
}

/* The present schedule, timed under the links as they are; says why it stays on standard error. */
static int keep_present(struct dt_sched_run *run, const struct detour_adaptation *adaptation)
{
    struct detour_report *report;

    int code = dt_sched_time_schedule(run, &report);
    if (code != DT_EXIT_OK)
        return code;
    dt_sched_say(run->options, 0, "%s", verdict_name(adaptation->verdict));
    return dt_sched_write_plan(run, run->plan);
}

int dt_sched_adapt(struct dt_sched_run *run)
{
    struct detour_link *links = calloc((size_t)run->profile->stage_count, sizeof(*links));
    struct detour_adapt_options options = run->options->adapt;
    struct detour_adapt_state state = {0};
    struct detour_adaptation *adaptation;
    struct detour_profile undelayed;
    uint64_t deadline_ns;

    if (!links)
        return dt_sched_say(run->options, DT_EXIT_FAILED, "out of memory");
    int code = dt_sched_set_budget(run, &options.generate, &deadline_ns);
    if (code == DT_EXIT_OK && run->options->planned_path)
        code = dt_sched_read_profile(run, run->options->planned_path, &run->planned);
    if (code == DT_EXIT_OK && detour_adapt(run->arena, planned_profile(run, &undelayed, links), run->profile,
                                           run->plan->schedule, &options, &state, &adaptation, &run->error))
        code = dt_sched_fail(run, run->options->schedule_path);
    else if (code == DT_EXIT_OK)
        code = adaptation->plan ? dt_sched_write_plan(run, adaptation->plan) : keep_present(run, adaptation);
    free(links);
    return code;
}
