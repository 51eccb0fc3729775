/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/protocol/mailbox.h"

#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "transport/protocol/cts.h"
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

/*
 * Copies a slot that the peer may be writing. Acquire loads keep the order of the words, and are no copy that
 * a compiler turns into a call, which ThreadSanitizer would check. False: the slot was written meanwhile, or
 * holds another frame.
 */
static DT_READS_DEVICE_MEMORY bool copy_slot(const struct dt_mailbox_slot *from, uint64_t sequence,
                                             struct dt_mailbox_slot *to)
{
    to->sequence = dt_load_acquire(&from->sequence);
    to->check = dt_load_acquire(&from->check);
    for (uint32_t i = 0; i < DT_MAILBOX_FRAME_WORDS; i++)
        to->frame[i] = dt_load_acquire(&from->frame[i]);
    return to->sequence == sequence && dt_load_acquire(&from->sequence) == sequence;
}

/* Looks at a copy alone. */
static bool read_slot(const struct dt_mailbox_slot *from, uint64_t sequence, struct dt_mail *mail)
{
    struct dt_frame_header header;
    struct dt_mailbox_slot slot;
    size_t bytes;

    if (!copy_slot(from, sequence, &slot))
        return false;
    memcpy(mail->frame, slot.frame, sizeof mail->frame);
    if (dt_frame_header_decode(mail->frame, &header) != DT_OK)
        return false;
    bytes = DT_FRAME_HEADER_BYTES + (size_t)header.body_bytes;
    if (bytes > sizeof mail->frame || slot.check != check_of(sequence, mail->frame, bytes))
        return false;
    mail->type = header.type;
    mail->body_bytes = header.body_bytes;
    return true;
}

static DT_READS_DEVICE_MEMORY uint64_t sequence_of(const struct dt_mailbox_slot *slot)
{
    return dt_load_acquire(&slot->sequence);
}

static DT_READS_DEVICE_MEMORY uint64_t bell_of(const struct dt_mailbox *mailbox)
{
    return dt_load_acquire(&mailbox->bell);
}

bool dt_mailbox_has_news(const struct dt_mailbox *mailbox, uint64_t taken)
{
    return bell_of(mailbox) > taken;
}

bool dt_mailbox_take(const struct dt_mailbox *mailbox, uint64_t *taken, struct dt_mail *mail)
{
    uint64_t bell = bell_of(mailbox);
    uint64_t oldest = 0;
    struct dt_mail read;

    if (bell <= *taken)
        return false;
    for (uint32_t i = 0; i < DT_MAILBOX_SLOTS; i++) {
        const struct dt_mailbox_slot *slot = &mailbox->in[i];
        uint64_t sequence = sequence_of(slot);

        if (sequence <= *taken || sequence % DT_MAILBOX_SLOTS != i || (oldest && sequence >= oldest) ||
            !read_slot(slot, sequence, &read))
            continue;
        oldest = sequence;
        *mail = read;
    }
    *taken = oldest ? oldest : bell; /* a frame that its bell announced and that is not there is lost */
    return oldest != 0;
}
