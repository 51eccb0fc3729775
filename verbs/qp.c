/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: creation, connection and posting. A posting back end fills the send queue (posting.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "base/atomics.h"
#include "base/log.h"
#include "base/util.h"
#include "verbs/gid.h"
#include "verbs/mlx5.h"
#include "verbs/pkey.h"
#include "verbs/posting.h"

#define QPN_MASK  0xffffffu
#define CHAIN_MAX 16 /* receives handed over in one call */
#define GID_TEXT  INET6_ADDRSTRLEN
#define HOPS_MAX  255

#define INLINE_BYTES_MIN 8 /* the size records of messages, which have no memory to be read from */

/* ------------------------------------------------------------------------------------------------------------
 * Creation
 */
static const struct dt_posting *posting_of(enum dt_posting_kind kind)
{
    return kind == DT_POSTING_DV ? &dt_posting_dv : &dt_posting_std;
}

uint32_t dt_qp_wr_count(enum dt_posting_kind posting, uint32_t sq_depth, uint32_t inline_bytes)
{
    return posting_of(posting)->wr_count(sq_depth, inline_bytes);
}

static enum dt_status check_options(const struct dt_device *device, const struct dt_qp_options *options,
                                    const struct dt_posting *posting)
{
    uint32_t limit = device->info.qp_wr_max;

    if (!options->sq_depth || options->sq_depth > limit || options->rq_depth > limit ||
        options->inline_bytes > 4096 || posting->wr_count(options->sq_depth, options->inline_bytes) > limit) {
        dt_warn("qp-size", "%s: no QP has room for %u sends with %u bytes inline and %u receives (limit %u)",
                device->info.name, options->sq_depth, options->inline_bytes, options->rq_depth, limit);
        return DT_INVALID;
    }
    return DT_OK;
}

static enum dt_status create_ibv_qp(struct dt_qp *qp, const struct dt_qp_options *options)
{
    struct ibv_qp_init_attr attr = {.qp_context = (void *)(uintptr_t)options->user,
                                    .send_cq = qp->send_cq->ibv,
                                    .recv_cq = qp->recv_cq->ibv,
                                    .qp_type = IBV_QPT_RC};

    attr.cap.max_send_wr = qp->posting->wr_count(qp->sq_depth, qp->inline_bytes);
    attr.cap.max_recv_wr = qp->rq_depth;
    attr.cap.max_send_sge = 1;
    attr.cap.max_recv_sge = 1;
    attr.cap.max_inline_data = qp->inline_bytes;
    if (qp->posting->prepare)
        qp->posting->prepare(qp);
    qp->ibv = dt_fault_table.create_qp(qp->domain ? qp->domain : qp->device->pd, &attr);
    /* A device has no room for so many bytes inline: what does not fit goes the usual way. */
    while (!qp->ibv && errno == EINVAL && qp->inline_bytes / 2 >= INLINE_BYTES_MIN) {
        qp->inline_bytes /= 2;
        attr.cap.max_inline_data = qp->inline_bytes;
        attr.cap.max_send_wr = qp->posting->wr_count(qp->sq_depth, qp->inline_bytes);
        qp->ibv = dt_fault_table.create_qp(qp->domain ? qp->domain : qp->device->pd, &attr);
    }
    if (!qp->ibv) {
        dt_warn("qp-create", "%s: no QP with %u sends, %u bytes inline, %u receives: %s",
                qp->device->info.name, qp->sq_depth, qp->inline_bytes, qp->rq_depth, strerror(errno));
        return DT_SYSTEM;
    }
    dt_fault_layer_enter(&qp->device->faults, &qp->fault, qp->ibv, options->is_probe);
    qp->qpn = qp->ibv->qp_num;
    return DT_OK;
}

/* One line for a queue pair, however often it is tried. */
static enum dt_status destroy_ibv_qp(struct dt_qp *qp)
{
    int error = dt_fault_table.destroy_qp(qp->ibv);

    if (!error)
        return DT_OK;
    if (!qp->is_destroy_refused)
        dt_warn("qp-destroy", "%s: QP %u cannot be destroyed: %s", qp->device->info.name, qp->qpn,
                strerror(error));
    qp->is_destroy_refused = true;
    return DT_SYSTEM;
}

static enum dt_status modify_and_log(struct dt_qp *qp, struct ibv_qp_attr *attr, int mask, const char *to,
                                     const struct dt_qp_link_options *options)
{
    int error = dt_fault_table.modify_qp(qp->ibv, attr, mask);
    bool is_repeated = options && error &&
                       (options->repeat == DT_QP_REPEAT_ALL ||
                        (options->repeat == DT_QP_REPEAT_TIMEOUT && error == ETIMEDOUT));
    bool is_quiet = is_repeated || (options && options->is_attempt);

    if (!error)
        return DT_OK;
    dt_log(is_quiet ? DT_LOG_INFO : DT_LOG_WARN, "qp-state", "%s: QP %u cannot go to %s: %s",
           qp->device->info.name, qp->qpn, to, strerror(error));
    return is_repeated ? DT_AGAIN : DT_SYSTEM;
}

static enum dt_status modify(struct dt_qp *qp, struct ibv_qp_attr *attr, int mask, const char *to)
{
    return modify_and_log(qp, attr, mask, to, NULL);
}

static enum dt_status to_init(struct dt_qp *qp, uint32_t access)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = (uint8_t)qp->device->info.port};
    enum dt_status status = dt_pkey_find(qp->device, &attr.pkey_index);

    if (status != DT_OK)
        return status;
    attr.qp_access_flags = (access & DT_MR_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
                           (access & DT_MR_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0);
    return modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

static struct dt_qp *new_qp(struct dt_device *device, const struct dt_qp_options *options,
                            const struct dt_posting *posting)
{
    struct dt_qp *qp = calloc(1, sizeof *qp);

    if (!qp)
        return NULL;
    qp->device = device;
    dt_fetch_add_acq_rel(&device->objects, 1);
    qp->posting = posting;
    qp->send_cq = options->send_cq;
    qp->recv_cq = options->recv_cq;
    qp->recv_wr_id = options->recv_wr_id;
    qp->psn = options->psn & QPN_MASK;
    qp->sq_depth = options->sq_depth;
    qp->rq_depth = options->rq_depth;
    qp->inline_bytes = options->inline_bytes;
    return qp;
}

static void free_qp(struct dt_qp *qp)
{
    dt_mlx5_close_domain(qp);
    dt_fetch_sub_acq_rel(&qp->device->objects, 1);
    free(qp);
}

static void note_local_address(struct dt_qp *qp)
{
    const struct dt_device_info *info = &qp->device->info;

    memcpy(qp->local.gid, info->gid, sizeof qp->local.gid);
    qp->local.qpn = qp->qpn;
    qp->local.psn = qp->psn;
    qp->local.lid = info->lid;
    qp->local.mtu_bytes = info->mtu_bytes;
    qp->local.link_layer = info->link_layer;
}

enum dt_status dt_qp_create(struct dt_device *device, const struct dt_qp_options *options,
                            struct dt_qp **created)
{
    const struct dt_posting *posting = posting_of(options->posting);
    enum dt_status status = check_options(device, options, posting);
    struct dt_qp *qp;

    if (status != DT_OK)
        return status;
    qp = new_qp(device, options, posting);
    if (!qp)
        return DT_NO_MEMORY;
    status = create_ibv_qp(qp, options);
    if (status != DT_OK)
        goto free;
    status = posting->open(qp);
    if (status != DT_OK)
        goto destroy_ibv;
    status = dt_cq_attach(qp->recv_cq, qp, true, &qp->recv_key);
    if (status != DT_OK)
        goto close_posting;
    status = to_init(qp, options->access);
    if (status != DT_OK)
        goto detach_recv;
    note_local_address(qp);
    *created = qp;
    return DT_OK;

detach_recv:
    dt_cq_detach(qp->recv_cq, qp->recv_key);
close_posting:
    posting->close(qp);
destroy_ibv:
    destroy_ibv_qp(qp);
free:
    free_qp(qp);
    return status;
}

enum dt_status dt_qp_end(struct dt_qp *qp)
{
    enum dt_status status = qp->ibv ? destroy_ibv_qp(qp) : DT_OK;

    if (status == DT_OK)
        qp->ibv = NULL;
    return status;
}

void dt_qp_destroy(struct dt_qp *qp)
{
    dt_cq_detach(qp->recv_cq, qp->recv_key);
    dt_qp_end(qp);
    qp->posting->close(qp);
    free_qp(qp);
}

uint32_t dt_qp_number(const struct dt_qp *qp)
{
    return qp->qpn;
}

uint32_t dt_qp_inline_bytes(const struct dt_qp *qp)
{
    return qp->inline_bytes;
}

/* ------------------------------------------------------------------------------------------------------------
 * Connecting
 */
void dt_qp_local_address(const struct dt_qp *qp, struct dt_qp_address *address)
{
    *address = qp->local;
}

static bool is_mtu(uint32_t bytes)
{
    return bytes >= 256 && bytes <= 4096 && dt_is_power_of_two(bytes);
}

/* The peer's address is not trusted. */
static const char *wrong_address(const struct dt_qp *qp, const struct dt_qp_address *remote)
{
    if (!remote->qpn || remote->qpn > QPN_MASK)
        return "its QP number is not one";
    if (remote->psn > QPN_MASK)
        return "its PSN has more than 24 bits";
    if (!is_mtu(remote->mtu_bytes))
        return "its MTU is not 256, 512, 1024, 2048 or 4096";
    if (remote->lid > 0xffff)
        return "its LID has more than 16 bits";
    if (remote->link_layer != (uint32_t)qp->device->info.link_layer)
        return "its link layer is another one (InfiniBand and Ethernet do not mix)";
    return NULL;
}

static const char *wrong_options(const struct dt_qp_link_options *options)
{
    if (!options->timeout_exponent || options->timeout_exponent > 31)
        return "the transport timer is not 1 to 31";
    if (options->retry_count > 7 || options->rnr_retry_count > 7)
        return "a retry count is not 0 to 7";
    if (options->min_rnr_timer > 31)
        return "the RNR timer is not 0 to 31";
    if (options->traffic_class > 255 || options->service_level > 15)
        return "traffic class (0 to 255) or service level (0 to 15) is out of range";
    if (options->rd_atomic > 255)
        return "more than 255 reads outstanding";
    return NULL;
}

/*
 * Within one InfiniBand subnet the LID is enough, unless the port wants a global header; everywhere else the
 * GID is the address. The LID of a port in another subnet is its FLID.
 */
static void fill_path(const struct dt_qp *qp, const struct dt_qp_address *remote,
                      const struct dt_qp_link_options *options, struct ibv_ah_attr *path)
{
    const struct dt_device_info *info = &qp->device->info;
    bool is_infiniband = info->link_layer == DT_LINK_INFINIBAND;
    bool is_same_subnet = dt_gid_is_same_subnet(info->gid, remote->gid);

    path->port_num = (uint8_t)info->port;
    path->sl = (uint8_t)options->service_level;
    path->dlid = (uint16_t)remote->lid;
    if (is_infiniband && !is_same_subnet && dt_gid_flid(remote->gid))
        path->dlid = (uint16_t)dt_gid_flid(remote->gid);
    path->is_global = !is_infiniband || !remote->lid || !is_same_subnet || info->needs_grh;
    if (!path->is_global)
        return;
    memcpy(path->grh.dgid.raw, remote->gid, sizeof path->grh.dgid.raw);
    path->grh.sgid_index = (uint8_t)info->gid_index;
    path->grh.hop_limit = HOPS_MAX;
    path->grh.traffic_class = (uint8_t)options->traffic_class;
}

static enum ibv_mtu ibv_mtu_of(uint32_t bytes)
{
    return (enum ibv_mtu)(__builtin_ctz(bytes) - 7); /* IBV_MTU_256 is 1 */
}

static uint8_t reads_limit(const struct dt_qp *qp, const struct dt_qp_link_options *options)
{
    return (uint8_t)dt_min_u64(options->rd_atomic, qp->device->info.rd_atomic_max);
}

void dt_qp_query_ece(const struct dt_qp *qp, struct dt_ece *ece)
{
    const struct dt_verbs_table *table = &qp->device->verbs->table;
    struct ibv_ece own = {0};

    *ece = (struct dt_ece){0};
    if (!qp->is_ece_refused && table->query_ece && table->query_ece(qp->ibv, &own) == 0 && own.options)
        *ece = (struct dt_ece){.vendor_id = own.vendor_id, .options = own.options};
}

/* Before RTR, which the device takes them for. */
static void set_ece(struct dt_qp *qp, const struct dt_ece *ece)
{
    const struct dt_verbs_table *table = &qp->device->verbs->table;
    struct ibv_ece wanted = {.vendor_id = ece->vendor_id, .options = ece->options};
    int error;

    if (!ece->options)
        return;
    error = table->set_ece ? table->set_ece(qp->ibv, &wanted) : EOPNOTSUPP;
    qp->is_ece_refused = error != 0;
    if (error)
        dt_info("qp-ece", "%s: QP %u does without the options 0x%x of vendor 0x%x (ECE): %s",
                qp->device->info.name, qp->qpn, ece->options, ece->vendor_id, strerror(error));
}

static enum dt_status to_rtr(struct dt_qp *qp, const struct dt_qp_address *remote,
                             const struct dt_qp_link_options *options)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = ibv_mtu_of((uint32_t)dt_min_u64(remote->mtu_bytes, qp->device->info.mtu_bytes)),
        .dest_qp_num = remote->qpn,
        .rq_psn = remote->psn,
        .max_dest_rd_atomic = reads_limit(qp, options),
        .min_rnr_timer = (uint8_t)options->min_rnr_timer};

    fill_path(qp, remote, options, &attr.ah_attr);
    set_ece(qp, &options->ece);
    return modify_and_log(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                          "RTR", options);
}

static enum dt_status to_rts(struct dt_qp *qp, const struct dt_qp_link_options *options)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .timeout = (uint8_t)options->timeout_exponent,
                               .retry_cnt = (uint8_t)options->retry_count,
                               .rnr_retry = (uint8_t)options->rnr_retry_count,
                               .sq_psn = qp->psn,
                               .max_rd_atomic = reads_limit(qp, options)};

    return modify_and_log(qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                          "RTS", options);
}

static void log_addresses(const struct dt_qp *qp, const struct dt_qp_address *remote)
{
    char local_gid[GID_TEXT];
    char remote_gid[GID_TEXT];

    inet_ntop(AF_INET6, qp->device->info.gid, local_gid, sizeof local_gid);
    inet_ntop(AF_INET6, remote->gid, remote_gid, sizeof remote_gid);
    dt_info("qp-addresses", "%s: QP %u (GID %s) towards QP %u (GID %s, LID %u, MTU %u)",
            qp->device->info.name, qp->qpn, local_gid, remote->qpn, remote_gid, remote->lid,
            remote->mtu_bytes);
}

enum dt_status dt_qp_connect(struct dt_qp *qp, const struct dt_qp_address *remote,
                             const struct dt_qp_link_options *options)
{
    const char *wrong = wrong_address(qp, remote);
    enum dt_status status;

    if (!wrong)
        wrong = wrong_options(options);
    if (wrong) {
        dt_warn("qp-mismatch", "%s: QP %u cannot be connected to the peer's QP %u: %s", qp->device->info.name,
                qp->qpn, remote->qpn, wrong);
        return DT_INVALID;
    }
    status = qp->is_rtr ? DT_OK : to_rtr(qp, remote, options);
    qp->is_rtr = status == DT_OK;
    if (status == DT_OK && !qp->is_connected)
        status = to_rts(qp, options);
    qp->is_connected = qp->is_rtr && status == DT_OK;
    if (status != DT_OK)
        log_addresses(qp, remote);
    return status;
}

enum dt_status dt_qp_fail(struct dt_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    return modify(qp, &attr, IBV_QP_STATE, "ERR");
}

enum dt_status dt_qp_try_fail(struct dt_qp *qp)
{
    static const struct dt_qp_link_options options = {.is_attempt = true};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    return modify_and_log(qp, &attr, IBV_QP_STATE, "ERR", &options);
}

bool dt_qp_is_in_error(const struct dt_qp *qp)
{
    struct ibv_qp_attr attr = {0};
    struct ibv_qp_init_attr init;

    return !dt_fault_table.query_qp(qp->ibv, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR;
}

/* ------------------------------------------------------------------------------------------------------------
 * Posting
 */
uint32_t dt_qp_sends_outstanding(const struct dt_qp *qp)
{
    return qp->posted - qp->completed;
}

uint32_t dt_qp_recvs_outstanding(const struct dt_qp *qp)
{
    return qp->recv_posted - qp->recv_completed;
}

uint32_t dt_qp_room(const struct dt_qp *qp)
{
    DT_CHECK_HOT(dt_qp_sends_outstanding(qp) <= qp->sq_depth);
    return qp->sq_depth - dt_qp_sends_outstanding(qp);
}

enum dt_status dt_qp_post_write(struct dt_qp *qp, const struct dt_write *writes, unsigned count)
{
    if (count > dt_qp_room(qp))
        return DT_FULL;
    for (unsigned i = 0; i < count; i++) {
        if ((writes[i].flags & DT_POST_INLINE) && writes[i].bytes > qp->inline_bytes)
            return DT_INVALID;
    }
    return qp->posting->write(qp, writes, count);
}

enum dt_status dt_qp_post_read(struct dt_qp *qp, const struct dt_read *read)
{
    return dt_qp_room(qp) ? qp->posting->read(qp, read) : DT_FULL;
}

void dt_qp_ring(struct dt_qp *qp)
{
    qp->posting->ring(qp);
}

static enum dt_status post_recv_chain(struct dt_qp *qp, uint32_t count)
{
    struct ibv_recv_wr wrs[CHAIN_MAX];
    struct ibv_recv_wr *bad = NULL;
    int error;

    DT_CHECK_HOT(count > 0 && count <= CHAIN_MAX && count <= qp->rq_depth - dt_qp_recvs_outstanding(qp));
    for (uint32_t i = 0; i < count; i++)
        wrs[i] = (struct ibv_recv_wr){.wr_id = (uint64_t)qp->recv_key << 32,
                                      .next = i + 1 < count ? &wrs[i + 1] : NULL};
    error = dt_ibv_post_recv(qp->ibv, wrs, &bad);
    if (!error) {
        qp->recv_posted += count;
        return DT_OK;
    }
    for (uint32_t i = 0; i < count && &wrs[i] != bad && bad; i++)
        qp->recv_posted++;
    if (!qp->refused)
        dt_warn("receive-refused", "%s: QP %u refuses a receive: %s", qp->device->info.name, qp->qpn,
                strerror(error));
    qp->refused = true;
    return DT_PATH_ERROR;
}

enum dt_status dt_qp_post_empty_recvs(struct dt_qp *qp, unsigned count)
{
    if (count > qp->rq_depth - dt_qp_recvs_outstanding(qp))
        return DT_FULL;
    while (count) {
        uint32_t chain = count < CHAIN_MAX ? count : CHAIN_MAX;
        enum dt_status status = post_recv_chain(qp, chain);

        if (status != DT_OK)
            return status;
        count -= chain;
    }
    return DT_OK;
}
