/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software RNIC's interface: the calls of libibverbs, with their exact signatures, as dt_soft_*
 * (ibv_open_device is dt_soft_open_device, and so on). verbs/ fills its function table from here, dropin/
 * exports the calls.
 *
 * Contexts are whole `struct verbs_context`, so the inline calls of <infiniband/verbs.h> (ibv_post_send,
 * ibv_poll_cq, ibv_req_notify_cq, ibv_query_port, ibv_create_cq_ex, ibv_wr_*) work on what these functions
 * return. Every function pointer in them is set; unsupported calls answer EOPNOTSUPP.
 * Transport: reliable connection only. Vendor id and part id belong to no real vendor.
 *
 * Errors are libibverbs': int functions return 0 or a positive errno (poll_cq, get_cq_event, get_async_event,
 * query_gid and query_pkey: -1 or less, with errno set), pointer functions return NULL and set errno.
 *
 * Threads: any. Objects are destroyed by one thread, while no other uses them. Two threads may post to, and
 * poll, the same or different objects at the same time. No call blocks for longer than one step of the
 * engine, except get_cq_event and get_async_event (until an event comes; their descriptors may be made
 * non-blocking) and the destruction of an object with unacknowledged events (until they are).
 *
 * fork: the child must not touch an object of the parent's, but may open devices of its own; those are other
 * RNICs, with other addresses. The parent's memory needs no protection. There is one helper thread per
 * process, started by the first open and ended by the last close.
 */
#ifndef DETOUR_SOFTRNIC_SOFTRNIC_H
#define DETOUR_SOFTRNIC_SOFTRNIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_SOFT_DEVICES_MAX 16
/* Names that the device list has; a simulation has more devices than a process (tests/sim). */
#define DT_SOFT_NAMES_MAX 128
#define DT_SOFT_VENDOR_ID 0xdef0
#define DT_SOFT_PART_ID   1

#define DT_SOFT_VERBS_US_MAX 10000000u

/* ------------------------------------------------------------------------------------------------------------
 * Before the first use
 */
struct dt_soft_options {
    uint32_t device_count;     /* soft0 ... ; 1 to DT_SOFT_DEVICES_MAX */
    uint64_t rate_bytes_per_s; /* of each device's link, each way; 0 is unlimited */
    bool no_process_vm; /* always copy through shared memory, as where the kernel forbids anything else */
    bool always_fetch;  /* large payload is read from the sender's memory even where copies are faster */
};

/*
 * Sets the options of the device list and of new devices. The default is 2 devices without a rate limit.
 * EINVAL when an option is out of range; EBUSY when devices are open and the options differ from theirs.
 */
int dt_soft_configure(const struct dt_soft_options *options);

/* ------------------------------------------------------------------------------------------------------------
 * Devices
 */
struct ibv_device **dt_soft_get_device_list(int *num_devices);
void dt_soft_free_device_list(struct ibv_device **list);
const char *dt_soft_get_device_name(struct ibv_device *device);
int dt_soft_get_device_index(struct ibv_device *device);
__be64 dt_soft_get_device_guid(struct ibv_device *device);
struct ibv_context *dt_soft_open_device(struct ibv_device *device);
/* Also destroys the objects that are left, as the kernel does: queue pairs, regions, unacknowledged events.
 * Returns 0. */
int dt_soft_close_device(struct ibv_context *context);
int dt_soft_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
/* Fills the old, shorter struct ibv_port_attr, as the library's exported call does; ibv_query_port() fills
 * all. */
int dt_soft_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr);
int dt_soft_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid);
int dt_soft_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                         struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
ssize_t dt_soft_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                size_t max_entries, uint32_t flags, size_t entry_size);
int dt_soft_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);
int dt_soft_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);

/* It died (DT_SOFT_CONTROL_FATAL): it neither sends nor receives any more. */
bool dt_soft_is_dead(struct ibv_context *context);

/* Port state changes, device fatal, CQ overruns, QP errors without a completion. */
int dt_soft_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void dt_soft_ack_async_event(struct ibv_async_event *event);

/* ------------------------------------------------------------------------------------------------------------
 * Protection domains and memory regions. The process that owns the memory enforces keys, access and bounds.
 */
struct ibv_pd *dt_soft_alloc_pd(struct ibv_context *context);
int dt_soft_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *dt_soft_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
struct ibv_mr *dt_soft_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);
struct ibv_mr *dt_soft_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                    unsigned int access);
/* EOPNOTSUPP: the CPU does not copy into a dma-buf. */
struct ibv_mr *dt_soft_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                     int access);
int dt_soft_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access);
/* Once it has returned, no copy into or out of the region runs or will start. */
int dt_soft_dereg_mr(struct ibv_mr *mr);

/* ------------------------------------------------------------------------------------------------------------
 * Completion queues and channels
 */
struct ibv_comp_channel *dt_soft_create_comp_channel(struct ibv_context *context);
int dt_soft_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *dt_soft_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                 struct ibv_comp_channel *channel, int comp_vector);
int dt_soft_resize_cq(struct ibv_cq *cq, int cqe);
int dt_soft_destroy_cq(struct ibv_cq *cq);
int dt_soft_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void dt_soft_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/* ------------------------------------------------------------------------------------------------------------
 * Queue pairs: IBV_QPT_RC without a shared receive queue; IBV_QPT_UC for messages without payload
 */
struct ibv_qp *dt_soft_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp_ex *dt_soft_qp_to_qp_ex(struct ibv_qp *qp);
int dt_soft_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
                     struct ibv_qp_init_attr *init_attr);
/* Once a move to ERR has returned, no copy for this queue pair runs or will start. */
int dt_soft_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int dt_soft_destroy_qp(struct ibv_qp *qp);
int dt_soft_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
int dt_soft_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int dt_soft_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/*
 * Hands over the send queue, as mlx5dv_init_obj() does: a ring of 64-byte blocks in mlx5 format. The caller
 * owns it from then on: ibv_post_send() and ibv_wr_* answer EINVAL for this queue pair, and its send
 * completions carry, as wr_id, the index of the first block of their element (mlx5's wqe_counter).
 *
 * To post: write elements, store the new producer index (counted in blocks, modulo 65536) in dbrec[1] in big
 * endian with release order, then call ring(ring_arg). An element may wrap past the end of the ring. Blocks
 * are free again when the element, or a later one, has completed.
 */
struct dt_soft_dv_qp {
    void *sq_buf;
    uint32_t sq_wqe_count; /* blocks; a power of two */
    uint32_t sq_stride;    /* bytes of a block: 64 */
    __be32 *dbrec;         /* [0] receive side, not used; [1] send side */
    void *bf_reg;          /* where mlx5 takes doorbells: plain memory here, 8 bytes, may be left alone */
    void (*ring)(void *ring_arg);
    void *ring_arg;
};
int dt_soft_query_qp_dv(struct ibv_qp *qp, struct dt_soft_dv_qp *dv);

/* ------------------------------------------------------------------------------------------------------------
 * Unsupported calls: EOPNOTSUPP, whatever the arguments.
 */
struct ibv_srq *dt_soft_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int dt_soft_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask);
int dt_soft_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int dt_soft_destroy_srq(struct ibv_srq *srq);
struct ibv_ah *dt_soft_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
struct ibv_ah *dt_soft_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                         uint8_t port_num);
int dt_soft_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
                            struct ibv_grh *grh, struct ibv_ah_attr *attr);
int dt_soft_destroy_ah(struct ibv_ah *ah);
int dt_soft_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int dt_soft_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
struct ibv_context *dt_soft_import_device(int cmd_fd);
struct ibv_pd *dt_soft_import_pd(struct ibv_context *context, uint32_t pd_handle);
void dt_soft_unimport_pd(struct ibv_pd *pd);
struct ibv_mr *dt_soft_import_mr(struct ibv_pd *pd, uint32_t mr_handle);
void dt_soft_unimport_mr(struct ibv_mr *mr);
struct ibv_dm *dt_soft_import_dm(struct ibv_context *context, uint32_t dm_handle);
void dt_soft_unimport_dm(struct ibv_dm *dm);

/* Forks need no preparation (see above): 0, and IBV_FORK_UNNEEDED. */
int dt_soft_fork_init(void);
enum ibv_fork_status dt_soft_is_fork_initialized(void);

/* ------------------------------------------------------------------------------------------------------------
 * Names of enumerators
 */
const char *dt_soft_node_type_str(enum ibv_node_type node_type);
const char *dt_soft_port_state_str(enum ibv_port_state port_state);
const char *dt_soft_event_type_str(enum ibv_event_type event);
const char *dt_soft_wc_status_str(enum ibv_wc_status status);

/* ------------------------------------------------------------------------------------------------------------
 * Control of a device of this process, by name, for tests, demonstrations and `detour nic`
 */
enum dt_soft_control {
    DT_SOFT_CONTROL_DOWN,  /* the link: nothing goes in or out, port error event */
    DT_SOFT_CONTROL_UP,    /* the link again, port active event */
    DT_SOFT_CONTROL_FATAL, /* the device dies: device fatal event, then silence (engine.h). It leaves the
                              device list; its contexts stay dead for good */
    DT_SOFT_CONTROL_PLUG,  /* after that: a new device with its name, GUID and GID is in the list, as after
                              a driver reset or hot plug, and is made by the next open */
    DT_SOFT_CONTROL_DROP_NEXT,    /* the next `argument` packets that leave the device are lost */
    DT_SOFT_CONTROL_DROP_PERCENT, /* from now on `argument` percent (0 to 100) of them are lost */
    DT_SOFT_CONTROL_RATE,         /* the link carries `argument` bytes per second; 0 is unlimited */
    DT_SOFT_CONTROL_VERBS_US      /* from now on each verb on a queue pair (create, modify, destroy) takes
                                     `argument` microseconds, up to DT_SOFT_VERBS_US_MAX */
};

/*
 * Any thread. ENODEV: no open device of that name in this process; EINVAL: the argument is out of range;
 * EEXIST: a device that lives cannot be plugged in.
 */
int dt_soft_device_control(const char *device, enum dt_soft_control control, uint64_t argument);

#ifdef __cplusplus
}
#endif

#endif
