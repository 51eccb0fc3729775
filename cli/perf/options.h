/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `detour perf`, in the names of nccl-tests where it has them. */
#ifndef DETOUR_CLI_PERF_OPTIONS_H
#define DETOUR_CLI_PERF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/perf/op.h"
#include "job/job.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PERF_CHANNELS_MAX 32
#define DT_PERF_WINDOW_MAX   32 /* requests in flight that ncclNet allows */

/* With --pairs. */
#define DT_PERF_PAIRS_BYTES_MIN      16
#define DT_PERF_PAIRS_BYTES_MAX      (1ull << 30) /* the largest message of ncclNet v8 */
#define DT_PERF_PAIRS_ITERATIONS_MAX 10000

/* -c: when data is generated, poisoned and compared. */
enum dt_perf_check {
    DT_PERF_CHECK_NEVER,
    DT_PERF_CHECK_AFTER, /* extra iterations after the timed ones */
    DT_PERF_CHECK_ALWAYS /* the timed ones too; their times include the checking */
};

/* Must be the same on all ranks, except job.rank, job.rendezvous and the paths of output files. */
struct dt_perf_options {
    const struct dt_perf_op *op; /* NULL: pairs */
    const char *pairs;           /* --pairs: a validation plan (cli/validation.h), or NULL: an operation */
    int32_t slow_permille;       /* --pairs: above this part of the median a time is slow */
    const struct dt_perf_type *type;
    enum dt_perf_redop redop;
    uint64_t bytes_min;
    uint64_t bytes_max;
    uint64_t step_bytes;  /* from one size to the next, when step_factor is 1 */
    uint64_t step_factor; /* from one size to the next, when > 1 */
    uint64_t iterations;
    uint64_t warmup_iterations;
    unsigned seconds; /* repeat the timed iterations until this time has passed; 0: once */
    enum dt_perf_check check;
    enum dt_perf_protocol protocol;
    bool raw;                /* whole messages straight from user buffers */
    unsigned window;         /* --raw: messages in flight per connection and direction */
    bool flush;              /* iflush after every receive */
    unsigned channels;       /* 0: one per device of the plugin */
    const char *json_path;   /* NULL: none */
    const char *series_path; /* NULL: none */
    const char *plot_path;   /* NULL: none */
    struct dt_job_options job;
};

/*
 * Parses the command line; job.plugin_path is NULL unless --plugin names one, job.digest is set. Returns
 * DT_EXIT_OK, or DT_EXIT_USAGE after writing one line to standard error;
 * --help ends the process. Texts point into argv.
 */
int dt_perf_options_parse(int argc, char **argv, struct dt_perf_options *options);

/* Differs when two ranks' options differ in a member that must be the same. */
uint64_t dt_perf_options_digest(const struct dt_perf_options *options);

/* The size after `bytes`, or 0 after the last. */
uint64_t dt_perf_next_size(const struct dt_perf_options *options, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
