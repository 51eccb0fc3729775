/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's public interface, taken by name from the libnccl that the test names: no header of NCCL is needed to
 * build. Types are those of nccl.h, enumerations as int.
 */
#ifndef DETOUR_TESTS_NCCL_CLIENT_API_H
#define DETOUR_TESTS_NCCL_CLIENT_API_H

#include <cuda_runtime.h>
#include <stddef.h>

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char bytes[128];
} ncclUniqueId;

/* ncclConfig_t of NCCL 2.18, which newer ones accept. */
struct nccl_config {
    size_t bytes;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
};

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };
enum nccl_operation { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG, NCCL_OPERATIONS };

#define NCCL_FUNCTIONS(X)                                                                                    \
    X(int, ncclGetVersion, (int *version))                                                                   \
    X(int, ncclGetUniqueId, (ncclUniqueId * id))                                                             \
    X(const char *, ncclGetErrorString, (int result))                                                        \
    X(const char *, ncclGetLastError, (ncclComm_t comm))                                                     \
    X(int, ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))                      \
    X(int, ncclCommInitRankConfig,                                                                           \
      (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, struct nccl_config *config))                 \
    X(int, ncclCommSplit,                                                                                    \
      (ncclComm_t comm, int color, int key, ncclComm_t *new_comm, struct nccl_config *config))               \
    X(int, ncclCommDestroy, (ncclComm_t comm))                                                               \
    X(int, ncclCommAbort, (ncclComm_t comm))                                                                 \
    X(int, ncclCommGetAsyncError, (ncclComm_t comm, int *error))                                             \
    X(int, ncclGroupStart, (void))                                                                           \
    X(int, ncclGroupEnd, (void))                                                                             \
    X(int, ncclSend,                                                                                         \
      (const void *buffer, size_t count, int type, int peer, ncclComm_t comm, cudaStream_t stream))          \
    X(int, ncclRecv, (void *buffer, size_t count, int type, int peer, ncclComm_t comm, cudaStream_t stream)) \
    X(int, ncclAllReduce,                                                                                    \
      (const void *in, void *out, size_t count, int type, int operation, ncclComm_t comm,                    \
       cudaStream_t stream))                                                                                 \
    X(int, ncclReduce,                                                                                       \
      (const void *in, void *out, size_t count, int type, int operation, int root, ncclComm_t comm,          \
       cudaStream_t stream))                                                                                 \
    X(int, ncclBroadcast,                                                                                    \
      (const void *in, void *out, size_t count, int type, int root, ncclComm_t comm, cudaStream_t stream))   \
    X(int, ncclAllGather,                                                                                    \
      (const void *in, void *out, size_t count, int type, ncclComm_t comm, cudaStream_t stream))             \
    X(int, ncclReduceScatter,                                                                                \
      (const void *in, void *out, size_t count, int type, int operation, ncclComm_t comm,                    \
       cudaStream_t stream))

struct nccl_api {
#define MEMBER(result, name, arguments) result(*name) arguments;
    NCCL_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Opens `path`, takes the functions and redirects its calls of the CUDA runtime. Ends the process on failure.
 */
void nccl_open(struct nccl_api *api, const char *path);

#endif
