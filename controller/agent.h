/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of a host: reports what the processes of its runtime directory measure, and carries the
 * controller's decisions out through their command sockets (obs/client.h) and decision.json.
 *
 * Owner: one thread. It reads pages and sockets of its own user only, and blocks for as long as a process
 * takes to answer. It is on no data path: a host whose agent dies keeps running as it is.
 *
 * A decision is executed at most once: its number is stored (field "agent:HOST") before it is executed, so a
 * decision whose agent dies in between has no acknowledgement. An agent that starts for the first time on a
 * host begins with the decisions that follow; one that was restarted, with those after its last. A decision
 * with a smaller fencing number than one seen before comes from a controller whose lease has ended, and is
 * acknowledged as refused. Of several agents of one host the holder of the lease "agent:HOST" reports and
 * executes.
 */
#ifndef DETOUR_CONTROLLER_AGENT_H
#define DETOUR_CONTROLLER_AGENT_H

#include "controller/record.h"
#include "controller/store.h"
#include "obs/runtime_dir.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_agent;

/* Something for the operator: one line. `is_error`: it needs attention. */
typedef void dt_agent_note_func(void *arg, bool is_error, const char *text);

struct dt_agent_options {
    const char *host;        /* its name in the records: dt_store_is_name(), unique in the job */
    const char *runtime_dir; /* NULL: the default (obs/runtime_dir.h) */
    struct dt_store *store;  /* outlives the agent */
    dt_agent_note_func *note;
    void *note_arg;
};

/* NULL when out of memory. The texts and the store of the options must outlive the agent. */
struct dt_agent *dt_agent_create(const struct dt_agent_options *options);

/* Releases the lease if it is held. */
void dt_agent_destroy(struct dt_agent *agent);

#define DT_AGENT_LEASE_MS 3000

/*
 * Takes or renews the lease of the host's agent for `holder` (unique to the process). Before
 * dt_agent_report() and dt_agent_follow() wherever another agent may use the store; both are to be left out
 * unless it returns DT_OK. DT_AGAIN: another agent has the lease. Any other status: the store's.
 */
enum dt_status dt_agent_keep_lease(struct dt_agent *agent, const char *holder, uint64_t now_ns);

/*
 * Appends one observation per process, or several for a process with very many links. A host without
 * processes, or whose directory does not exist yet, reports nothing: DT_OK. Any other status: the store's.
 */
enum dt_status dt_agent_report(struct dt_agent *agent);

/*
 * Executes the decisions that follow the last one, and acknowledges them with `time_ns`. Returns the store's
 * status; after a failure the next call goes on where this one ended.
 */
enum dt_status dt_agent_follow(struct dt_agent *agent, int64_t time_ns);

#ifdef __cplusplus
}
#endif

#endif
