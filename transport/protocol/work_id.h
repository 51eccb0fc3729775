/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wr_id of every work request: its kind, and which queue pair of which epoch of which path it used. A
 * completion is judged by the epoch of its queue pair, never by what a slot holds now.
 *
 *   63..60 kind | 59..56 path | 55..48 queue pair | 47..32 epoch | 31..0 low bits of the sequence
 */
#ifndef DETOUR_TRANSPORT_PROTOCOL_WORK_ID_H
#define DETOUR_TRANSPORT_PROTOCOL_WORK_ID_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dt_work_kind {
    DT_WORK_PAYLOAD = 1, /* last write of a message on its queue pair */
    DT_WORK_CTS = 2,     /* a clear-to-send write */
    DT_WORK_RECEIVE = 3, /* a zero-length receive: wr_id of the queue pair, sequence 0 */
    DT_WORK_FLUSH = 4,   /* a loopback read; sequence is the flush request's number */
    DT_WORK_PROBE = 5,   /* a liveness probe */
    DT_WORK_MARKER = 6,  /* posted to a queue pair in ERR: its flush is proof (failover/fence.h) */
    DT_WORK_EAGER = 7    /* an eager payload; sequence: generation and place (eager.h) */
};

struct dt_work {
    uint32_t kind; /* enum dt_work_kind, if it is one of ours */
    uint32_t path;
    uint32_t qp;
    uint32_t epoch;    /* low 16 bits */
    uint32_t sequence; /* low 32 bits */
};

static inline uint64_t dt_work_encode(enum dt_work_kind kind, uint32_t path, uint32_t qp, uint32_t epoch,
                                      uint64_t sequence)
{
    return (uint64_t)kind << 60 | (uint64_t)(path & 0xf) << 56 | (uint64_t)(qp & 0xff) << 48 |
           (uint64_t)(epoch & 0xffff) << 32 | (uint32_t)sequence;
}

static inline struct dt_work dt_work_decode(uint64_t wr_id)
{
    struct dt_work out = {(uint32_t)(wr_id >> 60), (uint32_t)(wr_id >> 56) & 0xf,
                          (uint32_t)(wr_id >> 48) & 0xff, (uint32_t)(wr_id >> 32) & 0xffff, (uint32_t)wr_id};

    return out;
}

#ifdef __cplusplus
}
#endif

#endif
