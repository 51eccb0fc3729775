/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults on an RNIC's transmit path, the same on every wire: the wire passes each packet to dt_faults_apply,
 * which emits the rest of it. Rules work per PSN: a rule that hits the middle of a range splits it into
 * the part before, the hit PSN, and the part after, as if each PSN were a packet of its own.
 *
 * Not thread-safe; under the RNIC's lock. Seeded, no clock. A delayed packet owns a copy of its payload, so
 * later changes of the application's buffer do not reach the peer.
 */
#ifndef DETOUR_SOFTRNIC_FAULT_H
#define DETOUR_SOFTRNIC_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "softrnic/packet.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_faults;

enum dt_fault_action {
    DT_FAULT_DROP,
    DT_FAULT_DELAY,     /* arrives delay_ns later, overtaken by what follows */
    DT_FAULT_DUPLICATE, /* arrives now, and once more after delay_ns (0: at once) */
    DT_FAULT_REORDER,   /* arrives after hold_packets later packets of its link, or after delay_ns */
    DT_FAULT_TRUNCATE   /* this PSN and the rest of its range are lost */
};

#define DT_FAULT_OP(op)  (1u << (op)) /* of enum dt_packet_op */
#define DT_FAULT_OPS_ALL 0u
#define DT_FAULT_REQUESTS \
    (DT_FAULT_OP(DT_PACKET_SEND) | DT_FAULT_OP(DT_PACKET_WRITE) | DT_FAULT_OP(DT_PACKET_READ_REQUEST))
#define DT_FAULT_RESPONSES (DT_FAULT_OP(DT_PACKET_READ_RESPONSE) | DT_FAULT_OP(DT_PACKET_ACK))

/* A rule with nothing but an action hits every packet, without limit. */
struct dt_fault_rule {
    enum dt_fault_action action;
    /* Which PSNs: all conditions must hold. */
    uint32_t ops;              /* mask of DT_FAULT_OP; 0 is every kind */
    uint32_t src_qpn, dst_qpn; /* 0 is any */
    bool has_psn;              /* only PSNs in [psn_first, psn_last], 24-bit circular */
    uint32_t psn_first, psn_last;
    uint8_t syndrome;   /* only ACKs of this syndrome; 0 is any (no syndrome is 0) */
    uint32_t bytes_min; /* only packets with at least this payload: a switch with a smaller MTU */
    /* Of those, counted from 0: */
    uint64_t skip;       /* the first `skip` pass */
    uint64_t count;      /* then at most `count` are hit; 0 is no limit */
    uint32_t every;      /* of each `every` in a row the first `of_every` are hit; 0 is all */
    uint32_t of_every;   /* 0 is 1 */
    uint32_t chance_ppm; /* and each of these with this chance; 0 is always */
    /* The effect: */
    uint64_t delay_ns;
    uint32_t hold_packets; /* REORDER; 0 is 1 */
};

/* NULL when memory is short. */
struct dt_faults *dt_faults_create(uint64_t seed);
void dt_faults_destroy(struct dt_faults *faults);

/* Adds a rule at the end; the first that hits decides. Returns its id (> 0), or 0 when memory is short. */
uint32_t dt_faults_add(struct dt_faults *faults, const struct dt_fault_rule *rule);

/* False when there is no such rule. Packets it holds back stay held until they are due. */
bool dt_faults_remove(struct dt_faults *faults, uint32_t id);
void dt_faults_clear(struct dt_faults *faults);

/* How many PSNs the rule has hit; 0 for no such rule. Tests use it to prove that their fault took effect. */
uint64_t dt_faults_hits(const struct dt_faults *faults, uint32_t id);

/* False: nothing armed and nothing held; the wire may transmit without asking. */
bool dt_faults_active(const struct dt_faults *faults);

/*
 * Transmits a packet. `link` is the argument of dt_faults_apply. With `is_copied` the payload's memory is
 * valid only during the call, so the wire must copy it. Called any number of times per packet; must not call
 * dt_faults_*.
 */
typedef void dt_fault_emit_func(void *arg, void *link, const struct dt_packet *packet, bool is_copied);

void dt_faults_apply(struct dt_faults *faults, void *link, const struct dt_packet *packet, uint64_t now_ns,
                     dt_fault_emit_func *emit, void *arg);

/* When the next held packet is due; UINT64_MAX when none is. */
uint64_t dt_faults_deadline_ns(const struct dt_faults *faults);

/* Emits the held packets that are due, in order of their times. */
void dt_faults_release(struct dt_faults *faults, uint64_t now_ns, dt_fault_emit_func *emit, void *arg);

/* Drops the held packets of a link that is destroyed. */
void dt_faults_forget_link(struct dt_faults *faults, const void *link);

#ifdef __cplusplus
}
#endif

#endif
