/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packet between two software RNICs: one segment of a message, or an answer.
 *
 * A segment covers a range of packet sequence numbers (PSNs), one for each path MTU of payload, as on a real
 * network. With one path MTU per segment, a segment is a packet of the InfiniBand Architecture Specification,
 * volume 1, chapter 9; the `local` wire uses larger segments. The fields are those of BTH, RETH, AETH and
 * ImmDt there. A fault inside a range splits it (fault.h).
 */
#ifndef DETOUR_SOFTRNIC_PACKET_H
#define DETOUR_SOFTRNIC_PACKET_H

#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PSN_MASK 0xffffffu /* PSN, MSN and QP numbers are 24 bits wide */

enum dt_packet_op {
    DT_PACKET_SEND,
    DT_PACKET_WRITE,
    DT_PACKET_READ_REQUEST,
    DT_PACKET_READ_RESPONSE,
    DT_PACKET_ACK, /* positive and negative acknowledgements; distinguished by the syndrome */
};

enum dt_packet_flags {
    DT_PACKET_FIRST = 1,       /* first segment of its message */
    DT_PACKET_LAST = 2,        /* last segment of its message; both for a message of one segment */
    DT_PACKET_HAS_IMM = 4,     /* imm is valid; only with LAST */
    DT_PACKET_SOLICITED = 8,   /* only with LAST */
    DT_PACKET_ACK_REQUEST = 16 /* the responder shall acknowledge this segment */
};

/* AETH syndrome: the upper 3 bits are the kind, the lower 5 its value (credit count, timer or NAK code). */
enum dt_syndrome {
    DT_SYNDROME_ACK = 0x1f,          /* credits not used: 31 */
    DT_SYNDROME_RNR = 0x20,          /* | min_rnr_timer of the responder */
    DT_SYNDROME_NAK_SEQUENCE = 0x60, /* a PSN is missing; psn is the one expected */
    DT_SYNDROME_NAK_INVALID = 0x61,  /* invalid request */
    DT_SYNDROME_NAK_ACCESS = 0x62,   /* remote access error */
    DT_SYNDROME_NAK_OPERATION = 0x63 /* remote operation error */
};

#define DT_PACKET_IOV_MAX 32

struct dt_packet {
    uint32_t dst_qpn;
    uint32_t src_qpn;
    uint32_t psn;           /* first PSN covered */
    uint32_t psn_count;     /* >= 1; segments without payload cover 1, a READ_REQUEST covers its responses */
    uint8_t op;             /* enum dt_packet_op */
    uint8_t flags;          /* enum dt_packet_flags */
    uint8_t syndrome;       /* ACK and READ_RESPONSE */
    uint8_t mtu_shift;      /* log2 of the path MTU in bytes (8..12), so that a range can be split anywhere */
    uint32_t msn;           /* ACK and READ_RESPONSE: messages completed by the responder */
    uint32_t imm;           /* network byte order, as ibv_send_wr.imm_data */
    uint32_t rkey;          /* WRITE and READ_REQUEST */
    uint64_t remote_addr;   /* WRITE: where this segment's first byte goes; READ_REQUEST: where to read */
    uint64_t message_bytes; /* READ_REQUEST: bytes wanted; WRITE: bytes of the whole message (RETH.DMALen) */
    uint64_t payload_bytes; /* bytes this segment carries */
    /*
     * The payload's memory at the transmitting end, in order. The requester has checked the local keys. A
     * wire either copies the bytes in transmit() or keeps the reference until the segment is landed.
     * Undefined in a received packet: use dt_wire_ops.land.
     */
    uint32_t iov_count;
    struct iovec iov[DT_PACKET_IOV_MAX];
};

#ifdef __cplusplus
}
#endif

#endif
