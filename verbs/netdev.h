/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which network interfaces are ports of an RNIC, by sysfs: a RoCE port's Ethernet interface, IPoIB, and VLANs
 * and bonds over them. A cable that takes such an interface away takes the RNIC's link with it.
 */
#ifndef DETOUR_VERBS_NETDEV_H
#define DETOUR_VERBS_NETDEV_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the interface, or one that it lies on, belongs to the device ("mlx5_0"); `root`: in front of /sys,
 * "" for this machine. */
bool dt_netdev_is_of(const char *root, const char *interface, const char *device);

#ifdef __cplusplus
}
#endif

#endif
