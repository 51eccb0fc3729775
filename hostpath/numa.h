/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where memory and threads should be, on machines with several NUMA nodes: near the RNIC. libnuma is loaded
 * when it is there; without it, or with one node, everything stays where the kernel puts it.
 */
#ifndef DETOUR_HOSTPATH_NUMA_H
#define DETOUR_HOSTPATH_NUMA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The node of the PCI device with this sysfs folder, or -1: not known, or no such device. Reads a file. */
int dt_numa_node_of(const char *pci_path);

/* The calling thread runs on this node's processors; -1: wherever it likes. */
void dt_numa_run_on(int node);

/* Pages that were not touched yet come from this node if it has any; -1: from anywhere. */
void dt_numa_place(void *addr, size_t bytes, int node);

#ifdef __cplusplus
}
#endif

#endif
