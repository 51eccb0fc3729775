/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of <infiniband/verbs.h> that the library exports, each with the software RNIC's own behind it. */
#include <errno.h>

#include "dropin/dropin.h"
#include "softrnic/softrnic.h"

/* The header lays inline functions over these. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* A table: one line per function. */
/* clang-format off */
#define CALL(type, name, parameters, arguments)                                                              \
    DT_EXPORT type ibv_##name parameters { return dt_soft_##name arguments; }

/* For int functions that cannot be served: real calls whose front answers EOPNOTSUPP set errno, too. */
#define NO_CALL(name, parameters, arguments)                                                                 \
    DT_EXPORT int ibv_##name parameters                                                                      \
    {                                                                                                        \
        int error = dt_soft_##name arguments;                                                                \
                                                                                                             \
        errno = error;                                                                                       \
        return error;                                                                                        \
    }

/* ---- devices ---------------------------------------------------------------------------------------------- */

DT_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
    int error = dt_dropin_configure();

    if (!error)
        return dt_soft_get_device_list(num_devices);
    if (num_devices)
        *num_devices = 0;
    errno = error;
    return NULL;
}

CALL(void, free_device_list, (struct ibv_device **list), (list))
CALL(const char *, get_device_name, (struct ibv_device *device), (device))
CALL(int, get_device_index, (struct ibv_device *device), (device))
CALL(__be64, get_device_guid, (struct ibv_device *device), (device))
CALL(struct ibv_context *, open_device, (struct ibv_device *device), (device))
CALL(int, close_device, (struct ibv_context *context), (context))
CALL(struct ibv_context *, import_device, (int cmd_fd), (cmd_fd))
CALL(int, query_device, (struct ibv_context *context, struct ibv_device_attr *attr), (context, attr))
CALL(int, query_port, (struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr),
     (context, port, attr))
CALL(int, query_gid, (struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid),
     (context, port, index, gid))
CALL(int, query_pkey, (struct ibv_context *context, uint8_t port, int index, __be16 *pkey),
     (context, port, index, pkey))
CALL(int, get_pkey_index, (struct ibv_context *context, uint8_t port, __be16 pkey), (context, port, pkey))
CALL(int, get_async_event, (struct ibv_context *context, struct ibv_async_event *event), (context, event))
CALL(void, ack_async_event, (struct ibv_async_event *event), (event))
CALL(int, fork_init, (void), ())
CALL(enum ibv_fork_status, is_fork_initialized, (void), ())

DT_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                                struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes)
{
    return dt_soft_query_gid_ex(context, port, index, entry, flags, entry_bytes);
}

DT_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                       size_t max_entries, uint32_t flags, size_t entry_bytes)
{
    return dt_soft_query_gid_table(context, entries, max_entries, flags, entry_bytes);
}

/* ---- protection domains and memory ------------------------------------------------------------------------ */

CALL(struct ibv_pd *, alloc_pd, (struct ibv_context *context), (context))
CALL(int, dealloc_pd, (struct ibv_pd *pd), (pd))
CALL(struct ibv_pd *, import_pd, (struct ibv_context *context, uint32_t handle), (context, handle))
CALL(void, unimport_pd, (struct ibv_pd *pd), (pd))
CALL(struct ibv_mr *, reg_mr, (struct ibv_pd *pd, void *addr, size_t length, int access),
     (pd, addr, length, access))
CALL(struct ibv_mr *, reg_mr_iova, (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access),
     (pd, addr, length, iova, access))
CALL(struct ibv_mr *, reg_mr_iova2,
     (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access),
     (pd, addr, length, iova, access))
CALL(struct ibv_mr *, reg_dmabuf_mr,
     (struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access),
     (pd, offset, length, iova, fd, access))
CALL(int, rereg_mr, (struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access),
     (mr, flags, pd, addr, length, access))
CALL(int, dereg_mr, (struct ibv_mr *mr), (mr))
CALL(struct ibv_mr *, import_mr, (struct ibv_pd *pd, uint32_t handle), (pd, handle))
CALL(void, unimport_mr, (struct ibv_mr *mr), (mr))
CALL(struct ibv_dm *, import_dm, (struct ibv_context *context, uint32_t handle), (context, handle))
CALL(void, unimport_dm, (struct ibv_dm *dm), (dm))

/* ---- completion queues and channels ----------------------------------------------------------------------- */

CALL(struct ibv_comp_channel *, create_comp_channel, (struct ibv_context *context), (context))
CALL(int, destroy_comp_channel, (struct ibv_comp_channel *channel), (channel))
CALL(struct ibv_cq *, create_cq,
     (struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector),
     (context, cqe, cq_context, channel, vector))
NO_CALL(resize_cq, (struct ibv_cq *cq, int cqe), (cq, cqe))
CALL(int, destroy_cq, (struct ibv_cq *cq), (cq))
CALL(int, get_cq_event, (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context),
     (channel, cq, cq_context))
CALL(void, ack_cq_events, (struct ibv_cq *cq, unsigned int count), (cq, count))

/* ---- queue pairs ------------------------------------------------------------------------------------------ */

CALL(struct ibv_qp *, create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *init), (pd, init))
CALL(struct ibv_qp_ex *, qp_to_qp_ex, (struct ibv_qp *qp), (qp))
CALL(int, modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask))
CALL(int, query_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init),
     (qp, attr, mask, init))
CALL(int, destroy_qp, (struct ibv_qp *qp), (qp))
CALL(int, query_qp_data_in_order, (struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags), (qp, op, flags))
NO_CALL(query_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece))
NO_CALL(set_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece))

/* ---- what a software RNIC has not ------------------------------------------------------------------------- */

CALL(struct ibv_srq *, create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *init), (pd, init))
NO_CALL(modify_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask), (srq, attr, mask))
NO_CALL(query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr))
NO_CALL(destroy_srq, (struct ibv_srq *srq), (srq))
CALL(struct ibv_ah *, create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *attr), (pd, attr))
CALL(struct ibv_ah *, create_ah_from_wc,
     (struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port), (pd, wc, grh, port))
NO_CALL(init_ah_from_wc,
        (struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
         struct ibv_ah_attr *attr), (context, port, wc, grh, attr))
NO_CALL(destroy_ah, (struct ibv_ah *ah), (ah))
NO_CALL(attach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))
NO_CALL(detach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))

DT_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                          uint8_t mac[6], uint16_t *vlan)
{
    (void)context;
    (void)attr;
    (void)mac;
    (void)vlan;
    return dt_dropin_no_int();
}

/* ---- names ------------------------------------------------------------------------------------------------ */

CALL(const char *, node_type_str, (enum ibv_node_type type), (type))
CALL(const char *, port_state_str, (enum ibv_port_state state), (state))
CALL(const char *, event_type_str, (enum ibv_event_type type), (type))
CALL(const char *, wc_status_str, (enum ibv_wc_status status), (status))

/* ---- fork ------------------------------------------------------------------------------------------------- */

/* Registered memory is written by CPUs, in the process it belongs to: pages need no mark against fork(). */
DT_EXPORT int ibv_dontfork_range(void *base, size_t size);
DT_EXPORT int ibv_dofork_range(void *base, size_t size);

int ibv_dontfork_range(void *base, size_t size)
{
    (void)base;
    (void)size;
    return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
    return ibv_dontfork_range(base, size);
}
