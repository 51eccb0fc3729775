/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network plugin, loaded and called as NCCL does. Outputs are uninitialized or stale when a call is made:
 * an output that the plugin leaves unwritten, on which NCCL would silently rely, is an error here.
 *
 * The data calls below are made once per message or poll; they add a few instructions to the plugin's own.
 */
#ifndef DETOUR_JOB_PLUGIN_H
#define DETOUR_JOB_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "job/error.h"
#include "plugin/nccl_net_v8.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_JOB_DEVICES_MAX 32

struct dt_job_plugin {
    void *library;
    const ncclNet_v8_t *net;
    int device_count; /* at most DT_JOB_DEVICES_MAX are used */
    ncclNetProperties_v8_t devices[DT_JOB_DEVICES_MAX];
    unsigned rank; /* for messages, and the tag of what it sends */
};

/*
 * dlopen and dlsym. DT_EXIT_USAGE when there is no such file or no such symbol. log_level: which of the
 * plugin's messages go to standard error, in NCCL_DEBUG's words; NULL: WARN. One plugin per process.
 */
bool dt_job_plugin_load(struct dt_job_plugin *plugin, const char *path, unsigned rank, const char *log_level,
                        struct dt_job_error *error);

/*
 * init and devices, then the properties of every device into uninitialized memory. Properties that NCCL
 * refuses, or with which it fails silently (names and ports that are not unique), are an error.
 */
bool dt_job_plugin_init(struct dt_job_plugin *plugin, struct dt_job_error *error);

/* Reads and checks the properties of `dev` again, as NCCL's service thread does before it connects. */
bool dt_job_plugin_properties(struct dt_job_plugin *plugin, int dev, ncclNetProperties_v8_t *properties,
                              struct dt_job_error *error);

/* The text of a result, as in "remote error". */
const char *dt_job_result_text(ncclResult_t result);

/* Records "CALL of NAME failed". Always false. */
bool dt_job_call_failed(const struct dt_job_plugin *plugin, const char *call, ncclResult_t result,
                        struct dt_job_error *error);

/*
 * The data path. *request is NULL when the plugin cannot take the request now: call again. False, with the
 * error recorded, when the plugin fails or leaves an output unwritten.
 */
bool dt_job_isend(const struct dt_job_plugin *plugin, void *comm, void *data, size_t bytes, void *mhandle,
                  void **request, struct dt_job_error *error);
bool dt_job_irecv(const struct dt_job_plugin *plugin, void *comm, void *data, size_t capacity, int tag,
                  void *mhandle, void **request, struct dt_job_error *error);
bool dt_job_iflush(const struct dt_job_plugin *plugin, void *comm, void *data, size_t bytes, void *mhandle,
                   void **request, struct dt_job_error *error);

/* *bytes: the size of a received message; NULL for a flush. */
bool dt_job_test(const struct dt_job_plugin *plugin, void *request, bool *done, size_t *bytes,
                 struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
