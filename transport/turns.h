/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which connections a round visits: a round costs what is busy, not what exists.
 *
 * A connection that has been quiet for DT_REST_AFTER_NS and has no deadline soon rests. A round visits, or
 * glances at (glance.h), all connections that do not rest, and visits of those that rest as many, in turn, as
 * make one visit each per DT_REST_TURN_NS. After dt_nic_wake() or an event of a control channel a round
 * visits all: nothing that is reported waits for a turn. NCCL's next call of a connection that rests finds
 * DT_NOTICE_RESTING and rouses it, so that the next round visits it.
 *
 * With few connections none rests: visiting all of them costs nothing worth saving.
 *
 * All functions with nic->mutex.
 */
#ifndef DETOUR_TRANSPORT_TURNS_H
#define DETOUR_TRANSPORT_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_REST_AFTER_NS (100 * DT_NS_PER_MS)
#define DT_REST_TURN_NS  (2 * DT_NS_PER_S)
#define DT_REST_MIN      64 /* with no more connections on a device, none rests */

struct dt_connection;
struct dt_nic;

struct dt_turns {
    /* An array, so that a round can fetch what it is about to look at. NULL: it has begun to rest or ended.
     */
    struct dt_connection **busy;
    uint32_t busy_count, busy_room;
    uint32_t reserved;      /* connections that are about to be added */
    bool has_gaps;          /* in `busy` */
    bool is_thorough;       /* this round visits all, and glances at none */
    struct dt_list resting; /* dt_connection.turn */
    uint32_t count;         /* of both */
    uint32_t resting_count; /* of the latter */
    uint32_t rest_min;      /* DT_REST_MIN; a test may lower it */
    uint64_t turned_ns;     /* until then, those that rest have had their turns */
    uint64_t round;
    uint64_t visit_count; /* of all rounds */
};

void dt_turns_init(struct dt_turns *turns);
void dt_turns_fini(struct dt_turns *turns);

/* Room for one more connection, which will be added. False: out of memory. */
bool dt_turns_reserve(struct dt_turns *turns);
/* After dt_turns_reserve(). The connection is served from now on, and until dt_turns_remove(). */
void dt_turns_add(struct dt_nic *nic, struct dt_connection *connection, uint64_t now_ns);
void dt_turns_remove(struct dt_nic *nic, struct dt_connection *connection);

/*
 * A round begins: takes in those that were roused. The round looks at all of `busy`, and then calls
 * dt_turns_next() as many times as this function returns.
 */
uint32_t dt_turns_begin(struct dt_nic *nic, uint64_t now_ns);
/* The busy one at this index, or NULL. Fetches those behind it. */
struct dt_connection *dt_turns_busy(const struct dt_turns *turns, uint32_t index);
/* The next one that rests; NULL: the round has visited all of them. */
struct dt_connection *dt_turns_next(struct dt_turns *turns);
/* A visit begins; at most one of a connection in a round. Returns whether the connection rests, or has rested
 * until now. */
bool dt_turns_visit(struct dt_turns *turns, struct dt_connection *connection);

/* After a visit, with the time at which the connection needs the next one: it rests or not. */
void dt_turns_settle(struct dt_turns *turns, struct dt_connection *connection, bool is_busy, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
