/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a test with stock NCCL: its communicator, a stream, and what its steps share. The steps are the
 * arguments of the program (main.c lists them).
 */
#ifndef DETOUR_TESTS_NCCL_CLIENT_RANK_H
#define DETOUR_TESTS_NCCL_CLIENT_RANK_H

#include <stdint.h>

#include "tests/nccl/client/api.h"
#include "tests/nccl/kernels/reduce.h"

enum { RANKS_MAX = 16 };

struct rank {
    struct nccl_api nccl;
    int number, count; /* in comm */
    ncclComm_t comm;
    cudaStream_t stream;
    int has_pairs;
    ncclComm_t pair[RANKS_MAX]; /* program.h: of rank 0 and this one; NULL: this rank is neither */
    int is_in_place; /* collectives from now on; send/receive and all_to_all have two buffers always */
    uint64_t wrong;  /* elements with a wrong value, of all steps */
};

/* Exit codes of the program. */
enum { EXIT_WRONG = 1, EXIT_FAILED = 2, EXIT_USAGE = 3, EXIT_ASYNC_ERROR = 7 };

/* One collective or exchange, as a step names it. */
struct operation {
    char name[16]; /* all_reduce, all_gather, ... */
    size_t bytes;  /* of the largest buffer */
    int times;
    enum nh_type type;
    enum nccl_operation reduction;
    int pause_us; /* between the rounds */
};

uint64_t now_ns(void);

/* Ends the process with NCCL's last error unless the result is success. */
void check_nccl(const struct rank *rank, int result, const char *what);

/*
 * Runs the operation on rank->comm, checks every element of every round and prints one line:
 * rank R: NAME BYTES TYPE OP x TIMES: S s, slowest MS ms, W wrong
 */
void run_operation(struct rank *rank, const struct operation *operation);

/* Waits for the stream. On an asynchronous error of the communicator prints it, aborts and ends the process.
 */
void wait_for_stream(struct rank *rank);

/* False for a name that is no operation. */
int is_operation(const char *name);

#endif
