/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/path/queues.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/util.h"
#include "failover/planted.h"
#include "transport/path/nic.h"
#include "transport/protocol/work_id.h"
#include "verbs/mlx5_size.h"

#define PROBE_DEPTH       16
#define RNR_RETRY_FOREVER 7
#define RNR_TIMER         12 /* 0.64 ms */

/* ------------------------------------------------------------------------------------------------------------
 * Sizes
 */
/* Elements of 256 bytes then fill 128 KiB, and the completions, with one place more, 32 KiB. */
#define SENDER_DEPTH_MAX 511

DT_STATIC_CHECK(SENDER_DEPTH_MAX >= 2 * DT_WRITES_PER_MESSAGE_MAX, "a message fits behind another");

/*
 * A sender's queue pair holds every part of every slot, one write each, and one message that takes as many
 * writes as a message can, up to the maximum. More than that waits for room, as any sender does.
 */
static uint32_t sender_depth(uint32_t slots)
{
    return (uint32_t)dt_min_u64(slots * DT_PARTS_MAX + DT_WRITES_PER_MESSAGE_MAX, SENDER_DEPTH_MAX);
}

static uint32_t inline_bytes(bool is_sender)
{
    return is_sender ? DT_SEND_INLINE_BYTES : DT_INLINE_BYTES;
}

/*
 * A receiver has at most one CTS write per slot whose completion is not known (may_send_cts() in receive.c),
 * and the marker of a fence behind them. With half as many more, elements of ConnectX still fit 32 KiB.
 */
static uint32_t receiver_depth(uint32_t slots)
{
    return slots + slots / 2;
}

/* One receive per part and slot, and two per eager bounce buffer (EAGER and DISCARD), plus a
 * batch of consumed receives that have not been posted again. */
static uint32_t receive_depth(uint32_t slots)
{
    return slots * DT_PARTS_MAX + DT_EMPTY_RECV_BATCH + 2 * DT_EAGER_PLACES;
}

static uint32_t sender_wr_count(enum dt_posting_kind posting, uint32_t slots)
{
    return dt_qp_wr_count(posting, sender_depth(slots), DT_SEND_INLINE_BYTES);
}

uint32_t dt_path_slots_max(const struct dt_params *params, const struct dt_device_info *info)
{
    enum dt_posting_kind posting = dt_path_posting(params, info);

    for (uint32_t slots = DT_SLOTS_MAX; slots >= DT_SLOTS_MIN; slots /= 2) {
        if (sender_wr_count(posting, slots) <= info->qp_wr_max && receive_depth(slots) <= info->qp_wr_max &&
            receive_depth(slots) * params->qps_per_path <= info->cqe_max)
            return slots;
    }
    return 0;
}

uint64_t dt_path_bytes(const struct dt_path *path)
{
    const struct dt_path_group *group = path->group;
    enum dt_posting_kind posting = dt_path_posting(&group->environment->params, &path->nic->info);
    uint32_t depth = group->is_sender ? sender_depth(group->slots) : receiver_depth(group->slots);
    uint32_t payload = inline_bytes(group->is_sender);
    uint32_t sends = dt_qp_wr_count(posting, depth, payload);
    uint32_t receives = group->is_sender ? 1 : receive_depth(group->slots);
    uint64_t of_pair = dt_mlx5_qp_bytes(sends, payload, receives) + dt_mlx5_cq_bytes(depth);
    uint64_t of_probe = dt_mlx5_qp_bytes(PROBE_DEPTH, 0, PROBE_DEPTH) + dt_mlx5_cq_bytes(2 * PROBE_DEPTH);

    return path->control_bytes + of_probe + path->qp_count * of_pair +
           dt_mlx5_cq_bytes(path->qp_count * receives);
}

/* ------------------------------------------------------------------------------------------------------------
 * Create
 */
enum dt_posting_kind dt_path_posting(const struct dt_params *params, const struct dt_device_info *info)
{
    const char *posting = params->posting;

    if (strcmp(posting, "auto") == 0)
        return info->is_soft ? DT_POSTING_DV : DT_POSTING_STD;
    return strcmp(posting, "dv") == 0 ? DT_POSTING_DV : DT_POSTING_STD;
}

uint32_t dt_path_random_psn(struct dt_environment *environment)
{
    uint32_t psn = (uint32_t)dt_environment_random(environment) & 0xffffff;

    return DT_PLANTED(SAME_PSNS) ? 0 : psn;
}

static enum dt_status create_queue_pair(struct dt_path *path, struct dt_path_queues *queues, uint32_t q)
{
    const struct dt_path_group *group = path->group;
    struct dt_device *device = dt_nic_device(path->nic);
    uint32_t sq_depth = group->is_sender ? sender_depth(group->slots) : receiver_depth(group->slots);
    uint32_t rq_depth = group->is_sender ? 1 : receive_depth(group->slots);
    enum dt_status status = dt_cq_create(device, sq_depth, path, &queues->send_cq[q]);
    struct dt_qp_options options = {
        .send_cq = queues->send_cq[q],
        .recv_cq = queues->recv_cq,
        .sq_depth = sq_depth,
        .rq_depth = rq_depth,
        .inline_bytes = inline_bytes(group->is_sender),
        .recv_wr_id = dt_work_encode(DT_WORK_RECEIVE, path->index, q, queues->epoch, 0),
        .posting = dt_path_posting(&group->environment->params, &path->nic->info),
        .access = DT_MR_REMOTE_WRITE | DT_MR_LOCAL_WRITE,
        .psn = dt_path_random_psn(group->environment),
        .user = path,
    };

    if (status == DT_OK)
        status = dt_qp_create(device, &options, &queues->qp[q]);
    if (status != DT_OK)
        return status;
    if (q == 0 || dt_qp_inline_bytes(queues->qp[q]) < queues->inline_bytes)
        queues->inline_bytes = dt_qp_inline_bytes(queues->qp[q]);
    return group->is_sender ? DT_OK : dt_qp_post_empty_recvs(queues->qp[q], rq_depth);
}

static enum dt_status create_probe(struct dt_path *path, struct dt_path_queues *queues)
{
    enum dt_status status = dt_cq_create(dt_nic_device(path->nic), 2 * PROBE_DEPTH, path, &queues->probe_cq);
    struct dt_qp_options options = {
        .send_cq = queues->probe_cq,
        .recv_cq = queues->probe_cq,
        .sq_depth = PROBE_DEPTH,
        .rq_depth = PROBE_DEPTH,
        .recv_wr_id = dt_work_encode(DT_WORK_PROBE, path->index, 0, queues->epoch, 0),
        .posting = DT_POSTING_STD,
        .access = DT_MR_REMOTE_WRITE | DT_MR_LOCAL_WRITE,
        .psn = dt_path_random_psn(path->group->environment),
        .user = path,
        .is_probe = true,
    };

    return status == DT_OK ? dt_qp_create(dt_nic_device(path->nic), &options, &queues->probe) : status;
}

/* What every data queue pair of the set has, or none: made alike on one device, all have the same. */
static struct dt_ece common_ece(const struct dt_path *path, struct dt_qp *const *qp)
{
    struct dt_ece common, other;

    dt_qp_query_ece(qp[0], &common);
    for (uint32_t q = 1; q < path->qp_count; q++) {
        dt_qp_query_ece(qp[q], &other);
        if (other.vendor_id != common.vendor_id || other.options != common.options)
            return (struct dt_ece){0};
    }
    return common;
}

enum dt_status dt_path_queues_create(struct dt_path *path, uint32_t epoch, struct dt_path_queues *queues)
{
    const struct dt_path_group *group = path->group;
    uint32_t receives = group->is_sender ? path->qp_count : receive_depth(group->slots) * path->qp_count;
    enum dt_status status;

    DT_CHECK(path->qp_count >= 1 && path->qp_count <= DT_QPS_MAX);
    memset(queues, 0, sizeof *queues);
    dt_list_init(&queues->node);
    queues->epoch = epoch;
    queues->generation = dt_device_generation(dt_nic_device(path->nic));
    status = dt_cq_create(dt_nic_device(path->nic), receives, path, &queues->recv_cq);
    for (uint32_t q = 0; q < path->qp_count && status == DT_OK; q++)
        status = create_queue_pair(path, queues, q);
    if (status == DT_OK && group->is_sender && group->uses_ece)
        queues->ece = common_ece(path, queues->qp);
    return status == DT_OK ? create_probe(path, queues) : status;
}

/* ------------------------------------------------------------------------------------------------------------
 * Link, destroy
 */
struct dt_qp_link_options dt_path_link_options(const struct dt_environment *environment)
{
    struct dt_qp_link_options options = {
        .timeout_exponent = (uint32_t)environment->params.timeout_exponent,
        .retry_count = (uint32_t)environment->params.retry_count,
        .rnr_retry_count = RNR_RETRY_FOREVER,
        .min_rnr_timer = RNR_TIMER,
        .traffic_class = (uint32_t)environment->params.traffic_class,
        .service_level = (uint32_t)environment->params.service_level,
        .rd_atomic = 1,
    };

    return options;
}

enum dt_status dt_path_queues_link(struct dt_path *path, struct dt_qp *probe, struct dt_qp *const *qp,
                                   const struct dt_path_offer *peer, bool is_attempt, struct dt_ece *ece)
{
    const struct dt_path_group *group = path->group;
    const struct dt_params *params = &group->environment->params;
    struct dt_qp_link_options options = dt_path_link_options(group->environment);
    struct dt_qp_link_options probe_options = options;
    enum dt_status status;

    if (!group->is_sender && params->fifo_tc <= UINT8_MAX)
        options.traffic_class = (uint32_t)params->fifo_tc;
    options.is_attempt = probe_options.is_attempt = is_attempt;
    if (!is_attempt) { /* set-up: reachability.h; and it repeats what may be repeated */
        options.repeat = probe_options.repeat =
            params->link_retry_all ? DT_QP_REPEAT_ALL : DT_QP_REPEAT_TIMEOUT;
        probe_options.timeout_exponent = DT_PROBE_TIMEOUT_EXPONENT;
        probe_options.retry_count = DT_PROBE_RETRY_COUNT;
    }
    status = dt_qp_connect(probe, &peer->probe, &probe_options);
    if (group->uses_ece && dt_offer_has_ece_room(path->nic->name, path->qp_count))
        options.ece = peer->ece;
    *ece = options.ece;
    for (uint32_t q = 0; q < path->qp_count && status == DT_OK; q++) {
        struct dt_qp_address address = dt_offer_address(peer, q);

        status = dt_qp_connect(qp[q], &address, &options);
    }
    if (ece->options) /* the device may have refused or reduced them */
        *ece = common_ece(path, qp);
    return status;
}

struct dt_last_receives *dt_path_last_receives_create(const struct dt_path *path)
{
    struct dt_last_receives *last;
    uint32_t count_max = 0;

    for (uint32_t q = 0; q < path->qp_count; q++)
        count_max += path->qp[q] ? dt_qp_recvs_outstanding(path->qp[q]) : 0;
    last = calloc(1, sizeof *last + count_max * sizeof last->completion[0]);
    if (last)
        last->count_max = count_max;
    return last;
}

void dt_path_queues_poll_last(const struct dt_path_queues *queues, struct dt_last_receives *last)
{
    int count = queues->recv_cq ? 1 : 0;

    while (count > 0) {
        count = dt_cq_poll(queues->recv_cq, &last->completion[last->count], last->count_max - last->count);
        last->count += count > 0 ? (uint32_t)count : 0;
        DT_CHECK(last->count <= last->count_max);
    }
}

enum dt_status dt_path_queues_end(const struct dt_path *path, struct dt_path_queues *queues)
{
    enum dt_status status = DT_OK;

    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (queues->qp[q] && dt_qp_end(queues->qp[q]) != DT_OK)
            status = DT_SYSTEM;
    }
    return status;
}

void dt_path_queues_destroy(struct dt_path *path, struct dt_path_queues *queues)
{
    if (queues->flush)
        dt_flush_destroy(queues->flush);
    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (queues->qp[q])
            dt_qp_destroy(queues->qp[q]);
    }
    if (queues->probe)
        dt_qp_destroy(queues->probe);
    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (queues->send_cq[q])
            dt_cq_destroy(queues->send_cq[q]);
    }
    if (queues->recv_cq)
        dt_cq_destroy(queues->recv_cq);
    if (queues->probe_cq)
        dt_cq_destroy(queues->probe_cq);
    memset(queues, 0, sizeof *queues);
}

/* ------------------------------------------------------------------------------------------------------------
 * Use
 */
void dt_path_adopt(struct dt_path *path, struct dt_path_queues *queues, struct dt_path_queues *old)
{
    /* The queue pairs of an epoch are never replaced within it. */
    DT_CHECK(!queues->recv_cq || queues->epoch > path->epoch ||
             (queues->epoch == path->epoch && !path->recv_cq));
    memset(old, 0, sizeof *old);
    dt_list_init(&old->node);
    old->epoch = path->epoch;
    memcpy(old->qp, path->qp, sizeof old->qp);
    memcpy(old->send_cq, path->send_cq, sizeof old->send_cq);
    old->recv_cq = path->recv_cq;
    old->probe = path->probe;
    old->probe_cq = path->probe_cq;

    memcpy(path->qp, queues->qp, sizeof path->qp);
    memcpy(path->send_cq, queues->send_cq, sizeof path->send_cq);
    path->recv_cq = queues->recv_cq;
    path->probe = queues->probe;
    path->probe_cq = queues->probe_cq;
    path->epoch = queues->epoch;
    if (queues->recv_cq)
        path->generation = queues->generation;
    path->inline_bytes = queues->inline_bytes;
    path->ece = queues->ece;
    path->cts_posted = path->cts_done = 0;
    memset(path->recv_used, 0, sizeof path->recv_used);
    for (uint32_t q = 0; q < path->qp_count; q++)
        path->payload_id[q] = dt_work_encode(DT_WORK_PAYLOAD, path->index, q, path->epoch, 0);
}
