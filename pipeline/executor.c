/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/executor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"
#include "pipeline/kernels.h"
#include "pipeline/window.h"

#define NEVER               UINT64_MAX
#define SLICE_BYTES_DEFAULT (512 * 1024ul)
#define SLOTS_DEFAULT       8

/* A flow and its transfers of the iteration. */
struct flow {
    struct dt_pipeline_window window;
    size_t *messages; /* action indices, in order */
    size_t message_count;
    struct dt_pipeline_identity expected; /* of the receive that completes next */
};

/* The state of the device, which its current action gives. */
enum state { STATE_RUNNING, STATE_COMPUTING, STATE_WAITING, STATE_HELD, STATE_ENDED };

struct dt_executor {
    struct dt_executor_options options;
    uint32_t slices;
    int32_t stage_count;
    int32_t microbatch_count;
    struct dt_pipeline_flows ends;
    struct dt_executor_work work;
    const struct detour_action *actions; /* of this device */
    size_t action_count;
    size_t action_capacity;
    struct dt_executor_span *spans;      /* [action] */
    size_t *messages;                    /* [action]: the flows' lists lie here one after the other */
    struct flow *flows;                  /* [ends.count] */
    struct dt_pipeline_kernels *kernels; /* nccl with kernels; otherwise NULL, as the next */
    /* By local stage and microbatch; NEVER: not yet. */
    uint64_t *arrived_ns[2]; /* of the activation, of the gradient */
    uint64_t *copied_ns;     /* the end of the activation's last copy: out, later back */
    /* The device. */
    size_t next; /* action */
    enum state state;
    uint64_t cursor_ns; /* the device's own time: the end of its last action */
    uint64_t out_ns;    /* copies to the host are in progress until then */
    uint64_t in_ns;     /* copies from the host */
    struct dt_executor_account account;
};

const char *dt_executor_text(const struct dt_executor *executor, char text[DT_EXECUTOR_TEXT_BYTES])
{
    if (executor->next == executor->action_count) {
        snprintf(text, DT_EXECUTOR_TEXT_BYTES, "the last transfers");
        return text;
    }
    const struct detour_action *action = &executor->actions[executor->next];
    snprintf(text, DT_EXECUTOR_TEXT_BYTES, "%s of microbatch %" PRId32 " on stage %d",
             detour_action_name((enum detour_action_kind)action->kind), action->microbatch, action->stage);
    return text;
}

/* ---- Actions. ---- */

static size_t cell_of(const struct dt_executor *executor, const struct detour_action *action)
{
    int32_t local = executor->ends.local[action->stage];

    DT_CHECK(local >= 0 && action->microbatch >= 0 && action->microbatch < executor->microbatch_count);
    return (size_t)local * (size_t)executor->microbatch_count + (size_t)action->microbatch;
}

/* ---- Flows. ---- */

static struct flow *flow_of(const struct dt_executor *executor, const struct detour_action *action)
{
    return &executor->flows[dt_pipeline_flows_of(&executor->ends, action)];
}

static struct flow *flow_at(const struct dt_executor *executor, size_t flow, bool sends)
{
    DT_CHECK(flow < executor->ends.count && executor->ends.ends[flow].sends == sends);
    return &executor->flows[flow];
}

size_t dt_executor_flow_count(const struct dt_executor *executor)
{
    return executor->ends.count;
}

const struct dt_executor_flow *dt_executor_get_flow(const struct dt_executor *executor, size_t flow)
{
    DT_CHECK(flow < executor->ends.count);
    return &executor->ends.ends[flow];
}

static size_t message_of(const struct dt_executor *executor, const struct flow *flow, uint64_t transfer)
{
    return flow->messages[transfer / executor->slices];
}

static struct dt_pipeline_identity identity_of(const struct dt_executor *executor, const struct flow *flow,
                                               uint64_t transfer)
{
    const struct detour_action *action = &executor->actions[message_of(executor, flow, transfer)];

    return (struct dt_pipeline_identity){
        .iteration = executor->work.iteration,
        .microbatch = action->microbatch,
        .stage = (int16_t)(dt_action_is_send(action->kind) ? action->stage : dt_action_peer_stage(action)),
        .backward = dt_action_is_of_gradient(action->kind),
        .slice = (uint32_t)(transfer % executor->slices),
    };
}

/* Slices differ by one byte at most. */
static uint64_t slice_offset(const struct dt_executor *executor, uint64_t slice)
{
    return executor->options.message_bytes / executor->slices * slice +
           executor->options.message_bytes % executor->slices * slice / executor->slices;
}

static void make_order(struct dt_executor *executor, struct flow *flow, uint64_t now_ns,
                       struct dt_executor_order *order)
{
    uint64_t number = dt_pipeline_window_post(&flow->window);
    uint64_t slice = number % executor->slices;
    uint64_t begin_bytes = slice_offset(executor, slice);
    struct dt_executor_span *span = &executor->spans[message_of(executor, flow, number)];

    if (slice == 0)
        span->start_ns = now_ns;
    if (executor->kernels)
        dt_pipeline_kernels_posted(executor->kernels, message_of(executor, flow, number), now_ns);
    *order = (struct dt_executor_order){
        .flow = (size_t)(flow - executor->flows),
        .number = number,
        .offset_bytes = begin_bytes,
        .bytes = slice_offset(executor, slice + 1) - begin_bytes,
        .identity = identity_of(executor, flow, number),
    };
}

static bool next_order(struct dt_executor *executor, uint64_t now_ns, struct dt_executor_order *order)
{
    for (size_t i = 0; i < executor->ends.count; i++) {
        struct flow *flow = &executor->flows[i];

        if (!dt_pipeline_window_can_post(&flow->window))
            continue;
        make_order(executor, flow, now_ns, order);
        return true;
    }
    return false;
}

/* A transfer of the flow is complete; returns its message's action. */
static size_t complete(struct dt_executor *executor, struct flow *flow, uint64_t now_ns, bool *is_last_slice)
{
    uint64_t number = dt_pipeline_window_complete(&flow->window, now_ns);
    size_t message = message_of(executor, flow, number);

    if (executor->kernels)
        dt_pipeline_kernels_completed(executor->kernels, message, now_ns);
    *is_last_slice = (number + 1) % executor->slices == 0;
    if (*is_last_slice)
        executor->spans[message].end_ns = now_ns;
    return message;
}

void dt_executor_sent(struct dt_executor *executor, size_t flow, uint64_t now_ns)
{
    bool is_last_slice;

    complete(executor, flow_at(executor, flow, true), now_ns, &is_last_slice);
}

const struct dt_pipeline_identity *dt_executor_expected(struct dt_executor *executor, size_t number)
{
    struct flow *flow = flow_at(executor, number, false);

    if (flow->window.completed == flow->window.posted)
        return NULL;
    flow->expected = identity_of(executor, flow, flow->window.completed);
    return &flow->expected;
}

/* The message is in the memory of the device. */
static void arrive(struct dt_executor *executor, size_t message, uint64_t at_ns)
{
    const struct detour_action *action = &executor->actions[message];
    uint64_t *arrived_ns =
        &executor->arrived_ns[dt_action_is_of_gradient(action->kind)][cell_of(executor, action)];

    DT_CHECK(*arrived_ns == NEVER);
    *arrived_ns = at_ns;
}

bool dt_executor_received(struct dt_executor *executor, size_t flow,
                          const struct dt_pipeline_identity *identity, uint64_t now_ns)
{
    const struct dt_pipeline_identity *expected = dt_executor_expected(executor, flow);
    bool is_last_slice;

    DT_CHECK(expected);
    if (!dt_pipeline_identity_equal(identity, expected))
        return false;
    size_t message = complete(executor, flow_at(executor, flow, false), now_ns, &is_last_slice);
    if (is_last_slice && !executor->kernels)
        arrive(executor, message, now_ns);
    return true;
}

/* ---- The device. ---- */

/* The action is executed by `end_ns` of the device's time. */
static bool finish_action(struct dt_executor *executor, uint64_t end_ns)
{
    DT_CHECK(end_ns >= executor->cursor_ns);
    executor->cursor_ns = end_ns;
    executor->state = STATE_RUNNING;
    executor->next++;
    return true;
}

static bool block(struct dt_executor *executor, enum state state)
{
    executor->state = state;
    return false;
}

/* A computation that can end: each of its inputs is there. */
static void start_computing(struct dt_executor *executor, const struct detour_action *action,
                            struct dt_executor_span *span)
{
    const struct detour_stage *stage = &executor->work.profile->stages[action->stage];
    const int64_t fused_ns = stage->bw_ns ? stage->bw_ns : stage->b_ns + stage->w_ns;
    const int64_t compute_ns[] = {stage->f_ns, stage->b_ns, stage->w_ns, fused_ns};
    bool is_backward = action->kind == DETOUR_ACTION_B || action->kind == DETOUR_ACTION_BW;
    uint64_t copied_ns = executor->copied_ns[cell_of(executor, action)];

    span->start_ns = executor->cursor_ns;
    if (is_backward && copied_ns != NEVER)
        span->start_ns = dt_max_u64(span->start_ns, copied_ns);
    span->end_ns =
        span->start_ns + (uint64_t)compute_ns[action->kind] * executor->work.compute_permille / 1000;
    executor->account.reload_ns += span->start_ns - executor->cursor_ns;
    executor->account.compute_ns += span->end_ns - span->start_ns;
}

static bool step_compute(struct dt_executor *executor, const struct detour_action *action, uint64_t now_ns)
{
    struct dt_executor_span *span = &executor->spans[executor->next];

    if (executor->state == STATE_RUNNING)
        start_computing(executor, action, span);
    return now_ns >= span->end_ns ? finish_action(executor, span->end_ns) : block(executor, STATE_COMPUTING);
}

/* A message that is, or is a part of, one of NCCL's kernels. */
static bool step_kernel(struct dt_executor *executor)
{
    size_t message = executor->next;
    uint64_t start_ns;

    if (executor->state == STATE_RUNNING)
        dt_pipeline_kernels_launch(executor->kernels, message, executor->cursor_ns);
    if (executor->options.launch->is_free)
        return finish_action(executor, executor->cursor_ns);
    if (!dt_pipeline_kernels_has_started(executor->kernels, message, &start_ns))
        return block(executor, STATE_HELD);
    start_ns = dt_max_u64(start_ns, executor->cursor_ns);
    executor->account.held_ns += start_ns - executor->cursor_ns;
    return finish_action(executor, start_ns);
}

static void progress_kernels(struct dt_executor *executor)
{
    struct dt_pipeline_kernels_event event;

    while (dt_pipeline_kernels_next(executor->kernels, &event)) {
        if (event.kind == DT_KERNELS_ARRIVED)
            arrive(executor, event.action, event.at_ns);
        else
            dt_pipeline_window_reach(&executor->flows[event.flow].window, event.slices);
    }
}

static bool step_send(struct dt_executor *executor, const struct detour_action *action, uint64_t now_ns)
{
    struct flow *flow = flow_of(executor, action);

    (void)now_ns;
    if (executor->kernels)
        return step_kernel(executor);
    if (executor->state == STATE_RUNNING)
        dt_pipeline_window_reach(&flow->window, executor->slices);
    if (executor->options.mode == DT_PIPELINE_NCCL && flow->window.posted < flow->window.reached)
        return block(executor, STATE_HELD);
    uint64_t end_ns = dt_max_u64(executor->cursor_ns, flow->window.freed_ns);
    executor->account.held_ns += end_ns - executor->cursor_ns;
    return finish_action(executor, end_ns);
}

static bool step_receive(struct dt_executor *executor, const struct detour_action *action, uint64_t now_ns)
{
    (void)now_ns;
    if (executor->kernels)
        return step_kernel(executor);
    if (executor->options.mode != DT_PIPELINE_DELEGATED)
        dt_pipeline_window_reach(&flow_of(executor, action)->window, executor->slices);
    return finish_action(executor, executor->cursor_ns);
}

static bool step_wait(struct dt_executor *executor, const struct detour_action *action, uint64_t now_ns)
{
    uint64_t arrived_ns =
        executor->arrived_ns[dt_action_is_of_gradient(action->kind)][cell_of(executor, action)];
    struct dt_executor_span *span = &executor->spans[executor->next];

    (void)now_ns;
    span->start_ns = executor->cursor_ns;
    if (arrived_ns == NEVER)
        return block(executor, STATE_WAITING);
    span->end_ns = dt_max_u64(arrived_ns, executor->cursor_ns);
    executor->account.wait_ns += span->end_ns - span->start_ns;
    return finish_action(executor, span->end_ns);
}

/* One copy at a time in each direction; a copy back follows the copy out. */
static bool step_copy(struct dt_executor *executor, const struct detour_action *action, uint64_t now_ns)
{
    bool goes_out = action->kind == DETOUR_ACTION_OFFLOAD;
    uint64_t *copied_ns = &executor->copied_ns[cell_of(executor, action)];
    uint64_t *engine_ns = goes_out ? &executor->out_ns : &executor->in_ns;
    struct dt_executor_span *span = &executor->spans[executor->next];

    (void)now_ns;
    DT_CHECK(goes_out == (*copied_ns == NEVER));
    span->start_ns = dt_max_u64(executor->cursor_ns, *engine_ns);
    if (!goes_out)
        span->start_ns = dt_max_u64(span->start_ns, *copied_ns);
    span->end_ns = span->start_ns + (uint64_t)executor->work.profile->stages[action->stage].offload_ns;
    *copied_ns = *engine_ns = span->end_ns;
    return finish_action(executor, executor->cursor_ns);
}

/* What a device does at an action: true when the action is behind it, false when it has to wait. */
typedef bool step_func(struct dt_executor *executor, const struct detour_action *action, uint64_t now_ns);

static step_func *const steps[] = {
    [DETOUR_ACTION_F] = step_compute,      [DETOUR_ACTION_B] = step_compute,
    [DETOUR_ACTION_W] = step_compute,      [DETOUR_ACTION_BW] = step_compute,
    [DETOUR_ACTION_SEND_F] = step_send,    [DETOUR_ACTION_SEND_B] = step_send,
    [DETOUR_ACTION_RECV_F] = step_receive, [DETOUR_ACTION_RECV_B] = step_receive,
    [DETOUR_ACTION_WAIT_F] = step_wait,    [DETOUR_ACTION_WAIT_B] = step_wait,
    [DETOUR_ACTION_OFFLOAD] = step_copy,   [DETOUR_ACTION_RELOAD] = step_copy,
};

static void end_iteration(struct dt_executor *executor)
{
    struct dt_executor_account *account = &executor->account;

    executor->state = STATE_ENDED;
    account->end_ns = executor->cursor_ns;
    DT_CHECK(account->end_ns - account->start_ns ==
             account->compute_ns + account->wait_ns + account->held_ns + account->reload_ns);
}

bool dt_executor_next(struct dt_executor *executor, uint64_t now_ns, struct dt_executor_order *order)
{
    for (;;) {
        if (executor->kernels)
            progress_kernels(executor);
        if (next_order(executor, now_ns, order))
            return true;
        if (executor->state == STATE_ENDED)
            return false;
        if (executor->next == executor->action_count) {
            end_iteration(executor);
            return false;
        }
        const struct detour_action *action = &executor->actions[executor->next];
        DT_CHECK(action->kind < DT_COUNT_OF(steps));
        bool was_held = executor->state == STATE_HELD;
        if (!steps[action->kind](executor, action, now_ns) && (was_held || executor->state != STATE_HELD))
            return false;
    }
}

uint64_t dt_executor_due_ns(const struct dt_executor *executor)
{
    return executor->state == STATE_COMPUTING ? executor->spans[executor->next].end_ns : NEVER;
}

bool dt_executor_is_done(const struct dt_executor *executor)
{
    if (executor->state != STATE_ENDED ||
        (executor->kernels && !dt_pipeline_kernels_are_done(executor->kernels)))
        return false;
    for (size_t i = 0; i < executor->ends.count; i++) {
        if (!dt_pipeline_window_is_done(&executor->flows[i].window))
            return false;
    }
    return true;
}

const struct dt_executor_span *dt_executor_spans(const struct dt_executor *executor)
{
    return executor->spans;
}

struct dt_executor_account dt_executor_get_account(const struct dt_executor *executor)
{
    return executor->account;
}

const struct dt_pipeline_kernels *dt_executor_kernels(const struct dt_executor *executor)
{
    return executor->kernels;
}

/* ---- An iteration begins. ---- */

static bool reserve(struct dt_executor *executor, size_t action_count)
{
    if (action_count <= executor->action_capacity)
        return true;
    free(executor->spans);
    free(executor->messages);
    executor->spans = calloc(action_count, sizeof *executor->spans);
    executor->messages = calloc(action_count, sizeof *executor->messages);
    executor->action_capacity = executor->spans && executor->messages ? action_count : 0;
    return executor->action_capacity;
}

/* Clears the flows and lists their messages. */
static void list_messages(struct dt_executor *executor)
{
    size_t at = 0;

    for (size_t i = 0; i < executor->ends.count; i++)
        executor->flows[i] = (struct flow){0};
    for (size_t i = 0; i < executor->action_count; i++) {
        if (dt_action_is_message(executor->actions[i].kind))
            flow_of(executor, &executor->actions[i])->message_count++;
    }
    for (size_t i = 0; i < executor->ends.count; i++) {
        executor->flows[i].messages = executor->messages + at;
        at += executor->flows[i].message_count;
        executor->flows[i].message_count = 0;
    }
    for (size_t i = 0; i < executor->action_count; i++) {
        if (!dt_action_is_message(executor->actions[i].kind))
            continue;
        struct flow *flow = flow_of(executor, &executor->actions[i]);
        flow->messages[flow->message_count++] = i;
    }
}

static void open_windows(struct dt_executor *executor)
{
    enum dt_pipeline_mode mode = executor->options.mode;

    for (size_t i = 0; i < executor->ends.count; i++) {
        struct flow *flow = &executor->flows[i];
        uint64_t total = flow->message_count * executor->slices;

        dt_pipeline_window_open(&flow->window, total, mode == DT_PIPELINE_NCCL ? executor->options.slots : 0);
        if (!executor->ends.ends[i].sends && mode == DT_PIPELINE_DELEGATED)
            dt_pipeline_window_reach(&flow->window, total);
    }
}

static size_t cell_count(const struct dt_executor *executor)
{
    return (size_t)executor->ends.local_count * (size_t)executor->microbatch_count;
}

bool dt_executor_begin(struct dt_executor *executor, const struct dt_executor_work *work, uint64_t now_ns)
{
    const size_t *first = &work->program->first[executor->options.device];

    DT_CHECK(work->compute_permille > 0);
    DT_CHECK(dt_executor_is_done(executor));
    DT_CHECK(work->profile->stage_count == executor->stage_count &&
             work->profile->microbatch_count <= executor->microbatch_count);
    if (!reserve(executor, first[1] - first[0]))
        return false;
    executor->work = *work;
    executor->actions = &work->program->actions[first[0]];
    executor->action_count = first[1] - first[0];
    memset(executor->spans, 0, executor->action_count * sizeof *executor->spans);
    list_messages(executor);
    open_windows(executor);
    if (executor->kernels && !dt_pipeline_kernels_begin(executor->kernels, executor->actions,
                                                        executor->action_count, &executor->ends))
        return false;
    memset(executor->arrived_ns[0], 0xFF, cell_count(executor) * sizeof(uint64_t));
    memset(executor->arrived_ns[1], 0xFF, cell_count(executor) * sizeof(uint64_t));
    memset(executor->copied_ns, 0xFF, cell_count(executor) * sizeof(uint64_t));
    executor->next = 0;
    executor->state = STATE_RUNNING;
    executor->cursor_ns = executor->out_ns = executor->in_ns = now_ns;
    executor->account = (struct dt_executor_account){.start_ns = now_ns};
    return true;
}

/* ---- Life. ---- */

static bool allocate(struct dt_executor *executor, const struct detour_profile *profile)
{
    const struct dt_pipeline_launch *launch = executor->options.launch;

    if (!dt_pipeline_flows_init(&executor->ends, profile, executor->options.device))
        return false;
    executor->flows = calloc(executor->ends.count + 1, sizeof *executor->flows);
    size_t cells = cell_count(executor) + 1;
    executor->arrived_ns[0] = calloc(cells, sizeof(uint64_t));
    executor->arrived_ns[1] = calloc(cells, sizeof(uint64_t));
    executor->copied_ns = calloc(cells, sizeof(uint64_t));
    if (executor->options.mode == DT_PIPELINE_NCCL && launch && launch->has_kernels) {
        executor->kernels = dt_pipeline_kernels_create(launch, executor->slices, executor->options.slots);
        if (!executor->kernels)
            return false;
    }
    return executor->flows && executor->arrived_ns[0] && executor->arrived_ns[1] && executor->copied_ns &&
           reserve(executor, 1);
}

struct dt_executor *dt_executor_create(const struct dt_executor_options *options,
                                       const struct detour_profile *profile)
{
    struct dt_executor *executor = calloc(1, sizeof *executor);

    DT_CHECK(options->message_bytes >= DT_PIPELINE_PAYLOAD_BYTES_MIN);
    DT_CHECK(!options->slice_bytes || options->slice_bytes >= 2 * DT_PIPELINE_PAYLOAD_BYTES_MIN);
    if (!executor)
        return NULL;
    executor->options = *options;
    executor->stage_count = profile->stage_count;
    executor->microbatch_count = profile->microbatch_count;
    executor->state = STATE_ENDED;
    if (!executor->options.slots)
        executor->options.slots = SLOTS_DEFAULT;
    if (!executor->options.slice_bytes)
        executor->options.slice_bytes = SLICE_BYTES_DEFAULT;
    if (options->mode != DT_PIPELINE_NCCL || executor->options.slice_bytes > options->message_bytes)
        executor->options.slice_bytes = options->message_bytes;
    executor->slices = (uint32_t)((options->message_bytes + executor->options.slice_bytes - 1) /
                                  executor->options.slice_bytes);
    if (!allocate(executor, profile)) {
        dt_executor_destroy(executor);
        return NULL;
    }
    return executor;
}

void dt_executor_destroy(struct dt_executor *executor)
{
    if (!executor)
        return;
    dt_pipeline_flows_free(&executor->ends);
    dt_pipeline_kernels_destroy(executor->kernels);
    free(executor->spans);
    free(executor->messages);
    free(executor->flows);
    free(executor->arrived_ns[0]);
    free(executor->arrived_ns[1]);
    free(executor->copied_ns);
    free(executor);
}

uint32_t dt_executor_slices(const struct dt_executor *executor)
{
    return executor->slices;
}
