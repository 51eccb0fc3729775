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
 * Fills gid and gid_index of *info, whose other members are set already: entry 0 on InfiniBand; on RoCE the
 * entry that the user asked for, else the best by version and address: 2 with IPv4, 2 with IPv6, 1, then the
 * link-local ones. (NCCL applies NCCL_IB_GID_INDEX to RoCE ports only; jobs on InfiniBand often set it too.)
 * DT_NOT_FOUND, with one INFO line: the RoCE port has no such entry, or the port has no usable one.
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
