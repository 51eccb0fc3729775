/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue pairs of one epoch of a path, with their completion queues. Everything here may block and belongs
 * on the control thread of the path's device.
 *
 * The set in use lies flat in struct dt_path; a fresh one is made beside it, and the one before is kept in
 * the error state for a while, so that its numbers are not given to new queue pairs as long as late packets
 * may carry them.
 */
#ifndef DETOUR_TRANSPORT_PATH_QUEUES_H
#define DETOUR_TRANSPORT_PATH_QUEUES_H

#include <stdint.h>

#include "base/list.h"
#include "transport/path/path.h"
#include "transport/protocol/frames.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How the probe queue pair of a path that may still be dead is linked: its last retry ends about 4 s after
 * the first attempt, (retries + 1) * 4.096 us * 2^exponent, whatever the settings of the data queue pairs
 * are.
 */
#define DT_PROBE_TIMEOUT_EXPONENT 17
#define DT_PROBE_RETRY_COUNT      7

struct dt_path_queues {
    struct dt_list node; /* in path->retired */
    uint32_t epoch;
    uint32_t generation; /* of the device */
    uint32_t inline_bytes;
    uint64_t retired_ns; /* when the next epoch replaced it */
    struct dt_qp *qp[DT_QPS_MAX];
    struct dt_cq *send_cq[DT_QPS_MAX];
    struct dt_cq *recv_cq;
    struct dt_qp *probe;
    struct dt_cq *probe_cq;
    struct dt_ece ece;      /* of each data queue pair: a sender's offer; once they are linked, in use */
    struct dt_flush *flush; /* receiver: of a retired epoch; the one in use stays with the path */
};

/* The receive completions of a set that were still there immediately before its queue pairs were destroyed.
 */
struct dt_last_receives {
    uint32_t count;
    uint32_t count_max;
    struct dt_completion completion[];
};

/*
 * Memory of the queues of one epoch of the path, as ConnectX's library allocates it (verbs/mlx5_size.h), and
 * of its control memory. What the device itself keeps is not known.
 */
uint64_t dt_path_bytes(const struct dt_path *path);

/* Slots that a device's queues can hold for every part with the settings' back end and queue pairs per path;
 * 0: not even DT_SLOTS_MIN. */
uint32_t dt_path_slots_max(const struct dt_params *params, const struct dt_device_info *info);

/*
 * Makes completion queues and queue pairs with random first packet numbers, and posts the receiver's
 * zero-length receives. On failure *queues has the objects created so far, for dt_path_queues_destroy().
 */
enum dt_status dt_path_queues_create(struct dt_path *path, uint32_t epoch, struct dt_path_queues *queues);

/*
 * Connects the probe's and the others to the peer's; *ece is then what the others use of the peer's ECE
 * options. `is_attempt`: on a path that may still be dead, so quietly. DT_AGAIN, at set-up only: the device
 * refused one for now; a repeated call goes on with that one.
 */
enum dt_status dt_path_queues_link(struct dt_path *path, struct dt_qp *probe, struct dt_qp *const *qp,
                                   const struct dt_path_offer *peer, bool is_attempt, struct dt_ece *ece);

/*
 * Owner: room for the completion of every receive that is outstanding on the set in use, which is about to be
 * put aside and destroyed. NULL: out of memory.
 */
struct dt_last_receives *dt_path_last_receives_create(const struct dt_path *path);

/* Polls the set's receives into *last, before dt_path_queues_destroy() discards them. */
void dt_path_queues_poll_last(const struct dt_path_queues *queues, struct dt_last_receives *last);

/*
 * Has the device destroy the set's data queue pairs, and keeps the rest. DT_SYSTEM: it refused one, which may
 * still receive; the call may be repeated.
 */
enum dt_status dt_path_queues_end(const struct dt_path *path, struct dt_path_queues *queues);

/* Destroys and frees every member that exists. */
void dt_path_queues_destroy(struct dt_path *path, struct dt_path_queues *queues);

/* Timeouts, retries and traffic class of every data queue pair, from the settings. */
struct dt_qp_link_options dt_path_link_options(const struct dt_environment *environment);

/* The posting back end of the device's data queue pairs, from the settings. */
enum dt_posting_kind dt_path_posting(const struct dt_params *params, const struct dt_device_info *info);

/* 24 bits. */
uint32_t dt_path_random_psn(struct dt_environment *environment);

/*
 * Owner: puts a fresh set into use, as the path's `queues->epoch`; *queues is free for another use
 * afterwards. The set that was in use goes to *old.
 */
void dt_path_adopt(struct dt_path *path, struct dt_path_queues *queues, struct dt_path_queues *old);

#ifdef __cplusplus
}
#endif

#endif
