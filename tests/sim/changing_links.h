/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links of a pipeline whose delay changes over time, known in advance: the delay of each link is drawn,
 * holds for a drawn time and is drawn again, as `latency=VALUE every=VALUE` of delay/rule.h does; both
 * directions of a link have it. Times count from 0, in ns.
 */
#ifndef DETOUR_TESTS_SIM_CHANGING_LINKS_H
#define DETOUR_TESTS_SIM_CHANGING_LINKS_H

#include <stdint.h>

#include "delay/rule.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_changing_links;

/* `rule` is read until the end; without `every` a link keeps its first delay. NULL when out of memory. */
struct dt_changing_links *dt_changing_links_create(const struct dt_delay_rule *rule, int32_t count,
                                                   uint64_t seed);

/* NULL is allowed. */
void dt_changing_links_destroy(struct dt_changing_links *links);

int64_t dt_changing_links_delay_ns(struct dt_changing_links *links, int32_t link, int64_t at_ns);

/* When the delay of the first link changes that does so later than `at_ns`; INT64_MAX: none does. */
int64_t dt_changing_links_change_ns(struct dt_changing_links *links, int64_t at_ns);

/* The earliest time at which a message can arrive that leaves at `at_ns` or at any time later. */
int64_t dt_changing_links_earliest_ns(struct dt_changing_links *links, int32_t link, int64_t at_ns);

#ifdef __cplusplus
}
#endif

#endif
