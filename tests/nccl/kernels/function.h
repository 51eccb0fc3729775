/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of NCCL's kernels. A batch of work names one by an id; NCCL's local table ncclDevFuncRowToId
 * maps a row, computed from collective, operation, type, algorithm and protocol, to that id
 * (src/device/generate.py). Signed integers share the functions of unsigned ones.
 */
#ifndef DETOUR_TESTS_NCCL_KERNELS_FUNCTION_H
#define DETOUR_TESTS_NCCL_KERNELS_FUNCTION_H

#include <stddef.h>

#include "tests/nccl/kernels/layout.h"

/* ncclFunc_t */
enum nh_collective {
    NH_BROADCAST = 0,
    NH_REDUCE = 1,
    NH_ALL_GATHER = 2,
    NH_REDUCE_SCATTER = 3,
    NH_ALL_REDUCE = 4,
    NH_SEND_RECV = 5,
    NH_COLLECTIVE_UNKNOWN = -1
};

/* NCCL_ALGO_*: only rings are run. */
enum { NH_ALGORITHM_RING = 1, NH_ALGORITHM_OTHER = -1 };

/* NCCL_PROTO_* */
enum nh_protocol { NH_LL = 0, NH_LL128 = 1, NH_SIMPLE = 2 };

struct nh_function {
    enum nh_collective collective;
    int operation; /* enum nh_operation, for the reductions */
    int type;      /* enum nh_type; bytes for the others */
    int algorithm;
    enum nh_protocol protocol;
};

/* The function of an id, from the table of `rows` entries. NH_COLLECTIVE_UNKNOWN: none that is run here. */
struct nh_function nh_function_of(const struct nh_layout *layout, const int *table, size_t rows, int id);

/* The entries that the table must have, with the -1 behind the last. */
size_t nh_function_rows(const struct nh_layout *layout);

#endif
