/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delays of links that a decision names. A controller that has adopted the decision of an earlier one,
 * and whose judge may take the slow links for healthy, compares them with what is measured.
 *
 * Pure.
 */
#ifndef DETOUR_CONTROLLER_DELAY_H
#define DETOUR_CONTROLLER_DELAY_H

#include "controller/decide.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DELAY_MAX_NS 1000000000000 /* of a decision; a longer one is no delay of a schedule */

/* False: a decision cannot name it. */
bool dt_delay_of(const struct dt_slow_link *slow, struct dt_decided_link *link);

/*
 * The messages of the link take less than half of its delay, all in all: then it has no such delay. False if
 * none was measured. `connection`: its messages alone; 0: those of all connections between the two ranks.
 */
bool dt_delay_is_refuted(const struct dt_situation *situation, const struct dt_decided_link *link,
                         uint64_t connection);

#ifdef __cplusplus
}
#endif

#endif
