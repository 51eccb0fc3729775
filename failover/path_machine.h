/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machine of one end of one path: its state, its epoch and its retransmission timer. A pure
 * function of (state, event, now_ns): it returns the actions to do and the message to send, and the caller
 * carries them out (failover/switchover/). path_table.h is the protocol.
 *
 * One thread: the device thread.
 */
#ifndef DETOUR_FAILOVER_PATH_MACHINE_H
#define DETOUR_FAILOVER_PATH_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "failover/path_table.h"
#include "failover/retransmit.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_path_end { DT_PATH_END_SENDER, DT_PATH_END_RECEIVER };

enum dt_sender_state {
#define DT_SENDER_STATE_ENUM(state, retransmits, text) DT_SENDER_##state,
    DT_SENDER_STATES(DT_SENDER_STATE_ENUM)
#undef DT_SENDER_STATE_ENUM
        DT_SENDER_STATE_COUNT
};

enum dt_receiver_state {
#define DT_RECEIVER_STATE_ENUM(state, retransmits, text) DT_RECEIVER_##state,
    DT_RECEIVER_STATES(DT_RECEIVER_STATE_ENUM)
#undef DT_RECEIVER_STATE_ENUM
        DT_RECEIVER_STATE_COUNT
};

enum dt_path_event {
#define DT_PATH_EVENT_ENUM(event, text) DT_PATH_##event,
    DT_PATH_EVENTS(DT_PATH_EVENT_ENUM)
#undef DT_PATH_EVENT_ENUM
        DT_PATH_EVENT_COUNT
};

enum dt_path_action_number {
#define DT_PATH_ACTION_NUMBER(action, text) DT_PATH_ACTION_NUMBER_##action,
    DT_PATH_ACTIONS(DT_PATH_ACTION_NUMBER)
#undef DT_PATH_ACTION_NUMBER
        DT_PATH_ACTION_COUNT
};

enum dt_path_action {
#define DT_PATH_ACTION_BIT(action, text) DT_PATH_DO_##action = 1 << DT_PATH_ACTION_NUMBER_##action,
    DT_PATH_ACTIONS(DT_PATH_ACTION_BIT)
#undef DT_PATH_ACTION_BIT
};

enum dt_path_message {
#define DT_PATH_MESSAGE_ENUM(message) DT_PATH_MSG_##message,
    DT_PATH_MESSAGES(DT_PATH_MESSAGE_ENUM)
#undef DT_PATH_MESSAGE_ENUM
        DT_PATH_MESSAGE_COUNT
};

/* The first state of both ends. */
#define DT_PATH_STATE_UP 0

struct dt_path_machine {
    uint32_t end;   /* enum dt_path_end */
    uint32_t state; /* enum dt_sender_state or dt_receiver_state, by `end` */
    uint32_t epoch;
    struct dt_retransmit retransmit;
};

/* The result of an event. The machine holds the state and the epoch after it. */
struct dt_path_step {
    bool is_known;  /* the table has a row; otherwise nothing changed */
    uint32_t event; /* enum dt_path_event; DT_PATH_EVENT_COUNT: a received message that the machine ignores */
    uint32_t from;  /* the state before the event */
    uint32_t actions; /* enum dt_path_action, to be done in ascending order */
    uint32_t send;    /* enum dt_path_message about machine->epoch, to be sent after the actions */
};

/* A path after set-up, in epoch 0. Not up: settled, as after a fault that both ends have handled. */
void dt_path_machine_init(struct dt_path_machine *machine, enum dt_path_end end, bool is_up);

static inline bool dt_path_machine_is_up(const struct dt_path_machine *machine)
{
    return machine->state == DT_PATH_STATE_UP;
}

/* An event at this end. On return the machine is in the new state and, with NEXT_EPOCH, in the new epoch. */
struct dt_path_step dt_path_machine_event(struct dt_path_machine *machine, enum dt_path_event event,
                                          uint64_t now_ns);

/* A message from the peer about one epoch of this path. */
struct dt_path_step dt_path_machine_receive(struct dt_path_machine *machine, enum dt_path_message message,
                                            uint32_t epoch, uint64_t now_ns);

/* The message to retransmit now, or DT_PATH_MSG_NONE. */
enum dt_path_message dt_path_machine_retransmit(struct dt_path_machine *machine, uint64_t now_ns);

/* The next time at which dt_path_machine_retransmit() can return a message; DT_NEVER_NS: none is pending. */
static inline uint64_t dt_path_machine_retransmit_ns(const struct dt_path_machine *machine)
{
    return machine->retransmit.next_ns;
}

/*
 * Names ("UP", "FAULT") and texts of the table, for logs; never NULL. `state` is one of the end's states. An
 * event or message outside its list is "?".
 */
const char *dt_path_state_name(enum dt_path_end end, uint32_t state);
const char *dt_path_state_text(enum dt_path_end end, uint32_t state);
const char *dt_path_event_name(enum dt_path_event event);
const char *dt_path_event_text(enum dt_path_event event);
const char *dt_path_message_name(enum dt_path_message message);

#ifdef __cplusplus
}
#endif

#endif
