/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of two on GPU 0, through stock NCCL: all-reduces and sends of many sizes, every element checked on
 * the host. Two processes with different NCCL_HOSTID; the first writes NCCL's unique id to a file, the second
 * reads it.
 *
 *   two_ranks RANK ID_FILE [SIZE_MAX_BYTES]
 */
#include <cuda_runtime.h>
#include <errno.h>
#include <inttypes.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANKS = 2, ROUNDS = 3 };

struct rank {
    int number;
    ncclComm_t comm;
    cudaStream_t stream;
    float *input, *output; /* on the device */
    float *host;
    size_t count_max;
};

#define CUDA(call)                                                                     \
    do {                                                                               \
        cudaError_t error_ = (call);                                                   \
        if (error_ != cudaSuccess) {                                                   \
            fprintf(stderr, "two_ranks: %s: %s\n", #call, cudaGetErrorString(error_)); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

#define NCCL(call)                                                                     \
    do {                                                                               \
        ncclResult_t error_ = (call);                                                  \
        if (error_ != ncclSuccess) {                                                   \
            fprintf(stderr, "two_ranks: %s: %s\n", #call, ncclGetErrorString(error_)); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

/* Small integers: their sums are exact. */
static float value_of(int rank, int round, size_t i)
{
    return (float)((i * 31 + (size_t)round * 7 + (size_t)rank * 3) % 1000);
}

/* The first rank's id under its final name only when it is whole. */
static void write_id(const char *path, const ncclUniqueId *id)
{
    char temporary[4096];
    FILE *file;

    snprintf(temporary, sizeof temporary, "%s.new", path);
    file = fopen(temporary, "wb");
    if (!file || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) || rename(temporary, path)) {
        fprintf(stderr, "two_ranks: %s: %s\n", path, strerror(errno));
        exit(1);
    }
}

static void read_id(const char *path, ncclUniqueId *id)
{
    for (int tries = 0; tries < 600; tries++) {
        FILE *file = fopen(path, "rb");

        if (file) {
            size_t got = fread(id, sizeof *id, 1, file);

            fclose(file);
            if (got == 1)
                return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    fprintf(stderr, "two_ranks: %s: no id from rank 0 in a minute\n", path);
    exit(1);
}

static void fill(struct rank *rank, int round, size_t count)
{
    for (size_t i = 0; i < count; i++)
        rank->host[i] = value_of(rank->number, round, i);
    CUDA(cudaMemcpy(rank->input, rank->host, count * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemset(rank->output, 0xff, count * sizeof(float)));
}

static size_t wrong_elements(struct rank *rank, int round, size_t count, int is_sum)
{
    size_t wrong = 0;

    CUDA(cudaStreamSynchronize(rank->stream));
    CUDA(cudaMemcpy(rank->host, rank->output, count * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) {
        float expected = value_of(1 - rank->number, round, i);

        if (is_sum)
            expected += value_of(rank->number, round, i);
        wrong += rank->host[i] != expected;
    }
    return wrong;
}

static size_t all_reduce(struct rank *rank, int round, size_t count)
{
    fill(rank, round, count);
    NCCL(ncclAllReduce(rank->input, rank->output, count, ncclFloat, ncclSum, rank->comm, rank->stream));
    return wrong_elements(rank, round, count, 1);
}

static size_t send_and_receive(struct rank *rank, int round, size_t count)
{
    fill(rank, round, count);
    NCCL(ncclGroupStart());
    NCCL(ncclSend(rank->input, count, ncclFloat, 1 - rank->number, rank->comm, rank->stream));
    NCCL(ncclRecv(rank->output, count, ncclFloat, 1 - rank->number, rank->comm, rank->stream));
    NCCL(ncclGroupEnd());
    return wrong_elements(rank, round, count, 0);
}

static size_t run(struct rank *rank)
{
    size_t wrong = 0;

    for (size_t count = 1; count <= rank->count_max; count *= 4)
        for (int round = 0; round < ROUNDS; round++) {
            size_t sum = all_reduce(rank, round, count), sent = send_and_receive(rank, round, count);

            if (sum || sent)
                printf("rank %d, %zu elements, round %d: %zu wrong sums, %zu wrong elements sent\n",
                       rank->number, count, round, sum, sent);
            wrong += sum + sent;
        }
    return wrong;
}

static void set_up(struct rank *rank, const char *id_path)
{
    ncclUniqueId id;
    int version;

    CUDA(cudaSetDevice(0));
    NCCL(ncclGetVersion(&version));
    if (rank->number == 0) {
        NCCL(ncclGetUniqueId(&id));
        write_id(id_path, &id);
    } else {
        read_id(id_path, &id);
    }
    NCCL(ncclCommInitRank(&rank->comm, RANKS, id, rank->number));
    CUDA(cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&rank->input, rank->count_max * sizeof(float)));
    CUDA(cudaMalloc((void **)&rank->output, rank->count_max * sizeof(float)));
    rank->host = malloc(rank->count_max * sizeof(float));
    if (!rank->host) {
        fprintf(stderr, "two_ranks: out of memory\n");
        exit(1);
    }
    printf("rank %d: NCCL %d\n", rank->number, version);
}

int main(int argc, char **argv)
{
    struct rank rank = {0};
    unsigned long bytes_max = argc > 3 ? strtoul(argv[3], NULL, 0) : 16ul << 20;

    if (argc < 3 || argc > 4 || (strcmp(argv[1], "0") && strcmp(argv[1], "1")) || bytes_max < sizeof(float)) {
        fprintf(stderr, "usage: two_ranks 0|1 ID_FILE [SIZE_MAX_BYTES]\n");
        return 2;
    }
    rank.number = argv[1][0] - '0';
    rank.count_max = bytes_max / sizeof(float);
    set_up(&rank, argv[2]);
    size_t wrong = run(&rank);
    NCCL(ncclCommDestroy(rank.comm));
    printf("rank %d: %zu wrong elements\n", rank.number, wrong);
    return wrong ? 1 : 0;
}
