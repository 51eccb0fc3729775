/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step engine. Three parties per program work on the slots of the connections, as in NCCL: the receive
 * proxy posts irecvs of a whole slice into free slots and tests the oldest; the kernel executes the
 * program's actions in order, each once its slice has arrived and its send slot is free; the send proxy
 * isends filled slots and tests the oldest. Message n of a connection uses slot n modulo the depth. With the
 * LL protocol the kernel converts between data and lines; unlike a GPU, it waits for the receive proxy
 * instead of polling the flags. The next iteration's receives are posted when all programs of this one have
 * finished, like NCCL's next operation on a stream.
 */
#include "cli/perf/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/util.h"
#include "base/exit.h"
#include "cli/perf/pattern.h"
#include "cli/perf/protocol.h"

/* Counters run from the connection's first message on. */
struct receiver {
    struct dt_job_connection *connection; /* NULL: the program receives nothing */
    uint64_t allowed;                     /* messages that may be posted so far */
    uint64_t posted;
    uint64_t received;
    uint64_t consumed;
    bool flushing; /* the oldest request is an iflush */
    void *requests[DT_PERF_STEPS];
    size_t bytes[DT_PERF_STEPS]; /* received */
};

struct sender {
    struct dt_job_connection *connection; /* NULL: the program sends nothing */
    uint64_t filled;
    uint64_t posted;
    uint64_t completed;
    void *requests[DT_PERF_STEPS];
    size_t bytes[DT_PERF_STEPS];
};

struct program {
    unsigned channel;
    unsigned index; /* in the channel */
    struct dt_perf_actions actions;
    size_t next; /* action of this iteration */
    size_t receives_per_iteration;
    struct receiver receiver;
    struct sender sender;
};

struct step_engine {
    struct dt_perf_engine base;
    struct dt_perf_shape shape;
    struct dt_perf_layout layout;
    unsigned depth; /* slots, and messages in flight, per connection */
    size_t slot_bytes;
    size_t watched_bytes; /* of a slot: checked with every message; the sweep checks the rest */
    char *input;
    char *output;
    size_t input_mapped;
    size_t output_mapped;
    size_t program_count;
    struct program *programs;
    const struct dt_perf_run *run; /* while running */
    uint64_t iteration;            /* of the run */
    /* LL: the data of a message that was received, and of one that is sent but not part of the output. */
    uint64_t unpacked[DT_PERF_LL_DATA_BYTES / sizeof(uint64_t)];
    uint64_t unsent[DT_PERF_LL_DATA_BYTES / sizeof(uint64_t)];
};

static struct step_engine *step_engine_of(struct dt_perf_engine *base)
{
    return dt_container_of(base, struct step_engine, base);
}

static char *slot_of(const struct step_engine *engine, const struct dt_job_connection *connection,
                     uint64_t sequence)
{
    DT_CHECK(connection); /* the operation's plan and its ends() agree */
    return connection->buffer + sequence % engine->depth * engine->slot_bytes;
}

static bool output_is_larger(const struct step_engine *engine)
{
    return engine->layout.output_bytes >= engine->layout.input_bytes;
}

/* The kernel's input and output: in place, one of them is a part of the other. */
static char *input_of(const struct step_engine *engine)
{
    bool is_part = engine->run->in_place && output_is_larger(engine);

    return is_part ? engine->output + engine->layout.in_place_offset : engine->input;
}

static char *output_of(const struct step_engine *engine)
{
    bool is_part = engine->run->in_place && !output_is_larger(engine);

    return is_part ? engine->input + engine->layout.in_place_offset : engine->output;
}

/* ---- The receive proxy. ---- */

static bool post_receive(struct step_engine *engine, struct receiver *receiver, bool *moved)
{
    const struct dt_job_connection *connection = receiver->connection;
    uint64_t sequence = receiver->posted;
    char *slot = slot_of(engine, connection, sequence);
    void **request = &receiver->requests[sequence % engine->depth];

    if (sequence == receiver->allowed || sequence - receiver->consumed == engine->depth)
        return true;
    if (engine->run->checked)
        dt_perf_check_idle(&engine->base, connection, sequence, slot, engine->watched_bytes);
    if (!dt_job_irecv(engine->base.plugin, connection->comm, slot, engine->slot_bytes, (int)connection->peer,
                      connection->mhandle, request, engine->base.error))
        return false;
    if (*request) {
        receiver->posted++;
        *moved = true;
    }
    return true;
}

/* The data has arrived; NCCL flushes it first if it is GPU memory. */
static bool start_flush(struct step_engine *engine, struct receiver *receiver, char *slot, size_t bytes,
                        void **request)
{
    if (!dt_job_iflush(engine->base.plugin, receiver->connection->comm, slot, bytes,
                       receiver->connection->mhandle, request, engine->base.error))
        return false;
    receiver->flushing = *request != NULL;
    return true;
}

static bool test_receive(struct step_engine *engine, struct receiver *receiver, bool *moved)
{
    uint64_t sequence = receiver->received;
    size_t index = sequence % engine->depth;
    void **request = &receiver->requests[index];
    size_t *bytes = &receiver->bytes[index];
    bool was_flushing = receiver->flushing;
    bool done;

    if (sequence == receiver->posted)
        return true;
    if (!dt_job_test(engine->base.plugin, *request, &done, was_flushing ? NULL : bytes, engine->base.error))
        return false;
    if (!done)
        return true;
    receiver->flushing = false;
    if (engine->base.options->flush && !was_flushing && *bytes &&
        !start_flush(engine, receiver, slot_of(engine, receiver->connection, sequence), *bytes, request))
        return false;
    if (!receiver->flushing) {
        receiver->received++;
        dt_perf_engine_received(&engine->base, *bytes);
    }
    dt_perf_engine_beat(&engine->base);
    *moved = true;
    return true;
}

/* ---- The send proxy. ---- */

static bool post_send(struct step_engine *engine, struct sender *sender, bool *moved)
{
    uint64_t sequence = sender->posted;
    size_t index = sequence % engine->depth;

    if (sequence == sender->filled)
        return true;
    if (!dt_job_isend(engine->base.plugin, sender->connection->comm,
                      slot_of(engine, sender->connection, sequence), sender->bytes[index],
                      sender->connection->mhandle, &sender->requests[index], engine->base.error))
        return false;
    if (sender->requests[index]) {
        sender->posted++;
        *moved = true;
    }
    return true;
}

static bool test_send(struct step_engine *engine, struct sender *sender, bool *moved)
{
    size_t bytes_ignored; /* NCCL passes a pointer here and ignores the value */
    bool done;

    if (sender->completed == sender->posted)
        return true;
    if (!dt_job_test(engine->base.plugin, sender->requests[sender->completed % engine->depth], &done,
                     &bytes_ignored, engine->base.error))
        return false;
    if (done) {
        sender->completed++;
        dt_perf_engine_beat(&engine->base);
        *moved = true;
    }
    return true;
}

/* ---- The kernel. ---- */

/* Writes the action's value to `target`. */
static void compute(const struct step_engine *engine, const struct dt_perf_action *action,
                    const char *received, char *target)
{
    const char *input = action->source == DT_PERF_NOWHERE ? NULL : input_of(engine) + action->source;
    const struct dt_perf_type *type = engine->shape.type;
    const char *copied = action->receive ? received : input;

    if (action->reduce)
        type->reduce[engine->shape.redop](target, received, input, action->bytes / type->bytes);
    else if (copied && target != copied)
        memcpy(target, copied, action->bytes);
}

/* LL: differs in each round of the slots, and is not the poison. */
static uint32_t flag_of(uint64_t sequence)
{
    return (uint32_t)sequence + 1;
}

/* The data of the oldest received message. */
static const char *unpack(struct step_engine *engine, const struct receiver *receiver,
                          const struct dt_perf_action *action)
{
    const char *slot = slot_of(engine, receiver->connection, receiver->consumed);
    size_t wrong;

    if (engine->shape.protocol != DT_PERF_LL)
        return slot;
    wrong = dt_perf_ll_read(engine->unpacked, slot, action->bytes, flag_of(receiver->consumed));
    if (engine->run->checked)
        dt_perf_tally_add(engine->base.tally, DT_PERF_WRONG_RESULT, wrong,
                          "rank %u, channel %u, from rank %u: message %" PRIu64 " has %zu wrong flags of LL",
                          engine->shape.rank, dt_perf_ring_channel(engine->base.ring, receiver->connection),
                          receiver->connection->peer, receiver->consumed, wrong);
    return (const char *)engine->unpacked;
}

static void fill_slot(struct step_engine *engine, struct sender *sender, const struct dt_perf_action *action,
                      const char *data)
{
    char *slot = slot_of(engine, sender->connection, sender->filled);

    if (engine->shape.protocol == DT_PERF_LL)
        dt_perf_ll_write(slot, data, action->bytes, flag_of(sender->filled));
    else if (data != slot)
        memcpy(slot, data, action->bytes);
    sender->bytes[sender->filled++ % engine->depth] = dt_perf_message_bytes(&engine->shape, action->bytes);
}

static void release_received(struct step_engine *engine, struct receiver *receiver,
                             const struct dt_perf_action *action)
{
    char *slot = slot_of(engine, receiver->connection, receiver->consumed);
    uint64_t sequence = receiver->consumed++;

    if (!engine->run->checked)
        return;
    dt_perf_check_received(&engine->base, receiver->connection, sequence, slot,
                           receiver->bytes[sequence % engine->depth],
                           dt_perf_message_bytes(&engine->shape, action->bytes), engine->watched_bytes);
    dt_perf_poison(slot, engine->watched_bytes);
}

static void do_action(struct step_engine *engine, struct program *program,
                      const struct dt_perf_action *action)
{
    struct receiver *receiver = &program->receiver;
    struct sender *sender = &program->sender;
    const char *received = action->receive ? unpack(engine, receiver, action) : NULL;
    char *value = action->target == DT_PERF_NOWHERE ? NULL : output_of(engine) + action->target;

    if (!value)
        value = engine->shape.protocol == DT_PERF_LL ? (char *)engine->unsent
                                                     : slot_of(engine, sender->connection, sender->filled);
    compute(engine, action, received, value);
    if (action->send)
        fill_slot(engine, sender, action, value);
    if (received)
        release_received(engine, receiver, action);
}

/* Executes the actions that are ready. */
static void run_kernel(struct step_engine *engine, struct program *program, bool *moved)
{
    while (program->next < program->actions.count) {
        const struct dt_perf_action *action = &program->actions.items[program->next];

        if (action->receive && program->receiver.received == program->receiver.consumed)
            return;
        if (action->send && program->sender.filled - program->sender.completed == engine->depth)
            return;
        do_action(engine, program, action);
        program->next++;
        *moved = true;
    }
}

/* ---- Iterations. ---- */

static void fill_input(struct step_engine *engine)
{
    uint64_t iteration = engine->run->first_iteration + engine->iteration;

    dt_perf_poison(output_of(engine), engine->layout.output_bytes);
    dt_perf_op_fill(engine->base.options->op, engine->shape.type, engine->shape.rank, iteration, 0,
                    engine->layout.input_bytes, input_of(engine));
}

static void check_output(struct step_engine *engine)
{
    uint64_t iteration = engine->run->first_iteration + engine->iteration;
    uint64_t expected[512];
    size_t element = engine->shape.type->bytes;

    for (size_t at = 0; at < engine->layout.output_bytes; at += sizeof expected) {
        size_t bytes = dt_min_u64(sizeof expected, engine->layout.output_bytes - at);
        size_t first = 0;

        engine->base.options->op->expect(&engine->shape, iteration, at, bytes, expected);
        size_t count = dt_perf_count_differing(output_of(engine) + at, expected, bytes, element, &first);
        dt_perf_tally_add(engine->base.tally, DT_PERF_WRONG_RESULT, count,
                          "rank %u: wrong result of %s at element %zu of %zu, iteration %" PRIu64,
                          engine->shape.rank, engine->base.options->op->name, (at + first) / element,
                          engine->layout.output_bytes / element, iteration);
    }
}

static void begin_iteration(struct step_engine *engine)
{
    if (engine->run->checked)
        fill_input(engine);
    for (size_t i = 0; i < engine->program_count; i++) {
        engine->programs[i].next = 0;
        engine->programs[i].receiver.allowed += engine->programs[i].receives_per_iteration;
    }
}

static bool progress(struct step_engine *engine, struct program *program, bool *moved)
{
    struct receiver *receiver = &program->receiver;
    struct sender *sender = &program->sender;

    if (receiver->connection &&
        !(post_receive(engine, receiver, moved) && test_receive(engine, receiver, moved)))
        return false;
    run_kernel(engine, program, moved);
    return !sender->connection || (post_send(engine, sender, moved) && test_send(engine, sender, moved));
}

/* One pass over all programs. *kernels_done: the iteration's results are there; *sent: nothing is in flight.
 */
static bool progress_all(struct step_engine *engine, bool *kernels_done, bool *sent)
{
    bool moved = false;

    *kernels_done = true;
    *sent = true;
    for (size_t i = 0; i < engine->program_count; i++) {
        struct program *program = &engine->programs[i];

        if (!progress(engine, program, &moved))
            return false;
        *kernels_done = *kernels_done && program->next == program->actions.count;
        *sent = *sent && program->sender.completed == program->sender.filled;
    }
    if (!moved)
        sched_yield();
    return true;
}

static void poison_slots(struct step_engine *engine)
{
    for (size_t i = 0; i < engine->program_count; i++) {
        const struct dt_job_connection *connection = engine->programs[i].receiver.connection;

        if (connection)
            dt_perf_poison(connection->buffer, connection->buffer_bytes);
    }
}

static bool step_run(struct dt_perf_engine *base, const struct dt_perf_run *run)
{
    struct step_engine *engine = step_engine_of(base);
    bool kernels_done;
    bool sent = true;

    engine->run = run;
    if (run->checked)
        poison_slots(engine);
    for (engine->iteration = 0; engine->iteration < run->iterations; engine->iteration++) {
        dt_store_relaxed(&base->iterations_done, engine->iteration);
        begin_iteration(engine);
        do {
            if (!progress_all(engine, &kernels_done, &sent))
                return false;
        } while (!kernels_done);
        if (run->checked)
            check_output(engine);
    }
    while (!sent) {
        if (!progress_all(engine, &kernels_done, &sent))
            return false;
    }
    return true;
}

static void step_sweep(struct dt_perf_engine *base)
{
    struct step_engine *engine = step_engine_of(base);

    for (size_t i = 0; i < engine->program_count; i++) {
        const struct receiver *receiver = &engine->programs[i].receiver;

        if (receiver->connection)
            dt_perf_check_idle(base, receiver->connection, receiver->posted, receiver->connection->buffer,
                               receiver->connection->buffer_bytes);
    }
}

/* ---- Life. ---- */

/*
 * The part of a slot behind a short message is long: one page of it is checked with each message, the rest
 * by the sweep.
 */
static size_t watched_bytes(const struct step_engine *engine)
{
    size_t longest = 0;

    for (size_t i = 0; i < engine->program_count; i++) {
        for (size_t n = 0; n < engine->programs[i].actions.count; n++)
            longest = dt_max_u64(longest, engine->programs[i].actions.items[n].bytes);
    }
    return dt_min_u64(engine->slot_bytes, dt_perf_message_bytes(&engine->shape, longest) + 4096);
}

static bool step_prepare(struct dt_perf_engine *base, size_t count)
{
    struct step_engine *engine = step_engine_of(base);
    struct dt_perf_shape shape;

    engine->shape.count = count;
    dt_perf_protocol_set(&engine->shape, base->options->op, base->options->protocol);
    engine->depth = dt_perf_slot_count(&engine->shape);
    engine->slot_bytes = dt_perf_slot_bytes(&engine->shape);
    shape = engine->shape;
    base->options->op->layout(&shape, &engine->layout);
    for (size_t i = 0; i < engine->program_count; i++) {
        struct program *program = &engine->programs[i];

        shape.channel = program->channel;
        program->actions.count = 0;
        base->options->op->plan(&shape, program->index, &program->actions);
        if (program->actions.failed)
            return dt_job_fail(base->error, DT_EXIT_FAILED, "rank %u: out of memory", shape.rank);
        program->receives_per_iteration = 0;
        for (size_t n = 0; n < program->actions.count; n++)
            program->receives_per_iteration += program->actions.items[n].receive;
    }
    engine->watched_bytes = watched_bytes(engine);
    return true;
}

static void step_destroy(struct dt_perf_engine *base)
{
    struct step_engine *engine = step_engine_of(base);

    for (size_t i = 0; i < engine->program_count; i++)
        dt_perf_actions_free(&engine->programs[i].actions);
    if (engine->input)
        munmap(engine->input, engine->input_mapped);
    if (engine->output)
        munmap(engine->output, engine->output_mapped);
    free(engine->programs);
    free(engine);
}

static const struct dt_perf_engine_funcs step_funcs = {step_prepare, step_run, step_sweep, step_destroy};

size_t dt_perf_step_buffer_bytes(const struct dt_perf_options *options)
{
    struct dt_perf_shape shape = {.ranks = 1, .type = options->type};

    dt_perf_protocol_set(&shape, options->op, DT_PERF_SIMPLE); /* LL needs less */
    return dt_perf_slot_bytes(&shape) * dt_perf_slot_count(&shape);
}

/* User memory whose pages are mapped, so that the first iteration does not pay for faults. */
static char *map_user_buffer(struct step_engine *engine, size_t bytes, size_t *mapped)
{
    void *buffer;

    *mapped = bytes ? bytes : 1;
    buffer = mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED) {
        dt_job_fail(engine->base.error, DT_EXIT_USAGE,
                    "rank %u: cannot get %zu bytes for the data: %s; -e is too large", engine->shape.rank,
                    bytes, strerror(errno));
        return NULL;
    }
    memset(buffer, 0, *mapped);
    return buffer;
}

static bool map_user_buffers(struct step_engine *engine)
{
    const struct dt_perf_options *options = engine->base.options;
    struct dt_perf_shape shape = engine->shape;
    struct dt_perf_layout layout;

    shape.count = dt_perf_op_count(options->op, options->type, shape.ranks, options->bytes_max);
    options->op->layout(&shape, &layout);
    engine->input = map_user_buffer(engine, layout.input_bytes, &engine->input_mapped);
    engine->output =
        engine->input ? map_user_buffer(engine, layout.output_bytes, &engine->output_mapped) : NULL;
    return engine->output != NULL;
}

static bool create_programs(struct step_engine *engine)
{
    const struct dt_perf_op *op = engine->base.options->op;
    const struct dt_perf_ring *ring = engine->base.ring;
    unsigned per_channel = op->program_count(ring->net->ranks);

    engine->programs = calloc((size_t)ring->channels * per_channel, sizeof *engine->programs);
    if (!engine->programs)
        return dt_job_fail(engine->base.error, DT_EXIT_FAILED, "rank %u: out of memory", ring->net->rank);
    engine->program_count = (size_t)ring->channels * per_channel;
    for (size_t i = 0; i < engine->program_count; i++) {
        struct program *program = &engine->programs[i];
        struct dt_perf_ends ends = op->ends((unsigned)(i % per_channel));

        program->channel = (unsigned)(i / per_channel);
        program->index = (unsigned)(i % per_channel);
        if (ends.receive_distance)
            program->receiver.connection =
                dt_perf_ring_receiving(ring, program->channel, ends.receive_distance);
        if (ends.send_distance)
            program->sender.connection = dt_perf_ring_sending(ring, program->channel, ends.send_distance);
    }
    return true;
}

struct dt_perf_engine *dt_perf_step_engine_create(const struct dt_perf_engine *base)
{
    const struct dt_perf_options *options = base->options;
    const struct dt_job_net *net = base->ring->net;
    struct step_engine *engine = calloc(1, sizeof *engine);

    if (!engine) {
        dt_job_fail(base->error, DT_EXIT_FAILED, "rank %u: out of memory", net->rank);
        return NULL;
    }
    engine->base = *base;
    engine->base.funcs = &step_funcs;
    engine->shape = (struct dt_perf_shape){
        .rank = net->rank,
        .ranks = net->ranks,
        .channels = base->ring->channels,
        .type = options->type,
        .redop = options->redop,
    };
    if (!create_programs(engine) || !map_user_buffers(engine)) {
        step_destroy(&engine->base);
        return NULL;
    }
    return &engine->base;
}
