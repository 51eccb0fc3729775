/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"

#define NONE  SIZE_MAX
#define NEVER UINT64_MAX

struct message {
    size_t action, flow, kernel;
    bool sends;
    uint32_t allowed, posted, completed; /* slices */
    uint64_t done_ns;                    /* of the last event that its kernel waits for */
    bool is_reported;                    /* ARRIVED was taken */
};

/* QUEUED: the device has not come to it. */
enum state { QUEUED, LAUNCHED, STARTED, ENDED };

struct kernel {
    size_t first, end; /* messages [first, end) */
    size_t communicator;
    size_t next; /* of the communicator; NONE: it is the last */
    enum state state;
    uint64_t ready_ns, start_ns, end_ns;
};

/* Kernel indices; NONE: behind the last one. */
struct communicator {
    size_t running;    /* the first that has not ended */
    size_t queue[2];   /* [sends]: the first whose transfers of that direction are not all complete */
    uint64_t ended_ns; /* of the kernel before `running` */
};

struct dt_pipeline_kernels {
    struct dt_pipeline_launch launch;
    uint32_t slices, slots;
    struct message *messages;
    size_t *numbers; /* [action]: of its message */
    struct kernel *kernels;
    struct communicator *communicators;
    size_t message_count, kernel_count, communicator_count, capacity;
    size_t reports; /* kernel whose receives are reported next; NONE: none */
};

struct dt_pipeline_kernels *dt_pipeline_kernels_create(const struct dt_pipeline_launch *launch,
                                                       uint32_t slices, uint32_t slots)
{
    struct dt_pipeline_kernels *kernels = calloc(1, sizeof *kernels);

    DT_CHECK(slices && slots);
    if (kernels)
        *kernels = (struct dt_pipeline_kernels){
            .launch = *launch, .slices = slices, .slots = slots, .reports = NONE};
    return kernels;
}

static void release(struct dt_pipeline_kernels *kernels)
{
    free(kernels->messages);
    free(kernels->numbers);
    free(kernels->kernels);
    free(kernels->communicators);
}

void dt_pipeline_kernels_destroy(struct dt_pipeline_kernels *kernels)
{
    if (!kernels)
        return;
    release(kernels);
    free(kernels);
}

/* ---- an iteration begins ---- */

static bool reserve(struct dt_pipeline_kernels *kernels, size_t count)
{
    if (count <= kernels->capacity)
        return true;
    release(kernels);
    kernels->messages = calloc(count, sizeof *kernels->messages);
    kernels->numbers = calloc(count, sizeof *kernels->numbers);
    kernels->kernels = calloc(count, sizeof *kernels->kernels);
    kernels->communicators = calloc(count, sizeof *kernels->communicators);
    kernels->capacity =
        kernels->messages && kernels->numbers && kernels->kernels && kernels->communicators ? count : 0;
    return kernels->capacity;
}

/* The computation behind the action uses the message that the action receives. */
static bool is_for_next(const struct detour_action *actions, size_t action_count, size_t at)
{
    const struct detour_action *receive = &actions[at];

    if (receive->kind != DETOUR_ACTION_RECV_F && receive->kind != DETOUR_ACTION_RECV_B)
        return false;
    while (++at < action_count && actions[at].kind > DETOUR_ACTION_BW) {
    }
    if (at == action_count || actions[at].stage != receive->stage ||
        actions[at].microbatch != receive->microbatch)
        return false;
    return receive->kind == DETOUR_ACTION_RECV_F
               ? actions[at].kind == DETOUR_ACTION_F
               : actions[at].kind == DETOUR_ACTION_B || actions[at].kind == DETOUR_ACTION_BW;
}

/* The message belongs to the kernel of the one before it. */
static bool is_of_batch(const struct dt_pipeline_kernels *kernels, const struct detour_action *actions,
                        size_t action_count, size_t message)
{
    size_t action = kernels->messages[message].action;

    return kernels->launch.batches && message && kernels->messages[message - 1].action + 1 == action &&
           !is_for_next(actions, action_count, action - 1);
}

static bool has_direction(const struct dt_pipeline_kernels *kernels, size_t kernel, bool sends)
{
    for (size_t i = kernels->kernels[kernel].first; i < kernels->kernels[kernel].end; i++)
        if (kernels->messages[i].sends == sends)
            return true;
    return false;
}

/* The next kernel of the communicator, from `kernel` on, that has messages of the direction. */
static size_t seek(const struct dt_pipeline_kernels *kernels, size_t kernel, bool sends)
{
    while (kernel != NONE && !has_direction(kernels, kernel, sends))
        kernel = kernels->kernels[kernel].next;
    return kernel;
}

/* Links each communicator's kernels, the last one first. */
static void link_kernels(struct dt_pipeline_kernels *kernels)
{
    for (size_t i = 0; i < kernels->communicator_count; i++)
        kernels->communicators[i] = (struct communicator){.running = NONE};
    for (size_t i = kernels->kernel_count; i-- > 0;) {
        struct communicator *communicator = &kernels->communicators[kernels->kernels[i].communicator];

        kernels->kernels[i].next = communicator->running;
        communicator->running = i;
    }
    for (size_t i = 0; i < kernels->communicator_count; i++)
        for (int sends = 0; sends < 2; sends++)
            kernels->communicators[i].queue[sends] = seek(kernels, kernels->communicators[i].running, sends);
}

/* The number of a flow's communicator: that of the first flow with its peer, or one for all. */
static size_t communicator_of(const struct dt_pipeline_kernels *kernels,
                              const struct dt_pipeline_flows *flows, size_t flow)
{
    size_t first = 0;

    while (kernels->launch.is_per_pair && flows->ends[first].peer != flows->ends[flow].peer)
        first++;
    return first;
}

static void add_message(struct dt_pipeline_kernels *kernels, const struct detour_action *actions,
                        size_t action_count, const struct dt_pipeline_flows *flows, size_t action)
{
    size_t message = kernels->message_count++, flow = dt_pipeline_flows_of(flows, &actions[action]);
    struct message *m = &kernels->messages[message];

    *m = (struct message){.action = action, .flow = flow, .sends = flows->ends[flow].sends};
    if (!is_of_batch(kernels, actions, action_count, message))
        kernels->kernels[kernels->kernel_count++] = (struct kernel){
            .first = message, .communicator = communicator_of(kernels, flows, flow), .end_ns = NEVER};
    m->kernel = kernels->kernel_count - 1;
    kernels->kernels[m->kernel].end = message + 1;
    kernels->numbers[action] = message;
}

bool dt_pipeline_kernels_begin(struct dt_pipeline_kernels *kernels, const struct detour_action *actions,
                               size_t action_count, const struct dt_pipeline_flows *flows)
{
    if (!reserve(kernels, dt_max_u64(action_count, flows->count + 1)))
        return false;
    kernels->message_count = kernels->kernel_count = 0;
    kernels->communicator_count = flows->count;
    kernels->reports = NONE;
    for (size_t i = 0; i < action_count; i++) {
        kernels->numbers[i] = NONE;
        if (dt_action_is_message(actions[i].kind))
            add_message(kernels, actions, action_count, flows, i);
    }
    link_kernels(kernels);
    return true;
}

/* ---- rules ---- */

/* What the kernel waits for has happened. */
static bool is_done(const struct dt_pipeline_kernels *kernels, const struct message *m)
{
    return (m->sends ? m->posted : m->completed) == kernels->slices;
}

/* "order" and "end": starts and ends the communicator's first kernel. True if something has changed. */
static bool run(struct dt_pipeline_kernels *kernels, struct communicator *communicator)
{
    struct kernel *k = &kernels->kernels[communicator->running];

    if (k->state == LAUNCHED) {
        k->state = STARTED;
        k->start_ns = dt_max_u64(k->ready_ns, communicator->ended_ns);
        return true;
    }
    if (k->state != STARTED)
        return false;
    uint64_t end_ns = k->start_ns;
    for (size_t i = k->first; i < k->end; i++) {
        if (!is_done(kernels, &kernels->messages[i]))
            return false;
        end_ns = dt_max_u64(end_ns, kernels->messages[i].done_ns);
    }
    k->state = ENDED;
    k->end_ns = communicator->ended_ns = end_ns;
    kernels->reports = communicator->running;
    communicator->running = k->next;
    return true;
}

/* "queue": moves on behind a kernel whose transfers are complete; a receive also has to leave its slots. */
static bool pass(struct dt_pipeline_kernels *kernels, struct communicator *communicator, bool sends)
{
    const struct kernel *k = &kernels->kernels[communicator->queue[sends]];

    if (!sends && k->state < STARTED)
        return false;
    for (size_t i = k->first; i < k->end; i++)
        if (kernels->messages[i].sends == sends && kernels->messages[i].completed < kernels->slices)
            return false;
    communicator->queue[sends] = seek(kernels, k->next, sends);
    return true;
}

/* Slices of the kernel's messages of one direction that may be transferred by now. */
static uint32_t allowed(const struct dt_pipeline_kernels *kernels, const struct kernel *k, bool sends)
{
    if (k->state >= STARTED)
        return kernels->slices;
    return sends ? 0 : kernels->slices < kernels->slots ? kernels->slices : kernels->slots;
}

/* A message before this one in the kernel and the flow may not yet be transferred as a whole. */
static bool is_behind(const struct dt_pipeline_kernels *kernels, const struct kernel *k, size_t message)
{
    for (size_t i = k->first; i < message; i++)
        if (kernels->messages[i].flow == kernels->messages[message].flow &&
            kernels->messages[i].allowed < kernels->slices)
            return true;
    return false;
}

/* A message of the queue's first kernel that may transfer more. */
static bool find_transfer(struct dt_pipeline_kernels *kernels, const struct communicator *communicator,
                          bool sends, struct dt_pipeline_kernels_event *event)
{
    const struct kernel *k = &kernels->kernels[communicator->queue[sends]];
    uint32_t slices = allowed(kernels, k, sends);

    for (size_t i = k->first; i < k->end; i++) {
        struct message *m = &kernels->messages[i];

        if (m->sends != sends || m->allowed >= slices || is_behind(kernels, k, i))
            continue;
        *event = (struct dt_pipeline_kernels_event){
            .kind = DT_KERNELS_TRANSFER, .action = m->action, .flow = m->flow, .slices = slices - m->allowed};
        m->allowed = slices;
        return true;
    }
    return false;
}

/* The receives of the kernel that has ended last. */
static bool find_arrival(struct dt_pipeline_kernels *kernels, struct dt_pipeline_kernels_event *event)
{
    const struct kernel *k = kernels->reports == NONE ? NULL : &kernels->kernels[kernels->reports];

    for (size_t i = k ? k->first : 0; k && i < k->end; i++) {
        struct message *m = &kernels->messages[i];

        if (m->sends || m->is_reported)
            continue;
        m->is_reported = true;
        *event = (struct dt_pipeline_kernels_event){
            .kind = DT_KERNELS_ARRIVED, .action = m->action, .flow = m->flow, .at_ns = k->end_ns};
        return true;
    }
    kernels->reports = NONE;
    return false;
}

static bool step(struct dt_pipeline_kernels *kernels, struct communicator *communicator,
                 struct dt_pipeline_kernels_event *event)
{
    bool has_changed = true;

    while (has_changed) {
        has_changed = communicator->running != NONE && run(kernels, communicator);
        if (kernels->reports != NONE && find_arrival(kernels, event))
            return true;
        for (int sends = 0; sends < 2; sends++) {
            if (communicator->queue[sends] == NONE)
                continue;
            has_changed |= pass(kernels, communicator, sends);
            if (communicator->queue[sends] != NONE && find_transfer(kernels, communicator, sends, event))
                return true;
        }
    }
    return false;
}

/* ---- events ---- */

bool dt_pipeline_kernels_next(struct dt_pipeline_kernels *kernels, struct dt_pipeline_kernels_event *event)
{
    if (find_arrival(kernels, event))
        return true;
    for (size_t i = 0; i < kernels->communicator_count; i++)
        if (step(kernels, &kernels->communicators[i], event))
            return true;
    return false;
}

static struct message *message_of(const struct dt_pipeline_kernels *kernels, size_t action)
{
    size_t number = kernels->numbers[action];

    DT_CHECK(number < kernels->message_count);
    return &kernels->messages[number];
}

void dt_pipeline_kernels_launch(struct dt_pipeline_kernels *kernels, size_t action, uint64_t ready_ns)
{
    const struct message *m = message_of(kernels, action);
    struct kernel *k = &kernels->kernels[m->kernel];

    if (&kernels->messages[k->first] != m)
        return;
    DT_CHECK(k->state == QUEUED);
    k->state = LAUNCHED;
    k->ready_ns = ready_ns;
}

bool dt_pipeline_kernels_has_started(const struct dt_pipeline_kernels *kernels, size_t action,
                                     uint64_t *start_ns)
{
    const struct kernel *k = &kernels->kernels[message_of(kernels, action)->kernel];

    *start_ns = k->start_ns;
    return k->state >= STARTED;
}

void dt_pipeline_kernels_posted(struct dt_pipeline_kernels *kernels, size_t action, uint64_t now_ns)
{
    struct message *m = message_of(kernels, action);

    DT_CHECK(m->posted < m->allowed);
    if (++m->posted == kernels->slices && m->sends)
        m->done_ns = now_ns;
}

void dt_pipeline_kernels_completed(struct dt_pipeline_kernels *kernels, size_t action, uint64_t now_ns)
{
    struct message *m = message_of(kernels, action);

    DT_CHECK(m->completed < m->posted);
    if (++m->completed == kernels->slices && !m->sends)
        m->done_ns = now_ns;
}

bool dt_pipeline_kernels_are_done(const struct dt_pipeline_kernels *kernels)
{
    for (size_t i = 0; i < kernels->communicator_count; i++)
        if (kernels->communicators[i].running != NONE)
            return false;
    return true;
}

size_t dt_pipeline_kernels_count(const struct dt_pipeline_kernels *kernels)
{
    return kernels->kernel_count;
}

size_t dt_pipeline_kernels_of(const struct dt_pipeline_kernels *kernels, size_t action)
{
    return message_of(kernels, action)->kernel;
}

uint64_t dt_pipeline_kernels_end_ns(const struct dt_pipeline_kernels *kernels, size_t kernel)
{
    DT_CHECK(kernel < kernels->kernel_count);
    return kernels->kernels[kernel].end_ns;
}
