/* SPDX-License-Identifier: Apache-2.0 */
#include "softrnic/wqe.h"

#include <endian.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"

DT_STATIC_CHECK(sizeof(struct dt_wqe_ctrl) == DT_WQE_UNIT_BYTES, "a control segment is one unit");
DT_STATIC_CHECK(sizeof(struct dt_wqe_remote) == DT_WQE_UNIT_BYTES, "a remote address segment is one unit");
DT_STATIC_CHECK(sizeof(struct dt_wqe_data) == DT_WQE_UNIT_BYTES, "a data segment is one unit");

#define INLINE_HEADER_BYTES 4u

static uint64_t ring_bytes(const struct dt_wqe_ring *ring)
{
    return (uint64_t)ring->blocks * DT_WQE_BLOCK_BYTES;
}

/* Place in the ring of byte `offset` of the element at `index`. */
static uint64_t place(const struct dt_wqe_ring *ring, uint16_t index, uint64_t offset)
{
    return ((uint64_t)index * DT_WQE_BLOCK_BYTES + offset) & (ring_bytes(ring) - 1);
}

static void *unit_at(const struct dt_wqe_ring *ring, uint16_t index, uint32_t unit)
{
    return ring->buffer + place(ring, index, (uint64_t)unit * DT_WQE_UNIT_BYTES);
}

/* ---- encode ---- */

static void put_remote(const struct dt_wqe_ring *ring, uint16_t index, const struct dt_wqe_header *header)
{
    struct dt_wqe_remote remote = {htobe64(header->remote_addr), htobe32(header->rkey), 0};

    memcpy(unit_at(ring, index, 1), &remote, sizeof remote);
}

static uint32_t put_ctrl(const struct dt_wqe_ring *ring, uint16_t index, const struct dt_wqe_header *header,
                         uint32_t units)
{
    struct dt_wqe_ctrl ctrl = {.opmod_idx_opcode = htobe32((uint32_t)index << 8 | header->opcode),
                               .qpn_ds = htobe32(header->qpn << 8 | units),
                               .fm_ce_se = header->flags,
                               .imm = header->imm};

    DT_CHECK_HOT(units <= DT_WQE_UNITS_MAX && (units + 3) / 4 <= ring->blocks);
    memcpy(unit_at(ring, index, 0), &ctrl, sizeof ctrl);
    return (units + 3) / 4;
}

uint32_t dt_wqe_encode(const struct dt_wqe_ring *ring, uint16_t index, const struct dt_wqe_header *header,
                       const struct dt_wqe_sge *sges, uint32_t sge_count)
{
    uint32_t units = 1;

    if (dt_wqe_has_remote(header->opcode)) {
        put_remote(ring, index, header);
        units++;
    }
    for (uint32_t i = 0; i < sge_count; i++) {
        struct dt_wqe_data data = {htobe32(sges[i].bytes), htobe32(sges[i].lkey), htobe64(sges[i].addr)};

        if (!sges[i].bytes)
            continue;
        memcpy(unit_at(ring, index, units), &data, sizeof data);
        units++;
    }
    return put_ctrl(ring, index, header, units);
}

/* Copies into the ring at byte `offset` of the element, around the ring's end if needed. */
static void put_bytes(const struct dt_wqe_ring *ring, uint16_t index, uint64_t offset, const void *from,
                      uint64_t bytes)
{
    uint64_t at = place(ring, index, offset);
    uint64_t to_end = dt_min_u64(bytes, ring_bytes(ring) - at);

    DT_CHECK_HOT(offset + bytes <= DT_WQE_UNITS_MAX * DT_WQE_UNIT_BYTES);
    memcpy(ring->buffer + at, from, to_end);
    memcpy(ring->buffer, (const char *)from + to_end, bytes - to_end);
}

uint32_t dt_wqe_encode_inline(const struct dt_wqe_ring *ring, uint16_t index,
                              const struct dt_wqe_header *header, const struct dt_wqe_sge *sges,
                              uint32_t sge_count)
{
    uint32_t units = 1, bytes = 0, byte_count;
    uint64_t start;

    if (dt_wqe_has_remote(header->opcode)) {
        put_remote(ring, index, header);
        units++;
    }
    start = (uint64_t)units * DT_WQE_UNIT_BYTES;
    for (uint32_t i = 0; i < sge_count; i++) {
        if (sges[i].bytes)
            put_bytes(ring, index, start + INLINE_HEADER_BYTES + bytes, (const void *)(uintptr_t)sges[i].addr,
                      sges[i].bytes);
        bytes += sges[i].bytes;
    }
    if (bytes) {
        byte_count = htobe32(bytes | DT_WQE_INLINE);
        put_bytes(ring, index, start, &byte_count, sizeof byte_count);
        units += (INLINE_HEADER_BYTES + bytes + DT_WQE_UNIT_BYTES - 1) / DT_WQE_UNIT_BYTES;
    }
    return put_ctrl(ring, index, header, units);
}

/* ---- walk ---- */

static bool is_known(uint8_t opcode)
{
    return dt_wqe_has_remote(opcode) || opcode == DT_WQE_SEND || opcode == DT_WQE_SEND_IMM ||
           opcode == DT_WQE_NOP;
}

/* One inline segment fills the rest of the element. */
static bool decode_inline(const struct dt_wqe_ring *ring, uint16_t index, struct dt_wqe *out,
                          uint32_t byte_count)
{
    uint32_t bytes = byte_count & ~DT_WQE_INLINE;
    uint32_t room = (uint32_t)(out->units - out->first_data) * DT_WQE_UNIT_BYTES;

    (void)ring;
    (void)index;
    out->is_inline = true;
    out->payload_bytes = bytes;
    return bytes <= room - INLINE_HEADER_BYTES &&
           (bytes + INLINE_HEADER_BYTES + DT_WQE_UNIT_BYTES - 1) / DT_WQE_UNIT_BYTES * DT_WQE_UNIT_BYTES ==
               room;
}

/* Adds up the data segments. */
static bool decode_payload(const struct dt_wqe_ring *ring, uint16_t index, struct dt_wqe *out)
{
    for (uint32_t unit = out->first_data; unit < out->units; unit++) {
        struct dt_wqe_data data;
        uint32_t byte_count;

        memcpy(&data, unit_at(ring, index, unit), sizeof data);
        byte_count = be32toh(data.byte_count);
        if (byte_count & DT_WQE_INLINE)
            return unit == out->first_data && decode_inline(ring, index, out, byte_count);
        out->payload_bytes += byte_count ? byte_count : DT_WQE_INLINE;
    }
    return true;
}

void dt_wqe_decode(const struct dt_wqe_ring *ring, uint16_t index, struct dt_wqe *out)
{
    struct dt_wqe_ctrl ctrl;
    uint32_t word;

    memset(out, 0, sizeof *out);
    memcpy(&ctrl, unit_at(ring, index, 0), sizeof ctrl);
    word = be32toh(ctrl.opmod_idx_opcode);
    out->opcode = (uint8_t)word;
    out->index = (uint16_t)(word >> 8);
    out->opmod = (uint8_t)(word >> 24);
    word = be32toh(ctrl.qpn_ds);
    out->qpn = word >> 8;
    out->units = word & DT_WQE_UNITS_MAX;
    out->blocks = out->units ? (uint8_t)((out->units + 3) / 4) : 1;
    out->flags = ctrl.fm_ce_se;
    out->imm = ctrl.imm;
    out->first_data = (uint8_t)(1 + dt_wqe_has_remote(out->opcode));
    out->is_malformed =
        word & 0xc0 || out->blocks > ring->blocks || out->units < out->first_data || !is_known(out->opcode);
    if (out->is_malformed || out->opcode == DT_WQE_NOP)
        return;
    if (dt_wqe_has_remote(out->opcode)) {
        struct dt_wqe_remote remote;

        memcpy(&remote, unit_at(ring, index, 1), sizeof remote);
        out->remote_addr = be64toh(remote.addr);
        out->rkey = be32toh(remote.rkey);
    }
    out->is_malformed = !decode_payload(ring, index, out) || (out->is_inline && out->opcode == DT_WQE_READ);
}

bool dt_wqe_segment(const struct dt_wqe_ring *ring, uint16_t index, const struct dt_wqe *wqe, uint32_t n,
                    struct dt_wqe_sge *out)
{
    struct dt_wqe_data data;

    DT_CHECK_HOT(!wqe->is_malformed && !wqe->is_inline);
    if (n >= (uint32_t)(wqe->units - wqe->first_data))
        return false;
    memcpy(&data, unit_at(ring, index, wqe->first_data + n), sizeof data);
    out->addr = be64toh(data.addr);
    out->bytes = be32toh(data.byte_count) & ~DT_WQE_INLINE;
    if (!out->bytes)
        out->bytes = DT_WQE_INLINE;
    out->lkey = be32toh(data.lkey);
    return true;
}

uint32_t dt_wqe_inline_iov(const struct dt_wqe_ring *ring, uint16_t index, const struct dt_wqe *wqe,
                           uint64_t offset, uint64_t bytes, struct iovec iov[2])
{
    uint64_t start = (uint64_t)wqe->first_data * DT_WQE_UNIT_BYTES + INLINE_HEADER_BYTES + offset;
    uint64_t at = place(ring, index, start);
    uint64_t to_end = dt_min_u64(bytes, ring_bytes(ring) - at);

    DT_CHECK_HOT(wqe->is_inline && offset + bytes <= wqe->payload_bytes);
    iov[0] = (struct iovec){ring->buffer + at, to_end};
    iov[1] = (struct iovec){ring->buffer, bytes - to_end};
    return bytes > to_end ? 2 : 1;
}
