/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a sender as data: opening and closing, entries. */
#include "hostpath/staged/stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "hostpath/staged/stage_late.h"
#include "transport/message/memory.h"
#include "transport/path/nic.h"

/* ------------------------------------------------------------------------------------------------------------
 * Opening and closing
 */
void dt_stage_offer_region(struct dt_connection *c)
{
    const struct dt_hostpath *hostpath = c->environment->hostpath;

    c->group.staged = (struct dt_region){
        .base = hostpath->pool.base,
        .bytes = hostpath->pool.bytes,
        .access = DT_MR_LOCAL_WRITE | (c->environment->params.relaxed_ordering ? DT_MR_RELAXED_ORDERING : 0),
    };
}

struct dt_gpu *dt_stage_gpu_of(const struct dt_connection *c, const void *address)
{
    return c->environment->hostpath->is_on ? dt_gpus_find(&c->environment->hostpath->gpus, address) : NULL;
}

enum dt_status dt_stage_open_delegates(struct dt_nic *nic)
{
    const struct dt_environment *environment = nic->environment;
    int node = nic->info.numa_node;
    enum dt_status status = DT_OK;

    pthread_mutex_lock(&nic->mutex);
    if (nic->delegates.count == 0) {
        status = dt_delegates_open(&nic->delegates, (uint32_t)environment->params.hostpath_queues, node,
                                   environment->has_threads);
    }
    pthread_mutex_unlock(&nic->mutex);
    return status;
}

static void fill(struct dt_stage *stage, struct dt_connection *c)
{
    stage->pool = &c->environment->hostpath->pool;
    stage->delegates = &c->nic->delegates;
    stage->gpus = &c->environment->hostpath->gpus;
    stage->piece_bytes = (uint32_t)dt_min_u64(DT_COPY_PIECE_BYTES, c->chunk_bytes);
    stage->late_ns = DT_STAGE_LATE_NS;
    dt_auto_init(&stage->decision);
    stage->memory.is_host = true;
    stage->memory.addr = (uintptr_t)stage->pool->base;
    stage->memory.bytes = stage->pool->bytes;
    for (uint32_t p = 0; p < c->path_count; p++) {
        stage->memory.mr[p] = c->path[p].staged_mr;
        stage->memory.path_mask |= stage->memory.mr[p] ? 1u << p : 0;
    }
    dt_list_init(&stage->queue);
    dt_list_init(&stage->free);
    dt_list_init(&stage->late);
    for (uint32_t i = 0; i < DT_STAGED_MAX; i++)
        dt_list_push_back(&stage->free, &stage->entry[i].node);
}

enum dt_status dt_stage_open(struct dt_sender *s)
{
    struct dt_connection *c = &s->connection;
    struct dt_stage *stage;
    enum dt_status status;

    DT_CHECK(!s->stage);
    if (!c->environment->hostpath->is_on)
        return DT_OK;
    status = dt_stage_open_delegates(c->nic);
    if (status == DT_OK)
        status = dt_gate_open_early(s);
    if (status != DT_OK)
        return status;
    stage = calloc(1, sizeof *stage);
    if (!stage)
        return DT_NO_MEMORY;
    fill(stage, c);
    if (stage->memory.path_mask) {
        s->stage = stage;
        s->staging = DT_HOSTPATH_PROCESS;
        return DT_OK;
    }
    free(stage);
    dt_info("stage-unregistered",
            "connection %016llx: no device can register the staging pool; messages are sent directly",
            (unsigned long long)c->id);
    return DT_OK;
}

void dt_stage_close(struct dt_sender *s)
{
    struct dt_stage *stage = s->stage;

    DT_CHECK(stage->undelivered <= DT_STAGED_MAX && stage->given_out <= DT_STAGED_MAX);
    for (uint32_t i = 0; i < DT_STAGED_MAX; i++) {
        DT_CHECK(dt_load_acquire(&stage->entry[i].copies_left) == 0);
        if (stage->entry[i].at)
            dt_pool_free(stage->pool, stage->entry[i].at, stage->entry[i].bytes);
    }
    s->stage = NULL;
    free(stage);
}

/* ------------------------------------------------------------------------------------------------------------
 * Entries
 */
void dt_stage_free_entry(struct dt_sender *s, struct dt_staged *entry)
{
    DT_CHECK(entry->is_delivered && !entry->request.is_open && (!entry->at || entry->is_direct));
    DT_CHECK(dt_list_is_empty(&entry->node) && s->connection.open_requests > 0);
    dt_count(&s->connection.open_requests, -1u);
    dt_list_push_back(entry->at ? &s->stage->late : &s->stage->free, &entry->node);
}

/* NCCL calls isend again and again until it gets a request; a wait for room is one. */
static struct dt_staged *find_no_room(struct dt_stage *stage)
{
    stage->lacks_room = true;
    return NULL;
}

struct dt_staged *dt_stage_take_entry(struct dt_stage *stage, uint32_t bytes)
{
    struct dt_staged *entry;
    void *at = NULL;

    dt_stage_late_collect(stage);
    if (dt_list_is_empty(&stage->free))
        return find_no_room(stage);
    /* The one that has been free for longest; a delegate that has slept since then may still hold its job. */
    entry = dt_container_of(stage->free.next, struct dt_staged, node);
    DT_CHECK(!entry->request.is_open && !entry->at && dt_load_relaxed(&entry->copies_left) == 0);
    if (dt_load_acquire(&entry->delegates_hold) > 0)
        return NULL;
    if (bytes > 0 && !(at = dt_pool_alloc(stage->pool, bytes)))
        return find_no_room(stage);
    dt_list_remove(&entry->node);
    entry->at = at;
    return entry;
}

uint32_t dt_stage_unmatched(const struct dt_stage *stage)
{
    uint32_t count = 0;

    for (const struct dt_list *node = stage->queue.next; node != &stage->queue; node = node->next)
        count++;
    return count;
}

bool dt_stage_has_tag(const struct dt_stage *stage, int tag)
{
    for (const struct dt_list *node = stage->queue.next; node != &stage->queue; node = node->next) {
        if (dt_container_of(node, const struct dt_staged, node)->tag == tag)
            return true;
    }
    return false;
}
