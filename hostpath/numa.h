/* SPDX-License-Identifier: Apache-2.0 */
/* Binds threads to a NUMA node, near the RNIC. libnuma is loaded at run time; without it the kernel places
 * the threads. */
#ifndef DETOUR_HOSTPATH_NUMA_H
#define DETOUR_HOSTPATH_NUMA_H

#ifdef __cplusplus
extern "C" {
#endif

/* Binds the calling thread to the processors of this node; -1: no effect. */
void dt_numa_run_on(int node);

#ifdef __cplusplus
}
#endif

#endif
