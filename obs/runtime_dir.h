/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory through which the `detour` command finds the processes of one user: PID.page (page.h) and
 * PID.sock (server.h). Only the user can access it (mode 0700); the default is /dev/shm/detour-UID.
 *
 * Each process removes the files of dead ones when it starts. A page is in use while its process holds a lock
 * on it, a socket while a process listens on it. Process numbers decide nothing: they are reused and differ
 * between containers.
 *
 * Containers that share the directory (--ipc=host) may have processes with the same PID. PID in a file name
 * is then the PID plus a multiple of DT_RUNTIME_NUMBER_STEP, the first that no living process uses.
 */
#ifndef DETOUR_OBS_RUNTIME_DIR_H
#define DETOUR_OBS_RUNTIME_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_RUNTIME_PATH_BYTES 256

struct dt_runtime_dir {
    char path[DT_RUNTIME_PATH_BYTES];
    int fd; /* the directory, for the *at() calls */
};

/*
 * Opens the directory; NULL or "" is the default. `create`: creates it if it is missing. DT_NOT_FOUND:
 * missing. DT_SYSTEM: it cannot be created or opened, or other users have access to it. One line then goes to
 * `reason`; does not log.
 */
enum dt_status dt_runtime_dir_open(const char *path, int create, struct dt_runtime_dir *dir, char *reason,
                                   size_t reason_bytes);
void dt_runtime_dir_close(struct dt_runtime_dir *dir);

/* Removes the files of dead processes, as far as possible. Does not log. */
void dt_runtime_dir_sweep(const struct dt_runtime_dir *dir);

enum dt_runtime_file { DT_RUNTIME_PAGE, DT_RUNTIME_SOCKET };

/* Linux's PIDs are smaller (PID_MAX_LIMIT). */
#define DT_RUNTIME_NUMBER_STEP 4194304
#define DT_RUNTIME_NUMBER_MAX  (64 * DT_RUNTIME_NUMBER_STEP)

/* A living process has the page, or another one than the caller listens on the socket. */
bool dt_runtime_dir_is_taken(const struct dt_runtime_dir *dir, enum dt_runtime_file kind, int pid);

/* Removes the page PID.page if no living process has it. */
void dt_runtime_dir_remove_left_over(const struct dt_runtime_dir *dir, int pid);

/* This process's number in the names of its files: from the page that it has open. Without one its PID. */
int dt_runtime_own_number(void);

/* "PID.page" or "PID.sock"; bytes >= 32 suffices. */
void dt_runtime_file_name(enum dt_runtime_file kind, int pid, char *name, size_t bytes);

/* The processes with a file of this kind, ascending; returns their number, at most `count_max`. */
size_t dt_runtime_dir_list(const struct dt_runtime_dir *dir, enum dt_runtime_file kind, int *pids,
                           size_t count_max);

/* Creates or replaces a file with this text, to be renamed to the name under which others read it, so that
 * they find it whole or not at all. False, with errno: there is no such file. */
bool dt_runtime_dir_write(const struct dt_runtime_dir *dir, const char *name, const char *text);

#ifdef __cplusplus
}
#endif

#endif
