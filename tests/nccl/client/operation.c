/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/nccl/client/rank.h"

enum { POLL_NS = 50000, WRONG_PRINTED = 4 };

/* The buffers of one operation; elements, not bytes. */
struct buffers {
    char *input, *output;
    void *memory[2];            /* that both lie in; in place, only the first */
    size_t in_count, out_count; /* elements that the operation reads and writes */
    size_t part;                /* all_gather, reduce_scatter: elements of one rank */
};

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void check_nccl(const struct rank *rank, int result, const char *what)
{
    if (result == NCCL_SUCCESS)
        return;
    printf("rank %d: %s: %s: %s\n", rank->number, what, rank->nccl.ncclGetErrorString(result),
           rank->nccl.ncclGetLastError(NULL));
    exit(EXIT_FAILED);
}

/*
 * The value of element i in a rank's input. Results of up to 8 ranks are exact in every type: integers up to
 * 256 in bfloat16, 2048 in binary16, 8 in E5M2.
 */
static double value_of(const struct operation *operation, int rank, int round, size_t i)
{
    static const int range[NH_TYPES] = {5, 5, 1000, 1000, 1000, 1000, 200, 1000, 1000, 30, 2, 2};
    static const int is_signed[NH_TYPES] = {1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 0, 0};
    int value =
        (int)((i * 7 + (size_t)round * 3 + (size_t)rank * 5 + i / 1000) % (size_t)range[operation->type]);

    if (operation->reduction == NCCL_PROD) /* one rank other than 1 per element: the product fits */
        return (i + (size_t)round) % 8 == (size_t)rank ? value : 1;
    return is_signed[operation->type] ? value - range[operation->type] / 2 : value;
}

static double reduced(const struct operation *operation, int ranks, int round, size_t i)
{
    double result = value_of(operation, 0, round, i);

    for (int r = 1; r < ranks; r++) {
        double value = value_of(operation, r, round, i);

        switch (operation->reduction) {
        case NCCL_PROD:
            result *= value;
            break;
        case NCCL_MAX:
            result = value > result ? value : result;
            break;
        case NCCL_MIN:
            result = value < result ? value : result;
            break;
        default:
            result += value;
        }
    }
    if (operation->reduction != NCCL_AVG)
        return result;
    return operation->type <= NH_UINT64 ? (double)((int64_t)result / ranks) : result / ranks;
}

/* The element that the operation has to leave at place i of this rank's output. */
static double expected(const struct rank *rank, const struct operation *operation,
                       const struct buffers *buffers, int round, size_t i)
{
    const char *name = operation->name;
    const int n = rank->count;

    if (!strcmp(name, "send_recv"))
        return value_of(operation, (rank->number + n - 1) % n, round, i);
    if (!strcmp(name, "all_gather"))
        return value_of(operation, (int)(i / buffers->part), round, i % buffers->part);
    if (!strcmp(name, "all_to_all"))
        return value_of(operation, (int)(i / buffers->part), round,
                        (size_t)rank->number * buffers->part + i % buffers->part);
    if (!strcmp(name, "broadcast"))
        return value_of(operation, round % n, round, i);
    if (!strcmp(name, "reduce_scatter"))
        return reduced(operation, n, round, (size_t)rank->number * buffers->part + i);
    return reduced(operation, n, round, i);
}

/* Averages of floating point numbers are scaled before they are added: not exact for 3 ranks. */
static double tolerance(const struct rank *rank, const struct operation *operation, double value)
{
    static const double epsilon[NH_TYPES] = {
        [NH_FLOAT16] = 1. / 256, [NH_FLOAT32] = 1e-5,      [NH_FLOAT64] = 1e-12,
        [NH_BFLOAT16] = 1. / 16, [NH_FLOAT8E4M3] = 1. / 4, [NH_FLOAT8E5M2] = 1. / 2};
    int is_power_of_two = (rank->count & (rank->count - 1)) == 0;

    if (operation->reduction != NCCL_AVG || is_power_of_two)
        return 0;
    return epsilon[operation->type] * ((value < 0 ? -value : value) + rank->count * 100);
}

static uint64_t check_output(const struct rank *rank, const struct operation *operation,
                             const struct buffers *buffers, int round)
{
    uint64_t wrong = 0;

    if (!strcmp(operation->name, "reduce") && rank->number != round % rank->count)
        return 0;
    for (size_t i = 0; i < buffers->out_count; i++) {
        double got = nh_get(operation->type, buffers->output, i);
        double want = expected(rank, operation, buffers, round, i),
               allowed = tolerance(rank, operation, want);

        if (got == want || (got - want <= allowed && want - got <= allowed))
            continue;
        if (wrong++ < WRONG_PRINTED)
            printf("rank %d: %s %zu, round %d, element %zu is %g, not %g\n", rank->number, operation->name,
                   operation->bytes, round, i, got, want);
    }
    return wrong;
}

static void exchange(struct rank *rank, const struct operation *operation, const struct buffers *buffers)
{
    const int n = rank->count, type = (int)operation->type;
    const size_t part_bytes = buffers->part * nh_type_bytes(operation->type);

    check_nccl(rank, rank->nccl.ncclGroupStart(), "ncclGroupStart");
    if (!strcmp(operation->name, "send_recv")) {
        check_nccl(rank,
                   rank->nccl.ncclSend(buffers->input, buffers->in_count, type, (rank->number + 1) % n,
                                       rank->comm, rank->stream),
                   "ncclSend");
        check_nccl(rank,
                   rank->nccl.ncclRecv(buffers->output, buffers->out_count, type, (rank->number + n - 1) % n,
                                       rank->comm, rank->stream),
                   "ncclRecv");
    } else {
        for (int r = 0; r < n; r++) {
            check_nccl(rank,
                       rank->nccl.ncclSend(buffers->input + (size_t)r * part_bytes, buffers->part, type, r,
                                           rank->comm, rank->stream),
                       "ncclSend");
            check_nccl(rank,
                       rank->nccl.ncclRecv(buffers->output + (size_t)r * part_bytes, buffers->part, type, r,
                                           rank->comm, rank->stream),
                       "ncclRecv");
        }
    }
    check_nccl(rank, rank->nccl.ncclGroupEnd(), "ncclGroupEnd");
}

static void launch(struct rank *rank, const struct operation *operation, const struct buffers *buffers,
                   int round)
{
    const struct nccl_api *nccl = &rank->nccl;
    const char *name = operation->name;
    const int type = (int)operation->type, reduction = (int)operation->reduction, root = round % rank->count;
    int result;

    if (!strcmp(name, "all_reduce"))
        result = nccl->ncclAllReduce(buffers->input, buffers->output, buffers->in_count, type, reduction,
                                     rank->comm, rank->stream);
    else if (!strcmp(name, "all_gather"))
        result = nccl->ncclAllGather(buffers->input, buffers->output, buffers->part, type, rank->comm,
                                     rank->stream);
    else if (!strcmp(name, "reduce_scatter"))
        result = nccl->ncclReduceScatter(buffers->input, buffers->output, buffers->part, type, reduction,
                                         rank->comm, rank->stream);
    else if (!strcmp(name, "broadcast"))
        result = nccl->ncclBroadcast(buffers->input, buffers->output, buffers->in_count, type, root,
                                     rank->comm, rank->stream);
    else if (!strcmp(name, "reduce"))
        result = nccl->ncclReduce(buffers->input, buffers->output, buffers->in_count, type, reduction, root,
                                  rank->comm, rank->stream);
    else {
        exchange(rank, operation, buffers);
        return;
    }
    check_nccl(rank, result, name);
}

int is_operation(const char *name)
{
    static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                        "reduce",     "send_recv",  "all_to_all"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return 1;
    return 0;
}

void wait_for_stream(struct rank *rank)
{
    int error;

    while (cudaStreamQuery(rank->stream) == cudaErrorNotReady) {
        check_nccl(rank, rank->nccl.ncclCommGetAsyncError(rank->comm, &error), "ncclCommGetAsyncError");
        if (error != NCCL_SUCCESS && error != NCCL_IN_PROGRESS) {
            uint64_t start = now_ns();
            int result;

            printf("rank %d: async error %d: %s\n", rank->number, error,
                   rank->nccl.ncclGetLastError(rank->comm));
            result = rank->nccl.ncclCommAbort(rank->comm);
            printf("rank %d: ncclCommAbort returned %d after %.0f ms\n", rank->number, result,
                   (double)(now_ns() - start) / 1e6);
            exit(EXIT_ASYNC_ERROR);
        }
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
}

static int is_in_place(const struct rank *rank, const struct operation *operation)
{
    return rank->is_in_place && strcmp(operation->name, "send_recv") && strcmp(operation->name, "all_to_all");
}

/* The rank's share lies inside the larger buffer, as NCCL defines it. */
static void place_shares(const struct rank *rank, const struct operation *operation, struct buffers *buffers)
{
    size_t offset = (size_t)rank->number * buffers->part * nh_type_bytes(operation->type);

    if (!strcmp(operation->name, "all_gather"))
        buffers->input += offset;
    if (!strcmp(operation->name, "reduce_scatter"))
        buffers->output += offset;
}

static void set_buffers(const struct rank *rank, const struct operation *operation, struct buffers *buffers)
{
    size_t count = operation->bytes / nh_type_bytes(operation->type);

    *buffers = (struct buffers){.in_count = count, .out_count = count, .part = count / (size_t)rank->count};
    if (!strcmp(operation->name, "all_gather")) {
        buffers->in_count = buffers->part;
        buffers->out_count = buffers->part * (size_t)rank->count;
    }
    if (!strcmp(operation->name, "reduce_scatter")) {
        buffers->in_count = buffers->part * (size_t)rank->count;
        buffers->out_count = buffers->part;
    }
    if (!strcmp(operation->name, "all_to_all"))
        buffers->in_count = buffers->out_count = buffers->part * (size_t)rank->count;
    if (cudaMalloc(&buffers->memory[0], operation->bytes + 1) ||
        (!is_in_place(rank, operation) && cudaMalloc(&buffers->memory[1], operation->bytes + 1))) {
        printf("rank %d: out of memory\n", rank->number);
        exit(EXIT_FAILED);
    }
    buffers->input = buffers->memory[0];
    buffers->output = buffers->memory[1] ? buffers->memory[1] : buffers->memory[0];
    if (is_in_place(rank, operation))
        place_shares(rank, operation, buffers);
}

static uint64_t run_round(struct rank *rank, const struct operation *operation, const struct buffers *buffers,
                          int round)
{
    uint64_t start;

    memset(buffers->output, 0xee, buffers->out_count * nh_type_bytes(operation->type));
    for (size_t i = 0; i < buffers->in_count; i++) /* in place, this overwrites some or all of the output */
        nh_set(operation->type, buffers->input, i, value_of(operation, rank->number, round, i));
    start = now_ns();
    launch(rank, operation, buffers, round);
    wait_for_stream(rank);
    return now_ns() - start;
}

void run_operation(struct rank *rank, const struct operation *operation)
{
    uint64_t start = now_ns(), slowest_ns = 0, wrong = 0;
    struct buffers buffers;

    set_buffers(rank, operation, &buffers);
    for (int round = 0; round < operation->times; round++) {
        uint64_t took_ns = run_round(rank, operation, &buffers, round);

        if (took_ns > slowest_ns)
            slowest_ns = took_ns;
        wrong += check_output(rank, operation, &buffers, round);
        if (operation->pause_us)
            nanosleep(&(struct timespec){.tv_sec = operation->pause_us / 1000000,
                                         .tv_nsec = operation->pause_us % 1000000 * 1000L},
                      NULL);
    }
    cudaFree(buffers.memory[0]);
    cudaFree(buffers.memory[1]);
    rank->wrong += wrong;
    printf("rank %d: %s %zu type %d op %d x %d: %.3f s, slowest %.1f ms, %" PRIu64 " wrong\n", rank->number,
           operation->name, operation->bytes, (int)operation->type, (int)operation->reduction,
           operation->times, (double)(now_ns() - start) / 1e9, (double)slowest_ns / 1e6, wrong);
}
