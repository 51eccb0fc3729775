/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network plugin, loaded and called the way NCCL does it, and strict about what NCCL silently relies on:
 * outputs are handed over stale or full of garbage, and one that a plugin leaves unwritten is an error here.
 *
 * The data calls below are made once per message or poll; they add a few instructions to the plugin's own.
 */
#ifndef DETOUR_CLI_PERF_PLUGIN_H
#define DETOUR_CLI_PERF_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/perf_error.h"
#include "plugin/nccl_net_v8.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PERF_DEVICES_MAX 32

struct dt_perf_plugin {
    void *library;
    const ncclNet_v8_t *net;
    int device_count; /* at most DT_PERF_DEVICES_MAX are used */
    ncclNetProperties_v8_t devices[DT_PERF_DEVICES_MAX];
    unsigned rank; /* for messages, and the tag of what it sends */
};

/* dlopen and dlsym. Bad input when there is no such file or no such symbol. */
bool dt_perf_plugin_load(struct dt_perf_plugin *plugin, const char *path, unsigned rank,
                         struct dt_perf_error *error);

/*
 * init and devices, then the properties of every device into uninitialised memory; what NCCL would refuse, or
 * silently trip over (names and ports that are not unique), is an error.
 */
bool dt_perf_plugin_init(struct dt_perf_plugin *plugin, struct dt_perf_error *error);

/* Names and checks the properties of `dev` again, as NCCL's service thread does before it connects. */
bool dt_perf_plugin_properties(struct dt_perf_plugin *plugin, int dev, ncclNetProperties_v8_t *properties,
                               struct dt_perf_error *error);

/* The text of a result, as in "remote error". */
const char *dt_perf_result_text(ncclResult_t result);

/* Records "CALL of NAME failed". Always false. */
bool dt_perf_call_failed(const struct dt_perf_plugin *plugin, const char *call, ncclResult_t result,
                         struct dt_perf_error *error);

/*
 * The data path. *request comes back NULL for "not now". False, with the error recorded, when the plugin
 * fails or leaves an output unwritten.
 */
bool dt_perf_isend(const struct dt_perf_plugin *plugin, void *comm, void *data, size_t bytes, void *mhandle,
                   void **request, struct dt_perf_error *error);
bool dt_perf_irecv(const struct dt_perf_plugin *plugin, void *comm, void *data, size_t capacity, int tag,
                   void *mhandle, void **request, struct dt_perf_error *error);
bool dt_perf_iflush(const struct dt_perf_plugin *plugin, void *comm, void *data, size_t bytes, void *mhandle,
                    void **request, struct dt_perf_error *error);

/* *bytes: what a receive got; NULL for a flush. */
bool dt_perf_test(const struct dt_perf_plugin *plugin, void *request, bool *done, size_t *bytes,
                  struct dt_perf_error *error);

#ifdef __cplusplus
}
#endif

#endif
