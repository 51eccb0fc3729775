/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a device reads and writes: whole pages that nothing else lies on, so that registering it pins,
 * and keeps from forked children, nothing of anybody else's; and on the device's NUMA node where that can be
 * had.
 */
#ifndef DETOUR_BASE_NODE_MEMORY_H
#define DETOUR_BASE_NODE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * At least `bytes` bytes of zeros, rounded up to pages and page aligned. `node`: the NUMA node, or -1. A node
 * that does not exist or has no memory left, a machine without NUMA and one without libnuma (libnuma.so.1,
 * looked for at run time) are no errors: the memory is then where the kernel puts it. NULL: out of memory.
 * Any thread.
 */
void *dt_node_memory_alloc(size_t bytes, int32_t node);

/*
 * The same for memory of dt_node_memory_alloc() whose node was not known yet, or another one. For pages that
 * nobody has touched: the others stay where they are. Any thread.
 */
void dt_node_memory_prefer(void *memory, size_t bytes, int32_t node);

/* Gives it back; `bytes` as it was asked for. NULL is accepted. */
void dt_node_memory_free(void *memory, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
