/* SPDX-License-Identifier: Apache-2.0 */
/* What options of `detour pipeline` must have in common beyond their own form: positions that exist, and
 * options that fit together. */
#ifndef DETOUR_CLI_PIPELINE_CHECK_H
#define DETOUR_CLI_PIPELINE_CHECK_H

#include <errno.h>

#include "cli/pipeline/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or EINVAL after writing one line to standard error, which names the option. */
error_t dt_pipeline_check(const struct dt_pipeline_options *options);

#ifdef __cplusplus
}
#endif

#endif
