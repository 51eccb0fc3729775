/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/connection.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/path/nic.h"
#include "transport/path/path.h"
#include "transport/protocol/work_id.h"

void dt_connection_choose_path(struct dt_connection *c)
{
    c->current = NULL;
    for (uint32_t p = c->path_count; p-- > 0;) {
        struct dt_path *path = &c->path[p];

        DT_CHECK(path->connection == c && path->index == p);
        if (path->state == DT_PATH_UP)
            c->current = path;
        /* After a switchover the peer may choose another path, and earlier messages are still in flight. */
        path->is_polled = path->state != DT_PATH_NONE && c->has_switched;
    }
    if (c->current)
        c->current->is_polled = true;
    dt_meter_path(c);
}

/* ------------------------------------------------------------------------------------------------------------
 * Failing
 */

/* Milliseconds since the device thread last saw a completion or an idle connection. */
static unsigned long long stalled_ms(const struct dt_connection *c)
{
    uint64_t now_ns = dt_load_relaxed(&c->environment->tick_ns);
    uint64_t since_ns = dt_load_relaxed(&c->progress_ns);

    return now_ns > since_ns ? (now_ns - since_ns) / DT_NS_PER_MS : 0;
}

void dt_connection_fail(struct dt_connection *c, enum dt_status status, const char *format, ...)
{
    char text[640];
    va_list args;

    DT_CHECK(status != DT_OK && status != DT_AGAIN);
    if (dt_load_relaxed(&c->failing) != DT_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    dt_warn("connection-failed",
            "connection %016llx %s %s on %s: %s (%u requests open, nothing completed for %llu ms)",
            (unsigned long long)c->id, c->ops->direction, c->peer, c->nic->name, text,
            dt_load_relaxed(&c->open_requests), stalled_ms(c));
    dt_store_release(&c->failing, status);
    dt_connection_notify(c, DT_NOTICE_FAILING);
    dt_nic_wake(c->nic);
}

void dt_connection_suspect(struct dt_connection *c, struct dt_path *path, enum dt_fault fault)
{
    DT_CHECK(path == &c->path[path->index] && path->index < c->path_count);
    __atomic_fetch_or(&c->faults, 1u << (fault + path->index), __ATOMIC_ACQ_REL);
    dt_nic_wake(c->nic);
}

/* No new message uses the path; the device thread continues with its switchover. */
static void put_aside(struct dt_connection *c, struct dt_path *path, enum dt_fault fault)
{
    DT_CHECK(path->connection == c && path->state != DT_PATH_NONE);
    dt_store_relaxed(&path->state,
                     (uint32_t)DT_PATH_NONE); /* is_quiet() of switchover.c reads it at any time */
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
 * Notices of the device thread
 */
/* The peer is dead, or has closed and no more messages have arrived from it for some time. */
static void attend_loss(struct dt_connection *c, uint32_t notices)
{
    if (notices & DT_NOTICE_PEER_CLOSED)
        c->ops->peer_drained(c);
    else if (c->ops->needs_peer(c))
        dt_connection_fail(c, DT_PEER_ERROR, DT_PEER_DEAD_TEXT);
}

void dt_connection_drain(struct dt_connection *c)
{
    uint32_t before;

    do {
        before = c->completions;
        dt_connection_progress(c);
    } while (c->completions != before);
}

static void attend_peer(struct dt_connection *c, uint32_t notices, uint32_t news)
{
    if (news & DT_NOTICE_PEER_BROKEN)
        dt_connection_fail(c, DT_PROTOCOL,
                           "the peer sent something else than was agreed on the control channel");
    if (news & DT_NOTICE_PEER_CLOSED)
        c->ops->peer_closed(c, c->peer_close_sequence);
    if (news & DT_NOTICE_PEER_LOST)
        attend_loss(c, notices);
}

/* The next round of the device thread visits the connection (turns.h). Returns the notices that are left. */
static uint32_t rouse(struct dt_connection *c)
{
    uint32_t left = __atomic_and_fetch(&c->notices, ~(uint32_t)DT_NOTICE_RESTING, __ATOMIC_ACQ_REL);

    if (dt_exchange_acq_rel(&c->is_roused, 1u))
        return left;
    c->roused_next = dt_load_relaxed(&c->nic->roused);
    while (!dt_compare_swap(&c->nic->roused, &c->roused_next, c)) {
    }
    return left;
}

enum dt_status dt_connection_attend(struct dt_connection *c)
{
    uint32_t notices = dt_load_acquire(&c->notices);

    if (notices & DT_NOTICE_RESTING)
        notices = rouse(c);
    if (notices == c->attended)
        return DT_OK;
    uint32_t news = notices & ~c->attended;

    if (notices & DT_NOTICE_ABANDONED)
        return DT_CLOSED;
    if (notices & DT_NOTICE_FAILING)
        return dt_load_acquire(&c->error) ? (enum dt_status)c->error : DT_AGAIN;
    DT_CHECK((c->attended & ~notices) == 0 && !(c->attended & DT_NOTICE_AGAIN));
    c->attended |= news & ~(uint32_t)DT_NOTICE_AGAIN;
    if (news != DT_NOTICE_AGAIN)
        dt_connection_drain(c);
    attend_peer(c, notices, news);
    if (news & DT_NOTICE_AGAIN && c->ops->post_again(c) == 0)
        __atomic_fetch_and(&c->notices, ~(uint32_t)DT_NOTICE_AGAIN, __ATOMIC_ACQ_REL);
    return dt_load_relaxed(&c->failing) == DT_OK ? DT_OK : DT_AGAIN;
}

/* ------------------------------------------------------------------------------------------------------------
 * Operations of an end that has nothing to do for them
 */
void dt_end_nothing(struct dt_connection *c)
{
    (void)c;
}

void dt_end_no_memory(struct dt_connection *c, struct dt_memory *memory)
{
    (void)c;
    (void)memory;
}

enum dt_status dt_end_no_frame(struct dt_connection *c, const struct dt_frame *frame)
{
    (void)c;
    (void)frame;
    return DT_PROTOCOL;
}

uint32_t dt_end_undelivered_none(const struct dt_connection *c)
{
    (void)c;
    return 0;
}

bool dt_end_never(struct dt_connection *c)
{
    (void)c;
    return false;
}
