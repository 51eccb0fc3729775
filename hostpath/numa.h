/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where threads should run on machines with several NUMA nodes: near the RNIC. libnuma is loaded when it is
 * there; without it they run where the kernel puts them.
 */
#ifndef DETOUR_HOSTPATH_NUMA_H
#define DETOUR_HOSTPATH_NUMA_H

#ifdef __cplusplus
extern "C" {
#endif

/* The calling thread runs on this node's processors; -1: wherever it likes. */
void dt_numa_run_on(int node);

#ifdef __cplusplus
}
#endif

#endif
