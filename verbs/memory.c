/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions of a device, shared through its cache (mr_cache.h). */
#include <errno.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/log.h"
#include "verbs/object.h"

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

static bool is_gone(void *arg)
{
    return dt_device_is_removed((struct dt_device *)arg);
}

const struct dt_mr_cache_ops dt_device_mr_ops = {register_region, deregister_region, is_gone};

static enum dt_status register_request(struct dt_device *device, const struct dt_mr_request *request,
                                       struct dt_mr **mr)
{
    enum dt_status status = dt_mr_cache_get(device->mr_cache, request, mr);

    if (status == DT_SYSTEM)
        dt_warn("memory-register", "%s: cannot register %llu bytes at %#llx: %s%s", device->info.name,
                (unsigned long long)request->bytes, (unsigned long long)request->addr, strerror(errno),
                errno == ENOMEM ? "; `ulimit -l` (memlock) must allow it" : "");
    else if (status == DT_INVALID)
        dt_warn("memory-refused", "%s: cannot register %llu bytes at %#llx: %s", device->info.name,
                (unsigned long long)request->bytes, (unsigned long long)request->addr,
                dt_status_text(status));
    else if (status == DT_NOT_FOUND && !dt_exchange_acq_rel(&device->logged_gone, true))
        dt_info("memory-away", "%s has left the system: memory is registered with it once it is back",
                device->info.name);
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
    DT_CHECK(request.displacement % device->mr_cache->page_bytes == 0);
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
        dt_warn("memory-dmabuf", "%s: %d is no dma-buf descriptor", device->info.name, fd);
        return DT_INVALID;
    }
    return register_request(device, &request, mr);
}

enum dt_status dt_mr_deregister(struct dt_device *device, struct dt_mr *mr)
{
    uint64_t addr = mr->addr;
    uint64_t bytes = mr->bytes;
    enum dt_status status = dt_mr_cache_put(device->mr_cache, mr);

    if (status != DT_OK)
        dt_warn("memory-deregister", "%s: cannot deregister %llu bytes at %#llx: %s", device->info.name,
                (unsigned long long)bytes, (unsigned long long)addr, strerror(errno));
    return status;
}
