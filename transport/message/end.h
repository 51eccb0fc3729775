/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations in which the kinds of end differ: sender and receiver (send.c, receive.c), and the same two
 * with messages that are staged in host memory (hostpath/staged/staged.h). A connection has one table, chosen
 * at set-up and constant from then on, so that callers need not know which kind of end they drive.
 *
 * All functions: owner of the connection, unless they say otherwise.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_END_H
#define DETOUR_TRANSPORT_MESSAGE_END_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "transport/protocol/immediate.h"
#include "transport/protocol/work_id.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_completion;
struct dt_connection;
struct dt_frame;
struct dt_memory;
struct dt_path;
struct dt_receiver;
struct dt_resume;
struct dt_send_slot;
struct dt_sender;

/* An arrival of one kind of immediate on queue pair 0. False: it does not belong to any open message. */
typedef bool dt_arrival_function(struct dt_receiver *receiver, struct dt_path *path,
                                 const struct dt_completion *completion);

struct dt_end_ops {
    const char
        *direction; /* of the messages, as seen from this end: "to" or "from" the peer, for log lines */

    /* Polls the completion queues, posts messages that can be posted, completes finished ones. */
    void (*progress)(struct dt_connection *connection);
    /* The peer has closed, and had completed every message before `sequence`. */
    void (*peer_closed)(struct dt_connection *connection, uint64_t sequence);
    /* Requests are open that only the peer can complete. */
    bool (*needs_peer)(const struct dt_connection *connection);
    /* The peer has closed, and nothing more will arrive from it. */
    void (*peer_drained)(struct dt_connection *connection);
    /* Posts or publishes again the messages lost with their path. Returns how many have no path or no room
     * now. */
    uint32_t (*post_again)(struct dt_connection *connection);
    /* How many messages wait to be posted or published again. */
    uint32_t (*count_again)(const struct dt_connection *connection);
    /* The sequence for CLOSE: the first message that this end does not have completely. */
    uint64_t (*close_sequence)(const struct dt_connection *connection);
    /* The connection is freed: gives back everything that hangs off this end. Any thread, the last. */
    void (*close)(struct dt_connection *connection);

    /* Waits until no copy reads or writes the caller's memory. Not on NCCL's progress thread; the caller
       keeps other threads from the connection meanwhile. */
    void (*finish_copies)(struct dt_connection *connection);
    /* The regions of `memory` were deregistered; frees what belongs to it. Service thread. */
    void (*forget_memory)(struct dt_connection *connection, struct dt_memory *memory);

    /* Device thread: the connection is set up, or its session has a new channel. */
    void (*session_started)(struct dt_connection *connection);
    /* Device thread: a frame of a type that only some ends accept. DT_PROTOCOL: not this one. */
    enum dt_status (*frame)(struct dt_connection *connection, const struct dt_frame *frame);
    /* Requests that isend has accepted and NCCL may already have seen done, but that are not delivered. Any
     * thread. */
    uint32_t (*undelivered)(const struct dt_connection *connection);
    /* The connection is being closed: finishes copies of the caller's memory as finish_copies() does. Whether
       the undelivered messages may be left to the device thread. Service thread. */
    bool (*may_linger)(struct dt_connection *connection);

    /* Sender: a work request of another kind than DT_WORK_PAYLOAD has succeeded. */
    void (*completed)(struct dt_sender *sender, const struct dt_work *work);
    /* Sender: `resume` settles the path's epoch; called before the messages of the epoch are decided. */
    void (*settle)(struct dt_path *path, const struct dt_resume *resume);
    /* Sender: the message is complete at this end, but the receiver lacks it. True: it will be announced
       again and counts in sender->again. False: its payload has to be posted again, or is lost. */
    bool (*announce_again)(struct dt_sender *sender, const struct dt_send_slot *slot);

    /* Receiver: by enum dt_imm_kind; NULL for the kinds that receive.c handles itself. */
    dt_arrival_function *arrival[DT_IMM_KINDS];
    /* Receiver: starts the copies that are due and completes the receives whose copies are done. */
    void (*progress_copies)(struct dt_receiver *receiver);
    /* Receiver: adds the state of this kind of end to RESUME. */
    void (*snapshot)(const struct dt_receiver *receiver, struct dt_resume *resume);
};

/* Operations of an end that has nothing to do for them (connection.c). */
void dt_end_nothing(struct dt_connection *connection);
void dt_end_no_memory(struct dt_connection *connection, struct dt_memory *memory);
enum dt_status dt_end_no_frame(struct dt_connection *connection, const struct dt_frame *frame);
uint32_t dt_end_undelivered_none(const struct dt_connection *connection);
bool dt_end_never(struct dt_connection *connection);

#ifdef __cplusplus
}
#endif

#endif
