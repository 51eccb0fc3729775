/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all connections of a process share of the host path: the pool, the GPUs, and how much memory the
 * receivers use. DETOUR_HOSTPATH_BYTES limits the pool, the bounce buffers and the granted memory, each on
 * its own.
 */
#ifndef DETOUR_HOSTPATH_HOSTPATH_H
#define DETOUR_HOSTPATH_HOSTPATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/param.h"
#include "base/status.h"
#include "hostpath/gpu.h"
#include "hostpath/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which isends of a sender are staged. */
enum dt_hostpath_mode {
    DT_HOSTPATH_NONE, /* there is no memory for it: no order can change that */
    DT_HOSTPATH_OFF,
    DT_HOSTPATH_ON,
    DT_HOSTPATH_AUTO,   /* as auto.h decides */
    DT_HOSTPATH_PROCESS /* of a sender: as `mode` of its process */
};

struct dt_hostpath {
    bool is_on;     /* DETOUR_HOSTPATH is not off: there is memory, and every sender has a stage */
    uint32_t mode;  /* of senders without an order of their own [atomic] */
    bool is_placed; /* dt_hostpath_place() was called */
    struct dt_pool pool;
    struct dt_gpus gpus;
    uint64_t bounce_bytes;  /* of all receivers (staged/gpu_bounce.h) [atomic] */
    uint64_t granted_bytes; /* of all receivers (staged/eager.h) [atomic] */
};

/* `hostpath` is zero, and stays so with DETOUR_HOSTPATH=off. DT_NO_MEMORY. */
enum dt_status dt_hostpath_open(struct dt_hostpath *hostpath, const struct dt_params *params,
                                bool has_threads);

/* After the last connection was freed. Harmless if it is not open. */
void dt_hostpath_close(struct dt_hostpath *hostpath);

/*
 * Before the first connection is set up: places the pool on the NUMA node of its device, which is the RNIC
 * that NCCL found near this process's GPU. Later calls change nothing. The caller serializes the calls.
 */
void dt_hostpath_place(struct dt_hostpath *hostpath, int numa_node);

#ifdef __cplusplus
}
#endif

#endif
