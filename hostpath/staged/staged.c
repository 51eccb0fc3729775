/* SPDX-License-Identifier: Apache-2.0 */
/* The host path of a connection: set-up, irecv, and the operations of the two kinds of end. */
#include "hostpath/staged/staged.h"

#include "base/check.h"
#include "failover/planted.h"
#include "hostpath/staged/eager_place.h"
#include "hostpath/staged/eager_receive.h"
#include "hostpath/staged/eager_store.h"
#include "hostpath/staged/eager_take.h"
#include "hostpath/staged/gpu_bounce.h"
#include "hostpath/staged/stage_copy.h"
#include "hostpath/staged/stage_deliver.h"
#include "hostpath/staged/stage_match.h"
#include "hostpath/staged/stage_send.h"
#include "transport/message/receive.h"
#include "transport/message/receive_end.h"
#include "transport/message/send.h"
#include "transport/message/send_again.h"
#include "transport/path/nic.h"

/* ------------------------------------------------------------------------------------------------------------
 * The operations of a sender with a stage
 */
static void send_progress(struct dt_connection *c)
{
    dt_stage_progress(dt_sender_of(c));
}

static void send_peer_closed(struct dt_connection *c, uint64_t sequence)
{
    dt_stage_peer_closed(dt_sender_of(c), sequence);
}

static uint32_t send_post_again(struct dt_connection *c)
{
    return dt_stage_post_again(dt_sender_of(c));
}

static void send_close(struct dt_connection *c)
{
    dt_stage_close(dt_sender_of(c));
    dt_sender_close(c);
}

static void send_finish_copies(struct dt_connection *c)
{
    dt_stage_finish_copies(dt_sender_of(c)->stage);
}

static enum dt_status send_frame(struct dt_connection *c, const struct dt_frame *frame)
{
    return dt_eager_frame(dt_sender_of(c), frame);
}

static uint32_t undelivered(const struct dt_connection *c)
{
    const struct dt_sender *s = dt_container_of(c, const struct dt_sender, connection);

    return dt_load_acquire(&s->stage->undelivered);
}

static bool may_linger(struct dt_connection *c)
{
    const struct dt_stage *stage = dt_sender_of(c)->stage;

    send_finish_copies(c);
    return dt_load_relaxed(&stage->given_out) == 0 && !DT_PLANTED(STAGED_CLOSE);
}

static const struct dt_end_ops staged_sender_ops = {
    .direction = "to",
    .progress = send_progress,
    .peer_closed = send_peer_closed,
    .needs_peer = dt_sender_needs_peer,
    .peer_drained = dt_end_nothing,
    .post_again = send_post_again,
    .count_again = dt_sender_count_again,
    .close_sequence = dt_sender_close_sequence,
    .close = send_close,
    .finish_copies = send_finish_copies,
    .forget_memory = dt_end_no_memory,
    .session_started = dt_end_nothing,
    .frame = send_frame,
    .undelivered = undelivered,
    .may_linger = may_linger,
    .completed = dt_eager_completed,
    .settle = dt_eager_settle,
    .announce_again = dt_eager_announce_again,
};

/* ------------------------------------------------------------------------------------------------------------
 * The operations of a receiver
 */
static void receive_close(struct dt_connection *c)
{
    dt_bounce_close(dt_receiver_of(c));
    dt_eager_close(dt_receiver_of(c));
}

static void receive_finish_copies(struct dt_connection *c)
{
    dt_bounce_finish_copies(dt_receiver_of(c));
    dt_eager_finish_copies(dt_receiver_of(c));
}

static void session_started(struct dt_connection *c)
{
    dt_eager_grant(dt_receiver_of(c));
}

static void progress_copies(struct dt_receiver *r)
{
    if (r->gpu_bounce)
        dt_bounce_progress(r);
    if (r->eager)
        dt_eager_finish_copied(r);
}

static const struct dt_end_ops staged_receiver_ops = {
    .direction = "from",
    .progress = dt_receiver_progress_end,
    .peer_closed = dt_receiver_peer_closed,
    .needs_peer = dt_receiver_needs_peer,
    .peer_drained = dt_receiver_peer_drained,
    .post_again = dt_receiver_post_again,
    .count_again = dt_receiver_count_again,
    .close_sequence = dt_receiver_close_sequence,
    .close = receive_close,
    .finish_copies = receive_finish_copies,
    .forget_memory = dt_bounce_buffer_destroy,
    .session_started = session_started,
    .frame = dt_end_no_frame,
    .undelivered = dt_end_undelivered_none,
    .may_linger = dt_end_never,
    .arrival = {[DT_IMM_EAGER] = dt_eager_arrive, [DT_IMM_TAKE] = dt_eager_take},
    .progress_copies = progress_copies,
    .snapshot = dt_eager_snapshot,
};

/* ------------------------------------------------------------------------------------------------------------
 * Set-up
 */
void dt_staged_prepare(struct dt_connection *c)
{
    if (!c->environment->hostpath->is_on)
        return;
    if (c->is_sender) {
        dt_stage_offer_region(c);
        return;
    }
    c->ops = &staged_receiver_ops;
    dt_eager_open(c);
}

/* isend and irecv come here from now on. */
static void attract_calls(struct dt_connection *c)
{
    c->attended |= DT_NOTICE_STAGED;
    dt_connection_notify(c, DT_NOTICE_STAGED);
}

static enum dt_status open_sender(struct dt_sender *s)
{
    enum dt_status status = dt_stage_open(s);

    if (status != DT_OK || !s->stage)
        return status;
    s->connection.ops = &staged_sender_ops;
    dt_sender_init(s, dt_stage_test_direct);
    attract_calls(&s->connection);
    return DT_OK;
}

enum dt_status dt_staged_open(struct dt_connection *c)
{
    if (c->is_sender)
        return open_sender(dt_sender_of(c));
    if (dt_receiver_of(c)->eager)
        attract_calls(c);
    return DT_OK;
}

enum dt_status dt_staged_isend(struct dt_sender *s, void *data, uint32_t bytes, int tag,
                               struct dt_memory *memory, struct dt_request **request)
{
    return dt_stage_isend(s, data, bytes, tag, memory, request);
}

void dt_staged_add_gpu_memory(struct dt_connection *c, struct dt_memory *memory, uint32_t missing_mask)
{
    struct dt_gpu *gpu = NULL;

    if (c->is_sender || missing_mask)
        gpu = dt_stage_gpu_of(c, (const void *)(uintptr_t)memory->addr);
    if (!gpu)
        return;
    if (c->is_sender)
        memory->gpu = gpu;
    else
        dt_bounce_buffer_create(c, memory, gpu, missing_mask);
}

/* ------------------------------------------------------------------------------------------------------------
 * irecv
 */
bool dt_staged_irecv(struct dt_receiver *r, unsigned n, void *const *data, const uint32_t *bytes,
                     const int *tags, struct dt_memory *const *memories, struct dt_request **request)
{
    struct dt_recv_slot *slot;
    struct dt_cts_row *row;

    /* The slot's last message may have been reported before its TAKE, and nothing has polled for that since.
     */
    if (r->eager && dt_receiver_slot(r, r->next)->state != DT_RECV_FREE)
        dt_receiver_progress(r);
    slot = dt_receiver_open(r, n, bytes, memories);
    if (!slot)
        return false;
    *request = &slot->request;
    if (r->gpu_bounce)
        dt_bounce_await(r, slot, data);
    if (r->eager)
        dt_eager_await(r, slot, data, tags);
    row = dt_receiver_fill_row(r, slot, data, tags);
    if (r->eager)
        dt_eager_fill(r, slot, &row->entry[0]);
    dt_receiver_publish(r, slot);
    if (r->eager)
        dt_eager_look(r, slot);
    return true;
}
