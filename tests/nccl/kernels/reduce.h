/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's reductions, element by element (src/device/reduce_kernel.h): a value may be scaled before (average
 * of floating point numbers), two values are combined, the result may be divided (average of integers).
 * Values of 16 and 8 bits are combined as float and rounded to nearest even.
 */
#ifndef DETOUR_TESTS_NCCL_KERNELS_REDUCE_H
#define DETOUR_TESTS_NCCL_KERNELS_REDUCE_H

#include <stddef.h>
#include <stdint.h>

/* ncclDataType_t */
enum nh_type {
    NH_INT8,
    NH_UINT8,
    NH_INT32,
    NH_UINT32,
    NH_INT64,
    NH_UINT64,
    NH_FLOAT16,
    NH_FLOAT32,
    NH_FLOAT64,
    NH_BFLOAT16,
    NH_FLOAT8E4M3,
    NH_FLOAT8E5M2,
    NH_TYPES
};

/* ncclDevRedOp_t */
enum nh_operation {
    NH_SUM,
    NH_PROD,
    NH_MIN_MAX, /* integers: the argument is a mask to compare under; floating point: its bit 0 means maximum
                 */
    NH_PRE_MUL_SUM,  /* the argument is the factor */
    NH_SUM_POST_DIV, /* the argument is divisor * 2 + is_signed */
    NH_OPERATIONS
};

struct nh_reduction {
    enum nh_operation operation;
    enum nh_type type;
    uint64_t argument;
};

size_t nh_type_bytes(enum nh_type type);

/* destination may be one of the sources. */
void nh_reduce_before(const struct nh_reduction *reduction, void *destination, const void *source,
                      size_t count);
void nh_reduce(const struct nh_reduction *reduction, void *destination, const void *left, const void *right,
               size_t count);
void nh_reduce_after(const struct nh_reduction *reduction, void *values, size_t count);

/* Conversions, for clients that fill and check buffers: the value of element i, or the nearest to `value`. */
double nh_get(enum nh_type type, const void *values, size_t i);
void nh_set(enum nh_type type, void *values, size_t i, double value);

#endif
