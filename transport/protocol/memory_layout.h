/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control memory of a path: one block at each end, registered on the path's device, that the peer writes.
 *
 *   sender     CTS ring (slots rows, cts.h), then the probe area
 *   receiver   the rows that it writes from, then size records (slots x DT_PARTS_MAX x 8 bytes), then the
 * probe area
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

/* The probe area at the end of each block: the source of this end's probes and the target of the peer's. */
#define DT_PROBE_BYTES 4096u

/* Offset of the peer's probe area from the address that the peer announced; `is_sender` names this end. */
static inline size_t dt_peer_probe_offset(bool is_sender, uint32_t slots)
{
    return is_sender ? (size_t)slots * DT_PARTS_MAX * sizeof(uint64_t) : dt_cts_ring_bytes(slots);
}

#ifdef __cplusplus
}
#endif

#endif
