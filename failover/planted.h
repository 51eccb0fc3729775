/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bugs planted on purpose, one at a time, to show that the simulation finds them: plausible mistakes in
 * failover. `detour-sim-planted` compiles its own copy of the sources with DT_PLANTED_BUGS; everywhere else
 * DT_PLANTED(bug) is the constant false, and the compiler removes it.
 */
#ifndef DETOUR_FAILOVER_PLANTED_H
#define DETOUR_FAILOVER_PLANTED_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(bug, text) */
#define DT_PLANTED_LIST(X)                                                             \
    X(NO_RECEIVER_FENCE, "the receiver resumes without a fence")                       \
    X(NO_SENDER_FENCE, "the sender replays without a fence")                           \
    X(ONE_RING, "all paths write one CTS ring")                                        \
    X(SAME_PSNS, "every epoch begins with the same packet sequence numbers")           \
    X(REPLAY_ALL, "every unfinished message is replayed, not only those of the epoch") \
    X(ANY_RESUME, "a RESUME of another epoch is accepted")                             \
    X(KEEP_PARTS, "parts that arrived over a fenced path are kept")                    \
    X(OPEN_EARLY, "a path is opened before it is settled")                             \
    X(NO_REPUBLISH, "open receives are not published again")                           \
    X(NO_REPEAT, "control messages are not retransmitted")                             \
    X(TCP_ALONE, "frames about a path go over the control channel alone")              \
    X(SILENT_CLOSE, "a receiver closes without sending CLOSE")                         \
    X(CLOSE_ONCE, "CLOSE is sent once")                                                \
    X(ANY_PEER, "a re-dial is accepted for any connection")                            \
    X(RESET_IS_DEATH, "a reset channel counts as a dead peer")                         \
    X(SILENT_PROBE, "a probe that failed counts as in flight")                         \
    X(TRUST_CQ, "a completion that the peer has confirmed is awaited forever")         \
    X(FILTER_EPOCH, "completions of a fenced path are dropped as outdated")            \
    X(FENCE_UNASKED, "a receiver fences a path before the sender has stopped")         \
    X(FLUSH_ALONE, "queue pairs that do not flush are not destroyed either")           \
    X(CONCLUDE_EARLY, "a fence ends while its task of the control thread runs")        \
    X(GONE_UNSEEN, "a device's removal proves no fence")                               \
    X(BLIND_TRUST, "acknowledged messages count as received")                          \
    X(LOST_FLUSH, "GPU writes of a dead device count as visible")                      \
    X(PART_FLUSH, "a flush skips a device that wrote a part of the message")           \
    X(STAGED_EARLY, "staging memory is reused before its message is acknowledged")     \
    X(STAGED_ORDER, "of staged messages with one tag the newest is sent first")        \
    X(STAGED_RAW, "a staged message is posted before it is copied")                    \
    X(STAGED_CLOSE, "staged messages are dropped at close")                            \
    X(OVERLAP_RAW, "a pipelined chunk is posted before it is copied")                  \
    X(OVERLAP_UNSETTLED, "a partly posted message starts again before it is settled")  \
    X(EAGER_INDEX, "an eager message goes to the first irecv with its tag")            \
    X(EAGER_ANYWHERE, "an eager message of a failing path is sent directly at once")   \
    X(EAGER_TRUST, "an eager message counts as arrived when its path fails")           \
    X(EAGER_EARLY, "a bounce buffer is released as soon as anything arrived")          \
    X(BOUNCE_EARLY, "a receive completes before it is copied to the GPU")              \
    X(HELD_DROPPED, "memory registered without a device stays without it")             \
    X(OLD_KEYS, "keys of before a device was opened again are used")                   \
    X(OLD_RING, "a ring with keys of before is not cleared")                           \
    X(KEYS_ONCE, "open receives are not offered again with new keys")                  \
    X(BOUNCE_ALWAYS, "data that arrived in the GPU itself is overwritten from the bounce buffer")

#ifdef DT_PLANTED_BUGS

enum dt_planted {
    DT_PLANTED_NONE,
#define DT_PLANTED_ENUM(bug, text) DT_PLANTED_##bug,
    DT_PLANTED_LIST(DT_PLANTED_ENUM)
#undef DT_PLANTED_ENUM
        DT_PLANTED_COUNT
};

/* The bug in effect. Not atomic: simulations have one thread. */
extern uint32_t dt_planted;

#define DT_PLANTED(bug) (dt_planted == DT_PLANTED_##bug)

#else

#define DT_PLANTED(bug) false

#endif

#ifdef __cplusplus
}
#endif

#endif
