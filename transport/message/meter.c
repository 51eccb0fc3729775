/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/util.h"
#include "detect/sampler.h"
#include "transport/message/connection.h"
#include "transport/path/nic.h"

#define NO_TAG INT32_MIN

void dt_meter_init(struct dt_meter *meter, const struct dt_ticks *ticks, bool is_sender)
{
    meter->row = &meter->own;
    meter->ticks = ticks;
    meter->tag = NO_TAG;
    if (!is_sender)
        return;
    meter->sample = calloc(DT_METER_SAMPLES, sizeof *meter->sample);
    meter->room = meter->sample ? DT_METER_SAMPLES_EACH : 0;
}

void dt_meter_fini(struct dt_meter *meter)
{
    free(meter->sample);
}

/* ------------------------------------------------------------------------------------------------------------
 * Samples of several messages
 */
static uint64_t after(uint64_t later, uint64_t earlier)
{
    return later > earlier ? later - earlier : 0;
}

static void merge(struct dt_sample *kept, const struct dt_sample *message)
{
    uint64_t service = after(message->done, message->submitted);

    if (kept->messages == 0) {
        *kept = *message;
        kept->service = service;
        return;
    }
    kept->idle += after(message->submitted, kept->done);
    kept->waited += after(message->submitted, dt_max_u64(message->requested, kept->done));
    kept->done = dt_max_u64(message->done, kept->done);
    kept->bytes += message->bytes;
    kept->service += service;
    kept->messages++;
}

static void leave_kept(struct dt_meter *meter)
{
    DT_CHECK(meter->kept.messages > 0);
    DT_CHECK(meter->head - dt_load_acquire(&meter->tail) < DT_METER_SAMPLES);
    if (meter->kept.messages > 1)
        dt_store_relaxed(&meter->merged, meter->merged + meter->kept.messages);
    meter->sample[meter->head % DT_METER_SAMPLES] = meter->kept;
    dt_store_release(&meter->head, meter->head + 1);
    meter->kept.messages = 0;
}

void dt_meter_keep(struct dt_meter *meter, uint64_t requested, uint64_t submitted, uint64_t done,
                   uint64_t bytes)
{
    struct dt_sample message = {
        .requested = requested, .submitted = submitted, .done = done, .bytes = bytes, .messages = 1};
    struct dt_sample *kept = &meter->kept;
    uint32_t taken = meter->head - dt_load_acquire(&meter->tail);
    bool has_room = taken < DT_METER_SAMPLES;

    if (meter->room == 0)
        return;
    DT_CHECK(taken <= DT_METER_SAMPLES && meter->is_keeping == (kept->messages > 0));
    /* Detection has to see a pause, so the messages before it get a sample of their own. */
    if (has_room && kept->messages &&
        dt_ticks_to_ns(meter->ticks, after(submitted, kept->done)) > DT_SAMPLER_IDLE_NS) {
        leave_kept(meter);
        has_room = ++taken < DT_METER_SAMPLES;
    }
    merge(kept, &message);
    if (has_room && (taken < DT_METER_SAMPLES_EACH || kept->messages >= DT_METER_MERGED))
        leave_kept(meter);
    dt_store_release(&meter->is_keeping, kept->messages > 0);
}

/* ------------------------------------------------------------------------------------------------------------
 * The row
 */
static void describe_paths(const struct dt_connection *c, struct dt_page_connection *row)
{
    row->path_count = c->path_count;
    for (uint32_t p = 0; p < c->path_count && p < DT_PAGE_PATHS; p++) {
        const struct dt_path *path = &c->path[p];

        snprintf(row->path[p].own, sizeof row->path[p].own, "%.31s", path->nic ? path->nic->name : "");
        snprintf(row->path[p].peer, sizeof row->path[p].peer, "%.31s", path->peer_device);
    }
}

void dt_meter_open(struct dt_connection *c, uint64_t now_ns)
{
    struct dt_meter *meter = &c->meter;
    struct dt_page *page = c->environment->page;
    struct dt_page_connection *row = &meter->own;

    DT_CHECK(meter->row == row); /* no row is claimed */
    row->is_send = c->is_sender;
    row->id = c->id;
    row->opened_ns = now_ns;
    row->from_rank = DT_PAGE_RANK_UNKNOWN;
    snprintf(row->peer, sizeof row->peer, "%.95s", c->peer);
    describe_paths(c, row);
    if (page)
        meter->row = dt_page_claim_connection(page, row);
    dt_meter_path(c);
}

void dt_meter_close(struct dt_connection *c)
{
    struct dt_page_connection *row = c->meter.row;

    if (row == &c->meter.own)
        return;
    c->meter.row = &c->meter.own;
    dt_page_release_connection(c->environment->page, row);
}

void dt_meter_path(struct dt_connection *c)
{
    DT_CHECK(!c->current || c->current == &c->path[c->current->index]);
    dt_store_relaxed(&c->meter.row->path_now, c->current ? c->current->index : UINT32_MAX);
}

struct dt_event_record dt_meter_event(const struct dt_connection *c, enum dt_event_kind kind,
                                      uint64_t time_ns, const struct dt_path *path)
{
    struct dt_event_record event = dt_event_of(kind, time_ns);
    const struct dt_page_connection *row = c->meter.row;

    if (row != &c->meter.own)
        event.subject = dt_page_connection_row(c->environment->page, row);
    event.connection = c->id;
    event.is_send = c->is_sender;
    event.from_rank = dt_load_relaxed(&row->from_rank);
    snprintf(event.peer, sizeof event.peer, "%.95s", c->peer);
    if (path) {
        event.path = (int32_t)path->index;
        snprintf(event.nic, sizeof event.nic, "%.31s", path->nic ? path->nic->name : "");
        snprintf(event.peer_nic, sizeof event.peer_nic, "%.31s", path->peer_device);
    }
    return event;
}

void dt_meter_tag_changed(struct dt_meter *meter, int32_t tag)
{
    bool is_first = meter->tag == NO_TAG;

    meter->tag = tag;
    if (is_first) /* NCCL's progress thread; one system call per connection */
        dt_store_relaxed(&meter->owner_tid, (int32_t)syscall(SYS_gettid));
    dt_store_relaxed(&meter->row->from_rank, !is_first  ? DT_PAGE_RANK_SEVERAL
                                             : tag >= 0 ? tag
                                                        : DT_PAGE_RANK_UNKNOWN);
}

void dt_meter_held(struct dt_meter *meter, uint64_t held_ns)
{
    if (meter->requested != 0)
        meter->requested = dt_ticks_now(meter->ticks);
    if (held_ns == 0)
        return;
    dt_page_add(&meter->row->held_count, 1);
    dt_page_add(&meter->row->held_ns, held_ns);
}
