/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot in Prometheus' text format (metrics_text.h): counters and gauges of every connection, and of the
 * host. docs/stat.md has the table of metrics.
 */
#ifndef DETOUR_CLI_STAT_METRICS_H
#define DETOUR_CLI_STAT_METRICS_H

#include <stdbool.h>
#include <stdio.h>

#include "detour/stat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The same in all samples. */
struct dt_metrics_labels {
    const char *host; /* as in the records of the control loop; NULL: that of each page */
    const char *job;  /* NULL: no such label */
};

/* Writes to `out`, whose error state tells whether that worked. */
void dt_metrics_write(FILE *out, const struct detour_stat_snapshot *snapshot,
                      const struct dt_metrics_labels *labels);

/* The pages of this host at the time of the call. */
struct dt_metrics_host {
    const char *runtime_dir; /* as for detour_stat_read() */
    struct dt_metrics_labels labels;
};

/* A dt_metrics_write_func; `arg` is a struct dt_metrics_host. */
bool dt_metrics_write_host(void *arg, FILE *out, char *reason, size_t reason_bytes);

#ifdef __cplusplus
}
#endif

#endif
