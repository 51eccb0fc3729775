/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that libibverbs exports to its providers (libmlx5, libefa, ...), which programs link for calls of
 * their own. With this library in place of the system's, providers need these names to load. They are never
 * used for a device, so these functions are not called and their parameters do not matter.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "dropin/dropin.h"

/* A table: one line per function. */
/* clang-format off */
#define NO_INT(name)     DT_EXPORT int name(void);   int name(void)   { return dt_dropin_no_int(); }
#define NO_POINTER(name) DT_EXPORT void *name(void); void *name(void) { return dt_dropin_no_pointer(); }
#define NOTHING(name)    DT_EXPORT void name(void);  void name(void)  { }

/* A provider registers itself when it is loaded. */
NOTHING(verbs_register_driver_34)
NOTHING(__verbs_log)
NOTHING(verbs_init_cq)
NOTHING(verbs_set_ops)
NOTHING(verbs_uninit_context)

NO_POINTER(_verbs_init_and_alloc_context)
NO_POINTER(verbs_open_device)

NO_INT(__ioctl_final_num_attrs)
NO_INT(execute_ioctl)
NO_INT(ibv_cmd_advise_mr)
NO_INT(ibv_cmd_alloc_dm)
NO_INT(ibv_cmd_alloc_mw)
NO_INT(ibv_cmd_alloc_pd)
NO_INT(ibv_cmd_attach_mcast)
NO_INT(ibv_cmd_close_xrcd)
NO_INT(ibv_cmd_create_ah)
NO_INT(ibv_cmd_create_counters)
NO_INT(ibv_cmd_create_cq)
NO_INT(ibv_cmd_create_cq_ex)
NO_INT(ibv_cmd_create_flow)
NO_INT(ibv_cmd_create_flow_action_esp)
NO_INT(ibv_cmd_create_qp)
NO_INT(ibv_cmd_create_qp_ex)
NO_INT(ibv_cmd_create_qp_ex2)
NO_INT(ibv_cmd_create_rwq_ind_table)
NO_INT(ibv_cmd_create_srq)
NO_INT(ibv_cmd_create_srq_ex)
NO_INT(ibv_cmd_create_wq)
NO_INT(ibv_cmd_dealloc_mw)
NO_INT(ibv_cmd_dealloc_pd)
NO_INT(ibv_cmd_dereg_mr)
NO_INT(ibv_cmd_destroy_ah)
NO_INT(ibv_cmd_destroy_counters)
NO_INT(ibv_cmd_destroy_cq)
NO_INT(ibv_cmd_destroy_flow)
NO_INT(ibv_cmd_destroy_flow_action)
NO_INT(ibv_cmd_destroy_qp)
NO_INT(ibv_cmd_destroy_rwq_ind_table)
NO_INT(ibv_cmd_destroy_srq)
NO_INT(ibv_cmd_destroy_wq)
NO_INT(ibv_cmd_detach_mcast)
NO_INT(ibv_cmd_free_dm)
NO_INT(ibv_cmd_get_context)
NO_INT(ibv_cmd_modify_cq)
NO_INT(ibv_cmd_modify_flow_action_esp)
NO_INT(ibv_cmd_modify_qp)
NO_INT(ibv_cmd_modify_qp_ex)
NO_INT(ibv_cmd_modify_srq)
NO_INT(ibv_cmd_modify_wq)
NO_INT(ibv_cmd_open_qp)
NO_INT(ibv_cmd_open_xrcd)
NO_INT(ibv_cmd_poll_cq)
NO_INT(ibv_cmd_post_recv)
NO_INT(ibv_cmd_post_send)
NO_INT(ibv_cmd_post_srq_recv)
NO_INT(ibv_cmd_query_context)
NO_INT(ibv_cmd_query_device_any)
NO_INT(ibv_cmd_query_mr)
NO_INT(ibv_cmd_query_port)
NO_INT(ibv_cmd_query_qp)
NO_INT(ibv_cmd_query_srq)
NO_INT(ibv_cmd_read_counters)
NO_INT(ibv_cmd_reg_dm_mr)
NO_INT(ibv_cmd_reg_dmabuf_mr)
NO_INT(ibv_cmd_reg_mr)
NO_INT(ibv_cmd_req_notify_cq)
NO_INT(ibv_cmd_rereg_mr)
NO_INT(ibv_cmd_resize_cq)
/* clang-format on */

DT_EXPORT extern bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy;

/* ibv_devinfo asks for this one: 0 is RoCE v1 or InfiniBand, 1 is RoCE v2. */
DT_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type);

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type)
{
    union ibv_gid gid;

    if (ibv_query_gid(context, port, (int)index, &gid))
        return -1;
    *type = 1;
    return 0;
}
