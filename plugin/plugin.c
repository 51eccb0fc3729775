/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/plugin.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "detour/version.h"
#include "plugin/control.h"
#include "transport/protocol/address.h"
#include "transport/session/stream_tcp.h"
#include "verbs/netdev.h"

#define REASON_BYTES 512

static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct dt_plugin *current; /* atomic */
static ncclDebugLogger_t nccl_logger;
static pid_t init_pid;

struct dt_plugin *dt_plugin_current(void)
{
    return dt_load_acquire(&current);
}

struct dt_plugin *dt_plugin_replace(struct dt_plugin *plugin)
{
    return dt_exchange_acq_rel(&current, plugin);
}

/* ------------------------------------------------------------------------------------------------------------
 * Services of the process for the transport
 */
static uint64_t process_now_ns(void *arg)
{
    (void)arg;
    return dt_clock_now_ns();
}

static void process_sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL); /* shorter, when a signal comes: no harm */
}

static void process_random(void *arg, void *to, size_t bytes)
{
    (void)arg;
    /* getrandom(2) returns up to 256 bytes whole, and the kernel's pool is initialized long before NCCL
     * starts. */
    DT_CHECK(bytes <= 256 && getrandom(to, bytes, 0) == (ssize_t)bytes);
}

/* Passes log lines to NCCL's logger (nccl_net_v8.h). */
static void log_to_nccl(void *arg, enum dt_log_level level, const char *file, int line, const char *text)
{
    ncclDebugLogger_t logger = dt_load_acquire(&nccl_logger);

    (void)arg;
    if (level == DT_LOG_WARN)
        logger(NCCL_LOG_WARN, NCCL_ALL, file, line, "NET/Detour : %s", text);
    else
        logger(level == DT_LOG_INFO ? NCCL_LOG_INFO : NCCL_LOG_TRACE, NCCL_INIT | NCCL_NET, file, line,
               "NET/Detour : %s", text);
}

ncclResult_t dt_plugin_error(enum dt_status status)
{
    switch (status) {
    case DT_OK:
    case DT_AGAIN:
        return ncclSuccess;
    case DT_INVALID:
    case DT_UNSUPPORTED:
        return ncclInvalidUsage;
    case DT_NO_MEMORY:
    case DT_SYSTEM:
    case DT_FULL:
    case DT_NOT_FOUND:
        return ncclSystemError;
    case DT_PATH_ERROR:
    case DT_PEER_ERROR:
    case DT_PROTOCOL:
    case DT_TIMED_OUT:
    case DT_CLOSED:
        return ncclRemoteError;
    case DT_INTERNAL:
        break;
    }
    return ncclInternalError;
}

/* ------------------------------------------------------------------------------------------------------------
 * init
 */

/* The kind of RNIC: inside NCCL, "auto" never selects the software RNIC. */
static enum dt_status verbs_kind(const struct dt_params *params, enum dt_verbs_kind *kind)
{
    bool is_soft = strcmp(params->verbs, "soft") == 0;

    *kind = is_soft ? DT_VERBS_SOFT : DT_VERBS_SYSTEM;
    if (is_soft || strcmp(params->verbs, "system") == 0 || strcmp(params->verbs, "auto") == 0)
        return DT_OK;
    dt_warn("setting-verbs", "DETOUR_VERBS=%s: expected system, soft or auto", params->verbs);
    return DT_INVALID;
}

/* Frames of a failover also go in band, over other RNICs; set-up and the death of a process need the channel.
 */
static void warn_shared_link(const struct dt_net *net, const char *interface)
{
    size_t count = dt_net_device_count(net);

    for (size_t i = 0; i < count && count > 1; i++) {
        const struct dt_device_info *info = dt_net_device_info(net, i);

        if (dt_netdev_is_of("", interface, info->name))
            dt_warn(
                "control-on-rnic",
                "the control channel uses %s, a port of %s: while that link is down, no connection is set "
                "up, "
                "and the end of a process is detected later; DETOUR_SOCKET_IFNAME names a network of its own",
                interface, info->name);
    }
}

/* `reason`: of DT_UNSUPPORTED. */
static enum dt_status create_net(const struct dt_params *params, struct dt_plugin *plugin,
                                 char reason[REASON_BYTES])
{
    char name[32];
    struct dt_net_options options = {
        .params = params,
        .verbs = plugin->verbs,
        .network = dt_network_tcp(),
        .random = process_random,
        .reason = reason,
        .reason_bytes = REASON_BYTES,
        .now_ns = process_now_ns,
        .has_threads = true,
    };
    enum dt_status status = dt_interface_find(params->interface, dt_address_family_of(params->socket_family),
                                              &options.address, name);

    if (status == DT_OK)
        status = dt_net_create(&options, &plugin->net);
    if (status == DT_OK)
        warn_shared_link(plugin->net, name);
    return status;
}

/* One line for the user, since NCCL continues without the plugin. */
static void warn_no_device(const char *reason)
{
    dt_warn("no-device",
            "no usable RDMA device (%s): NCCL will use another network. "
            "DETOUR_VERBS=soft takes the software RNIC, for tests on one host",
            reason);
}

/* Invalid rules fail init(): a measurement without the requested delays would mislead. */
static enum dt_status inject(const struct dt_params *params, struct dt_net *net)
{
    char error[512];

    if (!params->inject[0])
        return DT_OK;
    if (dt_net_inject(net, params->inject, error, sizeof error) != DT_OK) {
        dt_warn("setting-inject", "DETOUR_INJECT: %s", error);
        return DT_INVALID;
    }
    dt_info("inject-in-force",
            "DETOUR_INJECT is in force: messages are late or devices fail on purpose (`detour inject list`)");
    return DT_OK;
}

static enum dt_status open_net(const struct dt_params *params, struct dt_plugin *plugin,
                               char reason[REASON_BYTES])
{
    enum dt_status status = create_net(params, plugin, reason);

    if (status != DT_OK)
        return status;
    status = inject(params, plugin->net);
    if (status != DT_OK)
        dt_net_destroy(plugin->net);
    return status;
}

static enum dt_status open_plugin(const struct dt_params *params, struct dt_plugin *plugin)
{
    char reason[REASON_BYTES] = "";
    struct dt_verbs_options options = {
        .reason = reason,
        .reason_bytes = sizeof reason,
    };
    enum dt_status status = verbs_kind(params, &options.kind);
    uint32_t kinds;

    dt_verbs_options_take(&options, params);
    if (status == DT_OK)
        status = dt_control_event_kinds(params, &kinds);
    if (status != DT_OK)
        return status;
    status = dt_verbs_open(&options, &plugin->verbs);
    if (status != DT_OK) {
        warn_no_device(reason);
        return status;
    }
    status = open_net(params, plugin, reason);
    if (status == DT_UNSUPPORTED)
        warn_no_device(reason);
    if (status != DT_OK)
        dt_verbs_close(plugin->verbs);
    return status;
}

/* It is set against NCCL's own InfiniBand transport, which is not used beside a plugin. */
static void note_ib_disable(void)
{
    const char *text = getenv("NCCL_IB_DISABLE");

    if (text && *text && strcmp(text, "0") != 0)
        dt_info("ib-disable",
                "NCCL_IB_DISABLE=%s does not concern this plugin; to do without it unset "
                "NCCL_NET_PLUGIN",
                text);
}

static void log_devices(const struct dt_net *net)
{
    char names[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < dt_net_device_count(net) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, " %s", dt_net_device_name(net, i));
    dt_info("loaded", "Detour %s, %zu devices:%s%s", DETOUR_VERSION_STRING, dt_net_device_count(net), names,
            dt_net_device_info(net, 0)->is_soft
                ? " (software RNICs: for tests and demonstrations on one host, not for production)"
                : "");
}

static ncclResult_t init_locked(void)
{
    struct dt_params params;
    char error[512];
    struct dt_plugin *plugin;
    enum dt_status status;

    if (dt_plugin_current() && init_pid == getpid())
        return ncclSuccess;
    /* In a forked child: the parent's threads are not there, and its queue pairs are the parent's. Its memory
       is left as it is, and this process gets a plugin of its own. */
    dt_store_release(&current, NULL);
    if (dt_params_load(&params, dt_getenv_process, NULL, error, sizeof error) != DT_OK) {
        dt_warn("setting", "%s", error);
        return ncclInvalidUsage;
    }
    plugin = calloc(1, sizeof *plugin);
    if (!plugin)
        return ncclSystemError;
    plugin->now_ns = process_now_ns;
    plugin->sleep_ns = process_sleep_ns;
    status = open_plugin(&params, plugin);
    if (status != DT_OK) {
        free(plugin);
        return dt_plugin_result(status);
    }
    log_devices(plugin->net);
    note_ib_disable();
    plugin->control = dt_control_start(&params, plugin->verbs, plugin->net);
    init_pid = getpid();
    dt_store_release(&current, plugin);
    return ncclSuccess;
}

ncclResult_t dt_plugin_init(ncclDebugLogger_t logger)
{
    ncclResult_t result;

    pthread_mutex_lock(&init_mutex);
    if (logger) {
        dt_store_release(&nccl_logger, logger);
        dt_log_set_sink(log_to_nccl, NULL, DT_LOG_TRACE);
    }
    result = init_locked();
    pthread_mutex_unlock(&init_mutex);
    return result;
}

/*
 * The library stays mapped until the process ends (-z nodelete), since NCCL unloads it without notice while
 * threads may run. A forked child has no threads of Detour.
 */
__attribute__((destructor)) static void at_exit(void)
{
    struct dt_plugin *plugin = dt_plugin_current();

    if (!plugin || init_pid != getpid())
        return;
    dt_net_stop_threads(plugin->net);
    dt_control_stop(plugin->control);
}
