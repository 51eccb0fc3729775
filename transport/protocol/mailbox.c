/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/protocol/mailbox.h"

#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "transport/protocol/frames.h"

/* FNV-1a, 64 bits. A torn slot is an accident, and a hostile peer may write valid frames anyway. */
#define CHECK_BASIS 0xcbf29ce484222325ull
#define CHECK_PRIME 0x100000001b3ull

static uint64_t check_of(uint64_t sequence, const uint8_t *frame, size_t bytes)
{
    uint64_t check = (CHECK_BASIS ^ sequence) * CHECK_PRIME;

    for (size_t i = 0; i < bytes; i++)
        check = (check ^ frame[i]) * CHECK_PRIME;
    return check;
}

size_t dt_mailbox_fill(struct dt_mailbox *mailbox, uint64_t sequence, const uint8_t *frame, size_t bytes)
{
    struct dt_mailbox_slot *slot = &mailbox->out[sequence % DT_MAILBOX_SLOTS];

    DT_CHECK(sequence > 0 && bytes >= DT_FRAME_HEADER_BYTES && bytes <= sizeof slot->frame);
    slot->sequence = sequence;
    slot->check = check_of(sequence, frame, bytes);
    memcpy(slot->frame, frame, bytes);
    return offsetof(struct dt_mailbox_slot, frame) + bytes;
}

bool dt_mailbox_has_news(const struct dt_mailbox *mailbox, uint64_t taken)
{
    return dt_load_acquire(&mailbox->bell) > taken;
}

/* Copies the slot, and looks at the copy alone. */
static bool read_slot(const struct dt_mailbox_slot *from, uint64_t sequence, struct dt_mail *mail)
{
    struct dt_frame_header header;
    uint64_t check = dt_load_relaxed(&from->check);
    size_t bytes;

    memcpy(mail->frame, from->frame, sizeof mail->frame);
    if (dt_frame_header_decode(mail->frame, &header) != DT_OK)
        return false;
    bytes = DT_FRAME_HEADER_BYTES + (size_t)header.body_bytes;
    if (bytes > sizeof mail->frame || check != check_of(sequence, mail->frame, bytes))
        return false;
    mail->type = header.type;
    mail->body_bytes = header.body_bytes;
    return true;
}

bool dt_mailbox_take(const struct dt_mailbox *mailbox, uint64_t *taken, struct dt_mail *mail)
{
    uint64_t bell = dt_load_acquire(&mailbox->bell);
    uint64_t oldest = 0;
    struct dt_mail read;

    if (bell <= *taken)
        return false;
    for (uint32_t i = 0; i < DT_MAILBOX_SLOTS; i++) {
        const struct dt_mailbox_slot *slot = &mailbox->in[i];
        uint64_t sequence = dt_load_acquire(&slot->sequence);

        if (sequence <= *taken || sequence % DT_MAILBOX_SLOTS != i || (oldest && sequence >= oldest) ||
            !read_slot(slot, sequence, &read))
            continue;
        oldest = sequence;
        *mail = read;
    }
    *taken = oldest ? oldest : bell; /* a frame that its bell announced and that is not there is lost */
    return oldest != 0;
}
