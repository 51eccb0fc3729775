/* SPDX-License-Identifier: Apache-2.0 */
/* `detour mitigate`: what would be done about a slow link or node, and why. */
#ifndef DETOUR_CLI_MITIGATE_H
#define DETOUR_CLI_MITIGATE_H

#include <stdio.h>

#include "detour/mitigate.h"

#ifdef __cplusplus
extern "C" {
#endif

int dt_mitigate_command(int argc, char **argv);

/* A plan with what it was made for. */
struct dt_mitigate_report {
    const struct detour_cluster *cluster;
    const struct detour_event *event;
    const struct detour_mitigation *plan;
};

/* As a table with reasons (mitigate_report.c). */
void dt_mitigate_print(FILE *out, const struct dt_mitigate_report *report);

/* As a JSON document; false when out of memory or when writing failed. */
bool dt_mitigate_print_json(FILE *out, const struct dt_mitigate_report *report);

#ifdef __cplusplus
}
#endif

#endif
