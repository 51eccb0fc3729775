/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's filter for the names of interfaces and RNICs: a comma-separated list of prefixes.
 *
 *   eth,ib      names that begin with eth or ib       =eth0      exactly eth0
 *   ^docker,lo  names that begin with neither         ^=eth0     anything but exactly eth0
 *   mlx5_0:1    only port 1 of it (RNICs)             empty      everything
 *
 * NCCL 2.30 appends a rail and a plane to RNICs, mlx5_0:1:RAIL:PLANE, each of which may be empty. They choose
 * no RNIC.
 */
#ifndef DETOUR_BASE_NAME_FILTER_H
#define DETOUR_BASE_NAME_FILTER_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* True if `filter` admits `name`. `port` counts from 1; 0: the name has no ports. Empty items are ignored; a
 * port that is empty is any, and one that is not a number matches nothing. */
bool dt_name_filter_match(const char *filter, const char *name, unsigned port);

#ifdef __cplusplus
}
#endif

#endif
