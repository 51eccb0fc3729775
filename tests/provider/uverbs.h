/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the kernel's side of an mlx5 device, in user space: what libibverbs and libmlx5 of rdma-core
 * find in sysfs (tree.h), and the character device behind it, which answers the commands of the kernel's
 * verbs ABI with objects of the software RNIC (softrnic/softrnic.h). So the real provider library opens a
 * device, allocates its queues, posts and polls, without a kernel that has RDMA.
 *
 * Commands that libibverbs writes to the device are those of the kernel's <rdma/ib_user_verbs.h>
 * (ib_uverbs_cmd_hdr and the structs behind it), the driver's part of a command is that of <rdma/mlx5-abi.h>
 * (mlx5_ib_*), and queues, CQ entries and registers are those of rdma-core's <infiniband/mlx5dv.h>. The newer
 * ABI of ioctl calls is refused with EPROTONOSUPPORT, as by a kernel that lacks the methods: libibverbs then
 * writes commands.
 *
 * Locks: `dt_uverbs_lock` guards everything here. Commands hold it, and so does the device's own thread
 * (queues.h) in each of its rounds. So no CQ entry of a queue pair is written once its destruction has
 * returned.
 */
#ifndef DETOUR_TESTS_PROVIDER_UVERBS_H
#define DETOUR_TESTS_PROVIDER_UVERBS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "softrnic/softrnic.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_UVERBS_DEVICES 2u

/* ------------------------------------------------------------------------------------------------------------
 * Registers: pages that the provider maps with mmap() of the device's descriptor. The descriptor is a memory
 * file, so the kernel itself maps them, and the device sees each write through a mapping of its own.
 */
#define DT_UVERBS_PAGE_BYTES     4096u
#define DT_UVERBS_REGISTER_BYTES 512u      /* bf_reg_size: two buffers side by side, used in turn */
#define DT_UVERBS_REGISTER_START 0x800     /* of the first one in its page (MLX5_BF_OFFSET in libmlx5) */
#define DT_UVERBS_REGISTERS_MAX  512u      /* in static pages, two per page (MLX5_MAX_BFREGS) */
#define DT_UVERBS_DYNAMIC_MAX    256u      /* registers in pages that are mapped for a thread domain */
#define DT_UVERBS_DYNAMIC_PAGE   (6u << 8) /* first page of those: command MLX5_IB_MMAP_ALLOC_WC, index 0 */
#define DT_UVERBS_FILE_BYTES \
    ((size_t)(DT_UVERBS_DYNAMIC_PAGE + DT_UVERBS_DYNAMIC_MAX / 2 + 1) * DT_UVERBS_PAGE_BYTES)

/* ------------------------------------------------------------------------------------------------------------
 * Objects
 */
enum dt_uverbs_kind { DT_UVERBS_PD, DT_UVERBS_MR, DT_UVERBS_CQ, DT_UVERBS_QP, DT_UVERBS_KINDS };

struct dt_uverbs_context;

struct dt_uverbs_object {
    struct dt_list node; /* on its context's list of this kind */
    struct dt_uverbs_context *context;
    uint32_t handle;
    union {
        struct ibv_pd *pd;
        struct ibv_mr *mr;
        struct ibv_cq *cq;
        struct ibv_qp *qp;
    } soft;
    uint64_t user_handle;  /* CQ, QP: what events about it carry */
    uint32_t events_given; /* CQ, QP: asynchronous events that were sent */
};

/* What the provider allocated for a CQ: entries, and two doorbell records of which the first is read here. */
struct dt_uverbs_cq {
    struct dt_uverbs_object object;
    uint8_t *entries;
    uint32_t entry_bytes; /* 64, or 128 with the entry in the second half */
    uint32_t count;       /* a power of two */
    const uint32_t *record;
    uint32_t produced;
};

/* What the provider allocated for a queue pair: receive queue, behind it the send queue, and the two records.
 */
struct dt_uverbs_qp {
    struct dt_uverbs_object object;
    const uint8_t *rq;
    uint32_t rq_count;
    uint32_t rq_stride;
    const uint8_t *sq;
    uint32_t sq_blocks;
    const uint32_t *records; /* [0] receive, [1] send: producer indices, big-endian */
    uint64_t *register_at;   /* its doorbell register, in the device's mapping; others may have the same */
    uint16_t rq_taken;       /* elements that were handed to the engine */
    uint16_t sq_taken;       /* blocks */
    uint32_t user_index;     /* in CQ entries, by which the provider finds its queue pair */
    bool is_active;          /* not in RESET */
    struct dt_soft_dv_qp engine;
};

/* One open descriptor. */
struct dt_uverbs_context {
    struct dt_list node;
    uint32_t device;
    int fd;
    uint8_t *pages;           /* the file's, DT_UVERBS_FILE_BYTES */
    struct ibv_context *soft; /* NULL until GET_CONTEXT */
    int events_fd;            /* of the asynchronous events, the end that is written; -1: none */
    int unread_fd;            /* and the other one, beside the provider's descriptor of it */
    uint32_t register_count;  /* static ones */
    uint32_t low_latency;     /* of these, the last ones have no lock in the provider */
    uint32_t register_next;   /* whose turn it is */
    struct dt_list objects[DT_UVERBS_KINDS];
};

extern pthread_mutex_t dt_uverbs_lock;
extern struct dt_list dt_uverbs_contexts;

/* Takes the lock for a command; the device's thread steps aside. */
void dt_uverbs_enter(void);
void dt_uverbs_leave(void);
/* Does a command wait? */
bool dt_uverbs_is_wanted(void);

/* ------------------------------------------------------------------------------------------------------------
 * The character device, for the calls of the C library (preload.c)
 */
/* The number of the device with this path, or -1. */
int dt_uverbs_device_of(const char *path);
/* A new descriptor, or -1 with errno. */
int dt_uverbs_open(uint32_t device);
/* Of a descriptor: the device's number, or -1 for all that are not ours. No lock. */
int dt_uverbs_device_of_fd(int fd);
/* One command; its length, or -1 with errno. */
ssize_t dt_uverbs_write(int fd, const void *data, size_t bytes);
/* Before the descriptor is closed: destroys what is left, as the kernel does. */
void dt_uverbs_close(int fd);
/* In a child of the process: it begins without open devices. */
void dt_uverbs_forget(void);

/* ------------------------------------------------------------------------------------------------------------
 * Between the files; the lock is held.
 */
void dt_uverbs_add(struct dt_uverbs_context *context, enum dt_uverbs_kind kind,
                   struct dt_uverbs_object *object);
void *dt_uverbs_find(struct dt_uverbs_context *context, enum dt_uverbs_kind kind, uint32_t handle);
struct dt_uverbs_qp *dt_uverbs_qp_of_number(struct dt_uverbs_context *context, uint32_t number);
/* Destroys the object in the engine and frees it. 0 or an errno, and then it stays. */
int dt_uverbs_destroy(enum dt_uverbs_kind kind, struct dt_uverbs_object *object);
/* One line on standard error: what is refused. */
void dt_uverbs_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Control of a link, for tests: the same as dt_soft_device_control(), on the engine behind the stand-in. The
 * library's only name besides those of the C library.
 */
int detour_uverbs_set_link(uint32_t device, bool up);

#ifdef __cplusplus
}
#endif

#endif
