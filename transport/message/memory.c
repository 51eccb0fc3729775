/* SPDX-License-Identifier: Apache-2.0 */
/* Registration on the devices of all paths. Called by NCCL's service thread, beside the data path. */
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "transport/message/connection.h"
#include "transport/message/memory.h"
#include "transport/path/nic.h"
#include "transport/path/path.h"

struct dt_memory *dt_memory_create(const struct dt_memory_source *from)
{
    struct dt_memory *memory = calloc(1, sizeof *memory);

    if (!memory)
        return NULL;
    memory->addr = (uintptr_t)from->addr;
    memory->bytes = from->bytes;
    memory->is_host = from->is_host;
    dt_list_init(&memory->node);
    return memory;
}

static enum dt_status register_on(struct dt_device *device, const struct dt_memory_source *from,
                                  struct dt_mr **mr)
{
    if (from->fd < 0)
        return dt_mr_register(device, from->addr, from->bytes, from->access, mr);
    return dt_mr_register_dmabuf(device, from->addr, from->bytes, from->offset, from->fd, from->access, mr);
}

enum dt_status dt_memory_register_all(struct dt_connection *c, const struct dt_memory_source *from,
                                      struct dt_memory *memory, uint32_t *missing)
{
    enum dt_status first = DT_SYSTEM;

    DT_CHECK(memory->path_mask == 0 && !memory->is_deregistered);
    *missing = 0;
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];
        enum dt_status status;

        if (dt_load_acquire(&path->nic->late_tasks) > 0 || !path->control_mr)
            continue; /* the device answers nothing at present, or the path was never there */
        status = register_on(path->nic->device, from, &memory->mr[p]);
        if (status == DT_OK)
            memory->path_mask |= 1u << p;
        else
            *missing |= 1u << p;
        if (p == 0)
            first = status;
    }
    DT_CHECK((memory->path_mask & *missing) == 0 && (memory->path_mask | *missing) >> c->path_count == 0);
    return first;
}

void dt_memory_add(struct dt_connection *c, struct dt_memory *memory)
{
    pthread_mutex_lock(&c->memory_mutex);
    DT_CHECK(dt_list_is_empty(&memory->node) && memory->path_mask != 0);
    dt_list_push_back(&c->memories, &memory->node);
    pthread_mutex_unlock(&c->memory_mutex);
}

void dt_memory_remove(struct dt_connection *c, struct dt_memory *memory)
{
    pthread_mutex_lock(&c->memory_mutex);
    DT_CHECK(!dt_list_is_empty(&memory->node) && dt_load_acquire(&memory->open) == 0);
    dt_list_remove(&memory->node);
    pthread_mutex_unlock(&c->memory_mutex);
}

void dt_memory_deregister_all(struct dt_connection *c, struct dt_memory *memory)
{
    if (memory->is_deregistered)
        return;
    for (uint32_t p = 0; p < c->path_count; p++) {
        DT_CHECK(!memory->mr[p] == !(memory->path_mask & 1u << p));
        if (memory->mr[p])
            dt_mr_deregister(c->path[p].nic->device, memory->mr[p]);
    }
    c->ops->forget_memory(c, memory);
    memory->is_deregistered = true;
}

void dt_connection_abandon(struct dt_connection *c, const struct dt_memory *memory)
{
    dt_info("memory-in-use", "memory at %p is deregistered with requests open: connection %016llx ends here",
            (void *)(uintptr_t)memory->addr, (unsigned long long)c->id);
    pthread_mutex_lock(&c->nic->mutex); /* the device thread is not in the middle of it */
    dt_connection_notify(c, DT_NOTICE_ABANDONED);
    pthread_mutex_unlock(&c->nic->mutex);
    DT_CHECK(!dt_list_is_empty(&memory->node)); /* of this connection until its last request ends */
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_path_fence(&c->path[p]);
    c->ops->finish_copies(c);
}
