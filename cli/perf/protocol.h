/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's protocols for the data of an operation, as far as the network sees them:
 *
 * Simple  a message is the data of a slice.
 * LL      a message consists of lines of 16 bytes: 4 bytes of data, a flag, 4 bytes of data, the flag (NCCL's
 *         ncclLLFifoLine). The flag is different in each round of the slots, so that a receiver recognizes
 * lines that have not arrived. Used for small collectives, never for send and receive over a network.
 *
 * The size up to which LL is chosen, and the sizes of chunks and messages, are those of NCCL 2.28.9 on two to
 * four nodes with one GPU each; nccl.what_nccl_does compares both (docs/nccl.md). All functions are pure.
 */
#ifndef DETOUR_CLI_PERF_PROTOCOL_H
#define DETOUR_CLI_PERF_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/perf/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PERF_LL_DATA_BYTES (32 * 1024) /* data of a slot */

/* By name; DT_PERF_PROTOCOL_COUNT when there is none. */
enum dt_perf_protocol dt_perf_protocol_find(const char *name);

/*
 * Sets the members of `shape` that depend on the protocol; rank, ranks, channels, count and type are set.
 * `wanted` is the user's choice; DT_PERF_AUTO chooses by the size of the operation, as NCCL does.
 */
void dt_perf_protocol_set(struct dt_perf_shape *shape, const struct dt_perf_op *op,
                          enum dt_perf_protocol wanted);

/* The bytes of a message that carries `data_bytes` of data, and of the slot that holds the largest message.
 */
size_t dt_perf_message_bytes(const struct dt_perf_shape *shape, size_t data_bytes);
size_t dt_perf_slot_bytes(const struct dt_perf_shape *shape);

/* Slots of a connection. */
unsigned dt_perf_slot_count(const struct dt_perf_shape *shape);

/* Writes data as lines with `flag` to a slot that has room for dt_perf_message_bytes. */
void dt_perf_ll_write(void *lines, const void *data, size_t data_bytes, uint32_t flag);

/* Reads data from lines; returns the number of flags other than `flag`. */
size_t dt_perf_ll_read(void *data, const void *lines, size_t data_bytes, uint32_t flag);

#ifdef __cplusplus
}
#endif

#endif
