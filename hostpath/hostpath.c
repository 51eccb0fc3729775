/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/hostpath.h"

#include <string.h>

#include "base/check.h"

enum dt_status dt_hostpath_open(struct dt_hostpath *hostpath, const struct dt_params *params,
                                bool has_threads)
{
    enum dt_status status;

    hostpath->is_on = strcmp(params->hostpath, "off") != 0;
    hostpath->mode = strcmp(params->hostpath, "auto") == 0 ? DT_HOSTPATH_AUTO : DT_HOSTPATH_ON;
    if (!hostpath->is_on)
        return DT_OK;
    status = dt_pool_open(&hostpath->pool, params->hostpath_bytes);
    if (status == DT_OK)
        dt_gpus_open(&hostpath->gpus, params->cuda_library, hostpath->pool.base, hostpath->pool.bytes,
                     has_threads);
    return status;
}

void dt_hostpath_close(struct dt_hostpath *hostpath)
{
    /* Each receiver has returned its own. */
    DT_CHECK(hostpath->bounce_bytes == 0 && hostpath->granted_bytes == 0);
    dt_gpus_close(&hostpath->gpus);
    dt_pool_close(&hostpath->pool);
}

void dt_hostpath_place(struct dt_hostpath *hostpath, int numa_node)
{
    if (hostpath->is_on && !hostpath->is_placed)
        dt_pool_prefer(&hostpath->pool, numa_node);
    hostpath->is_placed = true;
}
