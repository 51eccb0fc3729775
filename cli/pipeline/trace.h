/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --trace: a file of delays over the iterations of a run, as slow links and a failing RNIC (slow.h). The file
 * has the form of ADAPTRA's injector (delay/trace.h): START;LINKS;LATENCIES, where START is an iteration of
 * the run, however long it takes, a link is A_B, two devices, and latencies are seconds or have a unit; `inf`
 * is the crash of the first RNIC of both devices, of all devices where no link is named.
 */
#ifndef DETOUR_CLI_PIPELINE_TRACE_H
#define DETOUR_CLI_PIPELINE_TRACE_H

#include "cli/pipeline/slow.h"
#include "detour/sched.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Adds the file to `slow`. *digest covers its bytes. False with the reason in *error: no such file, not of
 * that form, a link that the pipeline does not have, or more changes than `slow` holds.
 */
bool dt_pipeline_trace_read(const char *path, int32_t devices, uint32_t iterations,
                            struct dt_pipeline_slow *slow, uint64_t *digest, struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
