/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `detour sched optimize`. */
#ifndef DETOUR_CLI_SCHED_OPTIMIZE_OPTIONS_H
#define DETOUR_CLI_SCHED_OPTIMIZE_OPTIONS_H

#include <argp.h>

#include "cli/sched/optimize_slow.h"
#include "detour/optimize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Paths are NULL when not given. */
struct dt_optimize_options {
    const char *command; /* for messages */
    const char *model_path;
    const char *svg_path;
    const char *profile_out;
    const char *schedule_out;
    bool json; /* --json was given */
    struct dt_optimize_slow slow;
    struct detour_optimize_options search;
};

/* The table and, for each of its options and the model file, an argp parser. */
extern const struct argp_option dt_sched_optimize_options[];
error_t dt_sched_parse_optimize(int key, const char *arg, struct dt_optimize_options *options);

#ifdef __cplusplus
}
#endif

#endif
