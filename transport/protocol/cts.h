/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clear-to-send (CTS) entries: the receiver permits the sender to write a part, and names the memory.
 *
 * The sender has one ring per path: slots rows of DT_PARTS_MAX entries. The receiver writes a row (only its
 * first `parts` entries) by RDMA write. A ring per path, because a late write of a dead path can then never
 * hide a newer entry; the sender looks in all of them. An entry is valid when its last word is its message's
 * sequence plus one; a device writes an entry in ascending order, and the sequence is checked in every entry.
 *
 * All fields little-endian. The memory is written by a device, so it is read by dt_cts_read() alone.
 */
#ifndef DETOUR_TRANSPORT_PROTOCOL_CTS_H
#define DETOUR_TRANSPORT_PROTOCOL_CTS_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_CTS_PROCESSOR_BYTES 4

struct dt_cts_entry {
    uint64_t address;
    uint32_t bytes; /* that fit there */
    uint32_t tag;
    uint32_t rkey[DT_PATHS_MAX]; /* of paths in path_mask */
    uint8_t path_mask;           /* paths whose RNIC may write there */
    uint8_t part;                /* this entry's place in its row */
    uint8_t parts;               /* of the message; the same in every entry of a row */
    /* Eager send (eager.h), in the first entry of a row; zero where the receiver grants no memory. */
    uint8_t takes_eager; /* the message may be taken from the bounce buffer that an eager send has filled */
    uint8_t released[DT_EAGER_PLACES]; /* low bits of the generation at which each place was last released */
    /* In the first entry of a row: how long NCCL's thread of the receiver ran and waited for a processor, and
     * how long its device thread did, in 1/255 of about the last second; zero: not known. */
    uint8_t processor[DT_CTS_PROCESSOR_BYTES];
    uint8_t unused[8];        /* zero */
    uint64_t sequence_plus_1; /* last: see above */
};

DT_STATIC_CHECK(sizeof(struct dt_cts_entry) == 64, "one cache line per entry");
DT_STATIC_CHECK(offsetof(struct dt_cts_entry, sequence_plus_1) == 56, "the word that makes it valid is last");

struct dt_cts_row {
    struct dt_cts_entry entry[DT_PARTS_MAX];
};

/*
 * For functions that read what a device writes while it may be writing. ThreadSanitizer would take a software
 * RNIC's stores, which are made by some thread, for a race; on a real one it sees none.
 */
#define DT_READS_DEVICE_MEMORY __attribute__((no_sanitize("thread")))

/* Copies an entry if it is this message's. Acquire: nothing of it is read before the word that makes it
 * valid. */
static inline DT_READS_DEVICE_MEMORY bool dt_cts_read_entry(const struct dt_cts_entry *entry,
                                                            uint64_t sequence, struct dt_cts_entry *out)
{
    if (dt_load_acquire(&entry->sequence_plus_1) != htole64(sequence + 1))
        return false;
    *out = *entry;
    return true;
}

/*
 * Sender: copies the entries of this message's row to `out` if the whole row is here. False when it is not,
 * or cannot be (no or too many parts, entries out of place): *is_broken tells the two apart.
 */
static inline bool dt_cts_read(const struct dt_cts_row *row, uint64_t sequence,
                               struct dt_cts_entry out[DT_PARTS_MAX], bool *is_broken)
{
    *is_broken = false;
    if (!dt_cts_read_entry(&row->entry[0], sequence, &out[0]))
        return false;
    if (out[0].parts == 1 && out[0].part == 0)
        return true;
    *is_broken = out[0].parts == 0 || out[0].parts > DT_PARTS_MAX || out[0].part != 0;
    for (uint32_t i = 1; !*is_broken && i < out[0].parts; i++) {
        if (!dt_cts_read_entry(&row->entry[i], sequence, &out[i]))
            return false;
        *is_broken = out[i].part != i || out[i].parts != out[0].parts;
    }
    return !*is_broken;
}

#ifdef __cplusplus
}
#endif

#endif
