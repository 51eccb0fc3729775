/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a command that runs in rounds publishes its metrics: --listen answers Prometheus (metrics_server.h),
 * and
 * --textfile writes a file for node_exporter every 15 s. Owner: the command's thread.
 */
#ifndef DETOUR_CLI_METRICS_OUTPUT_H
#define DETOUR_CLI_METRICS_OUTPUT_H

#include <argp.h>

#include "cli/metrics_server.h"
#include "cli/rounds.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_METRICS_TEXTFILE_NS 15000000000ull /* between two versions of the file */

#define DT_METRICS_LISTEN_FORM "[ADDRESS:]PORT"

struct dt_metrics_output {
    struct dt_metrics_server_options listen; /* port 0: none; write_metrics and arg serve the file, too */
    const char *textfile;                    /* NULL: none */
    struct dt_metrics_server *server;
    uint64_t written_ns; /* the last version; 0: none */
    bool has_failed;     /* that one */
};

/* The value of --listen. An error after one line. */
error_t dt_metrics_output_parse(const char *command, const char *text, struct dt_metrics_output *output);

/* Starts the server if one is wanted. False after one line: the port is in use, or the library is missing. */
bool dt_metrics_output_start(const char *command, struct dt_metrics_output *output);

/* Once in a round: a new version of the file, if it is due. The first failure of a series is one line. */
void dt_metrics_output_step(struct dt_metrics_output *output, const struct dt_rounds *rounds,
                            uint64_t now_ns);

void dt_metrics_output_stop(struct dt_metrics_output *output);

#ifdef __cplusplus
}
#endif

#endif
