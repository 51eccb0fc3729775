/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of a rule's keys, from a text with a position (scan.h): everything behind a '='. Each function
 * writes the first error and returns false where it finds something else. Private to delay/.
 */
#ifndef DETOUR_DELAY_READ_VALUE_H
#define DETOUR_DELAY_READ_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "delay/keyword.h"
#include "delay/rule.h"
#include "delay/scan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* VALUE of rule.h: a time, or a distribution with its parameters. */
bool dt_delay_read_value(struct dt_scan *scan, struct dt_delay_value *value);

/* size=MIN..MAX */
bool dt_delay_read_sizes(struct dt_scan *scan, struct dt_delay_scope *scope);

/* id=: 16 hexadecimal digits */
bool dt_delay_read_id(struct dt_scan *scan, uint64_t *id);

/* flap=DOWN/UP */
bool dt_delay_read_flap(struct dt_scan *scan, struct dt_delay_rule *rule);

/* every=VALUE */
bool dt_delay_read_every(struct dt_scan *scan, struct dt_delay_rule *rule);

/* for=TIME of a hold, which becomes the effect. */
bool dt_delay_read_hold(struct dt_scan *scan, struct dt_delay_rule *rule);

/* One of these, as its number. */
bool dt_delay_read_keyword(struct dt_scan *scan, const struct dt_delay_keywords *keywords, int *value);

/* count=N, above 0 */
bool dt_delay_read_count(struct dt_scan *scan, uint64_t *count);

#ifdef __cplusplus
}
#endif

#endif
