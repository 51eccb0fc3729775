/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/client/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/runtime/stream.h"

enum { MESSAGES_MAX = 64, NO_COLOR = -1, TEXT_MAX = 1024 };

struct message {
    int from, to, kernel;
    unsigned char *memory; /* of this rank's end; NULL: it has none */
};

struct program {
    struct rank *rank;
    size_t bytes;
    char streams[8];
    struct message messages[MESSAGES_MAX];
    int count, kernels;
    uint64_t launched_ns;
    cudaStream_t stream[MESSAGES_MAX];
};

static int parse(struct program *program, const char *text)
{
    char list[TEXT_MAX];
    int at = 0;

    if (sscanf(text, "%zu:%7[a-z]:%1023s%n", &program->bytes, program->streams, list, &at) != 3 || text[at] ||
        (strcmp(program->streams, "one") && strcmp(program->streams, "each") &&
         strcmp(program->streams, "pairs")))
        return 0;
    for (const char *next = list; *next; next += at) {
        struct message *message = &program->messages[program->count];

        if (program->count == MESSAGES_MAX ||
            sscanf(next, "%d>%d%n", &message->from, &message->to, &at) != 2 || message->from == message->to ||
            message->from < 0 || message->to < 0 || message->from >= program->rank->count ||
            message->to >= program->rank->count ||
            (program->streams[0] == 'p' && message->from && message->to))
            return 0;
        message->kernel = program->kernels;
        program->count++;
        program->kernels += next[at] != '+';
        at += next[at] == '+' || next[at] == ',';
    }
    return program->count && program->rank->count <= RANKS_MAX;
}

static int other_of(const struct program *program, const struct message *message)
{
    return message->from == program->rank->number ? message->to : message->from;
}

static int concerns(const struct program *program, const struct message *message)
{
    return message->from == program->rank->number || message->to == program->rank->number;
}

/* ---- communicators, streams, buffers ---- */

static void split_pairs(struct rank *rank)
{
    for (int r = 1; r < rank->count; r++) {
        int color = rank->number == 0 || rank->number == r ? 0 : NO_COLOR;

        check_nccl(rank, rank->nccl.ncclCommSplit(rank->comm, color, rank->number, &rank->pair[r], NULL),
                   "ncclCommSplit");
    }
    rank->has_pairs = 1;
}

void close_pairs(struct rank *rank)
{
    for (int r = 1; r < rank->count; r++)
        if (rank->pair[r])
            check_nccl(rank, rank->nccl.ncclCommDestroy(rank->pair[r]), "ncclCommDestroy");
}

/* The other rank of a pair, which names the pair's communicator and stream. */
static int pair_of(const struct message *message)
{
    return message->from ? message->from : message->to;
}

static cudaStream_t stream_of(const struct program *program, const struct message *message)
{
    switch (program->streams[0]) {
    case 'e':
        return program->stream[message->kernel];
    case 'p':
        return program->stream[pair_of(message)];
    default:
        return program->stream[0];
    }
}

static void open_program(struct program *program)
{
    if (program->streams[0] == 'p' && !program->rank->has_pairs)
        split_pairs(program->rank);
    for (int i = 0; i < MESSAGES_MAX; i++)
        cudaStreamCreateWithFlags(&program->stream[i], cudaStreamNonBlocking);
    for (int i = 0; i < program->count; i++) {
        struct message *message = &program->messages[i];
        int is_sent = message->from == program->rank->number;

        if (!concerns(program, message))
            continue;
        if (cudaMalloc((void **)&message->memory, program->bytes + 1)) {
            printf("rank %d: out of memory\n", program->rank->number);
            exit(EXIT_FAILED);
        }
        memset(message->memory, is_sent ? i + 1 : 0, program->bytes);
    }
}

static void check_bytes(const struct program *program)
{
    for (int i = 0; i < program->count; i++) {
        const struct message *message = &program->messages[i];

        for (size_t k = 0; message->memory && message->to == program->rank->number && k < program->bytes; k++)
            program->rank->wrong += message->memory[k] != i + 1;
    }
}

static void close_program(struct program *program)
{
    for (int i = 0; i < program->count; i++)
        cudaFree(program->messages[i].memory);
    for (int i = 0; i < MESSAGES_MAX; i++)
        cudaStreamDestroy(program->stream[i]);
}

/* ---- launch ---- */

struct stamp {
    const struct program *program;
    int kernel;
};

static void print_stamp(void *argument)
{
    struct stamp *stamp = argument;
    uint64_t at_ns = now_ns();

    printf("rank %d: kernel %d ended at %" PRIu64 " ns, %.0f us after the launch\n",
           stamp->program->rank->number, stamp->kernel, at_ns,
           (double)(at_ns - stamp->program->launched_ns) / 1e3);
    free(stamp);
}

/* Queues the stamp behind the kernel. */
static void stamp(const struct program *program, int kernel, cudaStream_t stream)
{
    struct stamp *stamp = malloc(sizeof *stamp);

    if (!stamp)
        exit(EXIT_FAILED);
    *stamp = (struct stamp){program, kernel};
    nh_stream_push(nh_stream_of(stream), print_stamp, stamp);
}

static void launch_message(const struct program *program, const struct message *message)
{
    struct rank *rank = program->rank;
    int is_pair = program->streams[0] == 'p', other = other_of(program, message);
    ncclComm_t comm = is_pair ? rank->pair[pair_of(message)] : rank->comm;
    int peer = is_pair ? rank->number == 0 : other;

    if (message->from == rank->number)
        check_nccl(rank,
                   rank->nccl.ncclSend(message->memory, program->bytes, NH_UINT8, peer, comm,
                                       stream_of(program, message)),
                   "ncclSend");
    else
        check_nccl(rank,
                   rank->nccl.ncclRecv(message->memory, program->bytes, NH_UINT8, peer, comm,
                                       stream_of(program, message)),
                   "ncclRecv");
}

static void launch_kernel(const struct program *program, int kernel)
{
    struct rank *rank = program->rank;
    cudaStream_t stream = NULL;

    check_nccl(rank, rank->nccl.ncclGroupStart(), "ncclGroupStart");
    for (int i = 0; i < program->count; i++) {
        const struct message *message = &program->messages[i];

        if (message->kernel != kernel || !concerns(program, message))
            continue;
        launch_message(program, message);
        stream = stream_of(program, message);
    }
    check_nccl(rank, rank->nccl.ncclGroupEnd(), "ncclGroupEnd");
    if (stream)
        stamp(program, kernel, stream);
}

int run_program(struct rank *rank, const char *text)
{
    struct program program = {.rank = rank};

    if (!parse(&program, text))
        return 0;
    open_program(&program);
    program.launched_ns = now_ns();
    for (int i = 0; i < program.kernels; i++)
        launch_kernel(&program, i);
    for (int i = 0; i < MESSAGES_MAX; i++)
        cudaStreamSynchronize(program.stream[i]);
    check_bytes(&program);
    close_program(&program);
    return 1;
}
