/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of the verbs of `detour sched`. Functions that return int return an exit code, after an
 * error line.
 */
#ifndef DETOUR_CLI_SCHED_RUN_H
#define DETOUR_CLI_SCHED_RUN_H

#include <jansson.h>

#include "base/clock.h"
#include "cli/sched/sched.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The options of generating for run->profile. --budget-ms becomes a number of nodes, so that the result is
 * reproducible; on a machine too slow for it the clock ends the search, through *deadline_ns, which the
 * caller keeps.
 */
int dt_sched_set_budget(struct dt_sched_run *run, struct detour_options *generate, uint64_t *deadline_ns);

/* Writes the plan in the selected format. */
int dt_sched_write_plan(struct dt_sched_run *run, const struct detour_plan *plan);

/* Writes a JSON document; takes ownership of `value`, of which NULL means out of memory. */
int dt_sched_write_json(struct dt_sched_run *run, json_t *value);

/* Times run->plan under run->profile. */
int dt_sched_time_schedule(struct dt_sched_run *run, struct detour_report **report);

#ifdef __cplusplus
}
#endif

#endif
