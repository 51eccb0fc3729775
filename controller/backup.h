/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the messages of an RNIC, or of one connection over it, would be faster over another RNIC of its
 * host, by what was measured (SHIFT section 4.3): the mean time of a byte here, and over the host's other
 * RNICs for messages of at least half and at most twice the size.
 */
#ifndef DETOUR_CONTROLLER_BACKUP_H
#define DETOUR_CONTROLLER_BACKUP_H

#include "controller/decide.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How many times less the other RNICs of `host` take. `connection`: of this one alone; 0: of all connections
 * over `nic`. 0: one of the two was not measured.
 */
double dt_backup_gain(const struct dt_known_link *links, size_t count, const char *host, const char *nic,
                      uint64_t connection);

#ifdef __cplusplus
}
#endif

#endif
