/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end: posting again, the peer's end, and the operations of a sender. */
#include "transport/message/send_again.h"

#include "base/check.h"
#include "transport/message/send.h"
#include "transport/session/channel.h"

/* ------------------------------------------------------------------------------------------------------------
 * Posting again
 */
uint64_t dt_sender_first_again(const struct dt_sender *s)
{
    return s->next_post > s->connection.slots ? s->next_post - s->connection.slots : 0;
}

struct dt_send_slot *dt_sender_find_again(struct dt_sender *s, uint64_t *sequence)
{
    for (; s->again > 0 && *sequence < s->next_post; ++*sequence) {
        struct dt_send_slot *slot = dt_sender_slot(s, *sequence);

        if (slot->sequence == *sequence && slot->state == DT_SEND_READY)
            return slot;
    }
    return NULL;
}

bool dt_sender_repost(struct dt_sender *s, struct dt_send_slot *slot)
{
    DT_CHECK(s->again > 0 && slot->state == DT_SEND_READY && slot->sequence < s->next_post);
    if (!dt_sender_post_whole(s, slot))
        return false;
    s->again--;
    return true;
}

static uint32_t post_again(struct dt_connection *c)
{
    struct dt_sender *s = dt_sender_of(c);
    uint64_t sequence = dt_sender_first_again(s);
    struct dt_send_slot *slot;

    DT_CHECK(s->again <= s->connection.slots && s->next_post <= s->next);
    while ((slot = dt_sender_find_again(s, &sequence)) && dt_sender_repost(s, slot))
        continue;
    return s->again;
}

uint32_t dt_sender_count_again(const struct dt_connection *c)
{
    return dt_container_of(c, const struct dt_sender, connection)->again;
}

/* ------------------------------------------------------------------------------------------------------------
 * The peer closes, or an epoch is settled
 */
uint32_t dt_sender_complete_closed(struct dt_sender *s, uint64_t sequence)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < s->connection.slots; i++) {
        struct dt_send_slot *slot = &s->slot[i];

        /* It has it; only the acknowledgement was lost. */
        if (slot->sequence < sequence && slot->sequence < s->next_post &&
            (slot->state == DT_SEND_POSTED || slot->state == DT_SEND_READY)) {
            DT_CHECK(slot->state != DT_SEND_READY || s->again > 0);
            s->again -= slot->state == DT_SEND_READY;
            dt_sender_complete(s, slot);
        }
        left += slot->state == DT_SEND_POSTED || slot->state == DT_SEND_READY ||
                slot->state == DT_SEND_PARTIAL || (slot->state == DT_SEND_MATCHING && slot->taken_mask);
    }
    return left;
}

void dt_sender_fail_closed(struct dt_sender *s, uint32_t left)
{
    if (left > 0)
        dt_connection_fail(&s->connection, DT_PEER_ERROR, "the receiver closed with %u messages outstanding",
                           left);
}

/* ------------------------------------------------------------------------------------------------------------
 * The operations of a sender
 */
static void progress_connection(struct dt_connection *c)
{
    dt_sender_progress(dt_sender_of(c));
}

static void peer_closed(struct dt_connection *c, uint64_t sequence)
{
    struct dt_sender *s = dt_sender_of(c);

    dt_sender_fail_closed(s, dt_sender_complete_closed(s, sequence));
}

uint64_t dt_sender_close_sequence(const struct dt_connection *c)
{
    return dt_sender_first_incomplete(dt_container_of(c, const struct dt_sender, connection));
}

bool dt_sender_needs_peer(const struct dt_connection *c)
{
    return dt_load_relaxed(&c->open_requests) > 0;
}

void dt_sender_close(struct dt_connection *c)
{
    dt_gate_close(&dt_sender_of(c)->gate);
}

static void ignore_completion(struct dt_sender *s, const struct dt_work *work)
{
    (void)s;
    (void)work;
}

/* A receiver may grant memory for eager payloads although this end stages nothing. */
static enum dt_status ignore_grant(struct dt_connection *c, const struct dt_frame *frame)
{
    struct dt_grant grant;

    if (frame->type != DT_FRAME_GRANT)
        return DT_PROTOCOL;
    return dt_grant_decode(frame->body, frame->bytes, c->path_count, &grant);
}

static void settle_nothing(struct dt_path *path, const struct dt_resume *resume)
{
    (void)resume;
    (void)path;
}

static bool announce_nothing(struct dt_sender *s, const struct dt_send_slot *slot)
{
    (void)s;
    (void)slot;
    return false;
}

const struct dt_end_ops dt_sender_ops = {
    .direction = "to",
    .progress = progress_connection,
    .peer_closed = peer_closed,
    .needs_peer = dt_sender_needs_peer,
    .peer_drained = dt_end_nothing,
    .post_again = post_again,
    .count_again = dt_sender_count_again,
    .close_sequence = dt_sender_close_sequence,
    .close = dt_sender_close,
    .finish_copies = dt_end_nothing,
    .forget_memory = dt_end_no_memory,
    .session_started = dt_end_nothing,
    .frame = ignore_grant,
    .undelivered = dt_end_undelivered_none,
    .may_linger = dt_end_never,
    .completed = ignore_completion,
    .settle = settle_nothing,
    .announce_again = announce_nothing,
};
