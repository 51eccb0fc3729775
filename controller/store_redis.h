/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a job on a Redis server (version 5 or newer): what ADAPTRA and FALCON use. Keys of
 * job J, in one hash slot of a cluster: detour:{J}:stream:NAME  stream; each entry has one field `r`, the
 * record detour:{J}:state        hash of the fields detour:{J}:lease:NAME   "FENCE HOLDER", which the server
 * removes when the lease ends detour:{J}:fence:NAME   the last fencing number Each write is one script
 * (EVAL), so no other client can come between its commands, and has the server remove the key
 * DT_STORE_REDIS_KEEP_S after the job's last write to it.
 *
 * Ids and fencing numbers follow the server's clock (ids: milliseconds and a number; fences: at least the
 * milliseconds), so both go on ascending after a restart that lost all data. The user needs the permissions
 * EVAL, XADD, XREAD, HSET, HGET, GET, SET, DEL, INCR, TIME, EXPIRE and PEXPIRE on detour:*.
 */
#ifndef DETOUR_CONTROLLER_STORE_REDIS_H
#define DETOUR_CONTROLLER_STORE_REDIS_H

#include "controller/store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_STORE_REDIS_KEEP_S (30u * 24 * 3600)

/* dt_store_open() for redis:// and rediss://. */
enum dt_status dt_store_redis_open(const struct dt_store_options *options, struct dt_store **store,
                                   char reason[DT_STORE_REASON_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
