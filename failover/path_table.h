/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failover protocol as a table: what each end of one epoch of one path does on each event. The code
 * (path_machine.c), its tests, the simulator's checker, the SPIN model and docs/failover.md read these lists.
 *
 * (p,e) is the e-th set of queue pairs of path p, created by both ends together. The ends exchange facts
 * about one (p,e) and nothing else. No path is "the active one", so the protocol needs no election.
 *
 *   SWITCH{p,e}           S->R  I send nothing more on (p,e): fence it, and answer with RESUME
 *   SETTLED{p,e}          S->R  I have settled (p,e): stop retransmitting RESUME
 *   RESUME{p,e, set}      R->S  (p,e) is fenced, and these messages have arrived
 *   OPEN{p,e, queues}     S->R  my queue pairs for epoch e
 *   OPENED{p,e, queues}   R->S  my queue pairs, connected to yours
 *   STOP{p,e}             R->S  stop sending on (p,e): I fence it as soon as SWITCH has arrived
 *   USED{p,e}             S->R  my queue pairs are connected and probes were answered: the path is in use
 *
 * The sender counts no acknowledgement of (p,e) once it has left UP: RESUME decides. So each message that it
 * has counted was in the receiver's completion queue before SWITCH was sent, and a receiver that polls
 * between SWITCH and its own fence misses none, even on a device that discards completions in the error
 * state.
 *
 * A message about another epoch than the table names changes nothing; neither does an event without a row.
 */
#ifndef DETOUR_FAILOVER_PATH_TABLE_H
#define DETOUR_FAILOVER_PATH_TABLE_H

/*
 * X(state, message that is retransmitted in it until an answer arrives, or NONE; text for the log)
 *
 * Only in UP may work be posted to the queue pairs of the current epoch. In CREATING the sender's epoch is
 * still the old, settled one; the receiver's is already the new one.
 */
#define DT_SENDER_STATES(X)                                                                           \
    X(UP, NONE, "in use")                                                                             \
    X(DOWN, SWITCH, "failed: fencing")                                                                \
    X(UNFENCED, SWITCH, "failed: no proof of the fence within DETOUR_FENCE_MS; still waiting for it") \
    X(WAITING, SWITCH, "fenced: waiting for RESUME")                                                  \
    X(RESUMED, NONE, "RESUME has arrived: waiting for the own fence")                                 \
    X(SETTLED, NONE, "settled: every message of the epoch is complete or replayed")                   \
    X(ENDED, NONE, "settled without proof of the fence: not opened before the proof")                 \
    X(CREATING, NONE, "creating new queue pairs")                                                     \
    X(OPENING, OPEN, "waiting for the receiver's queue pairs")                                        \
    X(CONNECTING, NONE, "connecting the queue pairs")                                                 \
    X(PROBING, NONE, "probing until the path has been stable for DETOUR_STABLE_MS")

#define DT_RECEIVER_STATES(X)                                                                       \
    X(UP, NONE, "in use")                                                                           \
    X(STOPPING, STOP, "failed: still receiving, until the sender has stopped")                      \
    X(DOWN, NONE, "failed: fencing")                                                                \
    X(UNFENCED, NONE, "failed: no proof of the fence within DETOUR_FENCE_MS; still waiting for it") \
    X(FENCED, RESUME, "fenced: the sender has not acknowledged RESUME yet")                         \
    X(ACKED, NONE, "fenced: the sender has the proof, and asks again if RESUME was lost")           \
    X(CREATING, NONE, "creating new queue pairs and connecting them to the sender's")               \
    X(READY, OPENED, "receiving; posts nothing before the sender's queue pairs are connected")

/*
 * X(event, text for the log). The first group happens at this end, the second is received from the peer; NEXT
 * is the epoch after the current one.
 */
#define DT_PATH_EVENTS(X)                                                                   \
    X(FAULT, "failed completion, device event, stall, or drained by the operator")          \
    X(SUSPECT, "receiver: a fault that does not keep its device from receiving")            \
    X(FENCED, "proof that the old queue pairs deliver nothing any more")                    \
    X(UNFENCED, "no proof of the fence within DETOUR_FENCE_MS")                             \
    X(RECOVER, "time to open the path again")                                               \
    X(CREATED, "new queue pairs created (receiver: and connected)")                         \
    X(FAILED, "new queue pairs cannot be created or connected, or a probe failed")          \
    X(CONNECTED, "the sender's new queue pairs are connected")                              \
    X(STABLE, "probes were answered for DETOUR_STABLE_MS")                                  \
    X(RECV_RESUME, "RESUME of the current epoch")                                           \
    X(RECV_OPENED, "OPENED of the current epoch")                                           \
    X(RECV_STOP, "STOP of the current epoch")                                               \
    X(RECV_SWITCH, "SWITCH of the current epoch")                                           \
    X(RECV_SETTLED, "SETTLED of the current epoch")                                         \
    X(RECV_OPEN, "OPEN of the current epoch")                                               \
    X(RECV_USED, "USED of the current epoch")                                               \
    X(RECV_SWITCH_NEXT, "SWITCH or SETTLED of the next epoch, which was never opened here") \
    X(RECV_OPEN_NEXT, "OPEN of the next epoch")

/* X(action, text), in the order in which the actions are done, all before a message is sent */
#define DT_PATH_ACTIONS(X)                                                                               \
    X(NEXT_EPOCH, "enter the next epoch and retire the old queue pairs")                                 \
    X(STOP, "receive until the sender has stopped, for DETOUR_FENCE_MS at most")                         \
    X(FENCE, "move all queue pairs to ERR and wait for the proof of the fence")                          \
    X(KEEP, "keep the received RESUME")                                                                  \
    X(DISCARD, "discard parts of incomplete messages that arrived over it; publish open receives again") \
    X(SNAPSHOT, "record which messages have arrived: the RESUME of this epoch")                          \
    X(SETTLE, "messages last posted on it: complete if the receiver has them, else replay")              \
    X(CREATE, "create new queue pairs")                                                                  \
    X(CONNECT, "connect them to the queue pairs that OPENED named")                                      \
    X(PROBE, "start probing")                                                                            \
    X(LISTEN, "receive on the new queue pairs")                                                          \
    X(USE, "new messages and CTS writes may use it")

/* X(message) */
#define DT_PATH_MESSAGES(X) X(NONE) X(SWITCH) X(SETTLED) X(RESUME) X(OPEN) X(OPENED) X(USED) X(STOP)

/*
 * X(state, event, next state, actions, message that is sent once)
 *
 * Entering a state that retransmits a message sends it at once, and then again with exponential backoff.
 */
#define DT_SENDER_TABLE(X)                                         \
    X(UP, FAULT, DOWN, A(FENCE), NONE)                             \
    X(UP, RECV_RESUME, RESUMED, A(FENCE) | A(KEEP), NONE)          \
    X(UP, RECV_STOP, DOWN, A(FENCE), NONE)                         \
    X(UP, RECV_OPENED, UP, 0, USED)                                \
    X(DOWN, FENCED, WAITING, 0, NONE)                              \
    X(DOWN, UNFENCED, UNFENCED, 0, NONE)                           \
    X(DOWN, RECV_RESUME, RESUMED, A(KEEP), NONE)                   \
    X(UNFENCED, FENCED, WAITING, 0, NONE)                          \
    X(UNFENCED, RECV_RESUME, ENDED, A(KEEP) | A(SETTLE), SETTLED)  \
    X(WAITING, RECV_RESUME, SETTLED, A(KEEP) | A(SETTLE), SETTLED) \
    X(RESUMED, FENCED, SETTLED, A(SETTLE), SETTLED)                \
    X(RESUMED, UNFENCED, ENDED, A(SETTLE), SETTLED)                \
    X(SETTLED, RECV_RESUME, SETTLED, 0, SETTLED)                   \
    X(SETTLED, RECOVER, CREATING, A(CREATE), NONE)                 \
    X(ENDED, RECV_RESUME, ENDED, 0, SETTLED)                       \
    X(ENDED, FENCED, SETTLED, 0, NONE)                             \
    X(CREATING, RECV_RESUME, CREATING, 0, SETTLED)                 \
    X(CREATING, CREATED, OPENING, A(NEXT_EPOCH), NONE)             \
    X(CREATING, FAILED, SETTLED, 0, NONE)                          \
    X(OPENING, FAULT, DOWN, A(FENCE), NONE)                        \
    X(OPENING, RECV_STOP, DOWN, A(FENCE), NONE)                    \
    X(OPENING, RECV_RESUME, RESUMED, A(FENCE) | A(KEEP), NONE)     \
    X(OPENING, RECV_OPENED, CONNECTING, A(CONNECT), NONE)          \
    X(CONNECTING, FAULT, DOWN, A(FENCE), NONE)                     \
    X(CONNECTING, FAILED, DOWN, A(FENCE), NONE)                    \
    X(CONNECTING, RECV_STOP, DOWN, A(FENCE), NONE)                 \
    X(CONNECTING, RECV_RESUME, RESUMED, A(FENCE) | A(KEEP), NONE)  \
    X(CONNECTING, CONNECTED, PROBING, A(PROBE), NONE)              \
    X(PROBING, FAULT, DOWN, A(FENCE), NONE)                        \
    X(PROBING, FAILED, DOWN, A(FENCE), NONE)                       \
    X(PROBING, RECV_STOP, DOWN, A(FENCE), NONE)                    \
    X(PROBING, RECV_RESUME, RESUMED, A(FENCE) | A(KEEP), NONE)     \
    X(PROBING, STABLE, UP, A(USE), USED)

#define DT_RECEIVER_TABLE(X)                                                \
    X(UP, FAULT, DOWN, A(FENCE), NONE)                                      \
    X(UP, SUSPECT, STOPPING, A(STOP), NONE)                                 \
    X(UP, RECV_SWITCH, DOWN, A(FENCE), NONE)                                \
    X(STOPPING, FAULT, DOWN, A(FENCE), NONE)                                \
    X(STOPPING, RECV_SWITCH, DOWN, A(FENCE), NONE)                          \
    X(DOWN, FENCED, FENCED, A(DISCARD) | A(SNAPSHOT), NONE)                 \
    X(DOWN, UNFENCED, UNFENCED, 0, NONE)                                    \
    X(UNFENCED, FENCED, FENCED, A(DISCARD) | A(SNAPSHOT), NONE)             \
    X(FENCED, RECV_SWITCH, ACKED, 0, RESUME)                                \
    X(FENCED, RECV_SETTLED, ACKED, 0, NONE)                                 \
    X(FENCED, RECV_OPEN, FENCED, 0, RESUME)                                 \
    X(FENCED, RECV_SWITCH_NEXT, ACKED, A(NEXT_EPOCH) | A(SNAPSHOT), RESUME) \
    X(FENCED, RECV_OPEN_NEXT, CREATING, A(NEXT_EPOCH) | A(CREATE), NONE)    \
    X(ACKED, RECV_SWITCH, ACKED, 0, RESUME)                                 \
    X(ACKED, RECV_OPEN, ACKED, 0, RESUME)                                   \
    X(ACKED, RECV_SWITCH_NEXT, ACKED, A(NEXT_EPOCH) | A(SNAPSHOT), RESUME)  \
    X(ACKED, RECV_OPEN_NEXT, CREATING, A(NEXT_EPOCH) | A(CREATE), NONE)     \
    X(ACKED, RECOVER, ACKED, 0, RESUME)                                     \
    X(CREATING, CREATED, READY, A(LISTEN), NONE)                            \
    X(CREATING, FAILED, FENCED, A(SNAPSHOT), NONE)                          \
    X(READY, FAULT, DOWN, A(FENCE), NONE)                                   \
    X(READY, SUSPECT, STOPPING, A(STOP), NONE)                              \
    X(READY, RECV_SWITCH, DOWN, A(FENCE), NONE)                             \
    X(READY, RECV_OPEN, READY, 0, OPENED)                                   \
    X(READY, RECV_USED, UP, A(USE), NONE)

#endif
