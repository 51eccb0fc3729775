/* SPDX-License-Identifier: Apache-2.0 */
/* The number of ranks that `detour pipeline` takes; job/ takes more. */
#ifndef DETOUR_CLI_PIPELINE_RANKS_H
#define DETOUR_CLI_PIPELINE_RANKS_H

/* Schedules, positions and verdicts of all ranks are arrays of this size, in the process of each rank. */
#define DT_PIPELINE_RANKS_MAX 64

#endif
