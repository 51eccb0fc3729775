/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failover protocol as a table: what each end of one epoch of one path does when something happens. The
 * code (path_machine.c), its tests, the simulator's checker and docs/failover.md all read these lists.
 *
 * (p,e) is the e-th set of queue pairs of path p, made by both ends together. The ends tell each other facts
 * about one (p,e) and nothing else; no path is "the active one", so nobody has to win a race.
 *
 *   SWITCH{p,e}           S->R  I send nothing more on (p,e): fence it
 *   HEARD{p,e}            S->R  a SWITCH that asks for no answer: I have settled (p,e)
 *   RESUME{p,e, set}      R->S  it is fenced, and this is what I have
 *   OPEN{p,e, queues}     S->R  my queue pairs for epoch e
 *   OPENED{p,e, queues}   R->S  mine, connected to yours
 *   USED{p,e}             S->R  mine are connected, too, and probes were answered: it is in use
 *
 * A message about another epoch than the table names changes nothing; neither does an event without a row.
 */
#ifndef DETOUR_FAILOVER_PATH_TABLE_H
#define DETOUR_FAILOVER_PATH_TABLE_H

/*
 * X(state, what is repeated in it until an answer comes: a message or NONE, text)
 *
 * Queue pairs of the current epoch may be posted to in UP alone. In MAKING the epoch is still the old,
 * settled one at the sender; at the receiver it is already the new one.
 */
#define DT_SENDER_STATES(X)                                                                 \
    X(UP, NONE, "in use")                                                                   \
    X(DOWN, SWITCH, "failed: its fence is under way")                                       \
    X(LOOSE, SWITCH, "failed: no proof of the fence in time; it may still come")            \
    X(WAITING, SWITCH, "fenced: waits for what the receiver has")                           \
    X(ANSWERED, NONE, "the receiver has spoken: waits for its own fence")                   \
    X(SETTLED, NONE, "every message of it is decided")                                      \
    X(ENDED, NONE, "the same, but without proof of the fence: not opened before one comes") \
    X(MAKING, NONE, "makes fresh queue pairs")                                              \
    X(OPENING, OPEN, "waits for the receiver's queue pairs")                                \
    X(LINKING, NONE, "connects to them")                                                    \
    X(PROVING, NONE, "sends probes until it has been stable for long enough")

#define DT_RECEIVER_STATES(X)                                                    \
    X(UP, NONE, "in use")                                                        \
    X(DOWN, NONE, "failed: its fence is under way")                              \
    X(LOOSE, NONE, "failed: no proof of the fence in time; waits, and says so")  \
    X(FENCED, RESUME, "fenced: the sender has not been heard of yet")            \
    X(HEARD, NONE, "fenced: the sender knows, and asks again if it has to")      \
    X(MAKING, NONE, "makes fresh queue pairs and connects them to the sender's") \
    X(READY, OPENED, "takes what comes; writes nothing before the sender's are connected")

/*
 * X(event, text). The first group happens at this end, the second is what the peer says; NEXT is the epoch
 * after the current one.
 */
#define DT_PATH_EVENTS(X)                                                                 \
    X(FAULT, "a failed completion, an event, silence, or an order")                       \
    X(FENCED, "the proof: nothing comes through the old queue pairs any more")            \
    X(UNFENCED, "DETOUR_FENCE_MS are over without a proof")                               \
    X(RECOVER, "time to open the path again")                                             \
    X(MADE, "fresh queue pairs are there (at the receiver: and connected)")               \
    X(FAILED, "they cannot be had, or do not answer")                                     \
    X(LINKED, "the sender's fresh queue pairs are connected")                             \
    X(STABLE, "probes were answered for as long as it takes")                             \
    X(HEAR_RESUME, "RESUME of the current epoch")                                         \
    X(HEAR_OPENED, "OPENED of the current epoch")                                         \
    X(HEAR_SWITCH, "SWITCH of the current epoch")                                         \
    X(HEAR_HEARD, "HEARD of the current epoch")                                           \
    X(HEAR_OPEN, "OPEN of the current epoch")                                             \
    X(HEAR_USED, "USED of the current epoch")                                             \
    X(HEAR_SWITCH_NEXT, "SWITCH or HEARD of the next epoch, which was never opened here") \
    X(HEAR_OPEN_NEXT, "OPEN of the next epoch")

/* X(action, text), done in this order, before anything is said */
#define DT_PATH_ACTIONS(X)                                                                           \
    X(NEXT_EPOCH, "the epoch is the next one from here on; the old queue pairs are put aside")       \
    X(FENCE, "all queue pairs to ERR, and look for the proof")                                       \
    X(KEEP, "keep the RESUME that came")                                                             \
    X(FORGET, "forget parts of unfinished messages that came over it; publish open receives again")  \
    X(SNAPSHOT, "take down what has been received: the RESUME of this epoch")                        \
    X(SETTLE, "messages last posted on it: complete if the receiver has them, else post them again") \
    X(MAKE, "make fresh queue pairs")                                                                \
    X(LINK, "connect them to those that OPENED named")                                               \
    X(PROBE, "start probing")                                                                        \
    X(LISTEN, "the fresh queue pairs are in use for what comes")                                     \
    X(USE, "new messages, and clear-to-send writes, may take it")

/* X(message) */
#define DT_PATH_MESSAGES(X) X(NONE) X(SWITCH) X(HEARD) X(RESUME) X(OPEN) X(OPENED) X(USED)

/*
 * X(state, event, next state, actions, what is said once at once)
 *
 * Entering a state that repeats a message says it at once, too, and then with back-off.
 */
#define DT_SENDER_TABLE(X)                                       \
    X(UP, FAULT, DOWN, A(FENCE), NONE)                           \
    X(UP, HEAR_RESUME, ANSWERED, A(FENCE) | A(KEEP), NONE)       \
    X(UP, HEAR_OPENED, UP, 0, USED)                              \
    X(DOWN, FENCED, WAITING, 0, NONE)                            \
    X(DOWN, UNFENCED, LOOSE, 0, NONE)                            \
    X(DOWN, HEAR_RESUME, ANSWERED, A(KEEP), NONE)                \
    X(LOOSE, FENCED, WAITING, 0, NONE)                           \
    X(LOOSE, HEAR_RESUME, ENDED, A(KEEP) | A(SETTLE), HEARD)     \
    X(WAITING, HEAR_RESUME, SETTLED, A(KEEP) | A(SETTLE), HEARD) \
    X(ANSWERED, FENCED, SETTLED, A(SETTLE), HEARD)               \
    X(ANSWERED, UNFENCED, ENDED, A(SETTLE), HEARD)               \
    X(SETTLED, HEAR_RESUME, SETTLED, 0, HEARD)                   \
    X(SETTLED, RECOVER, MAKING, A(MAKE), NONE)                   \
    X(ENDED, HEAR_RESUME, ENDED, 0, HEARD)                       \
    X(ENDED, FENCED, SETTLED, 0, NONE)                           \
    X(MAKING, HEAR_RESUME, MAKING, 0, HEARD)                     \
    X(MAKING, MADE, OPENING, A(NEXT_EPOCH), NONE)                \
    X(MAKING, FAILED, SETTLED, 0, NONE)                          \
    X(OPENING, FAULT, DOWN, A(FENCE), NONE)                      \
    X(OPENING, HEAR_RESUME, ANSWERED, A(FENCE) | A(KEEP), NONE)  \
    X(OPENING, HEAR_OPENED, LINKING, A(LINK), NONE)              \
    X(LINKING, FAULT, DOWN, A(FENCE), NONE)                      \
    X(LINKING, FAILED, DOWN, A(FENCE), NONE)                     \
    X(LINKING, HEAR_RESUME, ANSWERED, A(FENCE) | A(KEEP), NONE)  \
    X(LINKING, LINKED, PROVING, A(PROBE), NONE)                  \
    X(PROVING, FAULT, DOWN, A(FENCE), NONE)                      \
    X(PROVING, FAILED, DOWN, A(FENCE), NONE)                     \
    X(PROVING, HEAR_RESUME, ANSWERED, A(FENCE) | A(KEEP), NONE)  \
    X(PROVING, STABLE, UP, A(USE), USED)

#define DT_RECEIVER_TABLE(X)                                                \
    X(UP, FAULT, DOWN, A(FENCE), NONE)                                      \
    X(UP, HEAR_SWITCH, DOWN, A(FENCE), NONE)                                \
    X(DOWN, FENCED, FENCED, A(FORGET) | A(SNAPSHOT), NONE)                  \
    X(DOWN, UNFENCED, LOOSE, 0, NONE)                                       \
    X(LOOSE, FENCED, FENCED, A(FORGET) | A(SNAPSHOT), NONE)                 \
    X(FENCED, HEAR_SWITCH, HEARD, 0, RESUME)                                \
    X(FENCED, HEAR_HEARD, HEARD, 0, NONE)                                   \
    X(FENCED, HEAR_OPEN, FENCED, 0, RESUME)                                 \
    X(FENCED, HEAR_SWITCH_NEXT, HEARD, A(NEXT_EPOCH) | A(SNAPSHOT), RESUME) \
    X(FENCED, HEAR_OPEN_NEXT, MAKING, A(NEXT_EPOCH) | A(MAKE), NONE)        \
    X(HEARD, HEAR_SWITCH, HEARD, 0, RESUME)                                 \
    X(HEARD, HEAR_OPEN, HEARD, 0, RESUME)                                   \
    X(HEARD, HEAR_SWITCH_NEXT, HEARD, A(NEXT_EPOCH) | A(SNAPSHOT), RESUME)  \
    X(HEARD, HEAR_OPEN_NEXT, MAKING, A(NEXT_EPOCH) | A(MAKE), NONE)         \
    X(HEARD, RECOVER, HEARD, 0, RESUME)                                     \
    X(MAKING, MADE, READY, A(LISTEN), NONE)                                 \
    X(MAKING, FAILED, FENCED, A(SNAPSHOT), NONE)                            \
    X(READY, FAULT, DOWN, A(FENCE), NONE)                                   \
    X(READY, HEAR_SWITCH, DOWN, A(FENCE), NONE)                             \
    X(READY, HEAR_OPEN, READY, 0, OPENED)                                   \
    X(READY, HEAR_USED, UP, A(USE), NONE)

#endif
