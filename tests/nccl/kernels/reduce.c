/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/reduce.h"

#include <math.h>
#include <string.h>

#include "tests/nccl/kernels/small_float.h"
#include "tests/nccl/runtime/log.h"

size_t nh_type_bytes(enum nh_type type)
{
    static const unsigned char bytes[NH_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return bytes[type];
}

/* Integers, all as unsigned: sums and products are the same, and the mask of NH_MIN_MAX orders signed ones.
 */
#define INTEGER(name, T)                                                 \
    static T combine_##name(const struct nh_reduction *r, T a, T b)      \
    {                                                                    \
        T mask = (T)r->argument;                                         \
                                                                         \
        if (r->operation == NH_PROD)                                     \
            return (T)((uint64_t)a * b);                                 \
        if (r->operation == NH_MIN_MAX)                                  \
            return (T)(a ^ mask) < (T)(b ^ mask) ? a : b;                \
        return (T)(a + b);                                               \
    }                                                                    \
    static T scale_##name(const struct nh_reduction *r, T a)             \
    {                                                                    \
        return (T)((uint64_t)a * (T)r->argument);                        \
    }                                                                    \
    static T divide_##name(const struct nh_reduction *r, T a)            \
    {                                                                    \
        T divisor = (T)(r->argument >> 1);                               \
        int is_negative = r->argument & 1 && a >> (8 * sizeof a - 1);    \
                                                                         \
        return is_negative ? (T) - ((T)-a / divisor) : (T)(a / divisor); \
    }

/* Floating point formats: TO and FROM convert to the format W that is computed in. */
#define FLOATING(name, T, W, FROM, TO)                                        \
    static T combine_##name(const struct nh_reduction *r, T a, T b)           \
    {                                                                         \
        W x = FROM(a), y = FROM(b);                                           \
                                                                              \
        if (r->operation == NH_PROD)                                          \
            return TO(x * y);                                                 \
        if (r->operation == NH_MIN_MAX)                                       \
            return r->argument & 1 ? TO(x > y ? x : y) : TO(x < y ? x : y);   \
        return TO(x + y);                                                     \
    }                                                                         \
    static T scale_##name(const struct nh_reduction *r, T a)                  \
    {                                                                         \
        T factor;                                                             \
                                                                              \
        memcpy(&factor, &r->argument, sizeof factor);                         \
        return TO(FROM(a) * FROM(factor));                                    \
    }                                                                         \
    static T divide_##name(const struct nh_reduction *r, T a)                 \
    {                                                                         \
        (void)r; /* NCCL averages floating point numbers by NH_PRE_MUL_SUM */ \
        return a;                                                             \
    }

#define SAME(value) (value)
INTEGER(u8, uint8_t)
INTEGER(u32, uint32_t)
INTEGER(u64, uint64_t)
FLOATING(f32, float, float, SAME, SAME)
FLOATING(f64, double, double, SAME, SAME)
FLOATING(f16, uint16_t, float, nh_from_float16, nh_to_float16)
FLOATING(bf16, uint16_t, float, nh_from_bfloat16, nh_to_bfloat16)
FLOATING(e4m3, uint8_t, float, nh_from_e4m3, nh_to_e4m3)
FLOATING(e5m2, uint8_t, float, nh_from_e5m2, nh_to_e5m2)

/* Buffers of users and of LL lines have any alignment: memcpy. */
#define ARRAYS(name, T)                                                                                 \
    static void combine_all_##name(const struct nh_reduction *r, char *d, const char *a, const char *b, \
                                   size_t n)                                                            \
    {                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                                \
            T x, y;                                                                                     \
                                                                                                        \
            memcpy(&x, a + i * sizeof x, sizeof x);                                                     \
            memcpy(&y, b + i * sizeof y, sizeof y);                                                     \
            x = combine_##name(r, x, y);                                                                \
            memcpy(d + i * sizeof x, &x, sizeof x);                                                     \
        }                                                                                               \
    }                                                                                                   \
    static void scale_all_##name(const struct nh_reduction *r, char *d, const char *a, size_t n)        \
    {                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                                \
            T x;                                                                                        \
                                                                                                        \
            memcpy(&x, a + i * sizeof x, sizeof x);                                                     \
            x = scale_##name(r, x);                                                                     \
            memcpy(d + i * sizeof x, &x, sizeof x);                                                     \
        }                                                                                               \
    }                                                                                                   \
    static void divide_all_##name(const struct nh_reduction *r, char *d, size_t n)                      \
    {                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                                \
            T x;                                                                                        \
                                                                                                        \
            memcpy(&x, d + i * sizeof x, sizeof x);                                                     \
            x = divide_##name(r, x);                                                                    \
            memcpy(d + i * sizeof x, &x, sizeof x);                                                     \
        }                                                                                               \
    }

ARRAYS(u8, uint8_t)
ARRAYS(u32, uint32_t)
ARRAYS(u64, uint64_t)
ARRAYS(f32, float)
ARRAYS(f64, double)
ARRAYS(f16, uint16_t)
ARRAYS(bf16, uint16_t)
ARRAYS(e4m3, uint8_t)
ARRAYS(e5m2, uint8_t)

struct functions {
    void (*combine)(const struct nh_reduction *r, char *d, const char *a, const char *b, size_t n);
    void (*scale)(const struct nh_reduction *r, char *d, const char *a, size_t n);
    void (*divide)(const struct nh_reduction *r, char *d, size_t n);
};

#define FUNCTIONS(name)                                         \
    {                                                           \
        combine_all_##name, scale_all_##name, divide_all_##name \
    }

static const struct functions by_type[NH_TYPES] = {
    [NH_INT8] = FUNCTIONS(u8),       [NH_UINT8] = FUNCTIONS(u8),        [NH_INT32] = FUNCTIONS(u32),
    [NH_UINT32] = FUNCTIONS(u32),    [NH_INT64] = FUNCTIONS(u64),       [NH_UINT64] = FUNCTIONS(u64),
    [NH_FLOAT16] = FUNCTIONS(f16),   [NH_FLOAT32] = FUNCTIONS(f32),     [NH_FLOAT64] = FUNCTIONS(f64),
    [NH_BFLOAT16] = FUNCTIONS(bf16), [NH_FLOAT8E4M3] = FUNCTIONS(e4m3), [NH_FLOAT8E5M2] = FUNCTIONS(e5m2),
};

void nh_reduce_before(const struct nh_reduction *reduction, void *destination, const void *source,
                      size_t count)
{
    if (reduction->operation == NH_PRE_MUL_SUM)
        by_type[reduction->type].scale(reduction, destination, source, count);
    else if (destination != source)
        memmove(destination, source, count * nh_type_bytes(reduction->type));
}

void nh_reduce(const struct nh_reduction *reduction, void *destination, const void *left, const void *right,
               size_t count)
{
    by_type[reduction->type].combine(reduction, destination, left, right, count);
}

void nh_reduce_after(const struct nh_reduction *reduction, void *values, size_t count)
{
    if (reduction->operation == NH_SUM_POST_DIV)
        by_type[reduction->type].divide(reduction, values, count);
}
