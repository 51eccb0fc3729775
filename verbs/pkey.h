/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The partition key (P_Key, InfiniBand Architecture Specification 10.9) of queue pairs, given by its value:
 * the subnet manager may put one key at other places of the tables of other ports.
 *
 * The control thread of the device.
 */
#ifndef DETOUR_VERBS_PKEY_H
#define DETOUR_VERBS_PKEY_H

#include <stdint.h>

#include "base/status.h"
#include "verbs/object.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The place of verbs->pkey_value in the table of the device's port; without a value it is verbs->pkey_index.
 * The highest bit of a key is the kind of membership and is not compared, as in NCCL; a full member is
 * preferred, since two limited ones do not reach each other. DT_NOT_FOUND: the port is not in that partition;
 * one WARN lists its keys, and another one follows only if the port was in the partition meanwhile.
 * DT_SYSTEM, with one WARN: the port cannot be queried.
 */
enum dt_status dt_pkey_find(struct dt_device *device, uint16_t *index);

#ifdef __cplusplus
}
#endif

#endif
