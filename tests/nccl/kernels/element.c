/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of any type as double: declared in reduce.h. */
#include "tests/nccl/kernels/reduce.h"

#include <string.h>

#include "tests/nccl/kernels/small_float.h"

/* X(type, C type, value read from x, bits written for value) */
#define ELEMENTS(X)                                                             \
    X(NH_INT8, int8_t, x, (int8_t)value)                                        \
    X(NH_UINT8, uint8_t, x, (uint8_t)value)                                     \
    X(NH_INT32, int32_t, x, (int32_t)value)                                     \
    X(NH_UINT32, uint32_t, x, (uint32_t)value)                                  \
    X(NH_INT64, int64_t, (double)x, (int64_t)value)                             \
    X(NH_UINT64, uint64_t, (double)x, (uint64_t)value)                          \
    X(NH_FLOAT16, uint16_t, nh_from_float16(x), nh_to_float16((float)value))    \
    X(NH_FLOAT32, float, x, (float)value)                                       \
    X(NH_FLOAT64, double, x, value)                                             \
    X(NH_BFLOAT16, uint16_t, nh_from_bfloat16(x), nh_to_bfloat16((float)value)) \
    X(NH_FLOAT8E4M3, uint8_t, nh_from_e4m3(x), nh_to_e4m3((float)value))        \
    X(NH_FLOAT8E5M2, uint8_t, nh_from_e5m2(x), nh_to_e5m2((float)value))

double nh_get(enum nh_type type, const void *values, size_t i)
{
    switch (type) {
#define READ(name, T, read, write)                                 \
    case name: {                                                   \
        T x;                                                       \
                                                                   \
        memcpy(&x, (const char *)values + i * sizeof x, sizeof x); \
        return read;                                               \
    }
        ELEMENTS(READ)
    default:
        return 0;
    }
}

void nh_set(enum nh_type type, void *values, size_t i, double value)
{
    switch (type) {
#define WRITE(name, T, read, write)                          \
    case name: {                                             \
        T x = write;                                         \
                                                             \
        memcpy((char *)values + i * sizeof x, &x, sizeof x); \
        return;                                              \
    }
        ELEMENTS(WRITE)
    default:
        return;
    }
}
