/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DETOUR_EVENT_COMMAND: a shell command that is run once for each event of chosen kinds, for instance to make
 * a checkpoint early when a path has failed (SHIFT, section 4).
 *
 * A thread of its own reads the ring of events (event_queue.h), so that neither the data path nor a device
 * thread takes part: an event costs its writer nothing more. At most one command runs at a time, for at most
 * the timeout; then its process group is killed. Each end of a command, and events that were dropped, are
 * events of kind DT_EVENT_KIND_COMMAND; a command that fails is also one WARN line.
 *
 * The command is started with posix_spawn(3), which runs no handler of pthread_atfork(3) and copies no
 * memory: registered memory and CUDA are not affected. It inherits no file but the process's standard output
 * and error (and one that another thread opens meanwhile without O_CLOEXEC). It has a process group of its
 * own, and the environment that the process had when the hook was opened, without DETOUR_EVENT_COMMAND and
 * with DETOUR_EVENT_... of the event (docs/stat.md). A child process of the application is never waited for.
 */
#ifndef DETOUR_OBS_EVENT_HOOK_H
#define DETOUR_OBS_EVENT_HOOK_H

#include <stdint.h>

#include "base/status.h"
#include "obs/page.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_event_hook;

struct dt_event_hook_options {
    const char *command; /* for sh -c */
    uint32_t kinds;      /* dt_event_kinds_parse() */
    uint64_t timeout_ns;
    struct dt_page *page; /* outlives the hook */
};

/* DT_NO_MEMORY. */
enum dt_status dt_event_hook_open(const struct dt_event_hook_options *options, struct dt_event_hook **hook);

/* Starts the thread. DT_SYSTEM: it cannot be started, and the caller closes the hook. */
enum dt_status dt_event_hook_start(struct dt_event_hook *hook);

/* A round of the thread, or of a test without one: ends, kills and starts a command as is due. */
void dt_event_hook_round(struct dt_event_hook *hook, uint64_t now_ns);

/*
 * Stops the thread, after a last round, and frees the hook: the end of the process may be what the last event
 * is about. A command that runs goes on, since the process is about to end and a checkpoint must not be cut
 * off. In a child after fork() only memory is freed.
 */
void dt_event_hook_close(struct dt_event_hook *hook);

#ifdef __cplusplus
}
#endif

#endif
