/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/util.h"
#include "verbs/discover.h"
#include "verbs/object.h"

/* ------------------------------------------------------------------------------------------------------------
 * Opening. Each step undoes what the ones before it did.
 */
struct ibv_context *dt_open_by_name(const struct dt_verbs_table *table, const char *name)
{
    int count = 0;
    struct ibv_device **devices = table->get_device_list(&count);
    struct ibv_context *context = NULL;
    int error = devices ? ENODEV : errno;

    for (int i = 0; devices && i < count; i++) {
        if (strcmp(table->get_device_name(devices[i]), name))
            continue;
        context = table->open_device(devices[i]);
        error = errno;
        break;
    }
    if (devices)
        table->free_device_list(devices);
    errno = error;
    return context;
}

static enum dt_status make_events_non_blocking(const struct dt_device *device)
{
    int flags = fcntl(device->context->async_fd, F_GETFL);

    if (flags >= 0 && !fcntl(device->context->async_fd, F_SETFL, flags | O_NONBLOCK))
        return DT_OK;
    dt_warn("%s: its event descriptor cannot be made non-blocking: %s", device->info.name, strerror(errno));
    return DT_SYSTEM;
}

static enum dt_status look_up_port(struct dt_device *device, uint32_t port)
{
    struct ibv_device_attr attr;
    uint32_t capabilities = device->info.capabilities;
    int error = device->verbs->table.query_device(device->context, &attr);

    if (error) {
        dt_warn("%s: the device cannot be queried: %s", device->info.name, strerror(error));
        return DT_SYSTEM;
    }
    if (dt_discover_port(device->verbs, device->context, &attr, port, &device->info) == DT_OK) {
        device->info.capabilities = capabilities;
        return DT_OK;
    }
    dt_warn("%s: port %u cannot be used any more", device->info.name, port);
    return DT_SYSTEM;
}

static struct ibv_mr *register_region(void *arg, const struct dt_mr_request *request, uint32_t *lkey,
                                      uint32_t *rkey);
static int deregister_region(void *arg, struct ibv_mr *ibv);

static const struct dt_mr_cache_ops mr_cache_ops = {register_region, deregister_region};

static enum dt_status set_up(struct dt_device *device, uint32_t port)
{
    enum dt_status status = look_up_port(device, port);

    if (status == DT_OK)
        status = make_events_non_blocking(device);
    if (status != DT_OK)
        return status;
    status = dt_fault_layer_open(&device->faults, &device->verbs->table, device->context, port);
    if (status != DT_OK)
        return status;
    device->pd = device->verbs->table.alloc_pd(device->context);
    if (!device->pd) {
        dt_warn("%s: no protection domain: %s", device->info.name, strerror(errno));
        dt_fault_layer_close(&device->faults);
        return DT_SYSTEM;
    }
    dt_mr_cache_init(&device->mr_cache, &mr_cache_ops, device, (uint64_t)sysconf(_SC_PAGESIZE));
    return DT_OK;
}

enum dt_status dt_device_open(struct dt_verbs *verbs, const struct dt_device_info *info,
                              struct dt_device **device)
{
    struct dt_device *opened = calloc(1, sizeof *opened);
    enum dt_status status;

    if (!opened)
        return DT_NO_MEMORY;
    opened->verbs = verbs;
    opened->info = *info;
    opened->context = dt_open_by_name(&verbs->table, info->name);
    if (!opened->context) {
        status = errno == ENODEV ? DT_NOT_FOUND : DT_SYSTEM;
        dt_warn("%s: the device cannot be opened: %s", info->name, strerror(errno));
        goto free_device;
    }
    status = set_up(opened, info->port);
    if (status != DT_OK)
        goto close_context;
    *device = opened;
    return DT_OK;

close_context:
    verbs->table.close_device(opened->context);
free_device:
    free(opened);
    return status;
}

void dt_device_close(struct dt_device *device)
{
    const struct dt_verbs_table *table = &device->verbs->table;
    size_t left = dt_mr_cache_close(&device->mr_cache);
    int error;

    if (left)
        dt_warn("%s: closed with %zu memory regions still registered", device->info.name, left);
    error = table->dealloc_pd(device->pd);
    if (error)
        dt_warn("%s: its protection domain cannot be freed: %s", device->info.name, strerror(error));
    dt_fault_layer_close(&device->faults);
    if (table->close_device(device->context))
        dt_warn("%s: the device cannot be closed: %s", device->info.name, strerror(errno));
    free(device);
}

enum dt_status dt_device_refresh(struct dt_device *device)
{
    if (dt_fault_layer_is_down(&device->faults))
        return DT_AGAIN;
    return dt_discover_again(device->verbs, device->context, &device->info);
}

const struct dt_device_info *dt_device_get_info(const struct dt_device *device)
{
    return &device->info;
}

/* ------------------------------------------------------------------------------------------------------------
 * Events
 */
static enum dt_event_type event_type_of(enum ibv_event_type type)
{
    switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
        return DT_EVENT_PORT_ACTIVE;
    case IBV_EVENT_PORT_ERR:
        return DT_EVENT_PORT_ERROR;
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
        return DT_EVENT_GID_CHANGE;
    case IBV_EVENT_DEVICE_FATAL:
        return DT_EVENT_DEVICE_FATAL;
    case IBV_EVENT_CQ_ERR:
        return DT_EVENT_CQ_ERROR;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        return DT_EVENT_QP_FATAL;
    default:
        return DT_EVENT_OTHER;
    }
}

/* What the event points to is only sure to exist until it is acknowledged, so everything is copied here. */
static void copy_event(const struct dt_verbs_table *table, const struct ibv_async_event *from,
                       struct dt_device_event *to)
{
    memset(to, 0, sizeof *to);
    to->type = event_type_of(from->event_type);
    snprintf(to->name, sizeof to->name, "%s", table->event_type_str(from->event_type));
    switch (to->type) {
    case DT_EVENT_PORT_ACTIVE:
    case DT_EVENT_PORT_ERROR:
    case DT_EVENT_GID_CHANGE:
        to->port = (uint32_t)from->element.port_num;
        break;
    case DT_EVENT_CQ_ERROR:
        to->user = from->element.cq->cq_context;
        break;
    case DT_EVENT_QP_FATAL:
        to->qpn = from->element.qp->qp_num;
        to->user = from->element.qp->qp_context;
        break;
    case DT_EVENT_DEVICE_FATAL:
    case DT_EVENT_OTHER:
        break;
    }
}

struct copy {
    const struct dt_verbs_table *table;
    struct dt_device_event *to;
};

static void copy_raised(void *arg, const struct ibv_async_event *event)
{
    const struct copy *copy = (const struct copy *)arg;

    copy_event(copy->table, event, copy->to);
}

int dt_device_event_fd(const struct dt_device *device)
{
    return device->faults.event_fd;
}

enum dt_status dt_device_next_event(struct dt_device *device, struct dt_device_event *event)
{
    const struct dt_verbs_table *table = &device->verbs->table;
    struct copy copy = {table, event};
    struct ibv_async_event raw;

    if (dt_fault_layer_event(&device->faults, copy_raised, &copy))
        return DT_OK;
    if (table->get_async_event(device->context, &raw)) {
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
            return DT_AGAIN;
        dt_warn("%s: events cannot be read any more: %s", device->info.name, strerror(errno));
        return DT_SYSTEM;
    }
    copy_event(table, &raw, event);
    table->ack_async_event(&raw);
    return DT_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * Memory regions
 */
static unsigned ibv_access(uint32_t access)
{
    unsigned flags = 0;

    if (access & DT_MR_LOCAL_WRITE)
        flags |= IBV_ACCESS_LOCAL_WRITE;
    if (access & DT_MR_REMOTE_WRITE) /* verbs wants the local right along with it */
        flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    if (access & DT_MR_REMOTE_READ)
        flags |= IBV_ACCESS_REMOTE_READ;
    if (access & DT_MR_RELAXED_ORDERING)
        flags |= IBV_ACCESS_RELAXED_ORDERING;
    return flags;
}

static struct ibv_mr *register_region(void *arg, const struct dt_mr_request *request, uint32_t *lkey,
                                      uint32_t *rkey)
{
    struct dt_device *device = (struct dt_device *)arg;
    const struct dt_verbs_table *table = &device->verbs->table;
    unsigned access = ibv_access(request->access);
    unsigned plain = access & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
    void *addr = (void *)(uintptr_t)(request->addr + request->displacement);
    struct ibv_mr *mr;

    if (request->fd >= 0)
        mr = dt_fault_table.reg_dmabuf_mr(device->pd, request->offset, request->bytes, request->addr,
                                          request->fd, (int)access);
    else if ((access != plain || request->displacement) && table->reg_mr_iova2)
        mr = dt_fault_table.reg_mr_iova2(device->pd, addr, request->bytes, request->addr, access);
    else
        mr = dt_fault_table.reg_mr(device->pd, addr, request->bytes, (int)plain);
    if (!mr)
        return NULL;
    *lkey = mr->lkey;
    *rkey = mr->rkey;
    return mr;
}

static int deregister_region(void *arg, struct ibv_mr *ibv)
{
    return ((struct dt_device *)arg)->verbs->table.dereg_mr(ibv);
}

static enum dt_status register_request(struct dt_device *device, const struct dt_mr_request *request,
                                       struct dt_mr **mr)
{
    enum dt_status status = dt_mr_cache_get(&device->mr_cache, request, mr);

    if (status == DT_SYSTEM)
        dt_warn("%s: cannot register %llu bytes at %#llx: %s%s", device->info.name,
                (unsigned long long)request->bytes, (unsigned long long)request->addr, strerror(errno),
                errno == ENOMEM ? "; `ulimit -l` (memlock) must allow it" : "");
    else if (status == DT_INVALID)
        dt_warn("%s: cannot register %llu bytes at %#llx: %s", device->info.name,
                (unsigned long long)request->bytes, (unsigned long long)request->addr,
                dt_status_text(status));
    return status;
}

enum dt_status dt_mr_register(struct dt_device *device, void *addr, uint64_t bytes, uint32_t access,
                              struct dt_mr **mr)
{
    struct dt_mr_request request = {.addr = (uintptr_t)addr, .bytes = bytes, .access = access, .fd = -1};

    return register_request(device, &request, mr);
}

enum dt_status dt_mr_register_for(struct dt_device *device, void *memory, void *addr, uint64_t bytes,
                                  uint32_t access, struct dt_mr **mr)
{
    struct dt_mr_request request = {.addr = (uintptr_t)addr,
                                    .bytes = bytes,
                                    .access = access,
                                    .fd = -1,
                                    .displacement = (uintptr_t)memory - (uintptr_t)addr};

    if (!device->verbs->table.reg_mr_iova2)
        return DT_UNSUPPORTED;
    DT_CHECK(request.displacement % device->mr_cache.page_bytes == 0);
    return register_request(device, &request, mr);
}

enum dt_status dt_mr_register_dmabuf(struct dt_device *device, void *addr, uint64_t bytes, uint64_t offset,
                                     int fd, uint32_t access, struct dt_mr **mr)
{
    struct dt_mr_request request = {
        .addr = (uintptr_t)addr, .bytes = bytes, .access = access, .fd = fd, .offset = offset};

    if (!device->verbs->table.reg_dmabuf_mr || device->info.is_soft)
        return DT_UNSUPPORTED;
    if (fd < 0) {
        dt_warn("%s: %d is no dma-buf descriptor", device->info.name, fd);
        return DT_INVALID;
    }
    return register_request(device, &request, mr);
}

enum dt_status dt_mr_deregister(struct dt_device *device, struct dt_mr *mr)
{
    uint64_t addr = mr->addr;
    uint64_t bytes = mr->bytes;
    enum dt_status status = dt_mr_cache_put(&device->mr_cache, mr);

    if (status != DT_OK)
        dt_warn("%s: cannot deregister %llu bytes at %#llx: %s", device->info.name, (unsigned long long)bytes,
                (unsigned long long)addr, strerror(errno));
    return status;
}
