/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wire carries packets between RNICs. The engine (engine.h) knows only this table; `sim` (one process,
 * virtual time) and `local` (processes of one host) implement it, with the same fault hooks (fault.h) on
 * both.
 *
 * All functions are called with the RNIC's lock held (driver.h) or, in a simulation, by its only thread.
 * None blocks.
 */
#ifndef DETOUR_SOFTRNIC_WIRE_H
#define DETOUR_SOFTRNIC_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "softrnic/packet.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_wire;      /* one RNIC's end of the wire; the implementation's struct begins with it */
struct dt_wire_link; /* the way from here to one other RNIC; owned by the wire */
struct dt_received;  /* a received segment's payload; the wire's own form of it */

struct dt_wire_ops {
    /*
     * The link to the RNIC with this GID (16 bytes, network order), made if it does not exist; the RNIC's own
     * GID gives a loopback link. Never fails for a peer that is absent or dead: what is sent to it is lost,
     * as on a real network. NULL only when memory is short. Links live until the wire is closed.
     */
    struct dt_wire_link *(*link)(struct dt_wire *wire, const uint8_t gid[16]);

    /*
     * Can `link` take another packet now? False is back-pressure: the engine tries again when the wire
     * calls it (dt_rnic_progress), and the wire sees to it that it does when room is there again.
     */
    bool (*can_transmit)(struct dt_wire_link *link);

    /* Sends one packet, or loses it as a network may. Only after can_transmit() said true. */
    void (*transmit)(struct dt_wire_link *link, const struct dt_packet *packet, uint64_t now_ns);

    /*
     * The payload of what queue pair `src_qpn` has transmitted on this link is not its any more, or neither
     * is the memory [addr, addr + bytes): its owner may change it from now on. A segment that was to be
     * landed from there counts as lost at the other end, even if it is being landed just now. NULL in a wire
     * that copies all payload while it transmits.
     */
    void (*revoke_qp)(struct dt_wire_link *link, uint32_t src_qpn);
    void (*revoke_memory)(struct dt_wire *wire, const void *addr, uint64_t bytes);

    /*
     * Copies `bytes` of the payload of the segment now being received, from `offset` on, to `dst`. Ascending
     * stores of at least 8 aligned bytes where source and destination allow it, so that a reader that polls
     * the last word of a 128-byte line sees the whole line (NCCL's LL and LL128 protocols). Returns 0, or an
     * errno if the sender's memory is gone (it died or deregistered it): the segment then counts as lost.
     * Only valid inside dt_rnic_receive().
     */
    int (*land)(struct dt_received *received, uint64_t offset, void *dst, uint64_t bytes);

    /*
     * A number for what was transmitted on `link` so far; and whether something of it still waits for the
     * other end to read it. Such a packet is late, not lost: a process that gets no processor reads nothing
     * for as long, where a real RNIC would have answered. Both NULL in a wire that never lets packets wait.
     */
    uint32_t (*mark)(const struct dt_wire_link *link);
    bool (*is_unread)(const struct dt_wire_link *link, uint32_t mark);

    /* The largest payload of one segment in bytes: a multiple of every path MTU, or 0 for "one path MTU". */
    uint64_t segment_bytes_max;
};

struct dt_wire {
    const struct dt_wire_ops *ops;
};

#ifdef __cplusplus
}
#endif

#endif
