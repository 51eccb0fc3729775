/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/type.h"

#include <string.h>

#include "base/util.h"
#include "cli/perf/pattern.h"

/* 10 bits of a stream's word: 16384 ranks add up to less than 2^24, which a float holds exactly. */
#define VALUE_SHIFT 54

/* Sums go through an unsigned type of the same size: signed overflow would be undefined. */
#define SUM(sum_type, x, y) ((sum_type)((sum_type)(x) + (sum_type)(y)))
#define MAX(sum_type, x, y) ((x) > (y) ? (x) : (y))
#define MIN(sum_type, x, y) ((x) < (y) ? (x) : (y))

#define DEFINE_REDUCE(name, type, sum_type, redop, expression)                           \
    static void name##_##redop(void *target, const void *a, const void *b, size_t count) \
    {                                                                                    \
        type *out = target;                                                              \
        const type *x = a;                                                               \
        const type *y = b;                                                               \
                                                                                         \
        for (size_t i = 0; i < count; i++)                                               \
            out[i] = (type)expression(sum_type, x[i], y[i]);                             \
    }

#define DEFINE_TYPE(name, type, sum_type)                                                \
    static void name##_fill(void *target, size_t count, uint64_t stream, uint64_t first) \
    {                                                                                    \
        type *out = target;                                                              \
                                                                                         \
        for (size_t i = 0; i < count; i++)                                               \
            out[i] = (type)(uint32_t)(dt_perf_word(stream, first + i) >> VALUE_SHIFT);   \
    }                                                                                    \
    DEFINE_REDUCE(name, type, sum_type, sum, SUM)                                        \
    DEFINE_REDUCE(name, type, sum_type, max, MAX)                                        \
    DEFINE_REDUCE(name, type, sum_type, min, MIN)

/* name, C type, the type sums are computed in */
#define TYPES(X)                  \
    X(int8, int8_t, uint8_t)      \
    X(uint8, uint8_t, uint8_t)    \
    X(int32, int32_t, uint32_t)   \
    X(uint32, uint32_t, uint32_t) \
    X(int64, int64_t, uint64_t)   \
    X(uint64, uint64_t, uint64_t) \
    X(float, float, float)        \
    X(double, double, double)

TYPES(DEFINE_TYPE)

static const struct dt_perf_type types[] = {
#define TYPE_ROW(name, type, sum_type) \
    {#name, sizeof(type), name##_fill, {name##_sum, name##_max, name##_min}},
    TYPES(TYPE_ROW)};

static const char *const redop_names[DT_PERF_REDOP_COUNT] = {"sum", "max", "min"};

const struct dt_perf_type *dt_perf_type_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT_OF(types); i++) {
        if (!strcmp(types[i].name, name))
            return &types[i];
    }
    return NULL;
}

const char *dt_perf_type_names(void)
{
#define TYPE_NAME(name, type, sum_type) ", " #name
    static const char names[] = TYPES(TYPE_NAME);

    return names + 2; /* past the first comma */
}

const char *dt_perf_redop_name(enum dt_perf_redop redop)
{
    return redop_names[redop];
}

enum dt_perf_redop dt_perf_redop_find(const char *name)
{
    unsigned redop = 0;

    while (redop < DT_PERF_REDOP_COUNT && strcmp(redop_names[redop], name) != 0)
        redop++;
    return (enum dt_perf_redop)redop;
}
