/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that fail on command, real ones included: the effects of a bad cable, firmware or driver, for
 * experiments and tests.
 *
 * The faults take effect between Detour and the library (fault_layer.h), so every device can have them.
 * Without a fault the data path of a device is the library's own; a fault of the data path puts a function in
 * front of the one that it concerns while the fault lasts.
 *
 * The faults of a device are a state: each call replaces the whole set.
 */
#ifndef DETOUR_VERBS_FAULT_H
#define DETOUR_VERBS_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DEVICE_FAULTS_MAX 16

enum dt_device_fault_kind {
    /*
     * The port has no link. The state that a real port reaches when its retries are exhausted, seconds later,
     * is set at once: all connected queue pairs are in the error state, and no other can be connected
     * (ENETDOWN). Raises PORT_ERROR when it begins, PORT_ACTIVE when it ends. Counts queue pairs.
     */
    DT_DEVICE_FAULT_DOWN,
    /* The same, with DEVICE_FATAL, and nothing can be made or changed any more (EIO): for good. */
    DT_DEVICE_FAULT_DEAD,
    DT_DEVICE_FAULT_FAIL, /* `call` answers `error` and does nothing. Counts calls */
    DT_DEVICE_FAULT_HANG, /* `call` (of those that make, change, query or destroy something) does not return
                             until the fault is removed. Counts calls */
    /*
     * The next successful completion of a send reports `status` instead. As after a real error, its queue
     * pair is then in the error state and no further send of it succeeds; receives that had completed remain
     * complete. With DT_DEVICE_STATUS_LOST that completion is lost, as is every later completion of a send
     * and every flush completion of the queue pair. Counts completions.
     */
    DT_DEVICE_FAULT_STATUS,
    DT_DEVICE_FAULT_SILENT, /* completion queues look empty. Counts polls */
    DT_DEVICE_FAULT_EVENT,  /* `event` is raised, once; nothing else happens. Counts events */
    /*
     * In the error state, the device behaves as with the provider `personality`. Counts completions that
     * become flushed work (IONIC, BNXT), calls without an effect (MLX5), receives that are lost (RXE), posts
     * that are refused (MANA).
     */
    DT_DEVICE_FAULT_PERSONALITY
};

/*
 * Providers, as rdma-core and Linux have them (rdma-core 691953d, Linux 6.1). In all of them, work that was
 * not completed comes back as flushed once the queue pair is in the error state.
 *
 * IONIC, providers/ionic/ionic_verbs.c: after ibv_modify_qp() to ERR has returned success, ionic_poll_recv()
 * and ionic_poll_send() skip successful completions that were not polled, and the library itself reports the
 * work as flushed. A marker thus shows that the firmware has answered modify_qp.
 *
 * BNXT, providers/bnxt_re/verbs.c and Linux, drivers/infiniband/hw/bnxt_re/qplib_fp.c: a completion covers
 * all sends up to an index, so the successful sends before a failure may have no completion of their own. The
 * kernel's driver reports them as successful (bnxt_qplib_cq_process_req(), _terminal()), the library does
 * not: bnxt_re_poll_err_scqe() reports the oldest send as the failed one, bnxt_re_poll_term_cqe() ignores the
 * index, and the rest is flushed. Here a failed send covers the successful ones before it in the same poll,
 * and a move to ERR all that were not polled. Besides, the terminal completion of a queue pair in one
 * completion queue makes the library report the work of the other queue as flushed as soon as that queue is
 * empty; a successful completion that the device writes later is lost. Here each completion with an error
 * counts as a terminal one.
 *
 * MLX5, Linux, drivers/net/ethernet/mellanox/mlx5/core/cmd.c: after DEVICE_FATAL the driver answers 2ERR_QP
 * and DESTROY_QP with success and the device does nothing; providers/mlx5/verbs.c passes that on. Here
 * modify_qp has no effect then, and destroy_qp succeeds although a fault would refuse it; the object below is
 * destroyed, since the library could not free its memory otherwise.
 *
 * RXE, providers/rxe/rxe.c: rxe_post_recv() writes to a queue in shared memory and makes no system call, so
 * nothing looks at a receive that is posted in the error state, and it never completes. Here each call of
 * post_recv queries the state of the queue pair.
 *
 * MANA, providers/mana/wr.c: mana_ib_post_send() and mana_ib_post_recv() answer EINVAL once the queue pair is
 * in the error state, so that no marker can be posted there. bnxt_re did the same before rdma-core 47, and
 * ocrdma still does for sends. Those libraries notice the state by an error completion, an event or
 * modify_qp; here each post queries it, which refuses posts earlier. Sends of the `std` back end only.
 */
enum dt_device_personality {
    DT_DEVICE_PERSONALITY_MLX5,
    DT_DEVICE_PERSONALITY_IONIC,
    DT_DEVICE_PERSONALITY_BNXT,
    DT_DEVICE_PERSONALITY_RXE,
    DT_DEVICE_PERSONALITY_MANA
};

enum dt_device_call {
    DT_DEVICE_CALL_POST_SEND, /* queue pairs of the `std` back end; `dv` posts without a call */
    DT_DEVICE_CALL_POST_RECV,
    DT_DEVICE_CALL_POLL_CQ, /* the CQ is then unusable: polling answers -1 */
    DT_DEVICE_CALL_MODIFY_QP,
    DT_DEVICE_CALL_QUERY_QP,
    DT_DEVICE_CALL_CREATE_QP,
    DT_DEVICE_CALL_DESTROY_QP,
    DT_DEVICE_CALL_CREATE_CQ,
    DT_DEVICE_CALL_REG_MR,
    DT_DEVICE_CALL_QUERY_PORT, /* of a device that was opened; not when devices are discovered */
    DT_DEVICE_CALL_QUERY_GID
};

#define DT_DEVICE_STATUS_LOST UINT32_MAX

struct dt_device_fault {
    uint32_t id; /* the caller's: a fault with the id of an existing one continues it */
    enum dt_device_fault_kind kind;
    enum dt_device_call call;
    int error;
    uint32_t status;          /* enum dt_wc_status, or DT_DEVICE_STATUS_LOST */
    enum dt_event_type event; /* CQ_ERROR and QP_FATAL are those of the oldest connected queue pair */
    uint64_t limit;  /* FAIL, HANG, STATUS: acts this many times; 0: without limit. What is posted and
                        completed on queue pairs without messages (dt_qp_options) does not count */
    uint64_t *fired; /* incremented each time it acts [atomic] */
    enum dt_device_personality personality;
};

/*
 * Replaces the device's faults; a count of 0 removes all. Calls that hang in a removed fault return. `fired`
 * of a removed fault is not accessed any more. Returns whether dt_device_break() has something to do. Does
 * not block but for work of the device that is under way. One thread at a time.
 */
bool dt_device_set_faults(struct dt_device *device, const struct dt_device_fault *faults, size_t count);

/* Brings queue pairs into the error state that a fault wants there. The control thread of the device. */
void dt_device_break(struct dt_device *device);

#ifdef __cplusplus
}
#endif

#endif
