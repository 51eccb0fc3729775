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
 * The routing part of an InfiniBand GID: the LID by which the routers of other subnets reach the port; 0:
 * none. Its 64 bits of prefix are 10 fixed ones, 22 zeros, the FLID, and 16 bits of subnet prefix (NCCL's
 * net_ib reads it the same).
 */
uint32_t dt_gid_flid(const uint8_t gid[16]);

/* Two InfiniBand GIDs of one subnet: their prefixes are the same but for the FLID. */
bool dt_gid_is_same_subnet(const uint8_t a[16], const uint8_t b[16]);

/*
 * Fills gid and gid_index of *info, whose other members are set already. InfiniBand: the entry for FLIDs if
 * it has one, else entry 0. RoCE: the entry that the user asked for, else the best by version and address: 2
 * with IPv4, 2 with IPv6, 1, then the link-local ones; but those of the wish come before all others. (NCCL
 * applies NCCL_IB_GID_INDEX to RoCE ports only; jobs on InfiniBand often set it too.) DT_NOT_FOUND, with one
 * INFO line: the RoCE port has no such entry, or the port has no usable one.
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
