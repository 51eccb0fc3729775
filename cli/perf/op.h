/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of `detour perf`, one file each (op_NAME.c) and a row in op.c.
 *
 * For one rank and one channel an operation describes the work of the GPU: a list of actions per program,
 * each of one slice. A program is one sequential thread of work with at most one connection to receive from
 * and one to send to; the programs of a channel are independent of each other. The engine (step.c) plays
 * both the GPU and NCCL's proxies. Connections are named by distance: over the connection of distance d a
 * rank sends to rank + d and receives from rank - d, modulo the number of ranks.
 *
 * All functions are pure.
 */
#ifndef DETOUR_CLI_PERF_OP_H
#define DETOUR_CLI_PERF_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/perf/type.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PERF_STEPS   8 /* NCCL_STEPS: steps, the parts of a connection's buffer */
#define DT_PERF_NOWHERE SIZE_MAX

/*
 * One slice of work: value = the received slice (if `receive`), reduced with input[source] (if `reduce`), or
 * input[source] alone; it is written to output[target] and to the send slot, where asked for. Both offsets
 * are in bytes, DT_PERF_NOWHERE when unused. A slice of 0 bytes is a message all the same.
 */
struct dt_perf_action {
    size_t bytes;
    size_t source;
    size_t target;
    bool receive;
    bool reduce;
    bool send;
};

/* Growing list of the actions of one program. */
struct dt_perf_actions {
    struct dt_perf_action *items; /* malloc'ed */
    size_t count;
    size_t capacity;
    bool failed; /* out of memory; `add` has no effect any more */
};

void dt_perf_actions_add(struct dt_perf_actions *actions, struct dt_perf_action action);
void dt_perf_actions_free(struct dt_perf_actions *actions);

/* How data travels (protocol.h); AUTO is a user's choice only. */
enum dt_perf_protocol { DT_PERF_AUTO, DT_PERF_SIMPLE, DT_PERF_LL, DT_PERF_PROTOCOL_COUNT };

/* The input of an operation. */
struct dt_perf_shape {
    unsigned rank;
    unsigned ranks;
    unsigned channel;
    unsigned channels;
    size_t count; /* elements, as in the "count" column */
    const struct dt_perf_type *type;
    enum dt_perf_redop redop;
    /* By dt_perf_protocol_set: */
    enum dt_perf_protocol protocol; /* Simple or LL */
    size_t step_bytes;              /* Simple: of a step */
    unsigned slice_steps;           /* steps that a slice occupies */
    unsigned slices;                /* of a chunk of a collective */
    size_t slice_bytes;             /* data of the largest slice */
    size_t channel_bytes_min; /* of `count` elements: a further channel is used for this number of bytes */
};

/* The caller's buffers of one rank. In place, the smaller one lies inside the larger, at in_place_offset. */
struct dt_perf_layout {
    size_t input_bytes;
    size_t output_bytes;
    size_t in_place_offset;
};

/* Which connections a program uses: a distance, or 0 for none. */
struct dt_perf_ends {
    unsigned send_distance;
    unsigned receive_distance;
};

struct dt_perf_op {
    const char *name;
    const char *summary;
    bool reduces;          /* the "redop" column has a name */
    bool has_shares;       /* "count" is one rank's share of the size, as in nccl-tests */
    bool has_root;         /* the "root" column is 0 */
    bool has_in_place;     /* has an in-place variant */
    bool has_raw;          /* --raw: whole messages to the next rank, straight from user buffers */
    unsigned ranks_min;    /* the smallest number of ranks */
    unsigned channels_max; /* 0: any number */
    size_t bytes_max;      /* largest size; 0: any */
    bool is_p2p;           /* send and receive, not a collective: other sizes of messages, never LL */
    bool is_whole;         /* the data is one message, not cut into chunks */
    unsigned slices;       /* per chunk, each of as many steps */
    /* Collectives: LL is chosen up to ll_bytes + ranks * ll_bytes_per_rank. */
    size_t ll_bytes;
    size_t ll_bytes_per_rank;
    unsigned (*program_count)(unsigned ranks); /* per channel */
    struct dt_perf_ends (*ends)(unsigned program);
    /* Busbw is algbw times this factor, so that it can be compared with the speed of a link. */
    double (*bus_factor)(unsigned ranks);
    /* The reported time is the iteration's, divided by this: messages in a row in one iteration. */
    unsigned (*hops)(unsigned ranks);
    void (*layout)(const struct dt_perf_shape *shape, struct dt_perf_layout *layout);
    void (*plan)(const struct dt_perf_shape *shape, unsigned program, struct dt_perf_actions *actions);
    /*
     * The expected output in [offset, offset + bytes) after `iteration`; at most a few KiB, whole elements.
     */
    void (*expect)(const struct dt_perf_shape *shape, uint64_t iteration, size_t offset, size_t bytes,
                   void *expected);
};

/* All operations; ends with NULL. */
extern const struct dt_perf_op *const dt_perf_ops[];

/* By name; NULL when there is none. */
const struct dt_perf_op *dt_perf_op_find(const char *name);

/* The operation's input: bytes [offset, offset + bytes) of what `rank` sends in `iteration`; whole elements.
 */
void dt_perf_op_fill(const struct dt_perf_op *op, const struct dt_perf_type *type, unsigned rank,
                     uint64_t iteration, size_t offset, size_t bytes, void *data);

/* ---- Help for plans. ---- */

/* The bytes of the next slice of a chunk of which `left` bytes are left, of `bytes` in all; 0: an empty
 * slice. */
size_t dt_perf_slice_of(const struct dt_perf_shape *shape, size_t bytes, size_t left);

/*
 * Splits `count` elements over the channels at 128-byte boundaries; small counts use the first channels only.
 * The part of shape->channel starts at *first; returns its length, which may be 0.
 */
size_t dt_perf_channel_part(const struct dt_perf_shape *shape, size_t count, size_t *first);

/* Adds the action of hop `h` for one slice: `bytes` at `offset` of the data, or of a share. */
typedef void dt_perf_slice_func(const struct dt_perf_shape *shape, unsigned h, size_t offset, size_t bytes,
                                struct dt_perf_actions *actions);

/* The channel's part of shape->count elements, chunk after chunk, each with all its hops, each hop by slices.
 */
void dt_perf_plan_slices(const struct dt_perf_shape *shape, unsigned hops, dt_perf_slice_func *add_slice,
                         struct dt_perf_actions *actions);

/* Most operations: one program, or one hop. */
unsigned dt_perf_one(unsigned ranks);

/* Busbw is algbw. */
double dt_perf_bus_factor_one(unsigned ranks);

/* All shares but the rank's own cross a link: (n-1)/n. */
double dt_perf_bus_factor_others(unsigned ranks);

/* The "count" column for a size in bytes. */
size_t dt_perf_op_count(const struct dt_perf_op *op, const struct dt_perf_type *type, unsigned ranks,
                        uint64_t bytes);

/* Of an operation that reduces: all ranks' inputs in [offset, offset + bytes), reduced. */
void dt_perf_op_expect_sum(const struct dt_perf_op *op, const struct dt_perf_shape *shape, uint64_t iteration,
                           size_t offset, size_t bytes, void *expected);

/* `count` elements in, `count` elements out, in place at 0. */
void dt_perf_layout_same(const struct dt_perf_shape *shape, struct dt_perf_layout *layout);

/* One program that receives from the rank before and sends to the rank after. */
struct dt_perf_ends dt_perf_ends_ring(unsigned program);

extern const struct dt_perf_op dt_perf_op_all_reduce;
extern const struct dt_perf_op dt_perf_op_all_gather;
extern const struct dt_perf_op dt_perf_op_reduce_scatter;
extern const struct dt_perf_op dt_perf_op_broadcast;
extern const struct dt_perf_op dt_perf_op_alltoall;
extern const struct dt_perf_op dt_perf_op_sendrecv;
extern const struct dt_perf_op dt_perf_op_latency;

#ifdef __cplusplus
}
#endif

#endif
