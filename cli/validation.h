/* SPDX-License-Identifier: Apache-2.0 */
/* Validation plans (detour/mitigate.h) on the command line: how they are named and printed. */
#ifndef DETOUR_CLI_VALIDATION_H
#define DETOUR_CLI_VALIDATION_H

#include <stdbool.h>
#include <stdio.h>

#include "detour/mitigate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a list; a job of 1,024 ranks, replicas times stages, has up to 2 * 1024 links. */
#define DT_VALIDATION_LINKS_MAX 2048

/* True for "ring", "tree" and a list of links: "0-1,2-3,0-2". */
bool dt_validation_is_known(const char *name);

/* The plan of this name, which is known; a list may have ranks that are not there: DETOUR_INVALID. */
enum detour_status dt_validation_make(struct detour_arena *arena, const char *name, int32_t ranks,
                                      const struct detour_validation **validation,
                                      struct detour_error *error);

/* "pass 0: 0-1 2-3", one line for each pass. */
void dt_validation_print(FILE *out, const struct detour_validation *validation);

/* {"version": 1, "ranks": N, "passes": [[[0, 1], [2, 3]], ...]}. False: it could not be written. */
bool dt_validation_print_json(FILE *out, const struct detour_validation *validation);

/* "link", "network" or "compute". */
const char *dt_validation_kind_name(enum detour_slow_kind kind);

#ifdef __cplusplus
}
#endif

#endif
