/* SPDX-License-Identifier: Apache-2.0 */
/* Registration on the devices of all paths. Called by NCCL's service thread, beside the data path. */
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/message/connection.h"
#include "transport/message/memory.h"
#include "transport/message/registration.h"
#include "transport/path/nic.h"
#include "transport/path/path.h"

/* How long the caller waits for other devices than the default one. A later answer is not lost. */
#define REGISTRATION_LATE_NS DT_NS_PER_S

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

enum dt_status dt_memory_register_on(struct dt_device *device, const struct dt_memory_source *from,
                                     struct dt_mr **mr)
{
    if (from->fd < 0)
        return dt_mr_register(device, from->addr, from->bytes, from->access, mr);
    return dt_mr_register_dmabuf(device, from->addr, from->bytes, from->offset, from->fd, from->access, mr);
}

/* Several control threads may do that at the same time. */
static void change_bits(uint32_t *mask, uint32_t cleared, uint32_t set)
{
    uint32_t seen = dt_load_relaxed(mask);

    while (!dt_compare_swap(mask, &seen, (seen & ~cleared) | set)) {
    }
}

void dt_memory_extend(struct dt_memory *memory, uint32_t path_mask)
{
    change_bits(&memory->path_mask, 0, path_mask);
}

void dt_memory_expect_region(struct dt_memory *memory, uint32_t p, struct dt_registration *registration)
{
    DT_CHECK(!memory->mr[p] && !memory->late[p]);
    memory->late[p] = registration;
    change_bits(&memory->late_mask, 0, 1u << p);
}

/* The region first: the data path reads it where the mask has its bit. */
void dt_memory_add_region(struct dt_memory *memory, uint32_t p, struct dt_mr *mr)
{
    DT_CHECK(!memory->mr[p]);
    memory->mr[p] = mr;
    if (mr)
        dt_memory_extend(memory, 1u << p);
    change_bits(&memory->late_mask, 1u << p, 0);
}

/* The path's device is another than the default one and has a thread that may wait for it. */
static bool has_own_thread(const struct dt_connection *c, uint32_t p)
{
    return c->path[p].nic != c->path[0].nic && c->path[p].nic->executor.has_thread;
}

/* A device that is dead and may come back (transport/reopen.h): its paths carry the memory once it has. */
static bool hold(struct dt_connection *c, const struct dt_memory_source *from, struct dt_memory *memory,
                 uint32_t p)
{
    struct dt_nic *nic = c->path[p].nic;

    return dt_load_acquire(&nic->is_dead) && dt_registration_hold(nic, from, memory, p);
}

/*
 * Another device has refused and none has the memory: messages would wait for as long as the dead device
 * stays away, while the connection has a path and does not end.
 */
static void forget_held(struct dt_memory *memory, uint32_t held_mask)
{
    for (uint32_t p = 0; p < DT_PATHS_MAX; p++) {
        if (!(held_mask & 1u << p))
            continue;
        dt_registration_abandon(memory->late[p]);
        memory->late[p] = NULL;
    }
    change_bits(&memory->late_mask, held_mask, 0);
}

/* It has not answered in time. Its paths may be set up later, behind what it is busy with. */
static bool is_late(const struct dt_nic *nic)
{
    return dt_load_acquire(&nic->late_tasks) > 0;
}

/* A device that is late already is not waited for. */
static uint64_t timeout_ns(const struct dt_nic *nic)
{
    return is_late(nic) ? 0 : REGISTRATION_LATE_NS;
}

/* False: it goes on, and belongs to the memory. */
static bool finish(struct dt_connection *c, struct dt_memory *memory, uint32_t p,
                   struct dt_registration *registration, enum dt_status *status)
{
    const struct dt_path *path = &c->path[p];
    struct dt_mr *mr;

    dt_memory_expect_region(memory, p, registration);
    if (!dt_registration_wait(registration, timeout_ns(path->nic), status, &mr)) {
        dt_info("memory-late",
                "%s has not registered %llu bytes at %p yet: path %u of connection %016llx carries them once "
                "it has",
                dt_path_name(path), (unsigned long long)memory->bytes, (void *)(uintptr_t)memory->addr, p,
                (unsigned long long)c->id);
        return false;
    }
    memory->late[p] = NULL;
    dt_memory_add_region(memory, p, *status == DT_OK ? mr : NULL);
    return true;
}

enum dt_status dt_memory_register_all(struct dt_connection *c, const struct dt_memory_source *from,
                                      struct dt_memory *memory, uint32_t *missing)
{
    struct dt_registration *registration[DT_PATHS_MAX] = {NULL};
    enum dt_status first = DT_SYSTEM, refused = DT_OK;
    uint32_t held_mask = 0;

    DT_CHECK(memory->path_mask == 0 && memory->late_mask == 0 && !memory->is_deregistered);
    *missing = 0;
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (hold(c, from, memory, p))
            held_mask |= 1u << p;
        else if (has_own_thread(c, p) && (c->path[p].control_mr || is_late(c->path[p].nic)))
            registration[p] = dt_registration_start(c->path[p].nic, from, memory, p);
    }
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];
        enum dt_status status = DT_OK;

        if (held_mask & 1u << p) {
            first = p == 0 ? DT_OK : first;
            continue;
        }
        if (registration[p]) {
            if (!finish(c, memory, p, registration[p], &status))
                continue;
        } else if (!path->control_mr || is_late(path->nic)) {
            continue; /* the path was never there, or the device answers nothing at present */
        } else {
            struct dt_mr *mr = NULL;

            status = dt_memory_register_on(dt_nic_memory(path->nic), from, &mr);
            dt_memory_add_region(memory, p, status == DT_OK ? mr : NULL);
        }
        if (status == DT_NOT_FOUND && dt_registration_hold(path->nic, from, memory, p)) {
            held_mask |= 1u << p; /* the device was removed, and its thread has not read the event */
            status = DT_OK;
        }
        if (status != DT_OK) {
            *missing |= 1u << p;
            refused = refused == DT_OK ? status : refused;
        }
        if (p == 0)
            first = status;
    }
    if (refused == DT_OK || dt_load_acquire(&memory->path_mask))
        return first;
    forget_held(memory, held_mask);
    return refused;
}

bool dt_memory_is_usable(const struct dt_memory *memory)
{
    uint32_t late = dt_load_acquire(&memory->late_mask); /* first: a path moves from late_mask to path_mask */

    return late | dt_load_acquire(&memory->path_mask);
}

void dt_memory_add(struct dt_connection *c, struct dt_memory *memory)
{
    pthread_mutex_lock(&c->memory_mutex);
    DT_CHECK(dt_list_is_empty(&memory->node));
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
        struct dt_nic *nic = c->path[p].nic;

        if (memory->late[p])
            dt_registration_abandon(memory->late[p]); /* from here on nothing adds a region */
        DT_CHECK(!memory->mr[p] == !(memory->path_mask & 1u << p));
        if (memory->mr[p] && has_own_thread(c, p))
            dt_deregistration_run(nic, memory->mr[p], timeout_ns(nic));
        else if (memory->mr[p])
            dt_mr_deregister(dt_nic_memory(nic), memory->mr[p]);
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
