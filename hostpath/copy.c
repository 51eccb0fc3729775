/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/copy.h"

#include "base/check.h"
#include "base/util.h"

#define LINE_BYTES 128u

/* ------------------------------------------------------------------------------------------------------------
 * A copy
 */
static void enter(struct dt_copy *copy, enum dt_copy_state state)
{
    dt_store_release(&copy->state, (uint32_t)state);
}

/* It is at rest as soon as nothing of it is on its way. */
static void end(struct dt_copy *copy, enum dt_copy_state rest)
{
    dt_list_remove(&copy->node);
    copy->rest = rest;
    enter(copy, copy->on_way > 0 ? DT_COPY_CANCELLING : rest);
}

void dt_copy_start(struct dt_copy *copy, struct dt_copy_lane *lane, void *to, const void *from,
                   uint64_t bytes, uint32_t chunk_bytes, uint32_t flags)
{
    DT_CHECK(dt_copy_is_at_rest(copy));
    DT_CHECK(chunk_bytes >= (flags & DT_COPY_POLLED ? LINE_BYTES : 1u));
    copy->lane = lane;
    copy->to = to;
    copy->from = from;
    copy->bytes = bytes;
    copy->started_bytes = 0;
    dt_store_release(&copy->done_bytes, 0u);
    copy->chunk_bytes = chunk_bytes;
    copy->flags = flags;
    copy->on_way = 0;
    dt_list_init(&copy->node);
    if (bytes > 0 && !lane->is_broken)
        dt_list_push_back(&lane->copies, &copy->node);
    enter(copy, bytes == 0 ? DT_COPY_DONE : lane->is_broken ? DT_COPY_FAILED : DT_COPY_RUNNING);
}

void dt_copy_cancel(struct dt_copy *copy)
{
    if (dt_copy_state(copy) == DT_COPY_RUNNING)
        end(copy, DT_COPY_CANCELLED);
}

/* One chunk more has arrived; the lane keeps the order. */
static void chunk_done(struct dt_copy *copy, uint32_t bytes)
{
    bool is_running = dt_copy_state(copy) == DT_COPY_RUNNING;

    dt_store_release(&copy->done_bytes, copy->done_bytes + bytes);
    copy->on_way--;
    if (is_running && copy->done_bytes == copy->bytes)
        enter(copy, DT_COPY_DONE);
    else if (!is_running && copy->on_way == 0)
        enter(copy, (enum dt_copy_state)copy->rest);
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

/* Nothing that was started goes on, and nothing more is started. */
static void break_lane(struct dt_copy_lane *lane)
{
    lane->is_broken = true;
    dt_list_for_each(node, &lane->copies) end(dt_container_of(node, struct dt_copy, node), DT_COPY_FAILED);
    while (lane->finished != lane->started) {
        struct dt_copy *copy = lane->chunk[++lane->finished % DT_COPY_DEPTH_MAX].copy;

        if (dt_copy_state(copy) == DT_COPY_RUNNING) /* all of it was started */
            end(copy, DT_COPY_FAILED);
        if (--copy->on_way == 0)
            enter(copy, (enum dt_copy_state)copy->rest);
    }
}

/* Takes in what has finished. False: the lane is broken. */
static bool collect(struct dt_copy_lane *lane, uint64_t now_ns)
{
    uint32_t ticket = lane->finished;

    if (lane->finished == lane->started)
        return true;
    if (lane->ops->poll(lane, now_ns, &ticket) != DT_OK) {
        break_lane(lane);
        return false;
    }
    DT_CHECK(ticket - lane->finished <= lane->started - lane->finished);
    while (lane->finished != ticket) {
        uint32_t at = ++lane->finished % DT_COPY_DEPTH_MAX;

        chunk_done(lane->chunk[at].copy, lane->chunk[at].bytes);
    }
    return true;
}

/* The next chunk's size. Where a GPU reads along no line is split. */
static uint32_t next_bytes(const struct dt_copy *copy)
{
    uint64_t left = copy->bytes - copy->started_bytes;
    uint32_t over = (uint32_t)(((uintptr_t)copy->to + copy->started_bytes + copy->chunk_bytes) % LINE_BYTES);

    if (left <= copy->chunk_bytes)
        return (uint32_t)left;
    return copy->flags & DT_COPY_POLLED && over < copy->chunk_bytes ? copy->chunk_bytes - over
                                                                    : copy->chunk_bytes;
}

/* False: the lane has no room now. */
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
        end(copy, DT_COPY_FAILED);
        return true;
    }
    lane->started = ticket;
    lane->chunk[ticket % DT_COPY_DEPTH_MAX].copy = copy;
    lane->chunk[ticket % DT_COPY_DEPTH_MAX].bytes = bytes;
    copy->on_way++;
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
