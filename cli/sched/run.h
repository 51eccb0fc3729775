/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of `detour sched` share. Functions that return int return an exit code and have said why. */
#ifndef DETOUR_CLI_SCHED_RUN_H
#define DETOUR_CLI_SCHED_RUN_H

#include <jansson.h>

#include "base/clock.h"
#include "cli/sched/sched.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What the command line says about generating, for the profile that has been read. --budget-ms becomes a
 * number of nodes, so that the result can be had again; on a machine too slow for it the clock ends the
 * search, through *deadline_ns, which the caller keeps.
 */
int dt_sched_set_budget(struct dt_sched_run *run, struct detour_options *generate, uint64_t *deadline_ns);

/* The plan in the format that was asked for. */
int dt_sched_write_plan(struct dt_sched_run *run, const struct detour_plan *plan);

/* A JSON document; takes over `value`, of which NULL means out of memory. */
int dt_sched_write_json(struct dt_sched_run *run, json_t *value);

/* Times run->plan under run->profile. */
int dt_sched_time_schedule(struct dt_sched_run *run, struct detour_report **report);

#ifdef __cplusplus
}
#endif

#endif
