/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/copy.h"

#include "base/check.h"
#include "base/util.h"

#define LINE_BYTES 128u

/* ------------------------------------------------------------------------------------------------------------
 * A copy
 */
/* Legal transitions; a copy that has ended starts again. */
static bool is_legal(enum dt_copy_state from, enum dt_copy_state to)
{
    switch (from) {
    case DT_COPY_RUNNING:
        return to != DT_COPY_IDLE && to != DT_COPY_RUNNING;
    case DT_COPY_FAILING:
        return to == DT_COPY_FAILED;
    case DT_COPY_IDLE:
    case DT_COPY_DONE:
    case DT_COPY_FAILED:
        break;
    }
    return to == DT_COPY_RUNNING;
}

static void enter(struct dt_copy *copy, enum dt_copy_state state)
{
    DT_CHECK(is_legal((enum dt_copy_state)copy->state, state));
    dt_store_release(&copy->state, (uint32_t)state);
}

/* No chunk is started any more; the copy is finished once none is in flight. */
static void fail(struct dt_copy *copy)
{
    dt_list_remove(&copy->node);
    enter(copy, copy->in_flight > 0 ? DT_COPY_FAILING : DT_COPY_FAILED);
}

void dt_copy_abandon(struct dt_copy *copy)
{
    if (dt_copy_state(copy) == DT_COPY_RUNNING && copy->started_bytes < copy->bytes)
        fail(copy);
}

void dt_copy_start(struct dt_copy *copy, struct dt_copy_lane *lane, void *to, const void *from,
                   uint64_t bytes, uint32_t chunk_bytes, uint32_t flags)
{
    DT_CHECK(dt_copy_is_finished(copy));
    DT_CHECK(chunk_bytes >= (flags & DT_COPY_POLLED ? LINE_BYTES : 1u));
    copy->lane = lane;
    copy->to = to;
    copy->from = from;
    copy->bytes = bytes;
    copy->started_bytes = 0;
    dt_store_release(&copy->done_bytes, 0u);
    copy->chunk_bytes = chunk_bytes;
    copy->flags = flags;
    copy->in_flight = 0;
    dt_list_init(&copy->node);
    enter(copy, DT_COPY_RUNNING);
    if (bytes == 0)
        enter(copy, DT_COPY_DONE);
    else if (lane->is_broken)
        enter(copy, DT_COPY_FAILED);
    else
        dt_list_push_back(&lane->copies, &copy->node);
}

/* The next chunk of the copy has arrived: a lane finishes its chunks in order. */
static void chunk_done(struct dt_copy *copy, uint32_t bytes)
{
    bool is_running = dt_copy_state(copy) == DT_COPY_RUNNING;

    DT_CHECK(copy->in_flight > 0 && bytes <= copy->started_bytes - copy->done_bytes);
    dt_store_release(&copy->done_bytes, copy->done_bytes + bytes);
    copy->in_flight--;
    if (is_running && copy->done_bytes == copy->bytes)
        enter(copy, DT_COPY_DONE);
    else if (!is_running && copy->in_flight == 0)
        enter(copy, DT_COPY_FAILED);
}

/* ------------------------------------------------------------------------------------------------------------
 * A lane
 */
void dt_copy_lane_init(struct dt_copy_lane *lane, const struct dt_copy_lane_ops *ops, uint32_t depth)
{
    DT_CHECK(depth >= 1 && depth <= DT_COPY_DEPTH_MAX);
    *lane = (struct dt_copy_lane){.ops = ops, .depth = depth};
    dt_list_init(&lane->copies);
}

/* Fails every copy of the lane: the chunks in flight are lost, and no chunk is started any more. */
static void break_lane(struct dt_copy_lane *lane)
{
    lane->is_broken = true;
    dt_list_for_each(node, &lane->copies) fail(dt_container_of(node, struct dt_copy, node));
    while (lane->finished != lane->started) {
        struct dt_copy *copy = lane->chunk[++lane->finished % DT_COPY_DEPTH_MAX].copy;

        if (dt_copy_state(copy) == DT_COPY_RUNNING) /* not in lane->copies: all its chunks were started */
            fail(copy);
        if (--copy->in_flight == 0)
            enter(copy, DT_COPY_FAILED);
    }
}

/* Collects the finished chunks. False: the lane is broken. */
static bool collect(struct dt_copy_lane *lane, uint64_t now_ns)
{
    uint32_t ticket = lane->finished;

    if (lane->finished == lane->started)
        return true;
    if (lane->ops->poll(lane, now_ns, &ticket) != DT_OK) {
        break_lane(lane);
        return false;
    }
    DT_CHECK(ticket - lane->finished <= lane->started - lane->finished &&
             lane->started - lane->finished <= lane->depth);
    while (lane->finished != ticket) {
        uint32_t at = ++lane->finished % DT_COPY_DEPTH_MAX;

        chunk_done(lane->chunk[at].copy, lane->chunk[at].bytes);
    }
    return true;
}

/* The next chunk's size. In polled memory no 128-byte line is split. */
static uint32_t next_bytes(const struct dt_copy *copy)
{
    uint64_t left = copy->bytes - copy->started_bytes;
    uint32_t over = (uint32_t)(((uintptr_t)copy->to + copy->started_bytes + copy->chunk_bytes) % LINE_BYTES);

    if (left <= copy->chunk_bytes)
        return (uint32_t)left;
    return copy->flags & DT_COPY_POLLED && over < copy->chunk_bytes ? copy->chunk_bytes - over
                                                                    : copy->chunk_bytes;
}

/* False: the lane has no room. */
static bool start_chunk(struct dt_copy_lane *lane, struct dt_copy *copy)
{
    uint32_t bytes = next_bytes(copy);
    uint32_t ticket = lane->started + 1;
    enum dt_status status;

    if (lane->started - lane->finished >= lane->depth)
        return false;
    status = lane->ops->start(lane, copy->to + copy->started_bytes, copy->from + copy->started_bytes, bytes,
                              copy->flags, ticket);
    if (status == DT_AGAIN)
        return false;
    if (status != DT_OK) {
        fail(copy);
        return true;
    }
    DT_CHECK(bytes > 0 && copy->started_bytes + bytes <= copy->bytes);
    lane->started = ticket;
    lane->chunk[ticket % DT_COPY_DEPTH_MAX].copy = copy;
    lane->chunk[ticket % DT_COPY_DEPTH_MAX].bytes = bytes;
    copy->in_flight++;
    copy->started_bytes += bytes;
    if (copy->started_bytes == copy->bytes)
        dt_list_remove(&copy->node);
    return true;
}

void dt_copy_lane_progress(struct dt_copy_lane *lane, uint64_t now_ns)
{
    if (!collect(lane, now_ns))
        return;
    while (!dt_list_is_empty(&lane->copies) &&
           start_chunk(lane, dt_container_of(lane->copies.next, struct dt_copy, node)))
        continue;
}
