/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a sender: isend and its test, progress. All functions: owner of the connection. */
#ifndef DETOUR_HOSTPATH_STAGED_STAGE_SEND_H
#define DETOUR_HOSTPATH_STAGED_STAGE_SEND_H

#include <stdint.h>

#include "hostpath/staged/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stages the payload or, if that cannot be, sends it directly. */
enum dt_status dt_stage_isend(struct dt_sender *sender, void *data, uint32_t bytes, int tag,
                              struct dt_memory *memory, struct dt_request **request);
/* The test of isends of this sender that went directly. */
dt_test_function dt_stage_test_direct;

/* Polls, posts ready messages, matches entries with messages, and takes back the memory of delivered ones. */
void dt_stage_progress(struct dt_sender *sender);

#ifdef __cplusplus
}
#endif

#endif
