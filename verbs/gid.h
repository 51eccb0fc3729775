/* SPDX-License-Identifier: Apache-2.0 */
/* Which entry of a port's GID table its connections use. For verbs/ only. */
#ifndef DETOUR_VERBS_GID_H
#define DETOUR_VERBS_GID_H

#include "base/status.h"
#include "verbs/object.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Fills gid and gid_index of *info, whose other members are there already. The entry that the user asked for;
 * else entry 0 on InfiniBand, and on RoCE the best by version and address: 2 with IPv4, 2 with IPv6, 1, and
 * after these the link-local ones. DT_NOT_FOUND, with one INFO line: no such entry, or no usable one.
 */
enum dt_status dt_gid_choose(const struct dt_verbs *verbs, struct ibv_context *context,
                             const struct ibv_port_attr *port, struct dt_device_info *info);

/*
 * Looks where the GID of *info is in the port's table now: addresses survive a link's ups and downs, their
 * places do not. Sets gid_index. False (silent): it is not there.
 */
bool dt_gid_find(const struct dt_verbs *verbs, struct ibv_context *context, const struct ibv_port_attr *port,
                 struct dt_device_info *info);

#ifdef __cplusplus
}
#endif

#endif
