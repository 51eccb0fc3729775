/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every connection of a process shares, as the modules below transport/ see it: settings, the clock's
 * stamps, the random generator, the counter page. Part of struct dt_net, which fills it in before the first
 * connection; constant from then on, but for the members marked [atomic].
 */
#ifndef DETOUR_TRANSPORT_PATH_ENVIRONMENT_H
#define DETOUR_TRANSPORT_PATH_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/param.h"
#include "base/ticks.h"
#include "hostpath/gpu_flush.h"
#include "obs/page.h"
#include "transport/protocol/frames.h"
#include "verbs/verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_hostpath;
struct dt_device;
struct dt_inject;
struct dt_nic;
struct dt_network;

struct dt_environment {
    struct dt_params params;
    struct dt_verbs *verbs;
    struct dt_network *network;
    void (*random)(void *arg, void *to, size_t bytes); /* any thread */
    void *random_arg;
    uint32_t chunk_bytes;
    bool has_threads; /* false in simulations: control tasks and copies run when the net is progressed */
    bool has_membarrier;
    char host[DT_NAME_BYTES];
    uint32_t pid;
    uint64_t tick_ns; /* the time at the last round of a device thread [atomic] */
    struct dt_ticks ticks;
    struct dt_page *page; /* or NULL: nothing is counted for readers */

    struct dt_gpu_flusher flusher;
    struct dt_hostpath *hostpath; /* hostpath/hostpath.h */
    struct dt_inject *inject;     /* transport/message/gate.h */
    /* Control thread: the device is open, and no call has used it. Or NULL. */
    void (*opened)(struct dt_nic *nic, struct dt_device *device);
};

/* A random number that is not zero. */
static inline uint64_t dt_environment_random(struct dt_environment *environment)
{
    uint64_t value = 0;

    while (value == 0)
        environment->random(environment->random_arg, &value, sizeof value);
    return value;
}

#ifdef __cplusplus
}
#endif

#endif
