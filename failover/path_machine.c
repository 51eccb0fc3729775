/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/path_machine.h"

#include "base/check.h"
#include "failover/planted.h"
#include "base/util.h"

struct state_row {
    const char *name;
    const char *text;
    uint8_t retransmits; /* enum dt_path_message */
};

struct cell {
    bool is_known;
    uint8_t next;
    uint8_t send;
    uint16_t actions;
};

DT_STATIC_CHECK(DT_PATH_ACTION_COUNT <= 16, "actions fit a cell");
DT_STATIC_CHECK((int)DT_SENDER_UP == DT_PATH_STATE_UP && (int)DT_RECEIVER_UP == DT_PATH_STATE_UP,
                "UP is the same number at both ends");

#define STATE_ROW(state, retransmits, text) {#state, text, DT_PATH_MSG_##retransmits},
static const struct state_row sender_states[] = {DT_SENDER_STATES(STATE_ROW)};
static const struct state_row receiver_states[] = {DT_RECEIVER_STATES(STATE_ROW)};

#define A(action) DT_PATH_DO_##action
#define SENDER_CELL(state, event, next, actions, send) \
    [DT_SENDER_##state][DT_PATH_##event] = {true, DT_SENDER_##next, DT_PATH_MSG_##send, actions},
#define RECEIVER_CELL(state, event, next, actions, send) \
    [DT_RECEIVER_##state][DT_PATH_##event] = {true, DT_RECEIVER_##next, DT_PATH_MSG_##send, actions},
static const struct cell sender_cells[DT_SENDER_STATE_COUNT][DT_PATH_EVENT_COUNT] = {
    DT_SENDER_TABLE(SENDER_CELL)};
static const struct cell receiver_cells[DT_RECEIVER_STATE_COUNT][DT_PATH_EVENT_COUNT] = {
    DT_RECEIVER_TABLE(RECEIVER_CELL)};

static const struct state_row *row_of(enum dt_path_end end, uint32_t state)
{
    DT_CHECK(state < (end == DT_PATH_END_SENDER ? (uint32_t)DT_SENDER_STATE_COUNT
                                                : (uint32_t)DT_RECEIVER_STATE_COUNT));
    return end == DT_PATH_END_SENDER ? &sender_states[state] : &receiver_states[state];
}

static const struct state_row *state_of(const struct dt_path_machine *machine)
{
    return row_of((enum dt_path_end)machine->end, machine->state);
}

void dt_path_machine_init(struct dt_path_machine *machine, enum dt_path_end end, bool is_up)
{
    machine->end = end;
    machine->epoch = 0;
    machine->state = DT_PATH_STATE_UP;
    if (!is_up)
        machine->state =
            end == DT_PATH_END_SENDER ? (uint32_t)DT_SENDER_SETTLED : (uint32_t)DT_RECEIVER_ACKED;
    dt_retransmit_stop(&machine->retransmit);
}

/* Entering a state that retransmits a message sends it, unless the state before was retransmitting it. */
static uint32_t enter(struct dt_path_machine *machine, uint32_t retransmitted_before, uint64_t now_ns)
{
    uint32_t retransmits = state_of(machine)->retransmits;

    if (retransmits == DT_PATH_MSG_NONE)
        dt_retransmit_stop(&machine->retransmit);
    else if (retransmits != retransmitted_before)
        dt_retransmit_start(&machine->retransmit, now_ns);
    return retransmits == retransmitted_before ? (uint32_t)DT_PATH_MSG_NONE : retransmits;
}

struct dt_path_step dt_path_machine_event(struct dt_path_machine *machine, enum dt_path_event event,
                                          uint64_t now_ns)
{
    struct dt_path_step step = {.from = machine->state, .event = event};
    uint32_t retransmitted_before = state_of(machine)->retransmits;
    if (DT_PLANTED(OPEN_EARLY) && event == DT_PATH_RECOVER && machine->state == DT_SENDER_WAITING)
        machine->state = DT_SENDER_SETTLED;
    const struct cell *cell = machine->end == DT_PATH_END_SENDER ? &sender_cells[machine->state][event]
                                                                 : &receiver_cells[machine->state][event];

    DT_CHECK(event < DT_PATH_EVENT_COUNT);
    if (!cell->is_known)
        return step;
    DT_CHECK(!(cell->actions & DT_PATH_DO_NEXT_EPOCH) || machine->epoch < UINT32_MAX);
    step.is_known = true;
    step.actions = cell->actions;
    step.send = cell->send;
    if (cell->actions & DT_PATH_DO_NEXT_EPOCH)
        machine->epoch++;
    if (cell->next != machine->state) {
        uint32_t sent;

        machine->state = cell->next;
        sent = enter(machine, retransmitted_before, now_ns);
        step.send = step.send == DT_PATH_MSG_NONE ? sent : step.send;
    }
    return step;
}

struct dt_path_step dt_path_machine_receive(struct dt_path_machine *machine, enum dt_path_message message,
                                            uint32_t epoch, uint64_t now_ns)
{
    static const uint8_t current[] = {
        [DT_PATH_MSG_SWITCH] = DT_PATH_RECV_SWITCH, [DT_PATH_MSG_SETTLED] = DT_PATH_RECV_SETTLED,
        [DT_PATH_MSG_RESUME] = DT_PATH_RECV_RESUME, [DT_PATH_MSG_OPEN] = DT_PATH_RECV_OPEN,
        [DT_PATH_MSG_OPENED] = DT_PATH_RECV_OPENED, [DT_PATH_MSG_USED] = DT_PATH_RECV_USED,
        [DT_PATH_MSG_STOP] = DT_PATH_RECV_STOP,
    };
    struct dt_path_step nothing = {.from = machine->state, .event = DT_PATH_EVENT_COUNT};
    bool is_sender = machine->end == DT_PATH_END_SENDER;
    bool is_for_sender =
        message == DT_PATH_MSG_RESUME || message == DT_PATH_MSG_OPENED || message == DT_PATH_MSG_STOP;

    if (message == DT_PATH_MSG_NONE || message >= DT_PATH_MESSAGE_COUNT || is_for_sender != is_sender)
        return nothing;
    if (DT_PLANTED(ANY_RESUME) && message == DT_PATH_MSG_RESUME)
        epoch = machine->epoch;
    if (epoch == machine->epoch)
        return dt_path_machine_event(machine, (enum dt_path_event)current[message], now_ns);
    if (epoch != machine->epoch + 1 || is_sender)
        return nothing;
    if (message == DT_PATH_MSG_USED)
        return nothing;
    return dt_path_machine_event(
        machine, message == DT_PATH_MSG_OPEN ? DT_PATH_RECV_OPEN_NEXT : DT_PATH_RECV_SWITCH_NEXT, now_ns);
}

enum dt_path_message dt_path_machine_retransmit(struct dt_path_machine *machine, uint64_t now_ns)
{
    bool is_due = dt_retransmit_due(&machine->retransmit, now_ns);

    DT_CHECK(!is_due || state_of(machine)->retransmits != DT_PATH_MSG_NONE);
    return is_due && !DT_PLANTED(NO_REPEAT) ? (enum dt_path_message)state_of(machine)->retransmits
                                            : DT_PATH_MSG_NONE;
}

const char *dt_path_state_name(enum dt_path_end end, uint32_t state)
{
    return row_of(end, state)->name;
}

const char *dt_path_state_text(enum dt_path_end end, uint32_t state)
{
    return row_of(end, state)->text;
}

struct event_row {
    const char *name;
    const char *text;
};

static const struct event_row *event_of(enum dt_path_event event)
{
    static const struct event_row rows[] = {
#define EVENT_ROW(event, text) {#event, text},
        DT_PATH_EVENTS(EVENT_ROW)
#undef EVENT_ROW
            {"?", "unknown event"}};

    return (uint32_t)event < DT_PATH_EVENT_COUNT ? &rows[event] : &rows[DT_PATH_EVENT_COUNT];
}

const char *dt_path_event_name(enum dt_path_event event)
{
    return event_of(event)->name;
}

const char *dt_path_event_text(enum dt_path_event event)
{
    return event_of(event)->text;
}

const char *dt_path_message_name(enum dt_path_message message)
{
    static const char *const names[] = {
#define MESSAGE_NAME(message) #message,
        DT_PATH_MESSAGES(MESSAGE_NAME)
#undef MESSAGE_NAME
    };

    return (uint32_t)message < DT_COUNT_OF(names) ? names[message] : "?";
}
