/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus' text format 0.0.4, for every set of metrics: labels, announcements, and a file that a collector
 * reads. Label values are ASCII, whatever a peer calls itself, so that one hostile name cannot spoil a whole
 * scrape.
 */
#ifndef DETOUR_CLI_METRICS_TEXT_H
#define DETOUR_CLI_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Writes a set of metrics to `out`, whose error state tells whether that worked. False: there are none at
 * present, with one line in `reason`. May be called by another thread than the one that made `arg`.
 */
typedef bool dt_metrics_write_func(void *arg, FILE *out, char *reason, size_t reason_bytes);

/* NAME="VALUE", without a comma. */
void dt_metrics_label(FILE *out, const char *name, const char *value);

/* "" below 0. */
void dt_metrics_label_number(FILE *out, const char *name, int64_t number);

/* HELP and TYPE of a metric, before its samples. */
void dt_metrics_head(FILE *out, const char *name, const char *type, const char *help);

/*
 * Replaces the file `path` by the metrics, in one step: a reader has the old or the new content, in full. A
 * folder that takes it, such as node_exporter's textfile directory, sees the name `path` only. False: one
 * line in `reason`, and `path` is as before.
 */
bool dt_metrics_save(const char *path, dt_metrics_write_func *write_metrics, void *arg, char *reason,
                     size_t reason_bytes);

#ifdef __cplusplus
}
#endif

#endif
