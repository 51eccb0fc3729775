/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclNet v8: the function table, and the argument checks that need no connection. Everything else is in
 * transport/net.h.
 */
#include <stddef.h>

#include "base/log.h"
#include "plugin/nccl_net_v8.h"
#include "plugin/plugin.h"

#define SPEED_MBPS_UNKNOWN 10000 /* NCCL's own assumption */

/* ------------------------------------------------------------------------------------------------------------
 * Devices
 */
static ncclResult_t net_devices(int *count)
{
    struct dt_plugin *plugin = dt_plugin_current();

    if (!plugin || !count)
        return ncclInvalidUsage;
    *count = (int)dt_net_device_count(plugin->net);
    return ncclSuccess;
}

/* The plugin if `dev` is one of its devices; otherwise NULL, after a WARN. */
static struct dt_plugin *plugin_with(int dev, const char *call)
{
    struct dt_plugin *plugin = dt_plugin_current();

    if (!plugin) {
        dt_warn("call-before-init", "%s before init", call);
        return NULL;
    }
    if (dev < 0 || (size_t)dev >= dt_net_device_count(plugin->net)) {
        dt_warn("call-device", "%s: device %d of %zu", call, dev, dt_net_device_count(plugin->net));
        return NULL;
    }
    return plugin;
}

static int clamp(uint64_t value)
{
    return value > INT32_MAX ? INT32_MAX : (int)value;
}

/* NCCL passes uninitialized memory: every field is set. */
static ncclResult_t net_get_properties(int dev, ncclNetProperties_v8_t *properties)
{
    struct dt_plugin *plugin = plugin_with(dev, "getProperties");
    const struct dt_device_info *info;

    if (!plugin || !properties)
        return ncclInvalidArgument;
    info = dt_net_device_info(plugin->net, (size_t)dev);
    *properties = (ncclNetProperties_v8_t){
        .name = (char *)(uintptr_t)dt_net_device_name(plugin->net, (size_t)dev),
        .pciPath = info->card_path[0] ? (char *)(uintptr_t)info->card_path : NULL,
        /* NCCL counts the bandwidth of a slot once for devices with equal GUID, and that of a port once for
           those with equal GUID and port. */
        .guid = info->image_guid ? info->image_guid
                : info->guid     ? info->guid
                                 : (uint64_t)dev + 1,
        .ptrSupport = (info->capabilities & DT_MEMORY_HOST ? NCCL_PTR_HOST : 0) |
                      (info->capabilities & DT_MEMORY_CUDA ? NCCL_PTR_CUDA : 0) |
                      (info->capabilities & DT_MEMORY_DMABUF ? NCCL_PTR_DMABUF : 0),
        .regIsGlobal = 0,
        .speed = info->speed_mbps ? clamp(info->speed_mbps) : SPEED_MBPS_UNKNOWN,
        .port = (int)info->card_port,
        .latency = 0, /* unknown: NCCL uses its own value */
        .maxComms = clamp(info->qp_max),
        .maxRecvs = DT_PARTS_MAX,
        .netDeviceType = NCCL_NET_DEVICE_HOST,
        .netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION,
    };
    return ncclSuccess;
}

/* ------------------------------------------------------------------------------------------------------------
 * Set-up
 */
/* A call of connect or accept has nothing to return yet. */
static void give_way(struct dt_plugin *plugin)
{
    uint64_t ns = plugin->sleep_ns ? dt_setup_pause_take(&plugin->pause, plugin->now_ns(plugin->now_arg)) : 0;

    if (ns)
        plugin->sleep_ns(ns);
}

static ncclResult_t net_listen(int dev, void *handle, void **listen_comm)
{
    struct dt_plugin *plugin = plugin_with(dev, "listen");
    struct dt_listen *listen = NULL;
    enum dt_status status;

    if (!plugin || !handle || !listen_comm)
        return ncclInvalidArgument;
    status = dt_net_listen(plugin->net, (size_t)dev, handle, plugin->now_ns(plugin->now_arg), &listen);
    *listen_comm = listen;
    return dt_plugin_result(status);
}

static ncclResult_t net_connect(int dev, void *handle, void **send_comm,
                                ncclNetDeviceHandle_v8_t **device_handle)
{
    struct dt_plugin *plugin = plugin_with(dev, "connect");
    struct dt_connection *sender = NULL;
    enum dt_status status;

    if (!plugin || !handle || !send_comm)
        return ncclInvalidArgument;
    status = dt_net_connect(plugin->net, (size_t)dev, handle, plugin->now_ns(plugin->now_arg), &sender);
    *send_comm = sender;
    if (status == DT_OK && !sender)
        give_way(plugin);
    if (device_handle)
        *device_handle = NULL;
    return dt_plugin_result(status);
}

static ncclResult_t net_accept(void *listen_comm, void **recv_comm, ncclNetDeviceHandle_v8_t **device_handle)
{
    struct dt_plugin *plugin = dt_plugin_current();
    struct dt_connection *receiver = NULL;
    enum dt_status status;

    if (!plugin || !listen_comm || !recv_comm)
        return ncclInvalidArgument;
    status = dt_net_accept(listen_comm, plugin->now_ns(plugin->now_arg), &receiver);
    *recv_comm = receiver;
    if (status == DT_OK && !receiver)
        give_way(plugin);
    if (device_handle)
        *device_handle = NULL;
    return dt_plugin_result(status);
}

/* An error would end NCCL's tear-down early, so closing always succeeds; errors are logged. */
static ncclResult_t net_close(void *comm)
{
    if (comm)
        dt_net_close(comm);
    return ncclSuccess;
}

static ncclResult_t net_close_listen(void *listen_comm)
{
    if (listen_comm)
        dt_net_close_listen(listen_comm);
    return ncclSuccess;
}

/* ------------------------------------------------------------------------------------------------------------
 * Memory
 */
static ncclResult_t net_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    struct dt_memory *memory = NULL;
    enum dt_status status;

    if (!comm || !mhandle || (type != NCCL_PTR_HOST && type != NCCL_PTR_CUDA))
        return ncclInvalidArgument;
    status = dt_net_register(comm, data, size, type == NCCL_PTR_HOST, &memory);
    *mhandle = memory;
    return dt_plugin_result(status);
}

static ncclResult_t net_reg_mr_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                                      void **mhandle)
{
    struct dt_memory *memory = NULL;
    enum dt_status status;

    (void)type;
    if (!comm || !mhandle)
        return ncclInvalidArgument;
    status = dt_net_register_dmabuf(comm, data, size, offset, fd, &memory);
    *mhandle = memory;
    return dt_plugin_result(status);
}

static ncclResult_t net_dereg_mr(void *comm, void *mhandle)
{
    if (comm)
        dt_net_deregister(comm, mhandle);
    return ncclSuccess;
}

/* ------------------------------------------------------------------------------------------------------------
 * Data
 */
static ncclResult_t refuse(const char *call, const char *why, void **request)
{
    if (request)
        *request = NULL;
    dt_warn("call-argument", "%s: %s", call, why);
    return ncclInvalidArgument;
}

static ncclResult_t net_isend(void *send_comm, void *data, int size, int tag, void *mhandle, void **request)
{
    if (!send_comm || !request || size < 0 || size > NCCL_NET_MAX_SIZE_V8)
        return refuse("isend", "no sendComm or request, or a size outside 0 to 1 GiB", request);
    if (size > 0 && !mhandle)
        return refuse("isend", "memory that is not registered", request);
    return dt_plugin_result(
        dt_isend(send_comm, data, (uint32_t)size, tag, mhandle, (struct dt_request **)request));
}

/* Checks the number of buffers, their sizes and their registration. */
static const char *what_is_wrong(int n, const int *sizes, void *const *mhandles)
{
    if (n < 1 || n > DT_PARTS_MAX)
        return "1 to 8 buffers can be received at once";
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0 || sizes[i] > NCCL_NET_MAX_SIZE_V8)
            return "a size outside 0 to 1 GiB";
        if (sizes[i] > 0 && !mhandles[i])
            return "memory that is not registered";
    }
    return NULL;
}

static ncclResult_t net_irecv(void *recv_comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                              void **request)
{
    const char *wrong;

    if (!recv_comm || !data || !sizes || !tags || !mhandles || !request)
        return refuse("irecv", "an argument is NULL", request);
    wrong = what_is_wrong(n, sizes, mhandles);
    if (wrong)
        return refuse("irecv", wrong, request);
    return dt_plugin_result(dt_irecv(recv_comm, (unsigned)n, data, (const uint32_t *)sizes, tags,
                                     (struct dt_memory *const *)(void *)mhandles,
                                     (struct dt_request **)request));
}

static ncclResult_t net_iflush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
                               void **request)
{
    const char *wrong;

    if (!recv_comm || !data || !sizes || !mhandles || !request)
        return refuse("iflush", "an argument is NULL", request);
    wrong = what_is_wrong(n, sizes, mhandles);
    if (wrong)
        return refuse("iflush", wrong, request);
    return dt_plugin_result(dt_iflush(recv_comm, (unsigned)n, data, (const uint32_t *)sizes,
                                      (struct dt_memory *const *)(void *)mhandles,
                                      (struct dt_request **)request));
}

static ncclResult_t net_test(void *request, int *done, int *sizes)
{
    if (!request || !done)
        return ncclInvalidArgument;
    return dt_plugin_result(dt_test(request, done, sizes));
}

__attribute__((visibility("default"))) const ncclNet_v8_t ncclNetPlugin_v8 = {
    .name = "Detour",
    .init = dt_plugin_init,
    .devices = net_devices,
    .getProperties = net_get_properties,
    .listen = net_listen,
    .connect = net_connect,
    .accept = net_accept,
    .regMr = net_reg_mr,
    .regMrDmaBuf = net_reg_mr_dmabuf,
    .deregMr = net_dereg_mr,
    .isend = net_isend,
    .irecv = net_irecv,
    .iflush = net_iflush,
    .test = net_test,
    .closeSend = net_close,
    .closeRecv = net_close,
    .closeListen = net_close_listen,
    .getDeviceMr = NULL,
    .irecvConsumed = NULL,
};
