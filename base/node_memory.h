/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that devices access: whole pages without other data, so that registering it pins, and hides from
 * forked children, only this memory. Placed on the device's NUMA node if possible.
 */
#ifndef DETOUR_BASE_NODE_MEMORY_H
#define DETOUR_BASE_NODE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * At least `bytes` zeroed bytes, rounded up to pages and page aligned. `node`: the NUMA node, or -1. If the
 * node does not exist or has no free memory, or NUMA or libnuma (libnuma.so.1, loaded at run time) is
 * missing, the kernel chooses the place. NULL: out of memory. Any thread.
 */
void *dt_node_memory_alloc(size_t bytes, int32_t node);

/*
 * Moves memory of dt_node_memory_alloc() to this node. Affects only pages that have not been accessed yet.
 * Any thread.
 */
void dt_node_memory_prefer(void *memory, size_t bytes, int32_t node);

/* Frees it; `bytes` as passed to dt_node_memory_alloc(). NULL is allowed. */
void dt_node_memory_free(void *memory, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
