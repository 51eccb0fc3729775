/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clear-to-send (CTS) entries: the receiver's word that a part may be written, and where.
 *
 * The sender has one ring per path: slots rows of DT_PARTS_MAX entries. The receiver writes a row (only its
 * first `parts` entries) by RDMA write. A ring per path, because a late write of a dead path can then never
 * hide a newer entry; the sender looks in all of them. An entry is valid when its last word is its message's
 * sequence plus one; a device writes an entry in ascending order, and the word is checked in every entry.
 *
 * All fields little-endian. The memory is written by a device: read an entry only after dt_cts_is_valid().
 */
#ifndef DETOUR_TRANSPORT_CTS_H
#define DETOUR_TRANSPORT_CTS_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/check.h"
#include "transport/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_cts_entry {
    uint64_t address;
    uint32_t bytes; /* that fit there */
    uint32_t tag;
    uint32_t rkey[DT_PATHS_MAX]; /* of paths in path_mask */
    uint8_t path_mask;           /* paths whose RNIC may write there */
    uint8_t part;                /* this entry's place in its row */
    uint8_t parts;               /* of the message; the same in every entry of a row */
    uint8_t unused[21];          /* zero */
    uint64_t sequence_plus_1;    /* last: see above */
};

DT_STATIC_CHECK(sizeof(struct dt_cts_entry) == 64, "one cache line per entry");
DT_STATIC_CHECK(offsetof(struct dt_cts_entry, sequence_plus_1) == 56, "the word that makes it valid is last");

struct dt_cts_row {
    struct dt_cts_entry entry[DT_PARTS_MAX];
};

/* Sender: has the entry of this message been written here? Orders the reads of its fields that follow. */
static inline bool dt_cts_is_valid(const struct dt_cts_entry *entry, uint64_t sequence)
{
    return dt_load_acquire(&entry->sequence_plus_1) == htole64(sequence + 1);
}

/*
 * Sender: is the whole row here? False also for a row that cannot be (no or too many parts, entries out of
 * place): *broken then says so. It is false while the row is only incomplete.
 */
static inline bool dt_cts_row_is_valid(const struct dt_cts_row *row, uint64_t sequence, bool *broken)
{
    *broken = false;
    if (!dt_cts_is_valid(&row->entry[0], sequence))
        return false;
    uint32_t parts = row->entry[0].parts;
    if (parts == 1 && row->entry[0].part == 0)
        return true;
    *broken = parts == 0 || parts > DT_PARTS_MAX;
    for (uint32_t i = 0; i < parts && !*broken; i++) {
        if (!dt_cts_is_valid(&row->entry[i], sequence))
            return false;
        *broken = row->entry[i].part != i || row->entry[i].parts != parts;
    }
    return !*broken;
}

#ifdef __cplusplus
}
#endif

#endif
