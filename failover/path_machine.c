/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/path_machine.h"

#include "base/check.h"
#include "base/planted.h"
#include "base/util.h"

struct state_row {
    const char *name;
    const char *text;
    uint8_t repeats; /* enum dt_path_message */
};

struct cell {
    bool is_known;
    uint8_t next;
    uint8_t say;
    uint16_t actions;
};

DT_STATIC_CHECK(DT_PATH_ACTION_COUNT <= 16, "actions fit a cell");
DT_STATIC_CHECK((int)DT_SENDER_UP == DT_PATH_STATE_UP && (int)DT_RECEIVER_UP == DT_PATH_STATE_UP,
                "UP is the same number at both ends");

#define STATE_ROW(state, repeats, text) {#state, text, DT_PATH_SAY_##repeats},
static const struct state_row sender_states[] = {DT_SENDER_STATES(STATE_ROW)};
static const struct state_row receiver_states[] = {DT_RECEIVER_STATES(STATE_ROW)};

#define A(action) DT_PATH_DO_##action
#define SENDER_CELL(state, event, next, actions, say) \
    [DT_SENDER_##state][DT_PATH_##event] = {true, DT_SENDER_##next, DT_PATH_SAY_##say, actions},
#define RECEIVER_CELL(state, event, next, actions, say) \
    [DT_RECEIVER_##state][DT_PATH_##event] = {true, DT_RECEIVER_##next, DT_PATH_SAY_##say, actions},
static const struct cell sender_cells[DT_SENDER_STATE_COUNT][DT_PATH_EVENT_COUNT] = {
    DT_SENDER_TABLE(SENDER_CELL)};
static const struct cell receiver_cells[DT_RECEIVER_STATE_COUNT][DT_PATH_EVENT_COUNT] = {
    DT_RECEIVER_TABLE(RECEIVER_CELL)};

static const struct state_row *state_of(const struct dt_path_machine *machine)
{
    return machine->end == DT_PATH_END_SENDER ? &sender_states[machine->state]
                                              : &receiver_states[machine->state];
}

void dt_path_machine_init(struct dt_path_machine *machine, enum dt_path_end end, bool is_up)
{
    machine->end = end;
    machine->epoch = 0;
    machine->state = DT_PATH_STATE_UP;
    if (!is_up)
        machine->state =
            end == DT_PATH_END_SENDER ? (uint32_t)DT_SENDER_SETTLED : (uint32_t)DT_RECEIVER_HEARD;
    dt_repeat_stop(&machine->repeat);
}

/* Entering a state that repeats something says it, unless the state before was saying it already. */
static uint32_t enter(struct dt_path_machine *machine, uint32_t repeated_before, uint64_t now_ns)
{
    uint32_t repeats = state_of(machine)->repeats;

    if (repeats == DT_PATH_SAY_NONE)
        dt_repeat_stop(&machine->repeat);
    else if (repeats != repeated_before)
        dt_repeat_start(&machine->repeat, now_ns);
    return repeats == repeated_before ? (uint32_t)DT_PATH_SAY_NONE : repeats;
}

struct dt_path_step dt_path_machine_event(struct dt_path_machine *machine, enum dt_path_event event,
                                          uint64_t now_ns)
{
    struct dt_path_step step = {.from = machine->state};
    uint32_t repeated_before = state_of(machine)->repeats;
    if (DT_PLANTED(OPEN_EARLY) && event == DT_PATH_RECOVER && machine->state == DT_SENDER_WAITING)
        machine->state = DT_SENDER_SETTLED;
    const struct cell *cell = machine->end == DT_PATH_END_SENDER ? &sender_cells[machine->state][event]
                                                                 : &receiver_cells[machine->state][event];

    if (!cell->is_known)
        return step;
    step.is_known = true;
    step.actions = cell->actions;
    step.say = cell->say;
    if (cell->actions & DT_PATH_DO_NEXT_EPOCH)
        machine->epoch++;
    if (cell->next != machine->state) {
        uint32_t said;

        machine->state = cell->next;
        said = enter(machine, repeated_before, now_ns);
        step.say = step.say == DT_PATH_SAY_NONE ? said : step.say;
    }
    return step;
}

struct dt_path_step dt_path_machine_hear(struct dt_path_machine *machine, enum dt_path_message message,
                                         uint32_t epoch, uint64_t now_ns)
{
    static const uint8_t current[] = {
        [DT_PATH_SAY_SWITCH] = DT_PATH_HEAR_SWITCH, [DT_PATH_SAY_HEARD] = DT_PATH_HEAR_HEARD,
        [DT_PATH_SAY_RESUME] = DT_PATH_HEAR_RESUME, [DT_PATH_SAY_OPEN] = DT_PATH_HEAR_OPEN,
        [DT_PATH_SAY_OPENED] = DT_PATH_HEAR_OPENED, [DT_PATH_SAY_USED] = DT_PATH_HEAR_USED,
    };
    struct dt_path_step nothing = {.from = machine->state};
    bool is_sender = machine->end == DT_PATH_END_SENDER;
    bool is_for_sender = message == DT_PATH_SAY_RESUME || message == DT_PATH_SAY_OPENED;

    if (message == DT_PATH_SAY_NONE || message >= DT_PATH_MESSAGE_COUNT || is_for_sender != is_sender)
        return nothing;
    if (DT_PLANTED(ANY_RESUME) && message == DT_PATH_SAY_RESUME)
        epoch = machine->epoch;
    if (epoch == machine->epoch)
        return dt_path_machine_event(machine, (enum dt_path_event)current[message], now_ns);
    if (epoch != machine->epoch + 1 || is_sender)
        return nothing;
    if (message == DT_PATH_SAY_USED)
        return nothing;
    return dt_path_machine_event(
        machine, message == DT_PATH_SAY_OPEN ? DT_PATH_HEAR_OPEN_NEXT : DT_PATH_HEAR_SWITCH_NEXT, now_ns);
}

enum dt_path_message dt_path_machine_repeat(struct dt_path_machine *machine, uint64_t now_ns)
{
    bool is_due = dt_repeat_due(&machine->repeat, now_ns);

    return is_due && !DT_PLANTED(NO_REPEAT) ? (enum dt_path_message)state_of(machine)->repeats
                                            : DT_PATH_SAY_NONE;
}

const char *dt_path_state_name(const struct dt_path_machine *machine)
{
    return state_of(machine)->name;
}

const char *dt_path_state_text(const struct dt_path_machine *machine)
{
    return state_of(machine)->text;
}

const char *dt_path_event_name(enum dt_path_event event)
{
    static const char *const names[] = {
#define EVENT_NAME(event, text) #event,
        DT_PATH_EVENTS(EVENT_NAME)
#undef EVENT_NAME
    };

    return (uint32_t)event < DT_COUNT_OF(names) ? names[event] : "?";
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
