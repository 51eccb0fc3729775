/* SPDX-License-Identifier: Apache-2.0 */
/* The software RNIC behind the same table. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "softrnic/softrnic.h"
#include "verbs/table.h"

static int own_send_queue(struct ibv_qp *qp, struct dt_dv_queue *queue)
{
    struct dt_soft_dv_qp soft;
    int error = dt_soft_query_qp_dv(qp, &soft);

    if (error)
        return error;
    if (soft.sq_stride != 64)
        return EPROTONOSUPPORT;
    *queue = (struct dt_dv_queue){.sq_buf = soft.sq_buf,
                                  .sq_block_count = soft.sq_wqe_count,
                                  .doorbell_record = &soft.dbrec[1],
                                  .doorbell = soft.bf_reg,
                                  .ring = soft.ring,
                                  .ring_arg = soft.ring_arg};
    return 0;
}

DT_STATIC_CHECK(DT_CONTROL_VERBS_US_MAX <= DT_SOFT_VERBS_US_MAX,
                "a software RNIC takes what the order may have");

static int control(const char *device, enum dt_control what, uint64_t argument)
{
    static const enum dt_soft_control soft_control[] = {
        [DT_CONTROL_DOWN] = DT_SOFT_CONTROL_DOWN,
        [DT_CONTROL_UP] = DT_SOFT_CONTROL_UP,
        [DT_CONTROL_FATAL] = DT_SOFT_CONTROL_FATAL,
        [DT_CONTROL_PLUG] = DT_SOFT_CONTROL_PLUG,
        [DT_CONTROL_DROP_NEXT] = DT_SOFT_CONTROL_DROP_NEXT,
        [DT_CONTROL_DROP_PERCENT] = DT_SOFT_CONTROL_DROP_PERCENT,
        [DT_CONTROL_RATE] = DT_SOFT_CONTROL_RATE,
        [DT_CONTROL_VERBS_US] = DT_SOFT_CONTROL_VERBS_US,
    };

    return dt_soft_device_control(device, soft_control[what], argument);
}

static const struct dt_verbs_table soft_table = {
    .is_soft = true,
    .get_device_list = dt_soft_get_device_list,
    .free_device_list = dt_soft_free_device_list,
    .get_device_name = dt_soft_get_device_name,
    .get_device_guid = dt_soft_get_device_guid,
    .open_device = dt_soft_open_device,
    .close_device = dt_soft_close_device,
    .query_device = dt_soft_query_device,
    .query_port = dt_soft_query_port,
    .query_gid = dt_soft_query_gid,
    .query_pkey = dt_soft_query_pkey,
    .get_async_event = dt_soft_get_async_event,
    .ack_async_event = dt_soft_ack_async_event,
    .event_type_str = dt_soft_event_type_str,
    .alloc_pd = dt_soft_alloc_pd,
    .dealloc_pd = dt_soft_dealloc_pd,
    .reg_mr = dt_soft_reg_mr,
    .dereg_mr = dt_soft_dereg_mr,
    .create_cq = dt_soft_create_cq,
    .destroy_cq = dt_soft_destroy_cq,
    .create_qp = dt_soft_create_qp,
    .modify_qp = dt_soft_modify_qp,
    .query_qp = dt_soft_query_qp,
    .destroy_qp = dt_soft_destroy_qp,
    .reg_mr_iova2 = dt_soft_reg_mr_iova2,
    .reg_dmabuf_mr = dt_soft_reg_dmabuf_mr,
    .query_gid_ex = dt_soft_query_gid_ex,
    .own_send_queue = own_send_queue,
    .is_removed = dt_soft_is_dead,
    .control = control,
};

enum dt_status dt_table_soft(uint32_t device_count, uint64_t rate_bytes_per_s, struct dt_verbs_table *table,
                             char *reason, size_t reason_bytes)
{
    struct dt_soft_options options = {.device_count = device_count, .rate_bytes_per_s = rate_bytes_per_s};
    int error = dt_soft_configure(&options);

    if (error) {
        snprintf(reason, reason_bytes, "verbs: no %u software RNICs (1 to %d): %s", device_count,
                 DT_SOFT_DEVICES_MAX, strerror(error));
        return DT_INVALID;
    }
    dt_info("soft-verbs",
            "verbs: %u software RNICs in this process; they are for tests and trials, not for production",
            device_count);
    *table = soft_table;
    return DT_OK;
}
