/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ConnectX for tests: one library that is libibverbs and libmlx5 at once (DETOUR_IBV_LIB and
 * DETOUR_MLX5_LIB). Behind it stands the software RNIC, whose send queues have mlx5's format already. What a
 * real device does by itself, a thread does here: it sees that a doorbell register was written, and turns
 * completions into entries of the send CQ that was handed over. The plugin and it share memory and nothing
 * else.
 *
 * With the sources of dropin/; that these are compiled with, say, -Ddt_soft_destroy_qp=mlx5_destroy_qp puts
 * the functions here before the software RNIC's.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/atomics.h"
#include "base/list.h"
#include "base/util.h"
#include "dropin/dropin.h"
#include "softrnic/softrnic.h"
#include "softrnic/wqe.h"
#include "verbs/mlx5.h"

#define VENDOR_ID      0x02c9u
#define REGISTER_BYTES 256u
#define QUIET          0x5a5a5a5a5a5a5a5aull /* in a register that was not written */
#define LOOK_NS        50000L
#define BATCH          16

struct queue_pair {
    struct ibv_qp *ibv;
    struct dt_soft_dv_qp soft;
    uint64_t registers[2 * REGISTER_BYTES / 8];
    struct dt_list node;
};

struct completion_queue {
    struct ibv_cq *ibv;
    uint8_t *entries;
    uint32_t count;
    uint32_t written;
    uint32_t dbrec[2];
    struct dt_list node;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* all below */
static struct dt_list qps = {&qps, &qps};
static struct dt_list cqs = {&cqs, &cqs};
static bool has_thread;
static uint32_t looks;                                                        /* by who polls */
static int (*soft_poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *wcs); /* set before any other */

__attribute__((noreturn)) static void wrong(const char *what)
{
    fprintf(stderr, "mlx5 device: %s\n", what);
    abort();
}

/* ------------------------------------------------------------------------------------------------------------
 * The device
 */

/*
 * In place of the system's for the software RNIC in this library: it gives the CPU away when a CQ is polled
 * in vain, which on a busy machine would be once for each queue at each look.
 */
int sched_yield(void)
{
    return 0;
}

/* What to send the doorbell record says; the write is what makes the device look. */
static void look_at_registers(struct queue_pair *qp)
{
    bool is_rung = false;

    for (size_t i = 0; i < DT_COUNT_OF(qp->registers); i++) {
        uint64_t word = dt_exchange_acq_rel(&qp->registers[i], QUIET);

        if (word == QUIET)
            continue;
        if (i != 0 && i != REGISTER_BYTES / 8)
            wrong("a doorbell beside the registers");
        is_rung = true;
    }
    if (is_rung)
        qp->soft.ring(qp->soft.ring_arg);
}

static uint8_t syndrome_of(enum ibv_wc_status status)
{
    static const uint8_t syndromes[] = {
        [IBV_WC_LOC_LEN_ERR] = 0x01,     [IBV_WC_LOC_QP_OP_ERR] = 0x02,     [IBV_WC_LOC_PROT_ERR] = 0x04,
        [IBV_WC_WR_FLUSH_ERR] = 0x05,    [IBV_WC_BAD_RESP_ERR] = 0x10,      [IBV_WC_LOC_ACCESS_ERR] = 0x11,
        [IBV_WC_REM_INV_REQ_ERR] = 0x12, [IBV_WC_REM_ACCESS_ERR] = 0x13,    [IBV_WC_REM_OP_ERR] = 0x14,
        [IBV_WC_RETRY_EXC_ERR] = 0x15,   [IBV_WC_RNR_RETRY_EXC_ERR] = 0x16, [IBV_WC_REM_ABORT_ERR] = 0x22};

    return (size_t)status < DT_COUNT_OF(syndromes) ? syndromes[status] : 0x77;
}

static struct dt_mlx5_cqe *entry(struct completion_queue *cq, uint32_t number)
{
    return (struct dt_mlx5_cqe *)(void *)(cq->entries +
                                          (size_t)(number & (cq->count - 1)) * sizeof(struct dt_mlx5_cqe));
}

static void write_entry(struct completion_queue *cq, const struct ibv_wc *wc)
{
    struct dt_mlx5_cqe *cqe = entry(cq, cq->written);
    uint8_t opcode = wc->status ? DT_MLX5_CQE_REQUEST_ERROR : DT_MLX5_CQE_REQUEST;
    uint8_t lap = (cq->written & cq->count) != 0;

    if (((cq->written - be32toh(dt_load_acquire(&cq->dbrec[0]))) & 0xffffff) >= cq->count)
        wrong("a completion queue is overrun");
    cqe->syndrome = syndrome_of(wc->status);
    cqe->vendor_syndrome = (uint8_t)wc->vendor_err;
    cqe->opcode_qpn = htobe32(wc->qp_num);
    cqe->wqe_counter = htobe16((uint16_t)wc->wr_id);
    dt_store_release(&cqe->op_own, (uint8_t)(opcode << 4 | lap));
    cq->written++;
}

static void look_at_completions(struct completion_queue *cq)
{
    struct ibv_wc wcs[BATCH];
    int taken;

    do {
        taken = soft_poll_cq(cq->ibv, BATCH, wcs);
        if (taken < 0)
            wrong("the software RNIC's completion queue failed");
        for (int i = 0; i < taken; i++)
            write_entry(cq, &wcs[i]);
    } while (taken == BATCH);
}

/* With the mutex held. */
static void look(void)
{
    dt_list_for_each(node, &qps) look_at_registers(dt_container_of(node, struct queue_pair, node));
    dt_list_for_each(node, &cqs) look_at_completions(dt_container_of(node, struct completion_queue, node));
}

/* Who polls a receive CQ is the device for a moment: a real one does not wait for a CPU. */
static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
    if (pthread_mutex_trylock(&mutex) == 0) {
        looks++;
        look();
        pthread_mutex_unlock(&mutex);
    }
    return soft_poll_cq(cq, count, wcs);
}

static void *device_main(void *arg)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};

    uint32_t seen = 0;

    (void)arg;
    for (;;) {
        pthread_mutex_lock(&mutex);
        if (seen == looks)
            look();
        seen = looks;
        pthread_mutex_unlock(&mutex);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* With the mutex held. It ends with the process. */
static void start_thread(void)
{
    pthread_t thread;

    if (has_thread)
        return;
    has_thread = true;
    if (pthread_create(&thread, NULL, device_main, NULL))
        wrong("no thread");
    pthread_detach(thread);
}

/* ------------------------------------------------------------------------------------------------------------
 * libmlx5
 */
static int hand_over_qp(struct ibv_qp *ibv, struct dt_mlx5_qp *out)
{
    struct queue_pair *qp = calloc(1, sizeof *qp);
    int error = qp ? dt_soft_query_qp_dv(ibv, &qp->soft) : ENOMEM;

    if (error) {
        free(qp);
        return error;
    }
    qp->ibv = ibv;
    for (size_t i = 0; i < DT_COUNT_OF(qp->registers); i++)
        qp->registers[i] = QUIET;
    memset(out, 0xaa, sizeof *out); /* nothing that was not asked for is relied on */
    out->dbrec = qp->soft.dbrec;
    out->sq = (struct dt_mlx5_work_queue){qp->soft.sq_buf, qp->soft.sq_wqe_count, qp->soft.sq_stride};
    out->bf.reg = qp->registers;
    out->bf.size = REGISTER_BYTES;
    pthread_mutex_lock(&mutex);
    dt_list_push_back(&qps, &qp->node);
    start_thread();
    pthread_mutex_unlock(&mutex);
    return 0;
}

static int hand_over_cq(struct ibv_cq *ibv, struct dt_mlx5_cq_out *out)
{
    struct completion_queue *cq = calloc(1, sizeof *cq);

    if (!cq)
        return ENOMEM;
    cq->ibv = ibv;
    cq->count = (uint32_t)dt_round_up_power_of_two((uint64_t)ibv->cqe + 1);
    cq->entries = calloc(cq->count, sizeof(struct dt_mlx5_cqe));
    if (!cq->entries) {
        free(cq);
        return ENOMEM;
    }
    for (uint32_t i = 0; i < cq->count; i++)
        entry(cq, i)->op_own = DT_MLX5_CQE_INVALID << 4;
    memset(out, 0xaa, sizeof *out);
    out->buf = cq->entries;
    out->dbrec = cq->dbrec;
    out->cqe_count = cq->count;
    out->cqe_bytes = sizeof(struct dt_mlx5_cqe);
    pthread_mutex_lock(&mutex);
    dt_list_push_back(&cqs, &cq->node);
    pthread_mutex_unlock(&mutex);
    return 0;
}

DT_EXPORT int mlx5dv_init_obj(struct dt_mlx5_object *object, uint64_t types);
DT_EXPORT int mlx5dv_init_obj(struct dt_mlx5_object *object, uint64_t types)
{
    int error = types & DT_MLX5_OBJECT_QP ? hand_over_qp(object->qp.in, object->qp.out) : 0;

    if (!error && types & DT_MLX5_OBJECT_CQ)
        error = hand_over_cq(object->cq.in, object->cq.out);
    return error;
}

/* ------------------------------------------------------------------------------------------------------------
 * libibverbs, where it differs from the drop-in library
 */
int mlx5_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int mlx5_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    int error = dt_soft_query_device(context, attr);

    if (!error)
        attr->vendor_id = VENDOR_ID;
    return error;
}

struct ibv_context *mlx5_open_device(struct ibv_device *device);
struct ibv_context *mlx5_open_device(struct ibv_device *device)
{
    struct ibv_context *context = dt_soft_open_device(device);

    if (!context)
        return NULL;
    pthread_mutex_lock(&mutex);
    soft_poll_cq = context->ops.poll_cq; /* the same of all devices */
    pthread_mutex_unlock(&mutex);
    context->ops.poll_cq = poll_cq;
    return context;
}

int mlx5_destroy_qp(struct ibv_qp *ibv);
int mlx5_destroy_qp(struct ibv_qp *ibv)
{
    struct queue_pair *found = NULL;

    pthread_mutex_lock(&mutex);
    dt_list_for_each(node, &qps)
    {
        struct queue_pair *qp = dt_container_of(node, struct queue_pair, node);

        if (qp->ibv == ibv)
            found = qp;
    }
    if (found)
        dt_list_remove(&found->node);
    pthread_mutex_unlock(&mutex);
    free(found);
    return dt_soft_destroy_qp(ibv);
}

int mlx5_destroy_cq(struct ibv_cq *ibv);
int mlx5_destroy_cq(struct ibv_cq *ibv)
{
    struct completion_queue *found = NULL;

    pthread_mutex_lock(&mutex);
    dt_list_for_each(node, &cqs)
    {
        struct completion_queue *cq = dt_container_of(node, struct completion_queue, node);

        if (cq->ibv == ibv)
            found = cq;
    }
    if (found) {
        dt_list_remove(&found->node);
        free(found->entries);
    }
    pthread_mutex_unlock(&mutex);
    free(found);
    return dt_soft_destroy_cq(ibv);
}
