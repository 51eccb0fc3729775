/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of software RNICs. A GID on the `local` wire is a unique local IPv6 address that names a
 * process of this host and one of its devices:
 *
 *     bytes 0-1   fd44
 *     bytes 2-5   0
 *     bytes 6-7   device index, big-endian
 *     bytes 8-15  instance: 64 random bits, drawn once per process
 */
#ifndef DETOUR_SOFTRNIC_GID_H
#define DETOUR_SOFTRNIC_GID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline void dt_gid_make(uint64_t instance, uint32_t device, uint8_t gid[16])
{
    memset(gid, 0, 16);
    gid[0] = 0xfd;
    gid[1] = 0x44;
    gid[6] = (uint8_t)(device >> 8);
    gid[7] = (uint8_t)device;
    for (int i = 0; i < 8; i++)
        gid[8 + i] = (uint8_t)(instance >> (56 - 8 * i));
}

/* False when it is no address of this kind. */
static inline bool dt_gid_parse(const uint8_t gid[16], uint64_t *instance, uint32_t *device)
{
    static const uint8_t prefix[6] = {0xfd, 0x44, 0, 0, 0, 0};

    if (memcmp(gid, prefix, sizeof prefix) != 0)
        return false;
    *device = (uint32_t)gid[6] << 8 | gid[7];
    *instance = 0;
    for (int i = 0; i < 8; i++)
        *instance = *instance << 8 | gid[8 + i];
    return true;
}

#ifdef __cplusplus
}
#endif

#endif
