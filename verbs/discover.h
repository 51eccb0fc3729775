/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery of a port's properties on an open device. For verbs/ only. */
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

/*
 * Looks at the port of *info again: link, LID, MTU, and at which index its GID is now. The same GID is looked
 * for first; if it is gone the best of the others takes its place. DT_AGAIN (silent): the port has no link;
 * DT_SYSTEM (silent) or DT_NOT_FOUND (one INFO line): it cannot be used. *info is then unchanged.
 */
enum dt_status dt_discover_again(const struct dt_verbs *verbs, struct ibv_context *context,
                                 struct dt_device_info *info);

#ifdef __cplusplus
}
#endif

#endif
