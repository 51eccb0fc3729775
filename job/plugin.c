/* SPDX-License-Identifier: Apache-2.0 */
#include "job/plugin.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "base/exit.h"

/* Content of outputs before the plugin writes them. */
#define UNWRITTEN_INT 0x5A5A5A5A
static char unwritten_request;

static unsigned logger_rank;
static ncclDebugLogLevel logger_level_max = NCCL_LOG_WARN;

/* The plugin's messages, as NCCL_DEBUG asks for them; any thread. */
static void log_line(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                     const char *format, ...)
{
    char text[1024];
    va_list args;

    (void)flags;
    (void)file;
    (void)line;
    if (level == NCCL_LOG_NONE || level > logger_level_max)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "# rank %u %s: %s\n", logger_rank, level == NCCL_LOG_WARN ? "WARN" : "INFO", text);
}

static void set_up_logger(unsigned rank, const char *level)
{
    static const struct {
        const char *name;
        ncclDebugLogLevel level;
    } levels[] = {{"VERSION", NCCL_LOG_VERSION},
                  {"WARN", NCCL_LOG_WARN},
                  {"INFO", NCCL_LOG_INFO},
                  {"TRACE", NCCL_LOG_TRACE}};

    logger_rank = rank;
    for (size_t i = 0; level && i < DT_COUNT_OF(levels); i++) {
        if (!strcmp(level, levels[i].name))
            logger_level_max = levels[i].level;
    }
}

const char *dt_job_result_text(ncclResult_t result)
{
    static const char *const texts[] = {
        "success",          "unhandled CUDA error", "system error", "internal error",
        "invalid argument", "invalid usage",        "remote error", "in progress",
    };

    return (unsigned)result < DT_COUNT_OF(texts) ? texts[result] : "unknown error";
}

bool dt_job_call_failed(const struct dt_job_plugin *plugin, const char *call, ncclResult_t result,
                        struct dt_job_error *error)
{
    return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: %s of plugin %s failed: %s", plugin->rank, call,
                       plugin->net->name, dt_job_result_text(result));
}

static bool left_unwritten(const struct dt_job_plugin *plugin, const char *call, const char *output,
                           struct dt_job_error *error)
{
    return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: %s of plugin %s succeeded without writing *%s",
                       plugin->rank, call, plugin->net->name, output);
}

bool dt_job_plugin_load(struct dt_job_plugin *plugin, const char *path, unsigned rank, const char *log_level,
                        struct dt_job_error *error)
{
    memset(plugin, 0, sizeof *plugin);
    plugin->rank = rank;
    plugin->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!plugin->library)
        return dt_job_fail(error, DT_EXIT_USAGE, "cannot load the plugin: %s", dlerror());
    plugin->net = dlsym(plugin->library, NCCL_NET_PLUGIN_V8_SYMBOL);
    if (!plugin->net)
        return dt_job_fail(error, DT_EXIT_USAGE, "%s is no ncclNet v8 plugin: it has no symbol %s", path,
                           NCCL_NET_PLUGIN_V8_SYMBOL);
    if (!plugin->net->name)
        return dt_job_fail(error, DT_EXIT_USAGE, "%s is no ncclNet v8 plugin: its table has no name", path);
    set_up_logger(rank, log_level);
    return true;
}

bool dt_job_plugin_properties(struct dt_job_plugin *plugin, int dev, ncclNetProperties_v8_t *properties,
                              struct dt_job_error *error)
{
    memset(properties, 0xA5, sizeof *properties);
    ncclResult_t result = plugin->net->getProperties(dev, properties);
    if (result)
        return dt_job_call_failed(plugin, "getProperties", result, error);
    if (properties->netDeviceType != NCCL_NET_DEVICE_HOST)
        return dt_job_fail(error, DT_EXIT_FAILED,
                           "rank %u: device %d of plugin %s has netDeviceType %d; NCCL would refuse it",
                           plugin->rank, dev, plugin->net->name, (int)properties->netDeviceType);
    if (!(properties->ptrSupport & NCCL_PTR_HOST) || properties->maxComms < 1 || properties->maxRecvs < 1 ||
        properties->speed < 0)
        return dt_job_fail(error, DT_EXIT_FAILED,
                           "rank %u: properties of device %d of plugin %s are invalid (ptrSupport 0x%x, "
                           "maxComms %d, maxRecvs %d, speed %d)",
                           plugin->rank, dev, plugin->net->name, (unsigned)properties->ptrSupport,
                           properties->maxComms, properties->maxRecvs, properties->speed);
    return true;
}

/* NCCL identifies devices by name, and shares bandwidth between devices with equal guid and port. */
static bool check_unique(const struct dt_job_plugin *plugin, int dev, struct dt_job_error *error)
{
    const ncclNetProperties_v8_t *new = &plugin->devices[dev];

    for (int i = 0; i < dev; i++) {
        const ncclNetProperties_v8_t *old = &plugin->devices[i];

        if (!strcmp(old->name, new->name))
            return dt_job_fail(error, DT_EXIT_FAILED, "devices %d and %d of plugin %s are both called %s", i,
                               dev, plugin->net->name, new->name);
        if (old->guid == new->guid && old->port == new->port)
            return dt_job_fail(error, DT_EXIT_FAILED,
                               "devices %s and %s of plugin %s have the same guid and port", old->name,
                               new->name, plugin->net->name);
    }
    return true;
}

bool dt_job_plugin_init(struct dt_job_plugin *plugin, struct dt_job_error *error)
{
    const ncclNet_v8_t *net = plugin->net;
    ncclResult_t result = net->init(log_line);

    if (result)
        return dt_job_call_failed(plugin, "init", result, error);
    plugin->device_count = -1;
    result = net->devices(&plugin->device_count);
    if (result)
        return dt_job_call_failed(plugin, "devices", result, error);
    if (plugin->device_count <= 0)
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: plugin %s has no device here", plugin->rank,
                           net->name);
    if (plugin->device_count > DT_JOB_DEVICES_MAX)
        plugin->device_count = DT_JOB_DEVICES_MAX;
    for (int dev = 0; dev < plugin->device_count; dev++) {
        if (!dt_job_plugin_properties(plugin, dev, &plugin->devices[dev], error) ||
            !check_unique(plugin, dev, error))
            return false;
    }
    return true;
}

bool dt_job_isend(const struct dt_job_plugin *plugin, void *comm, void *data, size_t bytes, void *mhandle,
                  void **request, struct dt_job_error *error)
{
    *request = &unwritten_request;
    ncclResult_t result = plugin->net->isend(comm, data, (int)bytes, (int)plugin->rank, mhandle, request);
    if (__builtin_expect(result != ncclSuccess, 0))
        return dt_job_call_failed(plugin, "isend", result, error);
    if (__builtin_expect(*request == &unwritten_request, 0))
        return left_unwritten(plugin, "isend", "request", error);
    return true;
}

bool dt_job_irecv(const struct dt_job_plugin *plugin, void *comm, void *data, size_t capacity, int tag,
                  void *mhandle, void **request, struct dt_job_error *error)
{
    int size = (int)capacity;

    *request = &unwritten_request;
    ncclResult_t result = plugin->net->irecv(comm, 1, &data, &size, &tag, &mhandle, request);
    if (__builtin_expect(result != ncclSuccess, 0))
        return dt_job_call_failed(plugin, "irecv", result, error);
    if (__builtin_expect(*request == &unwritten_request, 0))
        return left_unwritten(plugin, "irecv", "request", error);
    return true;
}

bool dt_job_iflush(const struct dt_job_plugin *plugin, void *comm, void *data, size_t bytes, void *mhandle,
                   void **request, struct dt_job_error *error)
{
    int size = (int)bytes;

    *request = NULL; /* as NCCL initializes it; NULL afterwards: no flush is needed */
    ncclResult_t result = plugin->net->iflush(comm, 1, &data, &size, &mhandle, request);
    return result ? dt_job_call_failed(plugin, "iflush", result, error) : true;
}

bool dt_job_test(const struct dt_job_plugin *plugin, void *request, bool *done, size_t *bytes,
                 struct dt_job_error *error)
{
    int is_done = UNWRITTEN_INT;
    int sizes[8] = {0}; /* NCCL adds up a whole zeroed array */

    ncclResult_t result = plugin->net->test(request, &is_done, bytes ? sizes : NULL);
    if (__builtin_expect(result != ncclSuccess, 0))
        return dt_job_call_failed(plugin, "test", result, error);
    if (__builtin_expect(is_done == UNWRITTEN_INT, 0))
        return left_unwritten(plugin, "test", "done", error);
    *done = is_done != 0;
    if (is_done && bytes)
        *bytes = (size_t)(unsigned)sizes[0];
    return true;
}
