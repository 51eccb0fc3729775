/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control memory of a path: one block at each end, registered on the path's device, that the peer writes.
 *
 *   sender     CTS ring (slots rows, cts.h), then the probe area and the mailbox
 *   receiver   the rows that it writes from, then size records (slots x DT_PARTS_MAX x 8 bytes), then the
 *              probe area and the mailbox
 *
 * A receiver announces the address of its size records, a sender that of its CTS ring (dt_path_offer).
 */
#ifndef DETOUR_TRANSPORT_PROTOCOL_MEMORY_LAYOUT_H
#define DETOUR_TRANSPORT_PROTOCOL_MEMORY_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "transport/protocol/cts.h"
#include "transport/protocol/mailbox.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline size_t dt_cts_ring_bytes(uint32_t slots)
{
    return slots * sizeof(struct dt_cts_row);
}

static inline size_t dt_record_offset(uint32_t slots, uint64_t sequence, uint32_t part)
{
    return dt_cts_ring_bytes(slots) + ((sequence & (slots - 1)) * DT_PARTS_MAX + part) * sizeof(uint64_t);
}

/* The probe area of each block: the source of this end's probes and the target of the peer's. */
#define DT_PROBE_BYTES 4096u

/* Offset of the peer's probe area from the address that the peer announced; `is_sender` names this end. */
static inline size_t dt_peer_probe_offset(bool is_sender, uint32_t slots)
{
    return is_sender ? (size_t)slots * DT_PARTS_MAX * sizeof(uint64_t) : dt_cts_ring_bytes(slots);
}

/* Offset of this end's own probe area in its block. */
static inline size_t dt_probe_offset(bool is_sender, uint32_t slots)
{
    return is_sender ? dt_cts_ring_bytes(slots)
                     : dt_record_offset(slots, 0, 0) + dt_peer_probe_offset(true, slots);
}

/* The mailbox follows the probe area, in the peer's block as well, and ends the block. */
static inline size_t dt_mailbox_offset(bool is_sender, uint32_t slots)
{
    return dt_probe_offset(is_sender, slots) + DT_PROBE_BYTES;
}

static inline size_t dt_control_bytes(bool is_sender, uint32_t slots)
{
    return dt_mailbox_offset(is_sender, slots) + sizeof(struct dt_mailbox);
}

#ifdef __cplusplus
}
#endif

#endif
