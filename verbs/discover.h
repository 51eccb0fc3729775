/* SPDX-License-Identifier: Apache-2.0 */
/* What a port of an open device is. For verbs/ only. */
#ifndef DETOUR_VERBS_DISCOVER_H
#define DETOUR_VERBS_DISCOVER_H

#include <stdint.h>

#include "base/status.h"
#include "verbs/object.h"
#include "verbs/verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Fills *info, with DT_MEMORY_HOST alone in `capabilities`. DT_SYSTEM or DT_NOT_FOUND, with one INFO line,
 * when the port cannot be used; *info is undefined then.
 */
enum dt_status dt_discover_port(const struct dt_verbs *verbs, struct ibv_context *context,
                                const struct ibv_device_attr *attr, uint32_t port,
                                struct dt_device_info *info);

#ifdef __cplusplus
}
#endif

#endif
