/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory regions of one protection domain: shared by covering range, reference-counted, thread-safe. One
 * lock is held while the device registers and deregisters, so that no caller gets a region that is being
 * deregistered.
 */
#ifndef DETOUR_VERBS_MR_CACHE_H
#define DETOUR_VERBS_MR_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>

#include "base/status.h"
#include "verbs/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_mr;
struct dt_mr_cache;

/* One registration with the device. */
struct dt_mr_request {
    uint64_t addr; /* page aligned, unless it is a dma-buf's */
    uint64_t bytes;
    uint32_t access; /* enum dt_mr_access */
    int fd;          /* of a dma-buf; -1: ordinary memory */
    uint64_t offset; /* in the dma-buf */
    /* Stand-in memory: its address minus the address that it is registered under (modulo 2^64), a multiple of
       the page; 0 for ordinary memory. */
    uint64_t displacement;
};

struct dt_mr_cache_ops {
    /* The region, or NULL with errno set. */
    struct ibv_mr *(*register_region)(void *arg, const struct dt_mr_request *request, uint32_t *lkey,
                                      uint32_t *rkey);
    /* 0 or an errno. */
    int (*deregister_region)(void *arg, struct ibv_mr *ibv);
    /* Was the device removed, so that it registers nothing? */
    bool (*is_gone)(void *arg);
};

struct dt_mr_entry;

struct dt_mr_cache {
    const struct dt_mr_cache_ops *ops;
    void *ops_arg;
    uint64_t page_bytes;
    pthread_mutex_t lock;
    struct dt_mr_entry **entries; /* sorted by address */
    size_t count;
    size_t room;
};

/* page_bytes: a power of two. */
void dt_mr_cache_init(struct dt_mr_cache *cache, const struct dt_mr_cache_ops *ops, void *ops_arg,
                      uint64_t page_bytes);

/* Deregisters the remaining regions; returns their number. */
size_t dt_mr_cache_close(struct dt_mr_cache *cache);

/*
 * A reference to a region that covers the request, existing or new. Silent: DT_INVALID (empty or wrapping
 * range), DT_NO_MEMORY, DT_NOT_FOUND (the device is gone), DT_SYSTEM with errno set.
 */
enum dt_status dt_mr_cache_get(struct dt_mr_cache *cache, const struct dt_mr_request *request,
                               struct dt_mr **mr);

/* Gives one back. Silent: DT_SYSTEM with errno set when the device refused to forget the region. */
enum dt_status dt_mr_cache_put(struct dt_mr_cache *cache, struct dt_mr *mr);

/*
 * Registers every region anew with `ops_arg`, which takes the place of the present one, and then deregisters
 * the old ones there, whatever that answers. All or none: DT_NO_MEMORY, or DT_SYSTEM with errno set. Silent.
 */
enum dt_status dt_mr_cache_renew(struct dt_mr_cache *cache, void *ops_arg);

#ifdef __cplusplus
}
#endif

#endif
