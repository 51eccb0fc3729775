/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `dv` back end on ConnectX: what libmlx5 hands over of a queue pair and a completion queue
 * (mlx5dv_init_obj(), a library found at run time), and the completion queue entries that the device writes.
 * For verbs/ only. Layouts are those of <infiniband/mlx5dv.h> (rdma-core), declared here again so that
 * Detour builds without that header; mlx5.c holds the two side by side where it is there. The format of send
 * queue elements is softrnic/wqe.h's.
 *
 * Once Detour posts by itself, libmlx5's view of that send queue is stale: it neither knows which elements
 * are outstanding nor which wr_id a completion has. So the send CQ is taken over with the send queue, and
 * nobody calls ibv_post_send() or ibv_poll_cq() on the two any more. Receive queue and receive CQ stay
 * libmlx5's.
 */
#ifndef DETOUR_VERBS_MLX5_H
#define DETOUR_VERBS_MLX5_H

#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------
 * mlx5dv_init_obj()
 */
struct dt_mlx5_work_queue {
    void *buf;
    uint32_t block_count; /* wqe_cnt */
    uint32_t stride;      /* bytes of a block */
};

struct dt_mlx5_qp { /* mlx5dv_qp */
    uint32_t *dbrec;
    struct dt_mlx5_work_queue sq;
    struct dt_mlx5_work_queue rq;
    struct {
        void *reg;
        uint32_t size; /* of each of two buffers side by side, used in turn; 0: there is only the one */
    } bf;
    uint64_t comp_mask; /* in: which of the following are wanted; none */
    off_t uar_mmap_offset;
    uint32_t tirn;
    uint32_t tisn;
    uint32_t rqn;
    uint32_t sqn;
    uint64_t tir_icm_addr;
};

struct dt_mlx5_cq_out { /* mlx5dv_cq */
    void *buf;
    uint32_t *dbrec;
    uint32_t cqe_count; /* cqe_cnt */
    uint32_t cqe_bytes; /* cqe_size */
    void *cq_uar;
    uint32_t cqn;
    uint64_t comp_mask;
};

struct dt_mlx5_object { /* mlx5dv_obj; the others are not Detour's business */
    struct {
        struct ibv_qp *in;
        struct dt_mlx5_qp *out;
    } qp;
    struct {
        struct ibv_cq *in;
        struct dt_mlx5_cq_out *out;
    } cq;
    void *others[5][2];
};

enum dt_mlx5_object_type { DT_MLX5_OBJECT_QP = 1 << 0, DT_MLX5_OBJECT_CQ = 1 << 1 };

enum { DT_MLX5_SEND_RECORD = 1 }; /* which of a queue pair's doorbell records is the send queue's */

/* 0 or an errno; EOPNOTSUPP for what is not mlx5. */
typedef int (*dt_mlx5_init_object)(struct dt_mlx5_object *object, uint64_t types);

/* ------------------------------------------------------------------------------------------------------------
 * Completion queue entries
 */
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
 * DT_SYSTEM with a text in *wrong that says why: not what the device is known to make.
 */
enum dt_status dt_mlx5_cq_init(struct dt_mlx5_cq *cq, const struct dt_mlx5_cq_out *out, const char **wrong);

/*
 * As ibv_poll_cq(), which it stands for: up to `count_max` completions, oldest first; -1 for an entry that
 * cannot be (one WARN is the caller's). Filled are wr_id (the wqe_counter), status, vendor_err and qp_num.
 */
int dt_mlx5_poll_cq(struct dt_mlx5_cq *cq, int count_max, struct ibv_wc *completions);

struct dt_verbs;
struct dt_qp;

/*
 * A doorbell register of its own for a queue pair that is about to be created, so that no queue pair that
 * libmlx5 posts to, under its own lock, writes to the same one: fills qp->td and qp->domain, in which the
 * queue pair is to be made. Where there is none, a register is shared (one INFO) and both stay NULL.
 */
void dt_mlx5_open_domain(struct dt_qp *qp);

/* After the queue pair was destroyed; also without a domain. */
void dt_mlx5_close_domain(struct dt_qp *qp);

/*
 * Takes the send queue over: fills qp->queue. DT_UNSUPPORTED: the device is not of mlx5, or there is no
 * libmlx5; DT_SYSTEM. One WARN each. Takes no CQ yet.
 */
enum dt_status dt_mlx5_take_send_queue(struct dt_qp *qp);

/* Takes the send CQ over, for good. The same errors. */
enum dt_status dt_mlx5_take_send_cq(struct dt_qp *qp);

#ifdef __cplusplus
}
#endif

#endif
