/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state behind NCCL's function table: one transport per process, created by the first init() from the
 * environment. A simulation installs its own, one per simulated process.
 */
#ifndef DETOUR_PLUGIN_PLUGIN_H
#define DETOUR_PLUGIN_PLUGIN_H

#include <stdint.h>

#include "plugin/nccl_net_v8.h"
#include "plugin/pause.h"
#include "transport/net.h"
#include "verbs/verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_control;

struct dt_plugin {
    struct dt_net *net;
    struct dt_verbs *verbs;
    struct dt_control *control;    /* NULL: no counter page and no command socket */
    uint64_t (*now_ns)(void *arg); /* the clock of the set-up calls */
    void *now_arg;
    void (*sleep_ns)(uint64_t ns); /* in unsuccessful set-up calls; NULL: no pause, in a simulation */
    struct dt_setup_pause pause;
};

/* The plugin that the entry points use; NULL before init. Any thread. */
struct dt_plugin *dt_plugin_current(void);

/* Installs a plugin, or none (NULL), and returns the previous one. For simulations. */
struct dt_plugin *dt_plugin_replace(struct dt_plugin *plugin);

/* init(): creates the plugin from the environment unless there is one. Any thread. */
ncclResult_t dt_plugin_init(ncclDebugLogger_t logger);

ncclResult_t dt_plugin_error(enum dt_status status);

static inline ncclResult_t dt_plugin_result(enum dt_status status)
{
    return __builtin_expect(status == DT_OK, 1) ? ncclSuccess : dt_plugin_error(status);
}

#ifdef __cplusplus
}
#endif

#endif
