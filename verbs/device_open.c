/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a device. Each step undoes the steps before it when it fails. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "verbs/discover.h"
#include "verbs/object.h"

static enum dt_status make_events_non_blocking(const struct dt_device *device)
{
    int flags = fcntl(device->context->async_fd, F_GETFL);

    if (flags >= 0 && !fcntl(device->context->async_fd, F_SETFL, flags | O_NONBLOCK))
        return DT_OK;
    dt_warn("device-descriptor", "%s: its event descriptor cannot be made non-blocking: %s",
            device->info.name, strerror(errno));
    return DT_SYSTEM;
}

static enum dt_status look_up_port(struct dt_device *device, uint32_t port)
{
    struct ibv_device_attr attr;
    uint32_t capabilities = device->info.capabilities;
    int error = device->verbs->table.query_device(device->context, &attr);

    if (error) {
        dt_warn("device-query", "%s: the device cannot be queried: %s", device->info.name, strerror(error));
        return DT_SYSTEM;
    }
    if (dt_discover_port(device->verbs, device->context, &attr, port, &device->info) == DT_OK) {
        device->info.capabilities = capabilities;
        return DT_OK;
    }
    dt_warn("device-port", "%s: port %u cannot be used any more", device->info.name, port);
    return DT_SYSTEM;
}

/* The inode of its folder in sysfs, which is a new one if the device comes back; 0: there is none. */
uint64_t dt_device_sysfs_inode(const struct dt_device *device)
{
    const char *root = device->verbs->table.root ? device->verbs->table.root : "";
    char path[PATH_MAX];
    struct stat stat_of;
    int length = snprintf(path, sizeof path, "%s%s", root, device->context->device->ibdev_path);

    if (!*device->context->device->ibdev_path || length < 0 || (size_t)length >= sizeof path)
        return 0;
    return stat(path, &stat_of) == 0 ? (uint64_t)stat_of.st_ino : 0;
}

bool dt_device_is_removed(const struct dt_device *device)
{
    const struct dt_verbs_table *table = &device->verbs->table;

    if (table->is_removed)
        return table->is_removed(device->context);
    return device->sysfs_inode && dt_device_sysfs_inode(device) != device->sysfs_inode;
}

enum dt_status dt_device_set_up(struct dt_device *device)
{
    enum dt_status status = make_events_non_blocking(device);

    if (status == DT_OK)
        status =
            dt_fault_layer_open(&device->faults, &device->verbs->table, device->context, device->info.port);
    if (status != DT_OK)
        return status;
    device->pd = device->verbs->table.alloc_pd(device->context);
    if (device->pd)
        return DT_OK;
    dt_warn("device-domain", "%s: no protection domain: %s", device->info.name, strerror(errno));
    dt_fault_layer_close(&device->faults);
    return DT_SYSTEM;
}

void dt_device_tear_down(struct dt_device *device)
{
    int error = device->verbs->table.dealloc_pd(device->pd);

    if (error && !dt_device_is_removed(device))
        dt_warn("device-domain-free", "%s: its protection domain cannot be freed: %s", device->info.name,
                strerror(error));
    dt_fault_layer_close(&device->faults);
}

void dt_device_close_context(struct dt_device *device)
{
    bool is_removed = dt_device_is_removed(device);

    dt_device_tear_down(device);
    if (device->verbs->table.close_device(device->context) && !is_removed)
        dt_warn("device-close", "%s: the device cannot be closed: %s", device->info.name, strerror(errno));
}

static enum dt_status open_first(struct dt_device *device, const struct dt_device_info *info)
{
    const struct dt_verbs_table *table = &device->verbs->table;
    enum dt_status status;

    device->context = dt_open_by_name(table, info->name);
    if (!device->context) {
        status = errno == ENODEV ? DT_NOT_FOUND : DT_SYSTEM;
        dt_warn("device-open", "%s: the device cannot be opened: %s", info->name, strerror(errno));
        return status;
    }
    status = look_up_port(device, info->port);
    if (status == DT_OK)
        status = dt_device_set_up(device);
    if (status != DT_OK)
        table->close_device(device->context);
    return status;
}

enum dt_status dt_device_open(struct dt_verbs *verbs, const struct dt_device_info *info,
                              struct dt_device **device)
{
    struct dt_device *opened = calloc(1, sizeof *opened);
    struct dt_mr_cache *cache = malloc(sizeof *cache);
    enum dt_status status = DT_NO_MEMORY;

    if (opened && cache) {
        opened->verbs = verbs;
        opened->info = *info;
        status = open_first(opened, info);
    }
    if (status != DT_OK) {
        free(cache);
        free(opened);
        return status;
    }
    dt_mr_cache_init(cache, &dt_device_mr_ops, opened, (uint64_t)sysconf(_SC_PAGESIZE));
    opened->mr_cache = cache;
    opened->sysfs_inode = dt_device_sysfs_inode(opened);
    *device = opened;
    return DT_OK;
}

void dt_device_close(struct dt_device *device)
{
    size_t left = dt_mr_cache_close(device->mr_cache);

    free(device->mr_cache);
    if (left)
        dt_warn("device-regions", "%s: closed with %zu memory regions still registered", device->info.name,
                left);
    while (device) {
        struct dt_device *before = device->before;

        if (!device->is_closed)
            dt_device_close_context(device);
        free(device);
        device = before;
    }
}

enum dt_status dt_device_refresh(struct dt_device *device)
{
    if (dt_fault_layer_is_down(&device->faults))
        return DT_AGAIN;
    return dt_discover_again(device->verbs, device->context, &device->info);
}
