/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of metrics (cli/metrics_text.h) over HTTP, for Prometheus: GET /metrics. HTTP is libmicrohttpd's, in
 * one thread of its own; headers at build time, the library at run time. Bounded: 64 connections, 16
 * KiB of memory for each request, 10 s without progress end a connection.
 */
#ifndef DETOUR_CLI_METRICS_SERVER_H
#define DETOUR_CLI_METRICS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/metrics_text.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_metrics_server;

struct dt_metrics_server_options {
    char address[16];                     /* IPv4; "": 127.0.0.1, this host only */
    uint16_t port;                        /* 0: any that is free */
    dt_metrics_write_func *write_metrics; /* makes each answer, in the server's thread */
    void *arg;                            /* its own; outlives the server */
};

/* "PORT" or "ADDRESS:PORT". False: neither; *options is as before. */
bool dt_metrics_server_parse(const char *text, struct dt_metrics_server_options *options);

/* Starts the thread. NULL with one line in `reason`: no library, the port is in use, no memory. */
struct dt_metrics_server *dt_metrics_server_start(const struct dt_metrics_server_options *options,
                                                  char *reason, size_t reason_bytes);

uint16_t dt_metrics_server_port(const struct dt_metrics_server *server);

/* Ends the thread; NULL is allowed. */
void dt_metrics_server_stop(struct dt_metrics_server *server);

#ifdef __cplusplus
}
#endif

#endif
