/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GID of a RoCE port the user prefers, where no index is given: the settings NCCL_IB_ROCE_VERSION_NUM,
 * NCCL_IB_ADDR_FAMILY and NCCL_IB_ADDR_RANGE of NCCL's own transport. For verbs/ only.
 */
#ifndef DETOUR_VERBS_GID_WISH_H
#define DETOUR_VERBS_GID_WISH_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_gid_wish {
    uint32_t version;    /* of RoCE: 1 or 2; 0: any */
    int family;          /* AF_INET or AF_INET6; 0: any */
    uint8_t address[16]; /* of the range, as it stands in a GID */
    uint32_t bits;       /* of it that count, from its first; 0: any address */
};

/*
 * A text that is NULL or empty is no wish. One that cannot be read is ignored as NCCL ignores it, with one
 * WARN; false then. A range without a family is one of IPv4.
 */
bool dt_gid_wish_parse(uint32_t version, const char *family, const char *range, struct dt_gid_wish *wish);

/* `version`: of the entry that `gid` stands in. */
bool dt_gid_wish_is_met(const struct dt_gid_wish *wish, const uint8_t gid[16], uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
