/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving end when its peer closes, and the operations of a receiver. */
#include "transport/message/receive_end.h"

#include "base/check.h"
#include "transport/message/receive.h"

/* ------------------------------------------------------------------------------------------------------------
 * The peer closes
 */
/* A sender may close before this end has learned of a failed path: what it wrote over another one has
 * arrived. */
static void drain_all_paths(struct dt_connection *c)
{
    c->has_switched = true;
    dt_connection_choose_path(c);
    dt_connection_drain(c);
}

void dt_receiver_peer_closed(struct dt_connection *c, uint64_t sequence)
{
    struct dt_receiver *r = dt_receiver_of(c);
    uint32_t lost = 0;

    drain_all_paths(c);
    for (uint32_t i = 0; i < r->connection.slots; i++)
        lost += dt_recv_slot_is_missing(&r->slot[i]) && r->slot[i].sequence >= sequence;
    if (lost > 0)
        dt_connection_fail(c, DT_PEER_ERROR, "the sender closed with %u messages outstanding", lost);
}

void dt_receiver_peer_drained(struct dt_connection *c)
{
    const struct dt_receiver *r = dt_receiver_of(c);
    uint64_t first = dt_receiver_first_missing(r);

    if (first < r->next && first < c->peer_close_sequence)
        dt_connection_fail(c, DT_PEER_ERROR,
                           "message %llu was acknowledged, and the sender has closed, but it never came: the "
                           "device that acknowledged it failed before it could be seen",
                           (unsigned long long)first);
}

/* ------------------------------------------------------------------------------------------------------------
 * The operations of a receiver
 */
void dt_receiver_progress_end(struct dt_connection *c)
{
    dt_receiver_progress(dt_receiver_of(c));
}

uint32_t dt_receiver_post_again(struct dt_connection *c)
{
    dt_receiver_publish_again(dt_receiver_of(c));
    return dt_receiver_of(c)->again;
}

uint32_t dt_receiver_count_again(const struct dt_connection *c)
{
    return dt_container_of(c, const struct dt_receiver, connection)->again;
}

uint64_t dt_receiver_close_sequence(const struct dt_connection *c)
{
    return dt_receiver_first_missing(dt_container_of(c, const struct dt_receiver, connection));
}

/* Receives may be open merely because NCCL has not tested them since their messages arrived, and a flush
 * needs only this end's devices. */
bool dt_receiver_needs_peer(const struct dt_connection *c)
{
    const struct dt_receiver *r = dt_container_of(c, const struct dt_receiver, connection);

    return dt_receiver_first_missing(r) < r->next;
}

static bool reject_arrival(struct dt_receiver *r, struct dt_path *path,
                           const struct dt_completion *completion)
{
    (void)r;
    (void)path;
    (void)completion;
    return false;
}

static void no_copies(struct dt_receiver *r)
{
    (void)r;
}

static void no_snapshot(const struct dt_receiver *r, struct dt_resume *resume)
{
    (void)r;
    (void)resume;
}

const struct dt_end_ops dt_receiver_ops = {
    .direction = "from",
    .progress = dt_receiver_progress_end,
    .peer_closed = dt_receiver_peer_closed,
    .needs_peer = dt_receiver_needs_peer,
    .peer_drained = dt_receiver_peer_drained,
    .post_again = dt_receiver_post_again,
    .count_again = dt_receiver_count_again,
    .close_sequence = dt_receiver_close_sequence,
    .close = dt_end_nothing,
    .finish_copies = dt_end_nothing,
    .forget_memory = dt_end_no_memory,
    .session_started = dt_end_nothing,
    .frame = dt_end_no_frame,
    .undelivered = dt_end_undelivered_none,
    .may_linger = dt_end_never,
    .arrival = {[DT_IMM_EAGER] = reject_arrival, [DT_IMM_TAKE] = reject_arrival},
    .progress_copies = no_copies,
    .snapshot = no_snapshot,
};
