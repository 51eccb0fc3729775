/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/landing.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/node_memory.h"
#include "base/planted.h"
#include "base/util.h"
#include "transport/nic.h"
#include "transport/staging.h"

/* ------------------------------------------------------------------------------------------------------------
 * Shadows
 */

/* False: no room, which was said. */
static bool take_room(struct dt_connection *c, size_t bytes)
{
    struct dt_hostpath *hostpath = &c->net->hostpath;
    uint64_t most = c->net->params.hostpath_bytes;
    uint64_t used = dt_fetch_add_acq_rel(&hostpath->shadow_bytes, (uint64_t)bytes);

    if (used + bytes <= most)
        return true;
    dt_fetch_sub_acq_rel(&hostpath->shadow_bytes, (uint64_t)bytes);
    dt_info("connection %016llx: no room to receive %zu bytes of GPU memory by way of the host's, where %llu "
            "are in use (DETOUR_HOSTPATH_BYTES is %llu)",
            (unsigned long long)c->id, bytes, (unsigned long long)used, (unsigned long long)most);
    return false;
}

static void free_shadow(struct dt_connection *c, struct dt_shadow *shadow)
{
    dt_node_memory_free(shadow->pages, shadow->bytes);
    dt_fetch_sub_acq_rel(&c->net->hostpath.shadow_bytes, (uint64_t)shadow->bytes);
    free(shadow);
}

/* Whole pages, with the first byte at the same place of its page as in the GPU's memory. */
static struct dt_shadow *make_shadow(struct dt_connection *c, const struct dt_memory *memory,
                                     struct dt_gpu *gpu)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t offset = memory->addr & (page_bytes - 1);
    struct dt_shadow *shadow = calloc(1, sizeof *shadow);

    if (!shadow)
        return NULL;
    shadow->gpu = gpu;
    shadow->bytes = dt_align_up(offset + memory->bytes, page_bytes);
    if (!take_room(c, shadow->bytes)) {
        free(shadow);
        return NULL;
    }
    shadow->pages = dt_node_memory_alloc(shadow->bytes, c->nic->info.numa_node);
    if (shadow->pages && dt_cuda_pin(gpu->cuda, shadow->pages, shadow->bytes) == DT_OK) {
        shadow->at = (uint8_t *)shadow->pages + offset;
        return shadow;
    }
    free_shadow(c, shadow);
    return NULL;
}

/* Sets the regions of what devices take the shadow. */
static void register_shadow(struct dt_connection *c, struct dt_memory *memory, uint32_t path_mask)
{
    uint32_t access = DT_MR_LOCAL_WRITE | DT_MR_REMOTE_WRITE |
                      (c->net->params.relaxed_ordering ? DT_MR_RELAXED_ORDERING : 0);

    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        if (!(path_mask & 1u << p) ||
            dt_mr_register_for(path->nic->device, memory->shadow->at, (void *)(uintptr_t)memory->addr,
                               memory->bytes, access, &memory->mr[p]) != DT_OK)
            continue;
        memory->shadow_mask |= 1u << p;
        dt_info("connection %016llx: path %u brings %llu bytes at %p by way of host memory, since %s cannot "
                "write to the GPU's",
                (unsigned long long)c->id, p, (unsigned long long)memory->bytes,
                (void *)(uintptr_t)memory->addr, dt_path_name(path));
    }
    memory->path_mask |= memory->shadow_mask;
}

/* From now on irecvs are looked at: one of them may be into this memory. */
static bool have_landings(struct dt_receiver *r)
{
    struct dt_landings *landings;

    if (r->landings)
        return true;
    landings = calloc(1, sizeof *landings);
    if (!landings)
        return false;
    landings->gpus = &r->connection.net->hostpath.gpus;
    dt_list_init(&landings->open);
    for (uint32_t i = 0; i < DT_SLOTS_MAX; i++)
        dt_list_init(&landings->landing[i].node);
    r->landings = landings;
    dt_connection_notify(&r->connection, DT_NOTICE_STAGED);
    return true;
}

void dt_shadow_create(struct dt_connection *c, struct dt_memory *memory, uint32_t path_mask)
{
    struct dt_gpu *gpu = dt_stage_gpu_of(c, (const void *)(uintptr_t)memory->addr);

    if (!gpu || !have_landings(dt_receiver_of(c)))
        return;
    memory->shadow = make_shadow(c, memory, gpu);
    if (!memory->shadow)
        return;
    register_shadow(c, memory, path_mask);
    if (!memory->shadow_mask)
        dt_shadow_destroy(c, memory);
}

void dt_shadow_destroy(struct dt_connection *c, struct dt_memory *memory)
{
    struct dt_shadow *shadow = memory->shadow;

    if (!shadow)
        return;
    dt_cuda_unpin(shadow->gpu->cuda, shadow->pages);
    free_shadow(c, shadow);
    memory->shadow = NULL;
}

/* ------------------------------------------------------------------------------------------------------------
 * A receive
 */
static struct dt_landing *landing_of(struct dt_receiver *r, const struct dt_recv_slot *slot)
{
    return &r->landings->landing[slot - r->slot];
}

static bool has_shadow(const struct dt_recv_slot *slot, uint32_t part)
{
    return slot->memory[part] && slot->memory[part]->shadow_mask;
}

void dt_landing_await(struct dt_receiver *r, struct dt_recv_slot *slot, void *const *data)
{
    struct dt_landing *landing = landing_of(r, slot);
    bool is_any = false;

    for (uint32_t i = 0; i < slot->parts; i++) {
        if (!has_shadow(slot, i))
            continue;
        is_any = true;
        landing->data[i] = data[i];
        dt_count(&slot->memory[i]->open, 1); /* until it is copied */
    }
    if (!is_any)
        return;
    slot->request.kind = DT_REQUEST_LANDING;
    landing->state = DT_LANDING_AWAITED;
    landing->copies_left = 0;
    dt_list_push_back(&r->landings->open, &landing->node);
    r->beside_open++;
}

/* Of memory that has one: the path that brought the message wrote there. */
static bool came_to_shadow(const struct dt_recv_slot *slot, uint32_t part)
{
    return slot->memory[part]->shadow_mask & 1u << slot->path || DT_PLANTED(LANDED_ALWAYS);
}

/* Parts of the message that are in a shadow go to the GPU. */
static void start_copies(struct dt_receiver *r, const struct dt_recv_slot *slot, struct dt_landing *landing)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < slot->parts; i++) {
        const struct dt_memory *memory = slot->memory[i];

        if (slot->bytes[i] == 0 || !has_shadow(slot, i) || !came_to_shadow(slot, i))
            continue;
        landing->copy[count++] = (struct dt_gpu_copy){
            .gpu = memory->shadow->gpu,
            .direction = DT_CUDA_TO_GPU,
            .to = landing->data[i],
            .from = memory->shadow->at + ((uintptr_t)landing->data[i] - memory->addr),
            .bytes = slot->bytes[i],
            .flags = DT_COPY_POLLED,
            .left = &landing->copies_left,
        };
    }
    landing->state = DT_LANDING_COPIED;
    landing->copy_count = count;
    dt_store_relaxed(&landing->copies_left, count);
    for (uint32_t i = 0; i < count; i++)
        dt_gpus_push(r->landings->gpus, &landing->copy[i]);
}

/* Nothing is copied any more. */
static void end_copies(struct dt_receiver *r, const struct dt_recv_slot *slot, struct dt_landing *landing)
{
    bool has_failed = false;

    for (uint32_t i = 0; i < landing->copy_count; i++)
        has_failed |= landing->copy[i].is_failed;
    for (uint32_t i = 0; i < slot->parts; i++) {
        if (has_shadow(slot, i))
            dt_count(&slot->memory[i]->open, -1u);
    }
    dt_list_remove(&landing->node);
    r->beside_open--;
    landing->state = has_failed ? DT_LANDING_FAILED : DT_LANDING_DONE;
    if (has_failed)
        dt_connection_fail(&r->connection, DT_SYSTEM,
                           "message %llu has arrived, but could not be copied into the GPU's memory",
                           (unsigned long long)slot->sequence);
}

void dt_landing_progress(struct dt_receiver *r)
{
    dt_list_for_each(node, &r->landings->open)
    {
        struct dt_landing *landing = dt_container_of(node, struct dt_landing, node);
        const struct dt_recv_slot *slot = &r->slot[landing - r->landings->landing];

        if (landing->state == DT_LANDING_AWAITED && slot->state == DT_RECV_DONE)
            start_copies(r, slot, landing);
        if (landing->state == DT_LANDING_COPIED &&
            (dt_load_acquire(&landing->copies_left) == 0 || DT_PLANTED(LANDED_EARLY)))
            end_copies(r, slot, landing);
    }
}

enum dt_status dt_landing_test(struct dt_request *request, int *done, int *bytes)
{
    struct dt_receiver *r = dt_receiver_of(request->connection);
    struct dt_recv_slot *slot = &r->slot[request->slot];
    struct dt_landing *landing = landing_of(r, slot);
    enum dt_status status;

    if (!request->is_open)
        return DT_INVALID;
    status = dt_connection_check(&r->connection);
    if (status == DT_OK)
        dt_receiver_progress(r);
    else if (status != DT_CLOSED)
        dt_landing_progress(r); /* what has arrived counts, whatever happened afterwards */
    if (landing->state == DT_LANDING_DONE) {
        dt_receiver_report(r, slot, bytes);
        landing->state = DT_LANDING_NONE;
        *done = 1;
        return DT_OK;
    }
    return status == DT_AGAIN || (landing->state == DT_LANDING_COPIED && status != DT_CLOSED) ? DT_OK
                                                                                              : status;
}

void dt_landing_finish_copies(struct dt_receiver *r)
{
    /* Without threads no time passes here, and a lane asks its driver only now and then. */
    uint64_t waited_ns = 0;

    if (!r->landings)
        return;
    dt_list_for_each(node, &r->landings->open)
    {
        const struct dt_landing *landing = dt_container_of(node, struct dt_landing, node);

        while (dt_load_acquire(&landing->copies_left) > 0) {
            if (r->landings->gpus->has_threads)
                sched_yield();
            else
                dt_gpus_run(r->landings->gpus, waited_ns += DT_NS_PER_S);
        }
    }
}
