/* SPDX-License-Identifier: Apache-2.0 */
/* A device that was removed and is back: driver reset, hot plug. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/log.h"
#include "verbs/object.h"

/* Names may change when a driver starts again; a virtual function without a node GUID is found by its name.
 */
static bool is_same(const struct dt_verbs_table *table, struct ibv_device *found,
                    const struct dt_device_info *info)
{
    if (info->guid)
        return be64toh(table->get_device_guid(found)) == info->guid;
    return !strcmp(table->get_device_name(found), info->name);
}

/* NULL with errno set, ENODEV when it is not there. */
static struct ibv_context *open_again(const struct dt_verbs_table *table, const struct dt_device_info *info)
{
    int count = 0;
    struct ibv_device **list = table->get_device_list(&count);
    struct ibv_context *context = NULL;
    int error = list ? ENODEV : errno;

    for (int i = 0; list && i < count && error == ENODEV; i++) {
        if (!is_same(table, list[i], info))
            continue;
        context = table->open_device(list[i]);
        error = context ? 0 : errno;
    }
    if (list)
        table->free_device_list(list);
    errno = error;
    return context;
}

/* The device that has taken the place of an old one until its memory could not be registered. */
static void drop(struct dt_device *device, bool is_set_up)
{
    if (is_set_up)
        dt_device_tear_down(device);
    device->verbs->table.close_device(device->context);
}

static enum dt_status take_memory(struct dt_device *device)
{
    enum dt_status status = dt_mr_cache_renew(device->mr_cache, device);

    if (status != DT_OK)
        dt_warn(
            "device-reopen-memory",
            "%s: the device is back, but memory that it had registered is refused: %s; it stays out of use",
            device->info.name, status == DT_SYSTEM ? strerror(errno) : dt_status_text(status));
    return status;
}

static enum dt_status open_next(struct dt_device *device, const struct dt_device *old)
{
    enum dt_status status;

    device->verbs = old->verbs;
    device->info = old->info;
    device->mr_cache = old->mr_cache;
    device->generation = old->generation + 1;
    device->context = open_again(&device->verbs->table, &device->info);
    if (!device->context) {
        if (errno == ENODEV)
            return DT_AGAIN;
        dt_warn("device-reopen", "%s: the device is back, but cannot be opened: %s", device->info.name,
                strerror(errno));
        return DT_SYSTEM;
    }
    snprintf(device->info.name, sizeof device->info.name, "%s",
             device->verbs->table.get_device_name(device->context->device));
    device->sysfs_inode = dt_device_sysfs_inode(device);
    status = dt_device_set_up(device);
    if (status != DT_OK) {
        drop(device, false);
        return status;
    }
    status = take_memory(device);
    if (status != DT_OK)
        drop(device, true);
    return status;
}

enum dt_status dt_device_reopen(struct dt_device *old, struct dt_device **device)
{
    struct dt_device *opened;
    enum dt_status status;

    if (!dt_device_is_removed(old))
        return DT_AGAIN;
    opened = calloc(1, sizeof *opened);
    if (!opened) {
        dt_warn("device-reopen-heap", "%s: out of memory; the device stays out of use", old->info.name);
        return DT_NO_MEMORY;
    }
    status = open_next(opened, old);
    if (status != DT_OK) {
        free(opened);
        return status;
    }
    opened->before = old;
    *device = opened;
    return DT_OK;
}

uint32_t dt_device_close_old(struct dt_device *device)
{
    struct dt_device **next = &device->before;
    uint32_t left = 0;

    while (*next) {
        struct dt_device *old = *next;

        if (old->is_closed || dt_load_acquire(&old->objects) > 0) {
            left += !old->is_closed;
            next = &old->before;
            continue;
        }
        dt_device_close_context(old);
        if (old->before) {
            *next = old->before;
            free(old);
        } else {
            old->is_closed = true;
        }
    }
    return left;
}

uint32_t dt_device_generation(const struct dt_device *device)
{
    return device->generation;
}
