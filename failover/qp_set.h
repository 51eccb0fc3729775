/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of the data queue pairs of a path, by their places: 0 to DT_QPS_MAX - 1. Plain data; zeroed it is
 * empty.
 */
#ifndef DETOUR_FAILOVER_QP_SET_H
#define DETOUR_FAILOVER_QP_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_QP_SET_WORDS (DT_QPS_MAX / 64)

DT_STATIC_CHECK(DT_QPS_MAX % 64 == 0, "each bit of the words is a queue pair");

struct dt_qp_set {
    uint64_t word[DT_QP_SET_WORDS];
};

/* The first `count` queue pairs, 0 to DT_QPS_MAX. */
static inline struct dt_qp_set dt_qp_set_of_first(uint32_t count)
{
    struct dt_qp_set set = {{0}};

    DT_CHECK(count <= DT_QPS_MAX);
    for (uint32_t q = 0; q < count; q++)
        set.word[q / 64] |= UINT64_C(1) << q % 64;
    return set;
}

static inline bool dt_qp_set_has(const struct dt_qp_set *set, uint32_t q)
{
    DT_CHECK(q < DT_QPS_MAX);
    return set->word[q / 64] >> q % 64 & 1;
}

static inline void dt_qp_set_add(struct dt_qp_set *set, uint32_t q)
{
    DT_CHECK(q < DT_QPS_MAX);
    set->word[q / 64] |= UINT64_C(1) << q % 64;
}

static inline void dt_qp_set_remove(struct dt_qp_set *set, uint32_t q)
{
    DT_CHECK(q < DT_QPS_MAX);
    set->word[q / 64] &= ~(UINT64_C(1) << q % 64);
}

/* Whether every member of `part` is in `set`. */
static inline bool dt_qp_set_contains(const struct dt_qp_set *set, const struct dt_qp_set *part)
{
    uint64_t missing = 0;

    for (uint32_t i = 0; i < DT_QP_SET_WORDS; i++)
        missing |= part->word[i] & ~set->word[i];
    return missing == 0;
}

#ifdef __cplusplus
}
#endif

#endif
