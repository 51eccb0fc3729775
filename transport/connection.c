/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/connection.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/ahead.h"
#include "transport/landing.h"
#include "transport/line.h"
#include "transport/nic.h"
#include "transport/path.h"
#include "transport/staging.h"
#include "transport/work_id.h"

#define CACHE_LINE_BYTES 64

struct dt_connection *dt_connection_create(struct dt_net *net, struct dt_nic *nic, bool is_sender)
{
    size_t bytes = is_sender ? sizeof(struct dt_sender) : sizeof(struct dt_receiver);
    void *memory = aligned_alloc(CACHE_LINE_BYTES, dt_align_up(bytes, CACHE_LINE_BYTES));
    struct dt_connection *c;

    if (!memory)
        return NULL;
    memset(memory, 0, bytes);
    c = is_sender ? &((struct dt_sender *)memory)->connection : &((struct dt_receiver *)memory)->connection;
    if (pthread_mutex_init(&c->memory_mutex, NULL) != 0) {
        free(memory);
        return NULL;
    }
    c->line = dt_line_create();
    if (!c->line) {
        pthread_mutex_destroy(&c->memory_mutex);
        free(memory);
        return NULL;
    }
    dt_owner_init(&c->owner, net->has_membarrier);
    c->net = net;
    c->nic = nic;
    c->is_sender = is_sender;
    c->references = 1;
    if (is_sender)
        dt_sender_init(dt_sender_of(c));
    dt_meter_init(&c->meter, &net->ticks, is_sender);
    dt_list_init(&c->memories);
    dt_list_init(&c->node);
    return c;
}

static void free_memories(struct dt_connection *c)
{
    dt_list_for_each(node, &c->memories)
    {
        struct dt_memory *memory = dt_memory_of_node(node);

        dt_memory_deregister_all(c, memory);
        free(memory);
    }
}

void dt_connection_release(struct dt_connection *c)
{
    if (dt_fetch_sub_acq_rel(&c->references, 1) > 1)
        return;
    free_memories(c);
    dt_line_destroy(c->line);
    if (c->is_sender) {
        dt_stage_close(dt_sender_of(c));
        dt_gate_close(&dt_sender_of(c)->gate);
    } else {
        free(dt_receiver_of(c)->landings);
        dt_ahead_close(dt_receiver_of(c));
    }
    dt_meter_fini(&c->meter);
    pthread_mutex_destroy(&c->memory_mutex);
    free(c->is_sender ? (void *)dt_sender_of(c) : (void *)dt_receiver_of(c));
}

const char *dt_path_name(const struct dt_path *path)
{
    return path->nic->name;
}

bool dt_connection_is_sender(const struct dt_connection *connection)
{
    return connection->is_sender;
}

void dt_connection_choose_path(struct dt_connection *c)
{
    c->current = NULL;
    for (uint32_t p = c->path_count; p-- > 0;) {
        struct dt_path *path = &c->path[p];

        if (path->state == DT_PATH_UP)
            c->current = path;
        /* After a switch the peer may choose otherwise, and what it sent before is still under way. */
        path->is_polled = path->state != DT_PATH_NONE && c->has_switched;
    }
    if (c->current)
        c->current->is_polled = true;
    dt_meter_path(c);
}

/* ------------------------------------------------------------------------------------------------------------
 * Failing
 */

/* Milliseconds since anything was completed, or the connection was idle, as Detour's thread saw it. */
static unsigned long long stalled_ms(const struct dt_connection *c)
{
    uint64_t now_ns = dt_load_relaxed(&c->net->tick_ns);
    uint64_t since_ns = dt_load_relaxed(&c->progress_ns);

    return now_ns > since_ns ? (now_ns - since_ns) / DT_NS_PER_MS : 0;
}

void dt_connection_fail(struct dt_connection *c, enum dt_status status, const char *format, ...)
{
    char text[640];
    va_list args;

    if (dt_load_relaxed(&c->failing) != DT_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    dt_warn("connection %016llx %s %s on %s: %s (%u requests open, nothing completed for %llu ms)",
            (unsigned long long)c->id, c->is_sender ? "to" : "from", c->peer, c->nic->name, text,
            dt_load_relaxed(&c->open_requests), stalled_ms(c));
    dt_store_release(&c->failing, status);
    dt_connection_notify(c, DT_NOTICE_FAILING);
    dt_nic_wake(c->nic);
}

void dt_connection_suspect(struct dt_connection *c, struct dt_path *path, enum dt_fault fault)
{
    __atomic_fetch_or(&c->faults, 1u << (fault + path->index), __ATOMIC_ACQ_REL);
    dt_nic_wake(c->nic);
}

/* Nothing new goes over it; Detour's thread takes it from here. */
static void put_aside(struct dt_connection *c, struct dt_path *path, enum dt_fault fault)
{
    dt_store_relaxed(&path->state, (uint32_t)DT_PATH_NONE); /* is_quiet() of switch.c reads it at any time */
    c->has_switched = true;
    dt_connection_choose_path(c);
    dt_connection_suspect(c, path, fault);
}

void dt_connection_path_refused(struct dt_connection *c, struct dt_path *path, const char *what)
{
    if (path->state == DT_PATH_NONE)
        return;
    path->refusal = what;
    put_aside(c, path, DT_FAULT_REFUSED);
}

void dt_connection_path_failed(struct dt_connection *c, struct dt_path *path,
                               const struct dt_completion *completion)
{
    if (path->state == DT_PATH_NONE)
        return;
    path->bad_completion = *completion;
    dt_page_add(&c->meter.row->error_count, 1);
    if (dt_wc_status_class(path->nic->info.provider, completion->status) == DT_WC_CLASS_TRANSPORT) {
        put_aside(c, path, DT_FAULT_COMPLETION);
        return;
    }
    dt_connection_fail(c, DT_PEER_ERROR,
                       "path %u, %s to %s, queue pair %u to %u failed: %s (status %u, vendor_err 0x%x, %s "
                       "device); another path would fail the same way",
                       path->index, dt_path_name(path), path->peer_device, completion->qpn,
                       path->peer_qp[dt_work_decode(completion->wr_id).qp % DT_QPS_MAX].qpn,
                       dt_wc_status_text(completion->status), completion->status, completion->vendor_err,
                       dt_provider_text(path->nic->info.provider));
}

/* ------------------------------------------------------------------------------------------------------------
 * What Detour's thread found out
 */
/* Nothing has come from a peer that is gone for a while. */
static void attend_loss(struct dt_connection *c, uint32_t notices)
{
    if (!(notices & DT_NOTICE_PEER_CLOSED)) {
        if (dt_load_relaxed(&c->open_requests) > 0)
            dt_connection_fail(c, DT_PEER_ERROR,
                               "the peer is dead: its control channel ended without a goodbye, and where "
                               "its process listened nobody knows of this connection");
        return;
    }
    if (!c->is_sender) {
        struct dt_receiver *r = dt_receiver_of(c);
        uint64_t first = dt_receiver_first_missing(r);

        if (first < r->next && first < c->peer_close_sequence)
            dt_connection_fail(
                c, DT_PEER_ERROR,
                "message %llu was acknowledged, and the sender has closed, but it never came: the "
                "device that acknowledged it failed before it could be seen",
                (unsigned long long)first);
    }
}

/* What has arrived already counts, whatever happened afterwards. */
static void drain(struct dt_connection *c)
{
    uint32_t before;

    do {
        before = c->completions;
        dt_connection_progress(c);
    } while (c->completions != before);
}

/* A sender may close before its switch was heard of: what it wrote over another path has arrived all the
 * same. */
static void receive_on_all_paths(struct dt_connection *c)
{
    c->has_switched = true;
    dt_connection_choose_path(c);
    drain(c);
}

static void attend_peer(struct dt_connection *c, uint32_t notices, uint32_t news)
{
    if (news & DT_NOTICE_PEER_BROKEN)
        dt_connection_fail(c, DT_PROTOCOL,
                           "the peer sent something else than was agreed on the control channel");
    if (news & DT_NOTICE_PEER_CLOSED) {
        if (c->is_sender) {
            dt_sender_peer_closed(dt_sender_of(c), c->peer_close_sequence);
        } else {
            receive_on_all_paths(c);
            dt_receiver_peer_closed(dt_receiver_of(c), c->peer_close_sequence);
        }
    }
    if (news & DT_NOTICE_PEER_LOST)
        attend_loss(c, notices);
}

/* What waits to be posted or published again goes out as far as there is a path, and room on it. */
static void attend_again(struct dt_connection *c)
{
    uint32_t left;

    if (c->is_sender)
        dt_sender_post_again(dt_sender_of(c));
    else
        dt_receiver_publish_again(dt_receiver_of(c));
    left = c->is_sender ? dt_sender_of(c)->again : dt_receiver_of(c)->again;
    if (left == 0)
        __atomic_fetch_and(&c->notices, ~(uint32_t)DT_NOTICE_AGAIN, __ATOMIC_ACQ_REL);
}

enum dt_status dt_connection_attend(struct dt_connection *c)
{
    uint32_t notices = dt_load_acquire(&c->notices);
    uint32_t news = notices & ~c->attended;

    if (notices & DT_NOTICE_ABANDONED)
        return DT_CLOSED;
    if (notices & DT_NOTICE_FAILING)
        return dt_load_acquire(&c->error) ? (enum dt_status)c->error : DT_AGAIN;
    c->attended |= news & ~(uint32_t)DT_NOTICE_AGAIN;
    if (news != DT_NOTICE_AGAIN)
        drain(c);
    attend_peer(c, notices, news);
    if (news & DT_NOTICE_AGAIN)
        attend_again(c);
    return dt_load_relaxed(&c->failing) == DT_OK ? DT_OK : DT_AGAIN;
}

void dt_connection_progress(struct dt_connection *c)
{
    if (c->is_sender)
        dt_stage_progress(dt_sender_of(c));
    else
        dt_receiver_progress(dt_receiver_of(c));
}

/* ------------------------------------------------------------------------------------------------------------
 * Requests
 */
enum dt_status dt_test(struct dt_request *request, int *done, int *bytes)
{
    struct dt_connection *c = request->connection;
    enum dt_status status;

    *done = 0;
    if (!dt_owner_enter(&c->owner))
        return DT_OK;
    if (request->kind == DT_REQUEST_SEND)
        status = dt_send_test(request, done, bytes);
    else if (request->kind == DT_REQUEST_RECEIVE)
        status = dt_receive_test(request, done, bytes);
    else if (request->kind == DT_REQUEST_FLUSH)
        status = dt_flush_test(request, done, bytes);
    else if (request->kind == DT_REQUEST_LANDING)
        status = dt_landing_test(request, done, bytes);
    else if (request->kind == DT_REQUEST_AHEAD)
        status = dt_ahead_test(request, done, bytes);
    else
        status = dt_stage_test(request, done, bytes);
    dt_owner_leave(&c->owner);
    return status;
}
