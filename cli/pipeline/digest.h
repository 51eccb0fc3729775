/* SPDX-License-Identifier: Apache-2.0 */
/* A digest of the options that all ranks of a pipeline must share (options.h): a rank that was started with
 * others is refused when it joins. Pure. */
#ifndef DETOUR_CLI_PIPELINE_DIGEST_H
#define DETOUR_CLI_PIPELINE_DIGEST_H

#include "cli/pipeline/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* trace_digest: of the file of --trace; 0: none. */
uint64_t dt_pipeline_digest(const struct dt_pipeline_options *options, uint64_t trace_digest);

#ifdef __cplusplus
}
#endif

#endif
