/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libibverbs that Detour uses, as a table: filled from the system library (load.c), from the
 * software RNIC (soft.c), or by a test. A layer that injects faults has the same interface. Inside verbs/
 * nothing calls libibverbs but through this table and through the operations of the contexts it returns
 * (ibv_post_send, ibv_post_recv, ibv_poll_cq).
 *
 * Signatures, errors and threads are libibverbs'.
 */
#ifndef DETOUR_VERBS_TABLE_H
#define DETOUR_VERBS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/status.h"
#include "verbs/verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_mlx5_object; /* mlx5.h */

/*
 * A send queue in mlx5 format that its user fills. `sq_buf` is a ring of `sq_block_count` blocks of
 * 64 bytes; an element begins on a block and may continue at the start of the ring. The send completions of
 * such a QP carry in wr_id the index (modulo 65536) of the first block of their element.
 */
struct dt_dv_queue {
    void *sq_buf;
    uint32_t sq_block_count;      /* a power of two, at most 32768 */
    uint32_t *doorbell_record;    /* big endian; takes the producer index, in blocks modulo 65536 */
    uint64_t *doorbell;           /* device register for the first 8 bytes of the last element; NULL: none */
    uint32_t doorbell_bytes;      /* the register exists twice, so far apart, to be used in turn; 0: once */
    void (*ring)(void *ring_arg); /* called after the doorbell; NULL: the register is all */
    void *ring_arg;
};

enum dt_control {
    DT_CONTROL_DOWN,
    DT_CONTROL_UP,
    DT_CONTROL_FATAL,
    DT_CONTROL_PLUG,
    DT_CONTROL_DROP_NEXT,
    DT_CONTROL_DROP_PERCENT,
    DT_CONTROL_RATE,
    DT_CONTROL_VERBS_US
};

/* The most that DT_CONTROL_VERBS_US takes. */
#define DT_CONTROL_VERBS_US_MAX 10000000u

struct dt_verbs_table {
    bool is_soft;
    const char *root; /* in front of every path in sysfs, for tests; NULL: none */

    struct ibv_device **(*get_device_list)(int *num_devices);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    __be64 (*get_device_guid)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr);
    int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
    int (*query_pkey)(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
    void (*ack_async_event)(struct ibv_async_event *event);
    const char *(*event_type_str)(enum ibv_event_type type);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t bytes, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *cq_context,
                                struct ibv_comp_channel *channel, int comp_vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
    int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
                    struct ibv_qp_init_attr *init);
    int (*destroy_qp)(struct ibv_qp *qp);

    /* Optional from here on: NULL where library or device do not have it. */
    struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
                                   unsigned access);
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd,
                                    int access);
    int (*fork_init)(void);
    int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
    int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
    int (*query_gid_ex)(struct ibv_context *context, uint32_t port, uint32_t index,
                        struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes);

    /*
     * Not libibverbs': hands a QP's send queue over to the caller, while its CQ stays the library's. 0 or an
     * errno. Software RNICs; on ConnectX Detour takes both by mlx5_init_object.
     */
    int (*own_send_queue)(struct ibv_qp *qp, struct dt_dv_queue *queue);

    /* Software RNICs: dt_device_is_removed(). NULL: sysfs shows it. */
    bool (*is_removed)(struct ibv_context *context);

    /* libmlx5's mlx5dv_init_obj(), for devices without own_send_queue. NULL: looked up when it is needed. */
    int (*mlx5_init_object)(struct dt_mlx5_object *object, uint64_t types);

    /* Software RNICs: dt_verbs_device_control(). 0 or an errno. */
    int (*control)(const char *device, enum dt_control control, uint64_t argument);
};

/* Opens a copy of *table; tests pass their own. DT_NO_MEMORY. */
enum dt_status dt_verbs_open_table(const struct dt_verbs_table *table, struct dt_verbs **verbs);

/*
 * Fills *table from a library file. DT_NOT_FOUND with one line in `reason` when the file cannot be loaded or
 * lacks a function that is not optional. Logs the result at INFO.
 */
enum dt_status dt_table_load(const char *library, struct dt_verbs_table *table, char *reason,
                             size_t reason_bytes);

/* Fills *table from the software RNIC, configured as asked. DT_INVALID with one line in `reason`. */
enum dt_status dt_table_soft(uint32_t device_count, uint64_t rate_bytes_per_s, struct dt_verbs_table *table,
                             char *reason, size_t reason_bytes);

/* The device of this name; NULL with errno set, ENODEV when there is none. */
struct ibv_context *dt_open_by_name(const struct dt_verbs_table *table, const char *name);

/*
 * ibv_query_port(): by the context where it can, else by the library's older function. *speed, unless NULL,
 * is the active speed, from the wider member where the library has it (active_speed has no bit for XDR). 0 or
 * an errno.
 */
int dt_table_query_port(const struct dt_verbs_table *table, struct ibv_context *context, uint8_t port,
                        struct ibv_port_attr *attr, uint32_t *speed);

#ifdef __cplusplus
}
#endif

#endif
