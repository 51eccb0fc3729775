/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send queue elements in the format of mlx5 hardware: encoding and decoding. The layout is the one of
 * <infiniband/mlx5dv.h> (rdma-core), declared again so that both ends build without that header; a test
 * compares the two.
 *
 * A send queue is a ring of 64-byte blocks. An element starts on a block and is a sequence of 16-byte units:
 * one control segment, a remote address segment for WRITE and READ, then data segments or one inline
 * segment. It may wrap around the end of the ring. Indices count blocks modulo 65536;
 * the slot is the index modulo the number of blocks.
 */
#ifndef DETOUR_SOFTRNIC_WQE_H
#define DETOUR_SOFTRNIC_WQE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_WQE_BLOCK_BYTES 64u
#define DT_WQE_UNIT_BYTES  16u
#define DT_WQE_UNITS_MAX   63u
#define DT_WQE_INLINE      0x80000000u /* in byte_count: payload follows in place of a key and an address */

enum dt_wqe_opcode {
    DT_WQE_NOP = 0x00,
    DT_WQE_WRITE = 0x08,
    DT_WQE_WRITE_IMM = 0x09,
    DT_WQE_SEND = 0x0a,
    DT_WQE_SEND_IMM = 0x0b,
    DT_WQE_READ = 0x10
};

/* fm_ce_se of the control segment */
enum dt_wqe_flags {
    DT_WQE_SOLICITED = 1 << 1,
    DT_WQE_SIGNALED = 2 << 2,
    DT_WQE_FENCE = 4 << 5 /* starts only after all READs before it */
};

/* All multi-byte fields of the segments are big-endian. */
struct dt_wqe_ctrl {
    uint32_t opmod_idx_opcode; /* opmod << 24 | index << 8 | opcode */
    uint32_t qpn_ds;           /* qpn << 8 | length in units */
    uint8_t signature;
    uint8_t reserved[2];
    uint8_t fm_ce_se;
    uint32_t imm;
};

struct dt_wqe_remote {
    uint64_t addr;
    uint32_t rkey;
    uint32_t reserved;
};

struct dt_wqe_data {
    uint32_t byte_count; /* 0 means 2^31 */
    uint32_t lkey;
    uint64_t addr;
};

/* The ring as its producer or consumer sees it. */
struct dt_wqe_ring {
    uint8_t *buffer;
    uint32_t blocks; /* a power of two */
};

/* ---- encode -------------------------------------------------------------------------------------------- */

struct dt_wqe_header {
    uint32_t qpn;
    uint8_t opcode;       /* enum dt_wqe_opcode */
    uint8_t flags;        /* enum dt_wqe_flags */
    uint32_t imm;         /* network byte order; opcodes with IMM */
    uint64_t remote_addr; /* WRITE and READ */
    uint32_t rkey;
};

/* Does the opcode have a remote address segment? */
static inline bool dt_wqe_has_remote(uint8_t opcode)
{
    return opcode == DT_WQE_WRITE || opcode == DT_WQE_WRITE_IMM || opcode == DT_WQE_READ;
}

/* Blocks of an element with `sge_count` data segments (those of 0 bytes are left out and need none). */
static inline uint32_t dt_wqe_blocks(uint8_t opcode, uint32_t sge_count)
{
    return (1 + dt_wqe_has_remote(opcode) + sge_count + 3) / 4;
}

/* Blocks of an element with `bytes` of inline payload. */
static inline uint32_t dt_wqe_blocks_inline(uint8_t opcode, uint32_t bytes)
{
    uint32_t units = bytes ? (4 + bytes + DT_WQE_UNIT_BYTES - 1) / DT_WQE_UNIT_BYTES : 0;

    return (1 + dt_wqe_has_remote(opcode) + units + 3) / 4;
}

struct dt_wqe_sge {
    uint64_t addr;
    uint32_t bytes;
    uint32_t lkey;
};

/*
 * Writes one element at `index`; returns its length in blocks. The caller ensures that there is room and that
 * the element has at most DT_WQE_UNITS_MAX units. Data segments of 0 bytes are left out, as mlx5 reads 0 as
 * 2^31. The control segment is written last.
 */
uint32_t dt_wqe_encode(const struct dt_wqe_ring *ring, uint16_t index, const struct dt_wqe_header *header,
                       const struct dt_wqe_sge *sges, uint32_t sge_count);

/* Writes one element with its payload inline, gathered from `sges` (their lkey is ignored). */
uint32_t dt_wqe_encode_inline(const struct dt_wqe_ring *ring, uint16_t index,
                              const struct dt_wqe_header *header, const struct dt_wqe_sge *sges,
                              uint32_t sge_count);

/* ---- walk ---------------------------------------------------------------------------------------------- */

struct dt_wqe {
    uint8_t opcode;
    uint8_t opmod;
    uint8_t flags;
    uint8_t units; /* length; 0 is malformed and walks as 1 block */
    uint8_t blocks;
    uint8_t first_data; /* unit of the first data or inline segment; == units when there is none */
    bool is_inline;
    bool is_malformed; /* too short, unknown opcode, or segments that do not add up */
    uint16_t index;    /* as written in the element */
    uint32_t qpn;
    uint32_t imm; /* network byte order */
    uint32_t rkey;
    uint64_t remote_addr;
    uint64_t payload_bytes;
};

/*
 * Reads the element that begins at `index`. The ring's content is not trusted: only memory of the ring is
 * read, and out->blocks is at least 1.
 */
void dt_wqe_decode(const struct dt_wqe_ring *ring, uint16_t index, struct dt_wqe *out);

/* Data segment `n` of an element that is neither malformed nor inline; false when there are fewer. */
bool dt_wqe_segment(const struct dt_wqe_ring *ring, uint16_t index, const struct dt_wqe *wqe, uint32_t n,
                    struct dt_wqe_sge *out);

/*
 * [offset, offset + bytes) of an inline payload, inside the ring: 1 entry, or 2 when it runs over the ring's
 * end; returns how many. The range lies within payload_bytes.
 */
uint32_t dt_wqe_inline_iov(const struct dt_wqe_ring *ring, uint16_t index, const struct dt_wqe *wqe,
                           uint64_t offset, uint64_t bytes, struct iovec iov[2]);

#ifdef __cplusplus
}
#endif

#endif
