/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A time, constant or drawn from a named distribution. A drawn value is in [0, DT_DELAY_NS_MAX], so that a
 * heavy tail cannot stop a job forever.
 */
#ifndef DETOUR_DELAY_VALUE_H
#define DETOUR_DELAY_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/prng.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DELAY_NS_MAX (3600 * DT_NS_PER_S)

/* X(value, name, number of parameters) */
#define DT_DELAY_SHAPE_LIST(X)                                                   \
    X(DT_DELAY_CONSTANT, "constant", 1)       /* a */                            \
    X(DT_DELAY_UNIFORM, "uniform", 2)         /* from a to b, both included */   \
    X(DT_DELAY_NORMAL, "normal", 2)           /* mean a, standard deviation b */ \
    X(DT_DELAY_EXPONENTIAL, "exponential", 1) /* mean a */                       \
    X(DT_DELAY_PARETO, "pareto", 2)           /* least value a, shape b / 1000 */

enum dt_delay_shape {
#define DT_DELAY_SHAPE_ENUM(name, text, count) name,
    DT_DELAY_SHAPE_LIST(DT_DELAY_SHAPE_ENUM)
#undef DT_DELAY_SHAPE_ENUM
        DT_DELAY_SHAPE_COUNT
};

struct dt_delay_value {
    enum dt_delay_shape shape;
    uint64_t a; /* ns */
    uint64_t b; /* ns; of a Pareto distribution its shape in thousandths */
};

/* "normal" and so on. */
const char *dt_delay_shape_text(enum dt_delay_shape shape);

/* Parameters in parentheses. */
unsigned dt_delay_shape_parameters(enum dt_delay_shape shape);

/* Nanoseconds. Deterministic: equal generators give equal numbers. */
uint64_t dt_delay_draw(const struct dt_delay_value *value, struct dt_prng *prng);

/* In the rule language: "30ms", "normal(30ms,10ms)". Returns the length, like snprintf(3). */
int dt_delay_value_print(const struct dt_delay_value *value, char *to, size_t bytes);

/* A duration in the largest unit without a fraction: "1500us". Returns the length, like snprintf(3). */
int dt_delay_ns_print(uint64_t ns, char *to, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
