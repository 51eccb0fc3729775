/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command socket: PID.sock in the runtime directory (runtime_dir.h), mode 0600, for the same user and
 * root, served by one thread. Lines in, lines out (command.h).
 *
 * Hostile or stuck clients cannot block it: the number of clients is fixed, a new one replaces the one idle
 * longest, a client without progress for some seconds is dropped, and input is bounded (command_session.h).
 */
#ifndef DETOUR_OBS_SERVER_H
#define DETOUR_OBS_SERVER_H

#include <stddef.h>

#include "base/status.h"
#include "obs/command.h"
#include "obs/runtime_dir.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_server;

#define DT_SERVER_CLIENTS_MAX 16
#define DT_SERVER_SILENCE_MS  5000

/*
 * Starts the thread. `table` must outlive the server; *dir is only used during the call. On failure
 * (DT_SYSTEM, DT_NO_MEMORY) one line goes to `reason`; does not log, since the process can run without the
 * socket.
 */
enum dt_status dt_server_start(const struct dt_runtime_dir *dir, int pid, struct dt_command_table *table,
                               struct dt_server **server, char *reason, size_t reason_bytes);

/* Ends the thread and removes the socket. In a child after fork() it only frees memory. */
void dt_server_stop(struct dt_server *server);

#ifdef __cplusplus
}
#endif

#endif
