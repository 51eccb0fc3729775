/* SPDX-License-Identifier: Apache-2.0 */
/* What no order of operations goes below, with all delays of an iteration known in advance. */
#ifndef DETOUR_TESTS_SIM_INTRA_BOUND_H
#define DETOUR_TESTS_SIM_INTRA_BOUND_H

#include "tests/sim/changing_links.h"
#include "tests/sim/intra.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DT_INTRA_MICROBATCHES_MAX = 256 };

/*
 * A lower bound on the duration of the iteration that begins at began_ns: of paths of operations and messages
 * that every order has, each message as early as its link permits it, and of the work that is left for a
 * device behind such a path.
 */
int64_t dt_intra_bound_ns(const struct dt_intra_options *options, struct dt_changing_links *links,
                          int64_t began_ns);

#ifdef __cplusplus
}
#endif

#endif
