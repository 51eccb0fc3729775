/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `dv` back end on ConnectX: what libmlx5 hands over of a queue pair and a completion queue
 * (mlx5dv_init_obj(), a library found at run time), and the completion queue entries that the device writes.
 * For verbs/ only. Layouts are those of <infiniband/mlx5dv.h> (rdma-core), declared here again so that
 * Detour builds without that header; mlx5.c holds the two side by side where it is there. The format of send
 * queue elements is softrnic/wqe.h's.
 *
 * Once Detour posts by itself, libmlx5's view of that send queue is stale: it has neither the outstanding
 * elements nor the wr_id of a completion. So Detour takes over the send CQ with the send queue, and never
 * calls ibv_post_send() or ibv_poll_cq() on the two again. Receive queue and receive CQ stay libmlx5's.
 */
#ifndef DETOUR_VERBS_MLX5_H
#define DETOUR_VERBS_MLX5_H

#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "base/status.h"
#include "verbs/mlx5_cq.h"

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

/* mlx5dv_obj: its first two members, and room for as many more as a release of rdma-core may have. */
struct dt_mlx5_object {
    struct {
        struct ibv_qp *in;
        struct dt_mlx5_qp *out;
    } qp;
    struct {
        struct ibv_cq *in;
        struct dt_mlx5_cq_out *out;
    } cq;
    void *others[14][2];
};

enum dt_mlx5_object_type { DT_MLX5_OBJECT_QP = 1 << 0, DT_MLX5_OBJECT_CQ = 1 << 1 };

enum { DT_MLX5_SEND_RECORD = 1 }; /* which of a queue pair's doorbell records is the send queue's */

/* 0 or an errno; EOPNOTSUPP for what is not mlx5. */
typedef int (*dt_mlx5_init_object)(struct dt_mlx5_object *object, uint64_t types);

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
