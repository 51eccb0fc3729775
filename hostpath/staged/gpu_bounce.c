/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/gpu_bounce.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/node_memory.h"
#include "failover/planted.h"
#include "base/util.h"
#include "transport/path/nic.h"
#include "hostpath/staged/stage.h"
#include "transport/message/memory.h"
#include "transport/message/receive.h"

#define BIT(state) (1u << DT_BOUNCE_##state)

/* A receive of an aborted connection keeps its state until the connection is freed. */
static const uint8_t transitions[DT_BOUNCE_STATES] = {
    [DT_BOUNCE_NONE] = BIT(AWAITED),
    [DT_BOUNCE_AWAITED] = BIT(COPYING),
    [DT_BOUNCE_COPYING] = BIT(DONE) | BIT(FAILED),
    [DT_BOUNCE_DONE] = BIT(NONE),
};

/* The only place where a receive changes its state. */
static void set(struct dt_bounce_receive *receive, enum dt_bounce_state state)
{
    DT_CHECK(transitions[receive->state] >> state & 1);
    receive->state = (uint8_t)state;
}

/* ------------------------------------------------------------------------------------------------------------
 * Bounce buffers
 */

/* False: no room, which is logged. */
static bool reserve(struct dt_connection *c, size_t bytes)
{
    struct dt_hostpath *hostpath = c->environment->hostpath;
    uint64_t most = c->environment->params.hostpath_bytes;
    uint64_t used = dt_fetch_add_acq_rel(&hostpath->bounce_bytes, (uint64_t)bytes);

    if (used + bytes <= most)
        return true;
    dt_fetch_sub_acq_rel(&hostpath->bounce_bytes, (uint64_t)bytes);
    dt_info("bounce-full",
            "connection %016llx: no room for a bounce buffer of %zu bytes: %llu bytes are in use "
            "(DETOUR_HOSTPATH_BYTES is %llu)",
            (unsigned long long)c->id, bytes, (unsigned long long)used, (unsigned long long)most);
    return false;
}

static void free_buffer(struct dt_connection *c, struct dt_bounce_buffer *buffer)
{
    DT_CHECK(dt_load_relaxed(&c->environment->hostpath->bounce_bytes) >= buffer->bytes);
    dt_node_memory_free(buffer->pages, buffer->bytes);
    dt_fetch_sub_acq_rel(&c->environment->hostpath->bounce_bytes, (uint64_t)buffer->bytes);
    free(buffer);
}

/* Whole pages, with the first byte at the same place of its page as in the GPU's memory. */
static struct dt_bounce_buffer *create_buffer(struct dt_connection *c, const struct dt_memory *memory,
                                              struct dt_gpu *gpu)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t offset = memory->addr & (page_bytes - 1);
    struct dt_bounce_buffer *buffer = calloc(1, sizeof *buffer);

    if (!buffer)
        return NULL;
    buffer->gpu = gpu;
    buffer->bytes = dt_align_up(offset + memory->bytes, page_bytes);
    if (!reserve(c, buffer->bytes)) {
        free(buffer);
        return NULL;
    }
    buffer->pages = dt_node_memory_alloc(buffer->bytes, c->nic->info.numa_node);
    if (buffer->pages && dt_cuda_pin(gpu->cuda, buffer->pages, buffer->bytes) == DT_OK) {
        buffer->at = (uint8_t *)buffer->pages + offset;
        return buffer;
    }
    free_buffer(c, buffer);
    return NULL;
}

/* Registers the buffer with the devices that take it. */
static void register_buffer(struct dt_connection *c, struct dt_memory *memory, uint32_t path_mask)
{
    uint32_t access = DT_MR_LOCAL_WRITE | DT_MR_REMOTE_WRITE |
                      (c->environment->params.relaxed_ordering ? DT_MR_RELAXED_ORDERING : 0);

    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        if (!(path_mask & 1u << p) ||
            dt_mr_register_for(dt_nic_memory(path->nic), memory->bounce->at, (void *)(uintptr_t)memory->addr,
                               memory->bytes, access, &memory->mr[p]) != DT_OK)
            continue;
        memory->bounce_mask |= 1u << p;
        dt_info(
            "bounce-used",
            "connection %016llx: path %u receives %llu bytes at %p through a bounce buffer, since %s cannot "
            "write to GPU memory",
            (unsigned long long)c->id, p, (unsigned long long)memory->bytes, (void *)(uintptr_t)memory->addr,
            dt_path_name(path));
    }
    dt_memory_extend(memory, memory->bounce_mask);
}

/* From now on irecv goes through dt_staged_irecv(), which looks for memory with a bounce buffer. */
static bool open_bounce(struct dt_receiver *r)
{
    struct dt_gpu_bounce *bounce;

    if (r->gpu_bounce)
        return true;
    bounce = calloc(1, sizeof *bounce);
    if (!bounce)
        return false;
    bounce->gpus = &r->connection.environment->hostpath->gpus;
    dt_list_init(&bounce->open);
    for (uint32_t i = 0; i < DT_SLOTS_MAX; i++)
        dt_list_init(&bounce->receive[i].node);
    r->gpu_bounce = bounce;
    dt_connection_notify(&r->connection, DT_NOTICE_STAGED);
    return true;
}

void dt_bounce_buffer_create(struct dt_connection *c, struct dt_memory *memory, struct dt_gpu *gpu,
                             uint32_t path_mask)
{
    DT_CHECK(!memory->bounce && !(memory->path_mask & path_mask));
    if (!open_bounce(dt_receiver_of(c)))
        return;
    memory->bounce = create_buffer(c, memory, gpu);
    if (!memory->bounce)
        return;
    register_buffer(c, memory, path_mask);
    if (!memory->bounce_mask)
        dt_bounce_buffer_destroy(c, memory);
}

void dt_bounce_buffer_destroy(struct dt_connection *c, struct dt_memory *memory)
{
    struct dt_bounce_buffer *buffer = memory->bounce;

    if (!buffer)
        return;
    dt_cuda_unpin(buffer->gpu->cuda, buffer->pages);
    free_buffer(c, buffer);
    memory->bounce = NULL;
}

void dt_bounce_close(struct dt_receiver *r)
{
    free(r->gpu_bounce);
    r->gpu_bounce = NULL;
}

/* ------------------------------------------------------------------------------------------------------------
 * A receive
 */
static struct dt_bounce_receive *receive_of(struct dt_receiver *r, const struct dt_recv_slot *slot)
{
    return &r->gpu_bounce->receive[slot - r->slot];
}

static bool has_buffer(const struct dt_recv_slot *slot, uint32_t part)
{
    return slot->memory[part] && slot->memory[part]->bounce_mask;
}

/* Of memory with a bounce buffer: the path that brought the message wrote into that. */
static bool is_in_buffer(const struct dt_recv_slot *slot, uint32_t part)
{
    return slot->memory[part]->bounce_mask & 1u << slot->path || DT_PLANTED(BOUNCE_ALWAYS);
}

/* Copies the parts of the message that are in a bounce buffer to the GPU. */
static void start_copies(struct dt_receiver *r, const struct dt_recv_slot *slot,
                         struct dt_bounce_receive *receive)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < slot->parts; i++) {
        const struct dt_memory *memory = slot->memory[i];

        if (slot->bytes[i] == 0 || !has_buffer(slot, i) || !is_in_buffer(slot, i))
            continue;
        receive->copy[count++] = (struct dt_gpu_copy){
            .gpu = memory->bounce->gpu,
            .direction = DT_CUDA_TO_GPU,
            .to = receive->data[i],
            .from = memory->bounce->at + ((uintptr_t)receive->data[i] - memory->addr),
            .bytes = slot->bytes[i],
            .flags = DT_COPY_POLLED,
            .left = &receive->copies_left,
        };
    }
    DT_CHECK(slot->state == DT_RECV_DONE && !dt_list_is_empty(&receive->node));
    set(receive, DT_BOUNCE_COPYING);
    receive->copy_count = count;
    dt_store_relaxed(&receive->copies_left, count);
    for (uint32_t i = 0; i < count; i++)
        dt_gpus_push(r->gpu_bounce->gpus, &receive->copy[i]);
}

/* All copies of the receive are over. */
static void end_copies(struct dt_receiver *r, const struct dt_recv_slot *slot,
                       struct dt_bounce_receive *receive)
{
    bool has_failed = false;

    for (uint32_t i = 0; i < receive->copy_count; i++)
        has_failed |= receive->copy[i].is_failed;
    for (uint32_t i = 0; i < slot->parts; i++) {
        if (has_buffer(slot, i)) {
            DT_CHECK(slot->memory[i]->open > 0);
            dt_count(&slot->memory[i]->open, -1u);
        }
    }
    dt_list_remove(&receive->node);
    DT_CHECK(r->side_open > 0);
    r->side_open--;
    set(receive, has_failed ? DT_BOUNCE_FAILED : DT_BOUNCE_DONE);
    if (has_failed)
        dt_connection_fail(&r->connection, DT_SYSTEM,
                           "message %llu has arrived, but could not be copied into the GPU's memory",
                           (unsigned long long)slot->sequence);
}

void dt_bounce_progress(struct dt_receiver *r)
{
    dt_list_for_each(node, &r->gpu_bounce->open)
    {
        struct dt_bounce_receive *receive = dt_container_of(node, struct dt_bounce_receive, node);
        const struct dt_recv_slot *slot = &r->slot[receive - r->gpu_bounce->receive];

        if (receive->state == DT_BOUNCE_AWAITED && slot->state == DT_RECV_DONE)
            start_copies(r, slot, receive);
        if (receive->state == DT_BOUNCE_COPYING &&
            (dt_load_acquire(&receive->copies_left) == 0 || DT_PLANTED(BOUNCE_EARLY)))
            end_copies(r, slot, receive);
    }
}

static enum dt_status test(struct dt_request *request, int *done, int *bytes)
{
    struct dt_receiver *r = dt_receiver_of(request->connection);
    struct dt_recv_slot *slot = &r->slot[request->slot];
    struct dt_bounce_receive *receive = receive_of(r, slot);
    enum dt_status status;

    if (!request->is_open)
        return DT_INVALID;
    status = dt_connection_check(&r->connection);
    if (status == DT_OK)
        dt_receiver_progress(r);
    else if (status != DT_CLOSED)
        dt_bounce_progress(r); /* what has arrived counts, whatever happened afterwards */
    if (receive->state == DT_BOUNCE_DONE) {
        dt_receiver_report(r, slot, bytes);
        set(receive, DT_BOUNCE_NONE);
        *done = 1;
        return DT_OK;
    }
    return status == DT_AGAIN || (receive->state == DT_BOUNCE_COPYING && status != DT_CLOSED) ? DT_OK
                                                                                              : status;
}

void dt_bounce_await(struct dt_receiver *r, struct dt_recv_slot *slot, void *const *data)
{
    struct dt_bounce_receive *receive = receive_of(r, slot);
    bool is_any = false;

    for (uint32_t i = 0; i < slot->parts; i++) {
        if (!has_buffer(slot, i))
            continue;
        is_any = true;
        receive->data[i] = data[i];
        dt_count(&slot->memory[i]->open, 1); /* until it is copied */
    }
    if (!is_any)
        return;
    DT_CHECK(dt_list_is_empty(&receive->node) && slot->state == DT_RECV_OPEN);
    slot->request.test = test;
    set(receive, DT_BOUNCE_AWAITED);
    receive->copies_left = 0;
    dt_list_push_back(&r->gpu_bounce->open, &receive->node);
    r->side_open++;
}

void dt_bounce_finish_copies(struct dt_receiver *r)
{
    /* Without threads no time passes here, and a lane asks its driver only now and then. */
    uint64_t waited_ns = 0;

    if (!r->gpu_bounce)
        return;
    dt_list_for_each(node, &r->gpu_bounce->open)
    {
        const struct dt_bounce_receive *receive = dt_container_of(node, struct dt_bounce_receive, node);

        while (dt_load_acquire(&receive->copies_left) > 0) {
            if (r->gpu_bounce->gpus->has_threads)
                sched_yield();
            else
                dt_gpus_run(r->gpu_bounce->gpus, waited_ns += DT_NS_PER_S);
        }
    }
}
