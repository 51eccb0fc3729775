/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wire carries packets between RNICs. This table is all that the engine (engine.h) uses of it. Two wires
 * implement it, both with the fault hooks of fault.h: `local` between processes of one host, and `sim`
 * (tests/sim) in virtual time.
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
struct dt_wire_link; /* the direction from this RNIC to another; owned by the wire */
struct dt_received;  /* the payload of a received segment, in the wire's own form */

struct dt_wire_ops {
    /*
     * The link to the RNIC with this GID (16 bytes, network order), created on first use; the RNIC's own GID
     * yields a loopback link. An absent or dead peer is no error: packets to it are lost, as on a real
     * network. NULL only when memory is short. Links live until the wire is closed.
     */
    struct dt_wire_link *(*link)(struct dt_wire *wire, const uint8_t gid[16]);

    /*
     * Can `link` take another packet now? False is back-pressure: the engine tries again in dt_rnic_progress,
     * which the wire's driver calls once there is room.
     */
    bool (*can_transmit)(struct dt_wire_link *link);

    /* Sends one packet, or loses it as a network may. Only after can_transmit() returned true. */
    void (*transmit)(struct dt_wire_link *link, const struct dt_packet *packet, uint64_t now_ns);

    /*
     * Revokes the payload of all packets that queue pair `src_qpn` has transmitted on this link, or all
     * payload in [addr, addr + bytes): the application may change that memory from now on. The other end
     * treats a segment whose payload lies there as lost, even one that is being landed. NULL in a wire that
     * copies payload in transmit().
     */
    void (*revoke_qp)(struct dt_wire_link *link, uint32_t src_qpn);
    void (*revoke_memory)(struct dt_wire *wire, const void *addr, uint64_t bytes);

    /*
     * Copies `bytes` of the current segment's payload, from `offset` on, to `dst`, by ascending stores of at
     * least 8 aligned bytes where source and destination allow it, so that a reader that polls the last word
     * of a 128-byte line sees the whole line (NCCL's LL and LL128 protocols). 0, or an errno when the
     * sender's memory is no longer readable (its process died or deregistered it): the segment then counts as
     * lost. Only valid inside dt_rnic_receive().
     */
    int (*land)(struct dt_received *received, uint64_t offset, void *dst, uint64_t bytes);

    /*
     * mark() numbers the packets transmitted on `link` so far; is_unread() tells whether the other end has
     * yet to read some of them. Such a packet is late, not lost: a process without a CPU reads nothing, where
     * a real RNIC would have answered. Both NULL in a wire whose packets never wait.
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
