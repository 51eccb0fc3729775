/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a test with stock NCCL on host memory:
 *
 *   nccl-rank RANK RANKS ID_FILE LIBNCCL STEP...
 *
 * Rank 0 writes NCCL's unique id to ID_FILE. Each step is one of
 *
 * - NAME:BYTES[:TIMES[:TYPE[:OP[:PAUSE_US]]]]: all_reduce, all_gather, reduce_scatter, broadcast, reduce,
 *   send_recv, all_to_all; TYPE and OP are the numbers of ncclDataType_t (7, float) and ncclRedOp_t (0, sum);
 *   the root of broadcast and reduce is the round modulo the ranks
 * - in_place:1: collectives from now on have one buffer for both ends
 * - split:TIMES: splits off all ranks in reverse order, one all_reduce there, destroys the communicator
 * - comms:COUNT: COUNT communicators at a time, split from the first, all in use
 * - mark:TEXT: prints "mark TEXT" (the test acts on it while the next step runs)
 * - program:TEXT: sends and receives as program.h describes them
 * - await:FILE: waits until the file exists
 * - sleep:MS
 * - kill:RANK: that rank ends by SIGKILL
 * - cut:RANK: that rank loses its control connections
 * - abort:MS: starts all_reduces and calls ncclCommAbort MS later, while they run; the last step
 * - abort_init:MS: instead of all: starts a set-up that lacks ranks, and aborts it MS later
 *
 * Exit status: 0; 1 wrong elements; 2 NCCL failed; 3 usage; 7 an asynchronous error was seen and aborted.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/nccl/client/cut.h"
#include "tests/nccl/client/program.h"
#include "tests/nccl/client/rank.h"

enum { COMMS_MAX = 16, ABORT_BYTES = 4 << 20, ABORT_OPERATIONS = 200 };

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "nccl-rank: %s: %s\n", what, why);
    exit(EXIT_USAGE);
}

/* The first rank's id under its final name only when it is whole. */
static void write_id(const char *path, const ncclUniqueId *id)
{
    char temporary[4096];
    FILE *file;

    snprintf(temporary, sizeof temporary, "%s.new", path);
    file = fopen(temporary, "wb");
    if (!file || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) || rename(temporary, path))
        fail(path, strerror(errno));
}

static void read_id(const char *path, ncclUniqueId *id)
{
    for (int tries = 0; tries < 6000; tries++) {
        FILE *file = fopen(path, "rb");

        if (file) {
            size_t got = fread(id, sizeof *id, 1, file);

            fclose(file);
            if (got == 1)
                return;
        }
        sleep_ms(10);
    }
    fail(path, "no id from rank 0 in a minute");
}

static void connect_ranks(struct rank *rank, const char *id_path)
{
    uint64_t start = now_ns();
    ncclUniqueId id;

    if (rank->number == 0) {
        check_nccl(rank, rank->nccl.ncclGetUniqueId(&id), "ncclGetUniqueId");
        write_id(id_path, &id);
    } else {
        read_id(id_path, &id);
    }
    check_nccl(rank, rank->nccl.ncclCommInitRank(&rank->comm, rank->count, id, rank->number),
               "ncclCommInitRank");
    printf("rank %d: set up in %.0f ms\n", rank->number, (double)(now_ns() - start) / 1e6);
}

static void abort_set_up(struct rank *rank, int ms)
{
    struct nccl_config config = {.bytes = sizeof config,
                                 .magic = 0xcafebeef,
                                 .version = 21800,
                                 .blocking = 0,
                                 .cga_cluster_size = INT32_MIN,
                                 .min_ctas = INT32_MIN,
                                 .max_ctas = INT32_MIN,
                                 .split_share = INT32_MIN};
    ncclUniqueId id;
    int result, state;

    check_nccl(rank, rank->nccl.ncclGetUniqueId(&id), "ncclGetUniqueId");
    result = rank->nccl.ncclCommInitRankConfig(&rank->comm, rank->count + 1, id, 0, &config);
    if (result != NCCL_IN_PROGRESS)
        check_nccl(rank, result, "ncclCommInitRankConfig");
    sleep_ms(ms);
    check_nccl(rank, rank->nccl.ncclCommGetAsyncError(rank->comm, &state), "ncclCommGetAsyncError");
    result = rank->nccl.ncclCommAbort(rank->comm);
    printf("rank %d: state %d, ncclCommAbort in set-up returned %d\n", rank->number, state, result);
    exit(result == NCCL_SUCCESS && state == NCCL_IN_PROGRESS ? 0 : EXIT_FAILED);
}

static void abort_traffic(struct rank *rank, int ms)
{
    void *buffer;
    uint64_t start;
    int result;

    if (cudaMalloc(&buffer, ABORT_BYTES))
        fail("abort", "out of memory");
    memset(buffer, 0, ABORT_BYTES);
    for (int i = 0; i < ABORT_OPERATIONS; i++)
        check_nccl(rank,
                   rank->nccl.ncclAllReduce(buffer, buffer, ABORT_BYTES / 4, NH_FLOAT32, NCCL_SUM, rank->comm,
                                            rank->stream),
                   "ncclAllReduce");
    sleep_ms(ms);
    start = now_ns();
    result = rank->nccl.ncclCommAbort(rank->comm);
    printf("rank %d: ncclCommAbort in traffic returned %d after %.0f ms\n", rank->number, result,
           (double)(now_ns() - start) / 1e6);
    exit(result == NCCL_SUCCESS ? 0 : EXIT_FAILED);
}

/* A communicator of all ranks in reverse order, and a small all-reduce on it. */
static ncclComm_t split(struct rank *rank)
{
    const struct operation probe = {.name = "all_reduce", .bytes = 4096, .times = 1, .type = NH_FLOAT32};
    struct rank other = *rank;

    other.number = rank->count - 1 - rank->number;
    other.wrong = 0;
    check_nccl(rank, rank->nccl.ncclCommSplit(rank->comm, 0, other.number, &other.comm, NULL),
               "ncclCommSplit");
    run_operation(&other, &probe);
    rank->wrong += other.wrong;
    return other.comm;
}

static void split_often(struct rank *rank, int times)
{
    for (int i = 0; i < times; i++) {
        uint64_t start = now_ns();
        ncclComm_t comm = split(rank);

        check_nccl(rank, rank->nccl.ncclCommDestroy(comm), "ncclCommDestroy");
        printf("rank %d: split %d took %.0f ms\n", rank->number, i, (double)(now_ns() - start) / 1e6);
    }
}

static void use_many(struct rank *rank, int count)
{
    const struct operation operation = {.name = "all_reduce", .bytes = 65536, .times = 5, .type = NH_FLOAT32};
    ncclComm_t comms[COMMS_MAX];
    struct rank other = *rank;

    if (count < 1 || count > COMMS_MAX)
        fail("comms", "1 to 16");
    other.number = rank->count - 1 - rank->number;
    other.wrong = 0;
    for (int i = 0; i < count; i++)
        comms[i] = split(rank);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < count; i++) {
            other.comm = comms[i];
            run_operation(&other, &operation);
        }
    for (int i = 0; i < count; i++)
        check_nccl(rank, rank->nccl.ncclCommDestroy(comms[i]), "ncclCommDestroy");
    rank->wrong += other.wrong;
}

static void await_file(const char *path)
{
    for (int tries = 0; tries < 300000; tries++) {
        if (!access(path, F_OK))
            return;
        sleep_ms(1);
    }
    fail(path, "no such file in five minutes");
}

static int parse_operation(const char *step, struct operation *operation)
{
    int type = NH_FLOAT32, reduction = NCCL_SUM;

    *operation = (struct operation){.times = 1};
    if (sscanf(step, "%15[a-z_]:%zu:%d:%d:%d:%d", operation->name, &operation->bytes, &operation->times,
               &type, &reduction, &operation->pause_us) < 2 ||
        !is_operation(operation->name) || type < 0 || type >= NH_TYPES || reduction < 0 ||
        reduction >= NCCL_OPERATIONS)
        return -1;
    operation->type = (enum nh_type)type;
    operation->reduction = (enum nccl_operation)reduction;
    return 0;
}

static void run_step(struct rank *rank, const char *step)
{
    struct operation operation;
    char name[16] = "";
    int value = 0;

    if (!parse_operation(step, &operation)) {
        run_operation(rank, &operation);
        return;
    }
    if (!strncmp(step, "mark:", 5)) {
        printf("mark %s\n", step + 5);
        return;
    }
    if (!strncmp(step, "await:", 6)) {
        await_file(step + 6);
        return;
    }
    if (!strncmp(step, "program:", 8)) {
        if (!run_program(rank, step + 8))
            fail(step, "not a program; program.h describes them");
        return;
    }
    if (sscanf(step, "%15[a-z_]:%d", name, &value) != 2)
        fail(step, "not a step; main.c lists them");
    if (!strcmp(name, "split"))
        split_often(rank, value);
    else if (!strcmp(name, "comms"))
        use_many(rank, value);
    else if (!strcmp(name, "in_place"))
        rank->is_in_place = value;
    else if (!strcmp(name, "sleep"))
        sleep_ms(value);
    else if (!strcmp(name, "kill") && value == rank->number)
        kill(getpid(), SIGKILL);
    else if (!strcmp(name, "abort"))
        abort_traffic(rank, value);
    else if (!strcmp(name, "cut") && value == rank->number)
        printf("rank %d: %d control connections cut\n", rank->number, cut_control_network());
    else if (strcmp(name, "kill") && strcmp(name, "cut"))
        fail(step, "not a step; main.c lists them");
}

int main(int argc, char **argv)
{
    struct rank rank = {0};
    int abort_ms;

    if (argc < 5)
        fail("usage", "nccl-rank RANK RANKS ID_FILE LIBNCCL STEP...");
    setvbuf(stdout, NULL, _IOLBF, 0);
    rank.number = atoi(argv[1]);
    rank.count = atoi(argv[2]);
    nccl_open(&rank.nccl, argv[4]);
    if (argc > 5 && sscanf(argv[5], "abort_init:%d", &abort_ms) == 1)
        abort_set_up(&rank, abort_ms);
    connect_ranks(&rank, argv[3]);
    cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking);
    for (int i = 5; i < argc; i++)
        run_step(&rank, argv[i]);
    close_pairs(&rank);
    check_nccl(&rank, rank.nccl.ncclCommDestroy(rank.comm), "ncclCommDestroy");
    cudaStreamDestroy(rank.stream);
    printf("rank %d: %" PRIu64 " wrong elements\n", rank.number, rank.wrong);
    return rank.wrong ? EXIT_WRONG : 0;
}
