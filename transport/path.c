/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/util.h"
#include "transport/nic.h"
#include "transport/work_id.h"

#define PAGE_BYTES        4096
#define PROBE_DEPTH       16
#define RNR_RETRY_FOREVER 7
#define RNR_TIMER         12 /* 0.64 ms */

/* ------------------------------------------------------------------------------------------------------------
 * Sizes
 */

/*
 * A sender's queue pair holds every part of every slot, one write each, and one message that takes as many
 * writes as a message can. More than that waits for room, as any sender does.
 */
static uint32_t sender_depth(uint32_t slots)
{
    return slots * DT_PARTS_MAX + DT_WRITES_PER_MESSAGE_MAX;
}

/* A CTS write per slot, and as many whose completion is not known yet. */
static uint32_t receiver_depth(uint32_t slots)
{
    return 2 * slots;
}

/* One receive per part and slot, also while a batch of used ones has not been posted again. */
static uint32_t receive_depth(uint32_t slots)
{
    return slots * DT_PARTS_MAX + DT_BLANK_BATCH;
}

uint32_t dt_path_slots_max(const struct dt_device_info *info)
{
    for (uint32_t slots = DT_SLOTS_MAX; slots >= DT_SLOTS_MIN; slots /= 2) {
        if (sender_depth(slots) <= info->qp_wr_max && receive_depth(slots) <= info->qp_wr_max &&
            (uint64_t)receive_depth(slots) * DT_QPS_MAX <= info->cqe_max)
            return slots;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * Create
 */
static struct dt_device *nic_device(struct dt_nic *nic)
{
    struct dt_device *device = dt_load_relaxed(&nic->device);

    if (device || nic->is_broken)
        return device;
    if (dt_device_open(nic->net->verbs, &nic->info, &device) != DT_OK) {
        nic->is_broken = true;
        return NULL;
    }
    dt_store_release(&nic->device, device);
    return device;
}

static enum dt_posting_kind posting_kind(const struct dt_nic *nic)
{
    const char *posting = nic->net->params.posting;

    if (strcmp(posting, "auto") == 0)
        return nic->info.is_soft ? DT_POSTING_DV : DT_POSTING_STD;
    return strcmp(posting, "dv") == 0 ? DT_POSTING_DV : DT_POSTING_STD;
}

static uint32_t random_psn(struct dt_net *net)
{
    return (uint32_t)dt_net_random(net) & 0xffffff;
}

static enum dt_status create_control(struct dt_path *path, struct dt_device *device)
{
    const struct dt_connection *c = path->connection;
    size_t records = c->is_sender ? 0 : (size_t)c->slots * DT_PARTS_MAX * sizeof(uint64_t);

    path->control_bytes = dt_align_up(dt_cts_ring_bytes(c->slots) + records, PAGE_BYTES);
    path->control = aligned_alloc(PAGE_BYTES, path->control_bytes);
    if (!path->control)
        return DT_NO_MEMORY;
    memset(path->control, 0, path->control_bytes);
    return dt_mr_register(device, path->control, path->control_bytes, DT_MR_LOCAL_WRITE | DT_MR_REMOTE_WRITE,
                          &path->control_mr);
}

static enum dt_status create_queue_pair(struct dt_path *path, struct dt_device *device, uint32_t q)
{
    const struct dt_connection *c = path->connection;
    uint32_t sq_depth = c->is_sender ? sender_depth(c->slots) : receiver_depth(c->slots);
    uint32_t rq_depth = c->is_sender ? 1 : receive_depth(c->slots);
    enum dt_status status = dt_cq_create(device, sq_depth, path, &path->send_cq[q]);
    struct dt_qp_options options = {
        .send_cq = path->send_cq[q],
        .recv_cq = path->recv_cq,
        .sq_depth = sq_depth,
        .rq_depth = rq_depth,
        .inline_bytes = DT_INLINE_BYTES,
        .recv_wr_id = dt_work_encode(DT_WORK_RECEIVE, path->index, q, path->epoch, 0),
        .posting = posting_kind(path->nic),
        .access = DT_MR_REMOTE_WRITE | DT_MR_LOCAL_WRITE,
        .psn = random_psn(c->net),
        .user = path,
    };

    path->payload_id[q] = dt_work_encode(DT_WORK_PAYLOAD, path->index, q, path->epoch, 0);
    if (status != DT_OK)
        return status;
    status = dt_qp_create(device, &options, &path->qp[q]);
    if (status != DT_OK)
        return status;
    path->inline_bytes = q == 0 || dt_qp_inline_bytes(path->qp[q]) < path->inline_bytes
                             ? dt_qp_inline_bytes(path->qp[q])
                             : path->inline_bytes;
    return c->is_sender ? DT_OK : dt_qp_post_blank_recvs(path->qp[q], rq_depth);
}

static enum dt_status create_probe(struct dt_path *path, struct dt_device *device)
{
    enum dt_status status = dt_cq_create(device, 2 * PROBE_DEPTH, path, &path->probe_cq);
    struct dt_qp_options options = {
        .send_cq = path->probe_cq,
        .recv_cq = path->probe_cq,
        .sq_depth = PROBE_DEPTH,
        .rq_depth = PROBE_DEPTH,
        .recv_wr_id = dt_work_encode(DT_WORK_PROBE, path->index, 0, path->epoch, 0),
        .posting = DT_POSTING_STD,
        .access = DT_MR_LOCAL_WRITE,
        .psn = random_psn(path->connection->net),
        .user = path,
    };

    return status == DT_OK ? dt_qp_create(device, &options, &path->probe) : status;
}

static enum dt_status create(struct dt_path *path)
{
    const struct dt_connection *c = path->connection;
    struct dt_device *device = nic_device(path->nic);
    enum dt_status status;

    if (!device)
        return DT_NOT_FOUND;
    status = create_control(path, device);
    if (status == DT_OK)
        status =
            dt_cq_create(device, c->is_sender ? path->qp_count : receive_depth(c->slots) * path->qp_count,
                         path, &path->recv_cq);
    for (uint32_t q = 0; q < path->qp_count && status == DT_OK; q++)
        status = create_queue_pair(path, device, q);
    return status == DT_OK ? create_probe(path, device) : status;
}

/* Ends a create or link job. */
static void setup_done(struct dt_path *path, enum dt_status status)
{
    struct dt_connection *c = path->connection;

    path->state = status == DT_OK ? DT_PATH_UP : DT_PATH_NONE;
    dt_fetch_sub_acq_rel(&c->setup_pending, 1);
    dt_connection_release(c);
}

static void run_create(struct dt_job *job)
{
    struct dt_path *path = dt_container_of(job, struct dt_path, create_job);

    setup_done(path, create(path));
}

static void submit(struct dt_path *path, struct dt_job *job, void (*run)(struct dt_job *))
{
    dt_fetch_add_acq_rel(&path->connection->references, 1);
    job->run = run;
    dt_nic_submit(path->nic, job);
}

void dt_path_submit_create(struct dt_path *path)
{
    dt_fetch_add_acq_rel(&path->connection->setup_pending, 1);
    submit(path, &path->create_job, run_create);
}

/* ------------------------------------------------------------------------------------------------------------
 * Link
 */
void dt_path_offer(const struct dt_path *path, struct dt_path_offer *offer)
{
    memset(offer, 0, sizeof *offer);
    offer->is_usable = path->state == DT_PATH_UP;
    if (!offer->is_usable)
        return;
    snprintf(offer->device, sizeof offer->device, "%s", path->nic->name);
    dt_qp_local_address(path->probe, &offer->probe);
    for (uint32_t q = 0; q < path->qp_count; q++)
        dt_qp_local_address(path->qp[q], &offer->qp[q]);
    offer->control_addr = (uintptr_t)path->control;
    offer->control_rkey = path->control_mr->rkey;
    if (!path->connection->is_sender)
        offer->control_addr += dt_cts_ring_bytes(path->connection->slots);
}

void dt_path_accept_offer(struct dt_path *path, const struct dt_path_offer *offer)
{
    if (!offer->is_usable) {
        path->state = DT_PATH_NONE;
        return;
    }
    memcpy(path->peer_device, offer->device, sizeof path->peer_device);
    memcpy(path->peer_qp, offer->qp, sizeof path->peer_qp);
    path->peer_probe = offer->probe;
    path->peer_control_addr = offer->control_addr;
    path->peer_control_rkey = offer->control_rkey;
}

static struct dt_qp_link_options link_options(const struct dt_net *net)
{
    struct dt_qp_link_options options = {
        .timeout_exponent = (uint32_t)net->params.timeout_exponent,
        .retry_count = (uint32_t)net->params.retry_count,
        .rnr_retry_count = RNR_RETRY_FOREVER,
        .min_rnr_timer = RNR_TIMER,
        .traffic_class = (uint32_t)net->params.traffic_class,
        .service_level = (uint32_t)net->params.service_level,
        .rd_atomic = 1,
    };

    return options;
}

static void run_link(struct dt_job *job)
{
    struct dt_path *path = dt_container_of(job, struct dt_path, link_job);
    struct dt_qp_link_options options = link_options(path->connection->net);
    enum dt_status status = dt_qp_connect(path->probe, &path->peer_probe, &options);

    for (uint32_t q = 0; q < path->qp_count && status == DT_OK; q++)
        status = dt_qp_connect(path->qp[q], &path->peer_qp[q], &options);
    setup_done(path, status);
}

void dt_path_submit_link(struct dt_path *path)
{
    dt_fetch_add_acq_rel(&path->connection->setup_pending, 1);
    submit(path, &path->link_job, run_link);
}

/* ------------------------------------------------------------------------------------------------------------
 * Flush
 */
static void run_flush(struct dt_job *job)
{
    struct dt_path *path = dt_container_of(job, struct dt_path, flush_job);
    struct dt_connection *c = path->connection;
    struct dt_qp_link_options options = link_options(c->net);
    struct dt_flush *flush;

    if (dt_flush_create(path->nic->device, DT_FLUSHES_MAX, random_psn(c->net), &options, &flush) == DT_OK)
        dt_store_release(&path->flush, flush);
    else
        dt_connection_notify(c, DT_NOTICE_NO_FLUSH);
    dt_connection_release(c);
}

void dt_path_submit_flush(struct dt_path *path)
{
    submit(path, &path->flush_job, run_flush);
}

/* ------------------------------------------------------------------------------------------------------------
 * Fence and destroy
 */
void dt_path_fence(struct dt_path *path)
{
    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (path->qp[q])
            dt_qp_fail(path->qp[q]);
    }
}

static void run_fence(struct dt_job *job)
{
    struct dt_path *path = dt_container_of(job, struct dt_path, fence_job);
    struct dt_connection *c = path->connection;

    dt_path_fence(path);
    if (dt_fetch_sub_acq_rel(&c->fences_pending, 1) == 1)
        dt_store_release(&c->error, dt_load_acquire(&c->failing));
    dt_connection_release(c);
}

void dt_path_submit_fence(struct dt_path *path)
{
    submit(path, &path->fence_job, run_fence);
}

static void destroy(struct dt_path *path)
{
    dt_path_fence(path);
    if (path->flush)
        dt_flush_destroy(path->flush);
    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (path->qp[q])
            dt_qp_destroy(path->qp[q]);
    }
    if (path->probe)
        dt_qp_destroy(path->probe);
    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (path->send_cq[q])
            dt_cq_destroy(path->send_cq[q]);
    }
    if (path->recv_cq)
        dt_cq_destroy(path->recv_cq);
    if (path->probe_cq)
        dt_cq_destroy(path->probe_cq);
    if (path->control_mr)
        dt_mr_deregister(path->nic->device, path->control_mr);
    free(path->control);
}

static void run_destroy(struct dt_job *job)
{
    struct dt_path *path = dt_container_of(job, struct dt_path, destroy_job);

    destroy(path);
    dt_connection_release(path->connection);
}

void dt_path_submit_destroy(struct dt_path *path)
{
    submit(path, &path->destroy_job, run_destroy);
}
