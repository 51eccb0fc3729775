/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call that a software RNIC does not support: functions that answer EOPNOTSUPP in the way that their
 * kind reports errors.
 */
#include <errno.h>
#include <stddef.h>

#include "softrnic/front.h"

/* A table: one line per function. */
/* clang-format off */
#define UNUSED __attribute__((unused))

#define INT_1(name, A)          int name(A a UNUSED) { return EOPNOTSUPP; }
#define INT_2(name, A, B)       int name(A a UNUSED, B b UNUSED) { return EOPNOTSUPP; }
#define INT_3(name, A, B, C)    int name(A a UNUSED, B b UNUSED, C c UNUSED) { return EOPNOTSUPP; }
#define INT_4(name, A, B, C, D) int name(A a UNUSED, B b UNUSED, C c UNUSED, D d UNUSED) { return EOPNOTSUPP; }
#define INT_5(name, A, B, C, D, E)                                                                           \
    int name(A a UNUSED, B b UNUSED, C c UNUSED, D d UNUSED, E e UNUSED) { return EOPNOTSUPP; }

static void *no_pointer(void)
{
    errno = EOPNOTSUPP;
    return NULL;
}

#define POINTER_1(type, name, A)    type *name(A a UNUSED) { return no_pointer(); }
#define POINTER_2(type, name, A, B) type *name(A a UNUSED, B b UNUSED) { return no_pointer(); }
#define POINTER_4(type, name, A, B, C, D)                                                                    \
    type *name(A a UNUSED, B b UNUSED, C c UNUSED, D d UNUSED) { return no_pointer(); }
#define POINTER_5(type, name, A, B, C, D, E)                                                                 \
    type *name(A a UNUSED, B b UNUSED, C c UNUSED, D d UNUSED, E e UNUSED) { return no_pointer(); }
#define POINTER_6(type, name, A, B, C, D, E, F)                                                              \
    type *name(A a UNUSED, B b UNUSED, C c UNUSED, D d UNUSED, E e UNUSED, F f UNUSED) { return no_pointer(); }

/* ---- calls of the library -------------------------------------------------------------------------------- */

POINTER_6(struct ibv_mr, dt_soft_reg_dmabuf_mr, struct ibv_pd *, uint64_t, size_t, uint64_t, int, int)
POINTER_2(struct ibv_srq, dt_soft_create_srq, struct ibv_pd *, struct ibv_srq_init_attr *)
INT_3(dt_soft_modify_srq, struct ibv_srq *, struct ibv_srq_attr *, int)
INT_2(dt_soft_query_srq, struct ibv_srq *, struct ibv_srq_attr *)
INT_1(dt_soft_destroy_srq, struct ibv_srq *)
POINTER_2(struct ibv_ah, dt_soft_create_ah, struct ibv_pd *, struct ibv_ah_attr *)
POINTER_4(struct ibv_ah, dt_soft_create_ah_from_wc, struct ibv_pd *, struct ibv_wc *, struct ibv_grh *, uint8_t)
INT_5(dt_soft_init_ah_from_wc, struct ibv_context *, uint8_t, struct ibv_wc *, struct ibv_grh *,
      struct ibv_ah_attr *)
INT_1(dt_soft_destroy_ah, struct ibv_ah *)
INT_3(dt_soft_attach_mcast, struct ibv_qp *, const union ibv_gid *, uint16_t)
INT_3(dt_soft_detach_mcast, struct ibv_qp *, const union ibv_gid *, uint16_t)
POINTER_1(struct ibv_context, dt_soft_import_device, int)
POINTER_2(struct ibv_pd, dt_soft_import_pd, struct ibv_context *, uint32_t)
POINTER_2(struct ibv_mr, dt_soft_import_mr, struct ibv_pd *, uint32_t)
POINTER_2(struct ibv_dm, dt_soft_import_dm, struct ibv_context *, uint32_t)
INT_2(dt_soft_query_ece, struct ibv_qp *, struct ibv_ece *)
INT_2(dt_soft_set_ece, struct ibv_qp *, struct ibv_ece *)

void dt_soft_unimport_pd(struct ibv_pd *pd UNUSED)
{
}

void dt_soft_unimport_mr(struct ibv_mr *mr UNUSED)
{
}

void dt_soft_unimport_dm(struct ibv_dm *dm UNUSED)
{
}

int dt_soft_rereg_mr(struct ibv_mr *mr UNUSED, int flags UNUSED, struct ibv_pd *pd UNUSED, void *addr UNUSED,
                     size_t length UNUSED, int access UNUSED)
{
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT; /* the old registration is still valid */
}

/* ---- entries of struct ibv_context_ops -------------------------------------------------------------------- */

static POINTER_2(struct ibv_mw, alloc_mw, struct ibv_pd *, enum ibv_mw_type)
static INT_3(bind_mw, struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *)
static INT_1(dealloc_mw, struct ibv_mw *)
static INT_3(post_srq_recv, struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **)

static void fill_old_ops(struct ibv_context_ops *ops)
{
    ops->alloc_mw = alloc_mw;
    ops->bind_mw = bind_mw;
    ops->dealloc_mw = dealloc_mw;
    ops->post_srq_recv = post_srq_recv;
    /* Slots that libibverbs reserves for programs older than its version 1.1 and leaves empty. */
    ops->_compat_alloc_pd = no_pointer;
    ops->_compat_dealloc_pd = no_pointer;
    ops->_compat_reg_mr = no_pointer;
    ops->_compat_rereg_mr = no_pointer;
    ops->_compat_dereg_mr = no_pointer;
    ops->_compat_create_cq = no_pointer;
    ops->_compat_cq_event = no_pointer;
    ops->_compat_resize_cq = no_pointer;
    ops->_compat_destroy_cq = no_pointer;
    ops->_compat_create_srq = no_pointer;
    ops->_compat_modify_srq = no_pointer;
    ops->_compat_query_srq = no_pointer;
    ops->_compat_destroy_srq = no_pointer;
    ops->_compat_create_qp = no_pointer;
    ops->_compat_query_qp = no_pointer;
    ops->_compat_modify_qp = no_pointer;
    ops->_compat_destroy_qp = no_pointer;
    ops->_compat_create_ah = no_pointer;
    ops->_compat_destroy_ah = no_pointer;
    ops->_compat_attach_mcast = no_pointer;
    ops->_compat_detach_mcast = no_pointer;
    ops->_compat_async_event = no_pointer;
}

/* ---- entries of struct verbs_context ---------------------------------------------------------------------- */

static INT_5(advise_mr, struct ibv_pd *, enum ibv_advise_mr_advice, uint32_t, struct ibv_sge *, uint32_t)
static POINTER_1(struct ibv_mr, alloc_null_mr, struct ibv_pd *)
static INT_4(read_counters, struct ibv_counters *, uint64_t *, uint32_t, uint32_t)
static INT_3(attach_counters_point_flow, struct ibv_counters *, struct ibv_counter_attach_attr *, struct ibv_flow *)
static POINTER_2(struct ibv_counters, create_counters, struct ibv_context *, struct ibv_counters_init_attr *)
static INT_1(destroy_counters, struct ibv_counters *)
static POINTER_5(struct ibv_mr, reg_dm_mr, struct ibv_pd *, struct ibv_dm *, uint64_t, size_t, unsigned int)
static POINTER_2(struct ibv_dm, alloc_dm, struct ibv_context *, struct ibv_alloc_dm_attr *)
static INT_1(free_dm, struct ibv_dm *)
static INT_2(modify_flow_action_esp, struct ibv_flow_action *, struct ibv_flow_action_esp_attr *)
static INT_1(destroy_flow_action, struct ibv_flow_action *)
static POINTER_2(struct ibv_flow_action, create_flow_action_esp, struct ibv_context *,
                 struct ibv_flow_action_esp_attr *)
static INT_2(modify_qp_rate_limit, struct ibv_qp *, struct ibv_qp_rate_limit_attr *)
static POINTER_2(struct ibv_pd, alloc_parent_domain, struct ibv_context *, struct ibv_parent_domain_init_attr *)
static INT_1(dealloc_td, struct ibv_td *)
static POINTER_2(struct ibv_td, alloc_td, struct ibv_context *, struct ibv_td_init_attr *)
static INT_2(modify_cq, struct ibv_cq *, struct ibv_modify_cq_attr *)
static INT_3(post_srq_ops, struct ibv_srq *, struct ibv_ops_wr *, struct ibv_ops_wr **)
static INT_1(destroy_rwq_ind_table, struct ibv_rwq_ind_table *)
static POINTER_2(struct ibv_rwq_ind_table, create_rwq_ind_table, struct ibv_context *,
                 struct ibv_rwq_ind_table_init_attr *)
static INT_1(destroy_wq, struct ibv_wq *)
static INT_2(modify_wq, struct ibv_wq *, struct ibv_wq_attr *)
static POINTER_2(struct ibv_wq, create_wq, struct ibv_context *, struct ibv_wq_init_attr *)
static INT_2(query_rt_values, struct ibv_context *, struct ibv_values_ex *)
static INT_1(destroy_flow, struct ibv_flow *)
static POINTER_2(struct ibv_flow, create_flow, struct ibv_qp *, struct ibv_flow_attr *)
static POINTER_2(struct ibv_qp, open_qp, struct ibv_context *, struct ibv_qp_open_attr *)
static INT_2(get_srq_num, struct ibv_srq *, uint32_t *)
static POINTER_2(struct ibv_srq, create_srq_ex, struct ibv_context *, struct ibv_srq_init_attr_ex *)
static POINTER_2(struct ibv_xrcd, open_xrcd, struct ibv_context *, struct ibv_xrcd_init_attr *)
static INT_1(close_xrcd, struct ibv_xrcd *)

static void placeholder(void)
{
}

void dt_front_fill_unsupported(struct verbs_context *verbs)
{
    fill_old_ops(&verbs->context.ops);
    verbs->advise_mr = advise_mr;
    verbs->alloc_null_mr = alloc_null_mr;
    verbs->read_counters = read_counters;
    verbs->attach_counters_point_flow = attach_counters_point_flow;
    verbs->create_counters = create_counters;
    verbs->destroy_counters = destroy_counters;
    verbs->reg_dm_mr = reg_dm_mr;
    verbs->alloc_dm = alloc_dm;
    verbs->free_dm = free_dm;
    verbs->modify_flow_action_esp = modify_flow_action_esp;
    verbs->destroy_flow_action = destroy_flow_action;
    verbs->create_flow_action_esp = create_flow_action_esp;
    verbs->modify_qp_rate_limit = modify_qp_rate_limit;
    verbs->alloc_parent_domain = alloc_parent_domain;
    verbs->dealloc_td = dealloc_td;
    verbs->alloc_td = alloc_td;
    verbs->modify_cq = modify_cq;
    verbs->post_srq_ops = post_srq_ops;
    verbs->destroy_rwq_ind_table = destroy_rwq_ind_table;
    verbs->create_rwq_ind_table = create_rwq_ind_table;
    verbs->destroy_wq = destroy_wq;
    verbs->modify_wq = modify_wq;
    verbs->create_wq = create_wq;
    verbs->query_rt_values = query_rt_values;
    verbs->ibv_destroy_flow = destroy_flow;
    verbs->ibv_create_flow = create_flow;
    verbs->ABI_placeholder1 = placeholder;
    verbs->ABI_placeholder2 = placeholder;
    verbs->open_qp = open_qp;
    verbs->get_srq_num = get_srq_num;
    verbs->create_srq_ex = create_srq_ex;
    verbs->open_xrcd = open_xrcd;
    verbs->close_xrcd = close_xrcd;
}
