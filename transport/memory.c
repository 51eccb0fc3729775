/* SPDX-License-Identifier: Apache-2.0 */
/* Registration on the devices of all paths. Called by NCCL's service thread, beside the data path. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "transport/connection.h"
#include "transport/ahead.h"
#include "transport/landing.h"
#include "transport/nic.h"
#include "transport/path.h"
#include "transport/staging.h"

struct source {
    void *addr;
    size_t bytes;
    uint64_t offset; /* dma-buf */
    int fd;          /* dma-buf; else -1 */
    uint32_t access; /* enum dt_mr_access */
};

static enum dt_status register_on(struct dt_device *device, const struct source *from, struct dt_mr **mr)
{
    if (from->fd < 0)
        return dt_mr_register(device, from->addr, from->bytes, from->access, mr);
    return dt_mr_register_dmabuf(device, from->addr, from->bytes, from->offset, from->fd, from->access, mr);
}

void dt_memory_deregister_all(struct dt_connection *c, struct dt_memory *memory)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (memory->mr[p] && !memory->is_deregistered)
            dt_mr_deregister(c->path[p].nic->device, memory->mr[p]);
    }
    if (!memory->is_deregistered)
        dt_shadow_destroy(c, memory);
    memory->is_deregistered = true;
}

static void say_missing(const struct dt_connection *c, const struct dt_memory *memory, uint32_t path_mask)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (path_mask & 1u << p)
            dt_info("%s does not take %llu bytes at %p: path %u of connection %016llx cannot carry them",
                    dt_path_name(&c->path[p]), (unsigned long long)memory->bytes,
                    (void *)(uintptr_t)memory->addr, p, (unsigned long long)c->id);
    }
}

static enum dt_status register_all(struct dt_connection *c, const struct source *from,
                                   struct dt_memory *memory)
{
    enum dt_status first = DT_SYSTEM;
    uint32_t missing = 0;

    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];
        enum dt_status status;

        if (!path->control_mr)
            continue; /* the path was never there */
        status = register_on(path->nic->device, from, &memory->mr[p]);
        if (status == DT_OK)
            memory->path_mask |= 1u << p;
        else
            missing |= 1u << p;
        if (p == 0)
            first = status;
    }
    if (missing && !memory->is_host && !c->is_sender)
        dt_shadow_create(c, memory, missing);
    say_missing(c, memory, missing & ~memory->path_mask);
    return memory->path_mask ? DT_OK : first;
}

static enum dt_status add(struct dt_connection *c, const struct source *from, bool is_host,
                          struct dt_memory **out)
{
    struct dt_memory *memory = calloc(1, sizeof *memory);
    enum dt_status status;

    if (!memory)
        return DT_NO_MEMORY;
    memory->addr = (uintptr_t)from->addr;
    memory->bytes = from->bytes;
    memory->is_host = is_host;
    memory->gpu = is_host || !c->is_sender ? NULL : dt_stage_gpu_of(c, from->addr);
    status = register_all(c, from, memory);
    if (status != DT_OK) {
        free(memory);
        return status;
    }
    pthread_mutex_lock(&c->memory_mutex);
    dt_list_push_back(&c->memories, &memory->node);
    pthread_mutex_unlock(&c->memory_mutex);
    *out = memory;
    return DT_OK;
}

/* Both directions: the target of writes, and of the loopback reads of a flush. */
static uint32_t data_access(const struct dt_connection *c)
{
    return DT_MR_LOCAL_WRITE | DT_MR_REMOTE_WRITE | DT_MR_REMOTE_READ |
           (c->net->params.relaxed_ordering ? DT_MR_RELAXED_ORDERING : 0);
}

enum dt_status dt_net_register(struct dt_connection *c, void *addr, size_t bytes, bool is_host,
                               struct dt_memory **memory)
{
    struct source from = {addr, bytes, 0, -1, data_access(c)};

    return add(c, &from, is_host, memory);
}

enum dt_status dt_net_register_dmabuf(struct dt_connection *c, void *addr, size_t bytes, uint64_t offset,
                                      int fd, struct dt_memory **memory)
{
    struct source from = {addr, bytes, offset, fd, data_access(c)};

    return fd < 0 ? DT_INVALID : add(c, &from, false, memory);
}

/*
 * NCCL gives up on requests (an abort): no byte may move any more when this returns. What the slots remember
 * of the memory is kept until the connection ends.
 */
static void abandon(struct dt_connection *c, const struct dt_memory *memory)
{
    dt_info("memory at %p is deregistered with requests open: connection %016llx ends here",
            (void *)(uintptr_t)memory->addr, (unsigned long long)c->id);
    pthread_mutex_lock(&c->nic->mutex); /* Detour's thread is not in the middle of it */
    dt_connection_notify(c, DT_NOTICE_ABANDONED);
    pthread_mutex_unlock(&c->nic->mutex);
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_path_fence(&c->path[p]);
    if (c->is_sender && dt_sender_of(c)->stage)
        dt_stage_finish_copies(dt_sender_of(c)->stage);
    if (!c->is_sender) {
        dt_landing_finish_copies(dt_receiver_of(c));
        dt_ahead_finish_copies(dt_receiver_of(c));
    }
}

void dt_net_deregister(struct dt_connection *c, struct dt_memory *memory)
{
    bool is_open;

    if (!memory)
        return;
    is_open = dt_load_acquire(&memory->open) > 0;
    if (is_open)
        abandon(c, memory);
    dt_memory_deregister_all(c, memory);
    if (is_open)
        return;
    pthread_mutex_lock(&c->memory_mutex);
    dt_list_remove(&memory->node);
    pthread_mutex_unlock(&c->memory_mutex);
    free(memory);
}
