/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging memory: one bounded region per process, allocated in runs of equal granules.
 *
 * The owner threads of several connections allocate and free at the same time, without a lock: a run is
 * claimed word by word in a bitmap and given up if another thread was faster. The lowest run that fits is
 * taken first, so that a few messages in flight reuse the same memory, which stays in the caches.
 *
 * The users of the region register it with their devices; its address is fixed until dt_pool_close().
 */
#ifndef DETOUR_HOSTPATH_POOL_H
#define DETOUR_HOSTPATH_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_POOL_GRANULES_MAX      4096u
#define DT_POOL_GRANULE_BYTES_MIN 4096u

struct dt_pool {
    uint8_t *base;
    uint64_t bytes; /* a multiple of granule_bytes */
    uint64_t granule_bytes;
    uint32_t granule_count;
    uint64_t taken[DT_POOL_GRANULES_MAX / 64]; /* bit: the granule is taken [atomic] */
};

/* Rounded down to whole granules, at least one; a larger pool has larger granules. DT_NO_MEMORY. */
enum dt_status dt_pool_open(struct dt_pool *pool, uint64_t bytes);

/*
 * Places the region on this NUMA node if possible (-1: any). To be called before the first access or
 * registration: a page that was touched keeps its node.
 */
void dt_pool_prefer(struct dt_pool *pool, int32_t numa_node);

/* Frees the region. No run is accessed or freed afterwards. */
void dt_pool_close(struct dt_pool *pool);

/* A page-aligned run of at least `bytes` (not 0); NULL: no run is free. Any thread. */
void *dt_pool_alloc(struct dt_pool *pool, uint64_t bytes);

/* `bytes` as given to dt_pool_alloc(). Any thread. */
void dt_pool_free(struct dt_pool *pool, void *run, uint64_t bytes);

/* Granules in use. Tests compare it with 0 to find leaks. */
uint32_t dt_pool_taken(const struct dt_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
