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
#include "transport/connection.h"
#include "transport/wire_messages.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_path_queues {
    struct dt_list node; /* in path->retired */
    uint32_t epoch;
    uint32_t inline_bytes;
    uint64_t retired_ns; /* when it was put aside */
    struct dt_qp *qp[DT_QPS_MAX];
    struct dt_cq *send_cq[DT_QPS_MAX];
    struct dt_cq *recv_cq;
    struct dt_qp *probe;
    struct dt_cq *probe_cq;
    struct dt_flush *flush; /* receiver: of a retired epoch; the one in use stays with the path */
};

/*
 * What the queues of one epoch of the path take, at 64 bytes for a send or a completion and 16 for a receive,
 * as on ConnectX, and its control memory; what the driver adds is not known.
 */
uint64_t dt_path_bytes(const struct dt_path *path);

/* Slots that a device's queues can hold for every part with this back end; 0: not even DT_SLOTS_MIN. */
uint32_t dt_path_slots_max(const struct dt_device_info *info, enum dt_posting_kind posting);

/*
 * Makes completion queues and queue pairs with random first packet numbers, and posts the receiver's blank
 * receives. What was made before something failed is left in *queues, for dt_path_queues_destroy().
 */
enum dt_status dt_path_queues_create(struct dt_path *path, uint32_t epoch, struct dt_path_queues *queues);

/* Connects the probe's and the others to the peer's. `is_attempt`: on a path that may still be dead, so
 * quietly. */
enum dt_status dt_path_queues_link(struct dt_path *path, struct dt_qp *probe, struct dt_qp *const *qp,
                                   const struct dt_path_offer *peer, bool is_attempt);

/* Everything of them that is there is gone afterwards. */
void dt_path_queues_destroy(struct dt_path *path, struct dt_path_queues *queues);

/* How Detour's queue pairs are connected. */
struct dt_qp_link_options dt_path_link_options(const struct dt_net *net);

/* The back end of the device's data queue pairs, as the settings say. */
enum dt_posting_kind dt_path_posting(const struct dt_params *params, const struct dt_device_info *info);

/* 24 bits. */
uint32_t dt_path_random_psn(struct dt_net *net);

/*
 * Owner: puts a fresh set into use, as the path's `queues->epoch`; *queues is free for another use
 * afterwards. What was in use goes to *old.
 */
void dt_path_adopt(struct dt_path *path, struct dt_path_queues *queues, struct dt_path_queues *old);

#ifdef __cplusplus
}
#endif

#endif
