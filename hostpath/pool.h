/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory to stage messages in: one region per process, bounded, handed out in runs of equal granules.
 *
 * The owner of each connection takes and gives, so several threads are at it at once. Nobody waits for
 * anybody: a run is taken word by word from a bitmap, and given up again when another thread was faster. The
 * lowest run that fits is taken first, so that a few messages in flight stay in the same memory, and in the
 * caches.
 *
 * The region is registered by those who use it; it stays where it is until dt_pool_close().
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

/* At least one granule, at most what DT_POOL_GRANULES_MAX granules of the right size hold. DT_NO_MEMORY. */
enum dt_status dt_pool_open(struct dt_pool *pool, uint64_t bytes);

/*
 * The region is to lie on this NUMA node if that can be had (-1: anywhere). Before anybody touches or
 * registers it: what was touched stays where it is.
 */
void dt_pool_prefer(struct dt_pool *pool, int32_t numa_node);

/* Everything was given back, or nobody will. */
void dt_pool_close(struct dt_pool *pool);

/* A page-aligned run of at least `bytes` (not 0); NULL: no run is free. Any thread. */
void *dt_pool_alloc(struct dt_pool *pool, uint64_t bytes);

/* `bytes` as given to dt_pool_alloc(). Any thread. */
void dt_pool_free(struct dt_pool *pool, void *run, uint64_t bytes);

/* Granules that are taken now, for statistics and tests. */
uint32_t dt_pool_taken(const struct dt_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
