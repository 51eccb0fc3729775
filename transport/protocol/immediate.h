/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The 32 bits that travel with the last write of a share: identity only, never size. Any path may carry any
 * message, so the immediate names the message and the part that arrived:
 *
 *   31 30 | 29 28 27 | 26 ... 0
 *   kind  | part     | low bits of the sequence
 *
 * Slots are a power of two far below 2^27, so the low bits name the slot, and the others distinguish a
 * message from earlier ones of that slot.
 */
#ifndef DETOUR_TRANSPORT_PROTOCOL_IMMEDIATE_H
#define DETOUR_TRANSPORT_PROTOCOL_IMMEDIATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_IMM_SEQUENCE_BITS 27
#define DT_IMM_SEQUENCE_MASK ((1u << DT_IMM_SEQUENCE_BITS) - 1)

enum dt_imm_kind {
    DT_IMM_DATA = 0, /* the share was one write: its size is the completion's byte count */
    DT_IMM_SIZED =
        1, /* it was several: the part's size is in the record written before share 0's immediate */
    /* Eager send (eager.h); `part` is the number of the place: */
    DT_IMM_EAGER = 2, /* a payload arrived; `sequence`: DT_IMM_EAGER_* and the generation's low bits */
    DT_IMM_TAKE = 3   /* the payload at the place is this message; no data follows */
};

#define DT_IMM_KINDS 4

#define DT_IMM_EAGER_UNWANTED \
    (1u << 26) /* the payload at the place is unused: its message is sent directly */
#define DT_IMM_EAGER_GENERATION (DT_IMM_EAGER_UNWANTED - 1)

struct dt_imm {
    uint32_t kind; /* enum dt_imm_kind */
    uint32_t part;
    uint32_t sequence; /* low bits */
};

static inline uint32_t dt_imm_encode(enum dt_imm_kind kind, uint32_t part, uint64_t sequence)
{
    return (uint32_t)kind << 30 | (part & 7) << 27 | ((uint32_t)sequence & DT_IMM_SEQUENCE_MASK);
}

static inline struct dt_imm dt_imm_decode(uint32_t imm)
{
    struct dt_imm out = {imm >> 30, imm >> 27 & 7, imm & DT_IMM_SEQUENCE_MASK};

    return out;
}

#ifdef __cplusplus
}
#endif

#endif
