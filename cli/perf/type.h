/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types and reductions of `detour perf`, under NCCL's names. Values are small integers in every type,
 * so that a sum is exact in whatever order the ring adds it up (integer types wrap; float is exact up to
 * thousands of ranks) and results can be compared bit by bit.
 */
#ifndef DETOUR_CLI_PERF_TYPE_H
#define DETOUR_CLI_PERF_TYPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dt_perf_redop { DT_PERF_SUM, DT_PERF_MAX, DT_PERF_MIN, DT_PERF_REDOP_COUNT };

/* target[i] = a[i] REDOP b[i]; target may be a or b. */
typedef void dt_perf_reduce_func(void *target, const void *a, const void *b, size_t count);

struct dt_perf_type {
    const char *name;
    size_t bytes; /* of one element */
    /* Elements [first, first + count) of a stream (pattern.h), as values that can be reduced. */
    void (*fill)(void *target, size_t count, uint64_t stream, uint64_t first);
    dt_perf_reduce_func *reduce[DT_PERF_REDOP_COUNT];
};

/* By name, as in "float"; NULL when there is none. */
const struct dt_perf_type *dt_perf_type_find(const char *name);

/* All names, separated by commas, for messages. */
const char *dt_perf_type_names(void);

/* "sum", "max", "min". */
const char *dt_perf_redop_name(enum dt_perf_redop redop);

/* The reduction of that name; DT_PERF_REDOP_COUNT when there is none. */
enum dt_perf_redop dt_perf_redop_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif
