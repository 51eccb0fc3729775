/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bugs planted on purpose, one at a time, to show that the simulation would find them: mistakes in failover
 * that look right. `detour-sim-planted` has a copy of the sources of its own, compiled with DT_PLANTED_BUGS;
 * everywhere else DT_PLANTED(bug) is the constant false, and the compiler leaves nothing of it.
 */
#ifndef DETOUR_BASE_PLANTED_H
#define DETOUR_BASE_PLANTED_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(bug, text) */
#define DT_PLANTED_LIST(X)                                                                  \
    X(NO_RECEIVER_FENCE, "the receiver resumes without a fence")                            \
    X(NO_SENDER_FENCE, "the sender posts again without a fence")                            \
    X(ONE_RING, "all paths write one clear-to-send ring")                                   \
    X(SAME_PSNS, "every epoch begins with the same packet sequence numbers")                \
    X(REWIND_ALL, "every unfinished message is posted again, not those of the epoch alone") \
    X(ANY_RESUME, "a RESUME of another epoch is accepted")                                  \
    X(KEEP_PARTS, "parts that came over a fenced path are kept")                            \
    X(OPEN_EARLY, "a path is opened before it is settled")                                  \
    X(NO_REPUBLISH, "open receives are not published again")                                \
    X(NO_REPEAT, "control messages are not repeated")                                       \
    X(SILENT_CLOSE, "a receiver closes without a word")                                     \
    X(CLOSE_ONCE, "an end that closes says so once")                                        \
    X(ANY_PEER, "a re-dial is taken for that of any connection")                            \
    X(RESET_IS_DEATH, "a channel that was reset is a dead peer")                            \
    X(DEAF_PROBE, "a probe that ends with an error counts as one under way")                \
    X(TRUST_CQ, "what the peer has is awaited for ever")                                    \
    X(FILTER_EPOCH, "completions of a fenced path are dropped for being old")               \
    X(BLIND_TRUST, "what was acknowledged is taken for received")                           \
    X(LOST_FLUSH, "what a dead device wrote to a GPU is taken for visible")                 \
    X(PART_FLUSH, "a flush leaves out who brought a part of the message")                   \
    X(STAGED_EARLY, "staged memory is used again before its message is acknowledged")       \
    X(STAGED_ORDER, "of staged messages with one tag the newest goes first")                \
    X(STAGED_RAW, "a staged message is posted before it is copied")                         \
    X(STAGED_CLOSE, "what is staged is forgotten at close")                                 \
    X(OVERLAP_RAW, "what goes out ahead of a staged message's copy is not there yet")       \
    X(OVERLAP_UNSETTLED, "a message posted in part begins again before that is settled")    \
    X(AHEAD_INDEX, "what goes ahead is for the first irecv with its tag")                   \
    X(AHEAD_ANYWHERE, "what went ahead over a failing path is sent directly at once")       \
    X(AHEAD_TRUST, "what went ahead is taken for arrived when its path fails")              \
    X(AHEAD_EARLY, "a place is released as soon as something is there")                     \
    X(LANDED_EARLY, "a receive is done before it is copied to the GPU")                     \
    X(LANDED_ALWAYS, "what came to the GPU itself is copied over from the shadow")

#ifdef DT_PLANTED_BUGS

enum dt_planted {
    DT_PLANTED_NONE,
#define DT_PLANTED_ENUM(bug, text) DT_PLANTED_##bug,
    DT_PLANTED_LIST(DT_PLANTED_ENUM)
#undef DT_PLANTED_ENUM
        DT_PLANTED_COUNT
};

/* The one that is planted now. Not atomic: simulations have one thread. */
extern uint32_t dt_planted;

#define DT_PLANTED(bug) (dt_planted == DT_PLANTED_##bug)

#else

#define DT_PLANTED(bug) false

#endif

#ifdef __cplusplus
}
#endif

#endif
