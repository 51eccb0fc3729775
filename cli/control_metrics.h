/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a job in its controller (controller/control.h), as metrics: open findings with their
 * factors, counters of findings and decisions, what is in force, the time of an iteration, the lease.
 * docs/control.md has the table of metrics.
 *
 * Series are bounded: 64 findings at a time, whose labels are hosts, ranks and RNICs of the job. Metrics of
 * what is decided are those of the controller with the lease; one that waits for it has none of them, so that
 * sums over all controllers are right.
 */
#ifndef DETOUR_CLI_CONTROL_METRICS_H
#define DETOUR_CLI_CONTROL_METRICS_H

#include <pthread.h>

#include "cli/metrics_text.h"
#include "controller/control.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pure. `job`: the label. */
void dt_control_metrics_write(FILE *out, const struct dt_control_state *state, const char *job);

/* The state after the last round, for the thread that answers. */
struct dt_control_metrics {
    pthread_mutex_t lock;
    const char *job;
    struct dt_control_state state;
};

void dt_control_metrics_update(struct dt_control_metrics *metrics, const struct dt_control *control);

/* A dt_metrics_write_func; `arg` is a struct dt_control_metrics. */
bool dt_control_metrics_answer(void *arg, FILE *out, char *reason, size_t reason_bytes);

#ifdef __cplusplus
}
#endif

#endif
