/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One TCP connection per pair of processes, its *carrier*, for the control channels of all connections
 * between them: a network (stream.h) whose streams are multiplexed. Listener, set-up and sessions use it like
 * TCP, so REJOIN, liveness probes and CLOSE stay matters of each connection; what is done once per pair is
 * dialing, the detection of a dead process, and the system calls.
 *
 * A process has a random identity, part of its address (address.h). A stream to an address with an identity
 * goes over the carrier to that process, which is dialed unless it exists. An address without one, of a peer
 * that has no carriers, and this process's own get a TCP connection for each stream.
 *
 * The carrier (docs/model/pair.pml is the model). The process that dials sends PAIR{identities, round}, with
 * a round larger than all that it knows; the other one answers PAIRED{round}, or STALE{round} if it knows the
 * round or a later one. When both dial, the offer with the larger round, then with the larger identity, is
 * the stronger one: the process with the weaker offer gives it up for the other, and the process with the
 * stronger offer keeps the other's carrier aside (parked) until its own attempt is decided. A PAIR with a
 * larger round replaces the carrier in use, whose loss this process may not have noticed.
 *
 *   IDLE -> CONNECTING -> JOINING -> UP     this process has dialed
 *   any -> UP                               the other has
 *   any -> IDLE                             the attempt failed, no stream waits, or it is lost
 *
 * When the carrier is lost, all of its streams end with the status of its TCP connection, after the bytes
 * that have arrived. Refused: all streams that wait for it end with DT_PEER_ERROR, so one dial decides for
 * all connections.
 *
 * On the carrier a stream is a sequence of records (pair_record.h) with a window of DT_PAIR_WINDOW_BYTES that
 * are sent and not read yet. So a stream whose reader is stuck fills its own inbox and delays no other.
 *
 * Threads: one thread per process (dt_pairs_start()) does all reading, writing and dialing. Every other
 * thread appends records to a buffer in memory and wakes it; the mutex is held for copying, never for a
 * call that may block, and is a leaf. Without the thread (simulations) the calls of streams and
 * dt_pairs_progress() do its work.
 */
#ifndef DETOUR_TRANSPORT_SESSION_PAIR_H
#define DETOUR_TRANSPORT_SESSION_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/session/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pairs;

/* Streams of peers that the listener has not accepted yet; the peer's further ones are ended. */
#define DT_PAIR_OPENED_MAX 16384u

/* `identity` is random and not 0. NULL: out of memory. */
struct dt_pairs *dt_pairs_create(struct dt_network *network, uint64_t identity);

/* Ends the thread and all carriers, after what was appended is sent as far as there is room. Streams and the
 * port are closed before. NULL is accepted. */
void dt_pairs_destroy(struct dt_pairs *pairs);

/* Constant. Any thread. */
struct dt_network *dt_pairs_network(struct dt_pairs *pairs);
uint64_t dt_pairs_identity(const struct dt_pairs *pairs);

/* Dials, answers, writes, reads, distributes. The thread, or the only thread. True: a stream of a peer, or a
 * connection to the port, may wait for accept. */
bool dt_pairs_progress(struct dt_pairs *pairs);

/* What the thread does for a listener: accept streams. Called without the mutex. */
struct dt_pairs_listener {
    int fd;                                    /* readable: there is something to accept */
    bool (*serve)(void *arg, uint64_t now_ns); /* true: there may be more */
    void *arg;
};

/* Starts the thread "detour-pairs", once. DT_SYSTEM: one WARN. */
enum dt_status dt_pairs_start(struct dt_pairs *pairs, const struct dt_pairs_listener *listener);

/* Whether it runs. Any thread. */
bool dt_pairs_has_thread(struct dt_pairs *pairs);

/* Ends the thread, after what was appended is sent as far as there is room. From then on the calls of streams
 * do its work. Harmless without a thread. */
void dt_pairs_stop(struct dt_pairs *pairs);

struct dt_pairs_stats {
    uint32_t pairs;    /* known now */
    uint32_t carriers; /* in use now */
    uint32_t streams;  /* now */
    uint64_t dials;
    uint64_t accepted; /* carriers that the other process has dialed */
    uint64_t parked;
    uint64_t stale;   /* PAIR frames that came too late */
    uint64_t lost;    /* carriers */
    uint64_t records; /* appended */
    uint64_t writes;  /* system calls that sent some */
};
void dt_pairs_query_stats(struct dt_pairs *pairs, struct dt_pairs_stats *stats);

/* For tests: calls `use` with the descriptor of the TCP connection under a stream, which stays open
 * meanwhile. False: there is none now. */
bool dt_pairs_use_carrier(struct dt_stream *stream, void (*use)(int fd, void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
