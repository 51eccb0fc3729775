/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queue entries as ConnectX writes them, and a send CQ that Detour polls itself. For verbs/ only.
 * The layout is the one of <infiniband/mlx5dv.h> (rdma-core; mlx5_cqe64 and mlx5_err_cqe).
 */
#ifndef DETOUR_VERBS_MLX5_CQ_H
#define DETOUR_VERBS_MLX5_CQ_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_mlx5_cq_out { /* mlx5dv_cq */
    void *buf;
    uint32_t *dbrec;
    uint32_t cqe_count; /* cqe_cnt */
    uint32_t cqe_bytes; /* cqe_size */
    void *cq_uar;
    uint32_t cqn;
    uint64_t comp_mask;
};

enum dt_mlx5_cqe_opcode { /* high half of op_own */
                          DT_MLX5_CQE_REQUEST = 0,
                          DT_MLX5_CQE_REQUEST_ERROR = 13,
                          DT_MLX5_CQE_INVALID = 15 /* never written by the device */
};

enum {
    DT_MLX5_CQE_OWNER = 1,      /* of op_own: changes with every lap of the device */
    DT_MLX5_CQE_FORMAT = 3 << 2 /* of op_own: payload inside, or compressed; neither is asked for */
};

/* Big-endian. Of the successful one and the failed one, what Detour reads is in the same place. */
struct dt_mlx5_cqe { /* mlx5_cqe64, mlx5_err_cqe */
    uint8_t reserved[54];
    uint8_t vendor_syndrome; /* failed */
    uint8_t syndrome;        /* failed; the status */
    uint32_t opcode_qpn;     /* low 24 bits: the queue pair */
    uint16_t wqe_counter;    /* index of the first block of the element */
    uint8_t signature;
    uint8_t op_own;
};

/* A send CQ that Detour polls. The owner's (queue.h, "Threads"). */
struct dt_mlx5_cq {
    const uint8_t *entries; /* the first struct dt_mlx5_cqe: of larger entries it is the second half */
    uint32_t *dbrec;        /* big-endian, 24 bits: how many were taken */
    uint32_t count;         /* a power of two */
    uint32_t entry_bytes;   /* 64 or 128 */
    uint32_t taken;         /* counted freely */
};

/*
 * DT_SYSTEM with the reason in *wrong when the queue does not have the known layout.
 */
enum dt_status dt_mlx5_cq_init(struct dt_mlx5_cq *cq, const struct dt_mlx5_cq_out *out, const char **wrong);

/*
 * As ibv_poll_cq(), which it stands for: up to `count_max` completions, oldest first; -1 for an entry that
 * cannot be (one WARN is the caller's). Filled are wr_id (the wqe_counter), status, vendor_err and qp_num.
 */
int dt_mlx5_poll_cq(struct dt_mlx5_cq *cq, int count_max, struct ibv_wc *completions);

#ifdef __cplusplus
}
#endif

#endif
