/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes that are part of the protocol between the two ends of a connection, or follow from it.
 *
 * Terms: a *message* is what one irecv receives; it has 1 to DT_PARTS_MAX *parts* (NCCL's
 * grouped receives). Messages of a connection are numbered from 0 by a 64-bit *sequence*; sequence mod slots
 * is the message's *slot*, at both ends. A *path* is a pair of RNICs, one per end, with their queue pairs.
 */
#ifndef DETOUR_BASE_LIMITS_H
#define DETOUR_BASE_LIMITS_H

/*
 * Slots of a connection, a power of two: twice the number of requests that NCCL keeps outstanding
 * (NCCL_NET_MAX_REQUESTS, 32), so that a slot whose CTS is not yet known to be delivered does not delay the
 * next.
 */
#define DT_SLOTS_MAX 64
#define DT_SLOTS_MIN 8

#define DT_PARTS_MAX 8
#define DT_PATHS_MAX 4
/* Data queue pairs per path, as many as NCCL's own transport takes per connection. */
#define DT_QPS_MAX 128
/* With more, a frame that has their numbers (OPEN) is too long for the mailbox of a path, and travels on the
 * control network alone. */
#define DT_QPS_IN_BAND_MAX 32

/* Queue pairs that one message is split over; one 64-bit word has a bit for each of them and each part. */
#define DT_SHARES_MAX 8

/*
 * NCCL's LL128 protocol polls a flag at the end of each 128-byte line, so messages are split only there. That
 * also satisfies LL, which needs 8 bytes.
 */
#define DT_CUT_BYTES 128u

#define DT_MESSAGE_BYTES_MAX (1u << 30) /* per part; NCCL's own limit for v8 plugins */

/*
 * A share of a message is written in at most this many work requests, which bounds the send queue entries of
 * a message: chunks grow if the share is too large for the agreed chunk size.
 */
#define DT_CHUNKS_MAX             16
#define DT_CHUNK_BYTES_DEFAULT    (64u << 20) /* a message of 1 GiB is 16 chunks */
#define DT_CHUNK_BYTES_MIN        4096u
#define DT_WRITES_PER_PART_MAX    (DT_CHUNKS_MAX + 1)                     /* the chunks and the size record */
#define DT_WRITES_PER_MESSAGE_MAX (DT_PARTS_MAX * DT_WRITES_PER_PART_MAX) /* on one queue pair */

/* A receiver sends this much inline: one CTS entry. */
#define DT_INLINE_BYTES 64
/* Payloads up to this size are sent inline if they are in host memory. With four bytes more libmlx5 would
 * make each element of a sender's queue 320 bytes instead of 256 (verbs/mlx5_size.h). */
#define DT_SEND_INLINE_BYTES 60

/* Zero-length receives are replenished in batches of this size; receive queues have room for one batch more.
 */
#define DT_EMPTY_RECV_BATCH 64

/* Every n-th CTS write of a receiver is signaled, and the last one that fits the send queue. */
#define DT_CTS_SIGNAL_PERIOD 16

/*
 * Bounce buffers per connection for eager sends (hostpath/staged/eager.h), and the largest message that fits
 * one. The index of a bounce buffer takes three bits of an immediate.
 */
#define DT_EAGER_PLACES    8u
#define DT_EAGER_BYTES_MAX (512u << 10)

#define DT_FLUSHES_MAX 64 /* outstanding flush requests of a receiver */

#define DT_HANDLE_BYTES 128 /* NCCL_NET_HANDLE_MAXSIZE */

#endif
