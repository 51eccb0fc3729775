/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder in which the processes of one user meet the `detour` command: PID.page (page.h) and PID.sock
 * (server.h). It belongs to the user alone (mode 0700) and is by default /dev/shm/detour-UID.
 *
 * Nobody has to clean up after a process that died: whoever comes next removes what is left. A page is in use
 * while its process holds a lock on it, a socket while somebody listens on it; process numbers, which come
 * again and differ between containers, decide nothing.
 */
#ifndef DETOUR_OBS_RUNTIME_DIR_H
#define DETOUR_OBS_RUNTIME_DIR_H

#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_RUNTIME_PATH_BYTES 256

struct dt_runtime_dir {
    char path[DT_RUNTIME_PATH_BYTES];
    int fd; /* of the folder, for the *at() calls */
};

/*
 * Opens the folder; NULL or "" is the default one. Made if it does not exist and `create` says so.
 * DT_NOT_FOUND: it does not exist. DT_SYSTEM: it cannot be made or opened, or somebody else could write or
 * look into it. On both one line goes to `reason`; nothing is logged.
 */
enum dt_status dt_runtime_dir_open(const char *path, int create, struct dt_runtime_dir *dir, char *reason,
                                   size_t reason_bytes);
void dt_runtime_dir_close(struct dt_runtime_dir *dir);

/* Removes the files of processes that are gone. Silent; what cannot be removed stays. */
void dt_runtime_dir_sweep(const struct dt_runtime_dir *dir);

enum dt_runtime_file { DT_RUNTIME_PAGE, DT_RUNTIME_SOCKET };

/* "PID.page" or "PID.sock"; bytes >= 32 suffices. */
void dt_runtime_file_name(enum dt_runtime_file kind, int pid, char *name, size_t bytes);

/* The processes that have a file of this kind, in ascending order; returns how many, at most `count_max`. */
size_t dt_runtime_dir_list(const struct dt_runtime_dir *dir, enum dt_runtime_file kind, int *pids,
                           size_t count_max);

#ifdef __cplusplus
}
#endif

#endif
