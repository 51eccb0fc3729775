/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store in the memory of one process: for `detour control` without a server, where controller and agents
 * are one process, and for tests. It ends with the process. Ids are decimal numbers of the same length, so
 * that their order as text is their order in time.
 */
#ifndef DETOUR_CONTROLLER_STORE_MEMORY_H
#define DETOUR_CONTROLLER_STORE_MEMORY_H

#include "controller/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A stream keeps this many bytes of records at most, and at least one record. */
#define DT_STORE_MEMORY_STREAM_BYTES (16u << 20)
#define DT_STORE_MEMORY_NAMES_MAX    256 /* streams, fields and leases each */

/*
 * Ids and fencing numbers are greater than `start`. Processes of the job remember the largest fencing number
 * that they have seen, and the next store is to be above it: `start` is the time in milliseconds since 1970.
 * NULL when out of memory. ops->close() frees the store.
 */
struct dt_store *dt_store_memory_create(uint64_t start);

#ifdef __cplusplus
}
#endif

#endif
