/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of the job by the name that their peers have for them, "host:pid": so an end of a connection
 * becomes a rank of the job and a host of the control loop. The ranks of connections do not: they are ranks
 * of NCCL's communicators, of which a job has many, each with ranks from 0 on.
 *
 * The host in such a name is the one of the process's page, which an agent may report under another name
 * (`detour agent --host`). Two processes may have one name, for example on cloned machines: then neither is
 * known by it.
 *
 * Pure, fixed size, about 3 MB. Owner: one thread. Whatever does not fit is forgotten and is known again from
 * the next reports.
 */
#ifndef DETOUR_CONTROLLER_PEERS_H
#define DETOUR_CONTROLLER_PEERS_H

#include "controller/record.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PEERS_MAX        16384          /* a power of two; half of it is used at most */
#define DT_PEERS_UNCLEAR_NS 120000000000ll /* two reports of agents, at the longest period */

struct dt_peer {
    char name[DT_RECORD_PEER_BYTES]; /* "host:pid"; "": the place is unused */
    char host[DT_STORE_NAME_BYTES];  /* of its agent */
    int32_t rank;                    /* in the job, or -1 */
    int64_t changed_ns;              /* when another process was reported under this name; 0: never */
    int64_t unclear_ns;              /* when that happened twice in DT_PEERS_UNCLEAR_NS; 0: never */
};

struct dt_peers;

/* NULL when out of memory. */
struct dt_peers *dt_peers_create(void);
void dt_peers_destroy(struct dt_peers *peers);

/* The process of an observation that arrived at `time_ns`, the time that dt_peers_find() has as well. */
void dt_peers_take(struct dt_peers *peers, const struct dt_observation *observation, int64_t time_ns);

/* NULL: no agent has reported it, or several have. */
const struct dt_peer *dt_peers_find(const struct dt_peers *peers, const char *name, int64_t time_ns);

#ifdef __cplusplus
}
#endif

#endif
