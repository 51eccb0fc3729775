/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/staging.h"

#include <endian.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/planted.h"
#include "transport/nic.h"

#define JOB_BYTES_MIN (256u << 10)

/* ------------------------------------------------------------------------------------------------------------
 * Life
 */
enum dt_status dt_hostpath_open(struct dt_net *net)
{
    net->hostpath.is_on = strcmp(net->params.hostpath, "off") != 0;
    net->hostpath.is_auto = strcmp(net->params.hostpath, "auto") == 0;
    enum dt_status status;

    if (!net->hostpath.is_on)
        return DT_OK;
    status = dt_pool_open(&net->hostpath.pool, net->params.hostpath_bytes);
    if (status == DT_OK)
        dt_gpus_open(&net->hostpath.gpus, net->params.cuda_library, net->hostpath.pool.base,
                     net->hostpath.pool.bytes, net->has_threads);
    return status;
}

void dt_hostpath_close(struct dt_net *net)
{
    dt_gpus_close(&net->hostpath.gpus);
    dt_pool_close(&net->hostpath.pool);
}

void dt_hostpath_place(struct dt_nic *nic)
{
    struct dt_hostpath *hostpath = &nic->net->hostpath;

    if (!hostpath->is_on)
        return;
    pthread_mutex_lock(&nic->net->mutex);
    if (!hostpath->is_placed)
        dt_pool_prefer(&hostpath->pool, nic->info.numa_node);
    hostpath->is_placed = true;
    pthread_mutex_unlock(&nic->net->mutex);
}

struct dt_gpu *dt_stage_gpu_of(const struct dt_connection *c, const void *address)
{
    return c->net->hostpath.is_on ? dt_gpus_find(&c->net->hostpath.gpus, address) : NULL;
}

enum dt_status dt_stage_open_delegates(struct dt_nic *nic)
{
    struct dt_net *net = nic->net;
    int node = nic->info.numa_node;
    enum dt_status status = DT_OK;

    pthread_mutex_lock(&nic->mutex);
    if (nic->delegates.count == 0) {
        status =
            dt_delegates_open(&nic->delegates, (uint32_t)net->params.hostpath_queues, node, net->has_threads);
    }
    pthread_mutex_unlock(&nic->mutex);
    return status;
}

static void fill(struct dt_stage *stage, struct dt_connection *c)
{
    stage->pool = &c->net->hostpath.pool;
    stage->delegates = &c->nic->delegates;
    stage->gpus = &c->net->hostpath.gpus;
    stage->is_auto = c->net->hostpath.is_auto;
    stage->piece_bytes = (uint32_t)dt_min_u64(DT_COPY_PIECE_BYTES, c->chunk_bytes);
    dt_auto_init(&stage->decision);
    stage->memory.is_host = true;
    stage->memory.addr = (uintptr_t)stage->pool->base;
    stage->memory.bytes = stage->pool->bytes;
    for (uint32_t p = 0; p < c->path_count; p++) {
        stage->memory.mr[p] = c->path[p].staging_mr;
        stage->memory.path_mask |= stage->memory.mr[p] ? 1u << p : 0;
    }
    dt_list_init(&stage->queue);
    dt_list_init(&stage->free);
    for (uint32_t i = 0; i < DT_STAGED_MAX; i++)
        dt_list_push_back(&stage->free, &stage->entry[i].node);
}

static void use(struct dt_sender *s, struct dt_stage *stage)
{
    s->stage = stage;
    s->connection.attended |= DT_NOTICE_STAGED;
    dt_connection_notify(&s->connection, DT_NOTICE_STAGED);
    for (uint32_t i = 0; i < DT_SLOTS_MAX; i++) {
        for (uint32_t part = 0; part < DT_PARTS_MAX; part++)
            s->slot[i].part[part].request.kind = DT_REQUEST_BESIDE;
    }
}

enum dt_status dt_stage_open(struct dt_sender *s)
{
    struct dt_connection *c = &s->connection;
    struct dt_stage *stage;
    enum dt_status status;

    if (!c->net->hostpath.is_on)
        return DT_OK;
    status = dt_stage_open_delegates(c->nic);
    if (status != DT_OK)
        return status;
    stage = calloc(1, sizeof *stage);
    if (!stage)
        return DT_NO_MEMORY;
    fill(stage, c);
    if (stage->memory.path_mask) {
        use(s, stage);
        return DT_OK;
    }
    free(stage);
    dt_info("connection %016llx: no device takes the memory to stage messages in; they go directly",
            (unsigned long long)c->id);
    return DT_OK;
}

void dt_stage_close(struct dt_sender *s)
{
    struct dt_stage *stage = s->stage;

    if (!stage)
        return;
    for (uint32_t i = 0; i < DT_STAGED_MAX; i++) {
        if (stage->entry[i].at)
            dt_pool_give(stage->pool, stage->entry[i].at, stage->entry[i].bytes);
    }
    s->stage = NULL;
    free(stage);
}

void dt_stage_finish_copies(struct dt_stage *stage)
{
    /* Without threads no time passes here, and a lane asks its driver only now and then. */
    uint64_t waited_ns = 0;

    for (uint32_t i = 0; i < DT_STAGED_MAX; i++) {
        const struct dt_staged *entry = &stage->entry[i];

        while (dt_load_acquire(&entry->copies_left) > 0 || dt_load_acquire(&entry->delegates_hold) > 0) {
            if (stage->delegates->has_threads) {
                sched_yield();
                continue;
            }
            dt_delegates_run(stage->delegates);
            dt_gpus_run(stage->gpus, waited_ns += DT_NS_PER_S);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Entries
 */

/* Its request was reported, and its message delivered. */
static void free_entry(struct dt_sender *s, struct dt_staged *entry)
{
    dt_list_push_back(&s->stage->free, &entry->node);
    dt_count(&s->connection.open_requests, -1u);
}

static void start_gpu_copy(struct dt_stage *stage, struct dt_staged *entry, const void *data)
{
    entry->gpu_copy = (struct dt_gpu_copy){
        .gpu = entry->memory->gpu,
        .direction = DT_CUDA_TO_HOST,
        .to = entry->at,
        .from = data,
        .bytes = entry->bytes,
        .chunk_bytes = (uint32_t)dt_min_u64(DT_GPU_CHUNK_BYTES, entry->request.connection->chunk_bytes),
        .left = &entry->copies_left,
    };
    dt_store_relaxed(&entry->copies_left, 1u);
    dt_gpus_push(stage->gpus, &entry->gpu_copy);
}

/* The delegates' part; whoever waits for it helps. */
static void start_large_copy(struct dt_stage *stage, struct dt_staged *entry, const void *data)
{
    uint64_t jobs = dt_min_u64(entry->bytes / JOB_BYTES_MIN, stage->delegates->count);

    entry->is_by_delegates = true;
    entry->host_copy = (struct dt_host_copy){
        .to = entry->at,
        .from = data,
        .bytes = entry->bytes,
        .piece_bytes = stage->piece_bytes,
        .job_count = (uint32_t)dt_min_u64(dt_max_u64(jobs, 1), DT_COPY_JOBS_MAX),
        .left = &entry->copies_left,
        .held = &entry->delegates_hold,
    };
    dt_store_relaxed(&entry->copies_left, dt_copy_pieces(entry->bytes, stage->piece_bytes));
    dt_store_relaxed(&entry->delegates_hold, entry->host_copy.job_count);
    dt_delegates_push(stage->delegates, &entry->host_copy);
}

/* By NCCL's thread, which is here to ask whether the copy is done: no more than for a small message. */
static void help(struct dt_staged *entry)
{
    if (entry->is_by_delegates)
        dt_host_copy_help(&entry->host_copy);
}

static void start_copy(struct dt_stage *stage, struct dt_staged *entry, const void *data)
{
    if (entry->is_of_gpu) {
        start_gpu_copy(stage, entry, data);
        return;
    }
    if (entry->bytes > stage->piece_bytes)
        start_large_copy(stage, entry, data);
    else if (entry->bytes > 0)
        memcpy(entry->at, data, entry->bytes);
}

/* A new entry with the payload, at the end of the queue; NULL: no room. */
static struct dt_staged *stage_payload(struct dt_sender *s, const void *data, uint32_t bytes, int tag,
                                       struct dt_memory *memory)
{
    struct dt_stage *stage = s->stage;
    struct dt_staged *entry;
    void *at = NULL;

    if (dt_list_is_empty(&stage->free))
        return NULL;
    /* The one that has been free for longest; a delegate that has slept ever since may still know it. */
    entry = dt_container_of(stage->free.next, struct dt_staged, node);
    if (dt_load_acquire(&entry->delegates_hold) > 0)
        return NULL;
    if (bytes > 0 && !(at = dt_pool_take(stage->pool, bytes)))
        return NULL;
    dt_list_remove(&entry->node);
    entry->request = (struct dt_request){
        .connection = &s->connection,
        .slot = (uint32_t)(entry - stage->entry),
        .kind = DT_REQUEST_STAGED,
        .is_open = true,
    };
    entry->tag = tag;
    entry->bytes = bytes;
    entry->at = at;
    entry->memory = memory;
    entry->is_delivered = false;
    entry->is_of_gpu = bytes > 0 && memory->gpu;
    entry->is_by_delegates = false;
    dt_page_add(&s->connection.meter.row->staged_count, 1);
    dt_page_add(&s->connection.meter.row->staged_bytes, bytes);
    start_copy(stage, entry, data);
    dt_list_push_back(&stage->queue, &entry->node);
    dt_ahead_queued(s, entry);
    return entry;
}

/* ------------------------------------------------------------------------------------------------------------
 * From the queue into messages
 */

/* The oldest entry that a part of the message waits for. */
static struct dt_staged *find_entry(struct dt_stage *stage, const struct dt_send_slot *slot, int *part)
{
    struct dt_staged *found = NULL;

    dt_list_for_each(node, &stage->queue)
    {
        struct dt_staged *entry = dt_container_of(node, struct dt_staged, node);

        int i = dt_sender_find_part(slot, entry->tag);

        if (i < 0)
            continue;
        *part = i;
        found = entry;
        if (!DT_PLANTED(STAGED_ORDER))
            break;
    }
    return found;
}

/* False: the receiver has posted less; the connection fails. */
static bool put(struct dt_sender *s, struct dt_send_slot *slot, int i, struct dt_staged *entry)
{
    struct dt_send_part *part = &slot->part[i];

    if (!dt_sender_fits(s, slot, i, entry->bytes))
        return false;
    dt_list_remove(&entry->node);
    dt_ahead_matched(s, entry);
    dt_meter_tag(&s->connection.meter, entry->tag);
    part->request.is_open = false;
    part->addr = (uintptr_t)entry->at;
    part->bytes = entry->bytes;
    part->memory = entry->bytes > 0 ? &s->stage->memory : NULL;
    part->staged = entry;
    slot->staged_mask |= (uint8_t)(1u << i);
    slot->taken_mask |= (uint8_t)(1u << i);
    if (--slot->missing == 0)
        dt_sender_hand_over(s, slot);
    return true;
}

static void match(struct dt_sender *s)
{
    while (!dt_list_is_empty(&s->stage->queue)) {
        struct dt_send_slot *slot = dt_sender_matching_slot(s);
        struct dt_staged *entry;
        int part;

        if (slot)
            dt_ahead_read_row(s, &slot->entry[0]);
        entry = slot ? find_entry(s->stage, slot, &part) : NULL;
        if (!entry || !put(s, slot, part, entry))
            return;
    }
}

/* The copy is over, and not all bytes came. */
static bool has_failed(const struct dt_staged *entry)
{
    return entry->is_of_gpu && dt_load_acquire(&entry->copies_left) == 0 && entry->gpu_copy.is_failed;
}

static __attribute__((cold, noinline)) void fail(const struct dt_staged *entry)
{
    dt_connection_fail(entry->request.connection, DT_SYSTEM,
                       "a message of %u bytes could not be copied out of the GPU's memory", entry->bytes);
}

bool dt_stage_is_entry_copied(const struct dt_staged *entry)
{
    if (dt_load_acquire(&entry->copies_left) > 0)
        return DT_PLANTED(STAGED_RAW);
    if (__builtin_expect(has_failed(entry), 0)) {
        fail(entry);
        return false;
    }
    return true;
}

bool dt_stage_is_copied(const struct dt_send_slot *slot)
{
    for (uint32_t i = 0; i < slot->parts; i++) {
        if (slot->staged_mask & 1u << i && !dt_stage_is_entry_copied(slot->part[i].staged))
            return false;
    }
    return true;
}

uint64_t dt_stage_copied_bytes(const struct dt_staged *entry)
{
    if (entry->is_of_gpu)
        return dt_copy_done_bytes(&entry->gpu_copy.copy);
    return entry->is_by_delegates ? dt_host_copy_done_bytes(&entry->host_copy) : entry->bytes;
}

uint32_t dt_stage_undelivered(const struct dt_connection *c)
{
    const struct dt_stage *stage =
        c->is_sender ? dt_sender_of((struct dt_connection *)(uintptr_t)c)->stage : NULL;

    return stage ? dt_load_acquire(&stage->undelivered) : 0;
}

uint32_t dt_stage_unmatched(const struct dt_stage *stage)
{
    uint32_t count = 0;

    for (const struct dt_list *node = stage->queue.next; node != &stage->queue; node = node->next)
        count++;
    return count;
}

/* ------------------------------------------------------------------------------------------------------------
 * Delivered
 */
/* The memory of what is staged of the message. */
static void give_back_memory(struct dt_sender *s, struct dt_send_slot *slot)
{
    for (uint32_t i = 0; i < slot->parts; i++) {
        struct dt_staged *entry = slot->part[i].staged;

        if (!(slot->staged_mask & 1u << i) || !entry->at)
            continue;
        dt_pool_give(s->stage->pool, entry->at, entry->bytes);
        entry->at = NULL;
    }
}

static void deliver(struct dt_sender *s, struct dt_staged *entry)
{
    entry->is_delivered = true;
    dt_ahead_delivered(s, entry);
    dt_count(&s->stage->undelivered, -1u);
    if (!entry->request.is_open)
        free_entry(s, entry);
}

static void release_part(struct dt_sender *s, struct dt_send_part *part)
{
    struct dt_staged *entry = part->staged;

    part->staged = NULL;
    deliver(s, entry);
}

static void release_slot(struct dt_sender *s, struct dt_send_slot *slot)
{
    give_back_memory(s, slot);
    for (uint32_t i = 0; i < slot->parts; i++) {
        if (!(slot->staged_mask & 1u << i))
            continue;
        release_part(s, &slot->part[i]);
        slot->reported++;
    }
    slot->staged_mask = 0;
    if (slot->reported == slot->parts)
        slot->state = DT_SEND_FREE;
}

static uint64_t bytes_of(const struct dt_send_slot *slot)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < slot->parts; i++)
        bytes += slot->part[i].bytes;
    return bytes;
}

void dt_stage_handed_over(struct dt_sender *s, const struct dt_send_slot *slot)
{
    struct dt_stage *stage = s->stage;

    if (!stage->is_auto)
        return;
    stage->underway_bytes += bytes_of(slot);
    stage->underway_at[slot->sequence & (s->connection.slots - 1)] = stage->underway_bytes;
}

static void say_decision(const struct dt_sender *s, uint64_t bytes, uint64_t service_ns)
{
    const struct dt_connection *c = &s->connection;
    const struct dt_auto *decision = &s->stage->decision;

    if (decision->is_on)
        dt_info("connection %016llx to %s: the link is slow, %llu us for %llu bytes that usually take %llu: "
                "sends go "
                "over the host path",
                (unsigned long long)c->id, c->peer, (unsigned long long)(service_ns / DT_NS_PER_US),
                (unsigned long long)bytes,
                (unsigned long long)(dt_auto_usual_ns(decision, bytes) / DT_NS_PER_US));
    else
        dt_info("connection %016llx to %s: the link is as usual again: sends go directly",
                (unsigned long long)c->id, c->peer);
}

/* How long a message took from when it could have gone until now, when it is delivered. */
static void decide(struct dt_sender *s, uint64_t handed, uint64_t bytes)
{
    const struct dt_ticks *ticks = s->connection.meter.ticks;
    uint64_t now = dt_ticks_now(ticks);
    uint64_t service_ns = dt_ticks_to_ns(ticks, now > handed ? now - handed : 0);

    if (dt_auto_message(&s->stage->decision, bytes, service_ns, dt_ticks_moment_ns(ticks, now)))
        say_decision(s, bytes, service_ns);
}

uint64_t dt_stage_goes(struct dt_sender *s, uint64_t bytes)
{
    return s->stage->underway_bytes += bytes;
}

void dt_stage_lost(struct dt_sender *s, uint64_t bytes)
{
    s->stage->underway_bytes -= bytes;
}

void dt_stage_came(struct dt_sender *s, uint64_t handed, uint64_t bytes, uint64_t underway_bytes)
{
    s->stage->underway_bytes -= bytes;
    if (s->stage->is_auto)
        decide(s, handed, underway_bytes);
}

/* In the order of the messages. A direct one may have been reported already; then its slot is free, and not
 * used again yet, since isend comes here first. */
static void reclaim(struct dt_sender *s)
{
    struct dt_stage *stage = s->stage;

    for (; stage->reclaim_next < s->next; stage->reclaim_next++) {
        uint32_t at = (uint32_t)stage->reclaim_next & (s->connection.slots - 1);
        struct dt_send_slot *slot = &s->slot[at];

        if (DT_PLANTED(STAGED_EARLY) && slot->state == DT_SEND_POSTED)
            give_back_memory(s, slot);
        if (slot->state != DT_SEND_DONE && slot->state != DT_SEND_FREE)
            return;
        if (stage->is_auto) {
            stage->underway_bytes -= bytes_of(slot);
            if (!slot->is_taken) /* which was judged when its payload had come */
                decide(s, slot->handed, stage->underway_at[at]);
        }
        if (slot->staged_mask)
            release_slot(s, slot);
    }
}

void dt_stage_progress(struct dt_sender *s)
{
    dt_sender_progress(s);
    if (!s->stage)
        return;
    reclaim(s);
    match(s);
    dt_ahead_progress(s);
}

uint32_t dt_stage_peer_closed(struct dt_sender *s, uint64_t count)
{
    struct dt_stage *stage = s->stage;
    uint32_t waiting = 0, come = 0;

    dt_list_for_each(node, &stage->queue)
    {
        waiting++;
        come += dt_ahead_has_come(s, dt_container_of(node, const struct dt_staged, node));
    }
    come = (uint32_t)dt_min_u64(come, count);
    if (waiting > come)
        return waiting - come;
    while (!dt_list_is_empty(&stage->queue)) {
        struct dt_staged *entry = dt_container_of(dt_list_pop_front(&stage->queue), struct dt_staged, node);

        if (entry->at)
            dt_pool_give(stage->pool, entry->at, entry->bytes);
        entry->at = NULL;
        deliver(s, entry);
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * isend, and its test
 */

/* An older isend with this tag waits: nobody overtakes it, though its clear-to-send may have come just now.
 */
static bool has_tag(const struct dt_stage *stage, int tag)
{
    for (const struct dt_list *node = stage->queue.next; node != &stage->queue; node = node->next) {
        if (dt_container_of(node, const struct dt_staged, node)->tag == tag)
            return true;
    }
    return false;
}

enum dt_status dt_stage_isend(struct dt_sender *s, void *data, uint32_t bytes, int tag,
                              struct dt_memory *memory, struct dt_request **request)
{
    struct dt_staged *entry = NULL;

    reclaim(s);
    match(s);
    if (dt_load_relaxed(&s->connection.failing) != DT_OK)
        return DT_OK;
    if ((!s->stage->is_auto || s->stage->decision.is_on) && (!memory || memory->is_host || memory->gpu))
        entry = stage_payload(s, data, bytes, tag, memory);
    if (!entry)
        return has_tag(s->stage, tag) ? DT_OK : dt_sender_isend_direct(s, data, bytes, tag, memory, request);
    if (memory)
        dt_count(&memory->open, 1);
    dt_count(&s->connection.open_requests, 1);
    dt_count(&s->stage->given_out, 1);
    dt_count(&s->stage->undelivered, 1);
    *request = &entry->request;
    match(s);
    dt_ahead_progress(s);
    return DT_OK;
}

/* A direct send: what is staged moves on as well, since the two may be parts of one message. */
static enum dt_status test_beside(struct dt_sender *s, struct dt_request *request, int *done, int *bytes)
{
    enum dt_status status;

    if (dt_connection_check(&s->connection) == DT_OK)
        dt_stage_progress(s);
    status = dt_send_test(request, done, bytes);
    /* It may have come just now, and the next isend may be far away: `auto` would take that for its time. */
    if (*done)
        reclaim(s);
    return status;
}

enum dt_status dt_stage_test(struct dt_request *request, int *done, int *bytes)
{
    struct dt_sender *s = dt_sender_of(request->connection);
    struct dt_staged *entry = &s->stage->entry[request->slot];
    enum dt_status status;
    bool was_copied;

    if (request->kind == DT_REQUEST_BESIDE)
        return test_beside(s, request, done, bytes);
    if (!request->is_open)
        return DT_INVALID;
    was_copied = dt_load_acquire(&entry->copies_left) == 0;
    status = dt_connection_check(&s->connection);
    if (status == DT_OK)
        dt_stage_progress(s);
    /* The caller's memory may still be read; whoever deregisters it, or closes, waits for that. */
    if (status != DT_OK && !entry->is_delivered)
        return status == DT_AGAIN ? DT_OK : status;
    if (!was_copied)
        help(entry);
    if (dt_load_acquire(&entry->copies_left) > 0)
        return DT_OK;
    if (__builtin_expect(has_failed(entry), 0)) {
        fail(entry);
        return DT_OK;
    }
    if (!was_copied) /* the next call may be far away */
        dt_stage_progress(s);
    if (bytes)
        *bytes = (int)entry->bytes;
    if (entry->memory)
        dt_count(&entry->memory->open, -1u);
    entry->memory = NULL;
    request->is_open = false;
    dt_count(&s->stage->given_out, -1u);
    if (entry->is_delivered)
        free_entry(s, entry);
    *done = 1;
    return DT_OK;
}
