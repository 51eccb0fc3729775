/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mailbox of a path: frames (frames.h) that the peer writes into this end's memory with the path's probe
 * queue pair. Part of the path's control memory (memory_layout.h).
 *
 * - The inbox, written by the peer: the bell, which is the sequence of the last frame, then DT_MAILBOX_SLOTS
 *   slots.
 * - The outbox, as many slots: the source of this end's writes.
 *
 * Frame n (1, 2, ...) is written to slot n modulo DT_MAILBOX_SLOTS, then its sequence to the bell, on one
 * queue pair. Nothing is acknowledged: a slot may be overwritten before it was read, and a late write of an
 * earlier epoch's queue pair may replace or tear a newer one. A reader copies the slot and compares the
 * sequence before and after the copy, and the check value with the copy, so a torn slot is no frame. A frame
 * that is lost is repeated by its sender, as one that is lost with a TCP channel.
 */
#ifndef DETOUR_TRANSPORT_PROTOCOL_MAILBOX_H
#define DETOUR_TRANSPORT_PROTOCOL_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_MAILBOX_SLOTS 4u
/* Holds each frame about a path of up to DT_QPS_IN_BAND_MAX queue pairs: the longest is OPEN. */
#define DT_MAILBOX_FRAME_BYTES 392u
#define DT_MAILBOX_FRAME_WORDS (DT_MAILBOX_FRAME_BYTES / 8)

struct dt_mailbox_slot {
    uint64_t sequence;
    uint64_t check;                         /* of the sequence and the frame */
    uint64_t frame[DT_MAILBOX_FRAME_WORDS]; /* its bytes */
};

struct dt_mailbox {
    uint64_t bell;
    uint8_t pad[56];
    struct dt_mailbox_slot in[DT_MAILBOX_SLOTS];
    struct dt_mailbox_slot out[DT_MAILBOX_SLOTS];
};

DT_STATIC_CHECK(sizeof(struct dt_mailbox) == 3328, "as docs/failover.md states");

/* A frame that was taken out: a copy, which the peer cannot change. */
struct dt_mail {
    uint16_t type; /* any value: the caller compares */
    uint16_t body_bytes;
    uint8_t frame[DT_MAILBOX_FRAME_BYTES]; /* with its header */
};

/* Fills the outbox slot of this frame, and returns how many bytes of the slot are to be written. */
size_t dt_mailbox_fill(struct dt_mailbox *mailbox, uint64_t sequence, const uint8_t *frame, size_t bytes);

/*
 * Takes the oldest frame after *taken out of the inbox. False: there is none, and those that the bell
 * announced are lost. Either way *taken advances. Slots that are torn, or that no frame of ours can be in,
 * are skipped: the peer may write anything here at any time.
 */
bool dt_mailbox_take(const struct dt_mailbox *mailbox, uint64_t *taken, struct dt_mail *mail);

/* Whether a take may find something: one load where nothing has come. */
bool dt_mailbox_has_news(const struct dt_mailbox *mailbox, uint64_t taken);

#ifdef __cplusplus
}
#endif

#endif
