/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory of a connection (regMr). Registration and deregistration run on NCCL's service thread;
 * the data path reads the regions and keeps the counts.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_MEMORY_H
#define DETOUR_TRANSPORT_MESSAGE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/list.h"
#include "base/util.h"
#include "verbs/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_bounce_buffer;
struct dt_connection;
struct dt_device;
struct dt_gpu;
struct dt_registration;

/* The memory to register: an address range, or part of a dma-buf. */
struct dt_memory_source {
    void *addr;
    size_t bytes;
    uint64_t offset; /* dma-buf */
    int fd;          /* dma-buf; else -1 */
    uint32_t access; /* enum dt_mr_access */
    bool is_host;    /* the CPU may read it */
};

struct dt_memory {
    struct dt_list node;  /* in connection->memories */
    bool is_deregistered; /* but requests were open: the connection is over */
    bool is_host;         /* the CPU may read it: small payloads are sent inline */
    struct dt_gpu *gpu;   /* sender: whose memory it is, if it can be staged from there; or NULL */
    uint64_t addr;
    uint64_t bytes;
    struct dt_mr *mr[DT_PATHS_MAX]; /* NULL where the path has no device or its device refused */
    uint32_t path_mask; /* where it is not NULL; grows when a late registration is done [atomic] */
    uint32_t late_mask; /* where the registration goes on [atomic] */
    struct dt_registration *late[DT_PATHS_MAX]; /* that registration, also after its end; or NULL [service] */
    uint32_t bounce_mask; /* of them, those of `bounce`: nothing is written to the GPU itself over them */
    struct dt_bounce_buffer
        *bounce;           /* host memory that stands in for the GPU's (hostpath/staged/); or NULL */
    uint32_t open;         /* messages that may touch it now [atomic; written by the owner] */
    uint32_t written_mask; /* paths over which it was ever written, also in part [owner] */
};

static inline struct dt_memory *dt_memory_of_node(struct dt_list *node)
{
    return dt_container_of(node, struct dt_memory, node);
}

/* A new one that belongs to the caller, without regions; NULL: out of memory. */
struct dt_memory *dt_memory_create(const struct dt_memory_source *from);
/*
 * Registers it on the devices of all paths, and sets path_mask. Returns the default device's answer, or, if
 * that device is dead and no other has the memory, that of one that refused; *missing gets the paths whose
 * device refused. The devices of other paths register it on their control threads, all
 * at the same time, and have one second more than the default device: a device that hangs adds its path to
 * path_mask when it answers (registration.h), and is not waited for again until then. So does a device that
 * is dead, the default one too, once it is back (transport/reopen.h).
 */
enum dt_status dt_memory_register_all(struct dt_connection *connection, const struct dt_memory_source *from,
                                      struct dt_memory *memory, uint32_t *missing);
/* Whether the memory has a region, or may get one. */
bool dt_memory_is_usable(const struct dt_memory *memory);
/* From now on the connection frees it, unless dt_memory_remove() takes it back. */
void dt_memory_add(struct dt_connection *connection, struct dt_memory *memory);
void dt_memory_remove(struct dt_connection *connection, struct dt_memory *memory);

/* One of them: the region on the device. */
enum dt_status dt_memory_register_on(struct dt_device *device, const struct dt_memory_source *from,
                                     struct dt_mr **mr);
/* These paths have a region now. */
void dt_memory_extend(struct dt_memory *memory, uint32_t path_mask);
/* The registration of a path goes on. Before it may end late. */
void dt_memory_expect_region(struct dt_memory *memory, uint32_t p, struct dt_registration *registration);
/* The late registration of a path has ended; NULL: the device refused. */
void dt_memory_add_region(struct dt_memory *memory, uint32_t p, struct dt_mr *mr);

/* Deregisters the regions on all devices, with the same time for other devices. Harmless when repeated. */
void dt_memory_deregister_all(struct dt_connection *connection, struct dt_memory *memory);

/*
 * The memory is deregistered with requests open, as NCCL does when it aborts: ends the connection. When this
 * returns no byte of any of its buffers moves any more. Objects that slots refer to are kept until the
 * connection is closed.
 */
void dt_connection_abandon(struct dt_connection *connection, const struct dt_memory *memory);

#ifdef __cplusplus
}
#endif

#endif
