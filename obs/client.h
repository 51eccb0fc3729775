/* SPDX-License-Identifier: Apache-2.0 */
/* The client side of the command socket, for the `detour` command and tests. Blocks. */
#ifndef DETOUR_OBS_CLIENT_H
#define DETOUR_OBS_CLIENT_H

#include <stddef.h>

#include "base/status.h"
#include "obs/runtime_dir.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sends one line (without newline) to a process and waits for the answer, at most `timeout_ms` in each step.
 * Returns DT_OK for `ok`, or the status in `error STATUS`; the text of either goes to `answer`. Without an
 * answer: DT_NOT_FOUND (the process does not listen), DT_TIMED_OUT, DT_CLOSED or DT_PROTOCOL (a malformed
 * answer), DT_SYSTEM, DT_INVALID (the line is too long or contains a newline); `answer` then holds the
 * reason. Does not log.
 */
enum dt_status dt_client_call(const struct dt_runtime_dir *dir, int pid, const char *line,
                              unsigned timeout_ms, char *answer, size_t answer_bytes);

#ifdef __cplusplus
}
#endif

#endif
