/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of the control socket, for the command line tool and tests. Blocks. */
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
 * Returns DT_OK for `ok`, or the status in `error STATUS`; the text of either goes to `answer`. When there
 * was no answer: DT_NOT_FOUND (no such process listens), DT_TIMED_OUT, DT_CLOSED or DT_PROTOCOL (it answered
 * something else), DT_SYSTEM, DT_INVALID (the line is too long or has a newline in it); then `answer` says
 * that. Silent.
 */
enum dt_status dt_client_call(const struct dt_runtime_dir *dir, int pid, const char *line,
                              unsigned timeout_ms, char *answer, size_t answer_bytes);

#ifdef __cplusplus
}
#endif

#endif
