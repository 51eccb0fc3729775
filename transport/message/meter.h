/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of a connection: a row of the counter page (obs/page.h), written by the connection's owner
 * with plain stores. Without a page the row is a member of the connection, so the data path needs no branch.
 *
 * A sender also stamps its messages (base/ticks.h) and puts a sample of each complete message into a ring,
 * which the device thread empties for detection. While the ring is more than half full, one sample represents
 * several messages. So the owner never waits, and the samples have no gap that would look like a pause.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_METER_H
#define DETOUR_TRANSPORT_MESSAGE_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/ticks.h"
#include "obs/page.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_connection;
struct dt_path;

#define DT_METER_SAMPLES                                                               \
    256 /* messages of 64 KiB that a link of 100 Gbit/s carries in about a millisecond \
         */

#define DT_METER_SAMPLES_EACH (DT_METER_SAMPLES / 2) /* the others represent several messages each */
#define DT_METER_MERGED       64                     /* messages per such sample */

/* One complete message, or several; stamps and times are in ticks. */
struct dt_sample {
    uint64_t requested; /* the first isend call for the first message */
    uint64_t submitted; /* the first message had its CTS and all parts */
    uint64_t done;      /* the last message was complete */
    uint64_t bytes;
    uint64_t messages;
    /* Where there are several: */
    uint64_t service; /* sum of the messages' times from `submitted` to `done` */
    uint64_t idle;    /* time in that interval with no message in flight */
    uint64_t waited;  /* part of `idle` in which a message was requested */
};

struct dt_meter {
    struct dt_page_connection *row; /* never NULL while the connection lives */
    const struct dt_ticks *ticks;
    uint64_t requested; /* when isend was first refused for the next message; 0: it was not [owner] */
    int32_t tag;        /* of the last message [owner] */
    int32_t owner_tid; /* of the thread that sent the first message; 0: none [atomic; written by the owner] */
    uint64_t
        taken_back; /* messages that were complete and have to be sent again [atomic; written by the owner] */
    uint64_t merged;          /* messages in samples of several messages [atomic; written by the owner] */
    bool is_keeping;          /* `kept` is not empty [atomic; written by the owner] */
    uint32_t head;            /* samples made, modulo 2^32 [atomic; written by the owner] */
    uint32_t tail;            /* samples taken [atomic; written by the device thread] */
    uint32_t room;            /* DT_METER_SAMPLES_EACH, or 0: out of memory for the ring */
    struct dt_sample *sample; /* sender: DT_METER_SAMPLES */
    struct dt_sample kept;    /* messages that await room in the ring, or 0 messages [owner] */
    struct dt_page_connection own; /* the row of a connection without a page */
};

/* Initializes and frees. If memory for the ring is short, no messages are sampled; no error is reported. */
void dt_meter_init(struct dt_meter *meter, const struct dt_ticks *ticks, bool is_sender);
void dt_meter_fini(struct dt_meter *meter);

/*
 * Claims the row when the connection is set up, and releases it at close. Other threads may read the row in
 * between. Not on the data path; the caller excludes calls of the owner.
 */
void dt_meter_open(struct dt_connection *connection, uint64_t now_ns);
void dt_meter_close(struct dt_connection *connection);

/* Records the connection's path for new messages, after it has changed. Owner. */
void dt_meter_path(struct dt_connection *connection);

/* An event about this connection and this path of it, which may be NULL. Not on the data path. */
struct dt_event_record dt_meter_event(const struct dt_connection *connection, enum dt_event_kind kind,
                                      uint64_t time_ns, const struct dt_path *path);

/* The tag differs from that of the message before. Owner. */
__attribute__((cold)) void dt_meter_tag_changed(struct dt_meter *meter, int32_t tag);

static inline void dt_meter_tag(struct dt_meter *meter, int32_t tag)
{
    if (__builtin_expect(meter->tag != tag, 0))
        dt_meter_tag_changed(meter, tag);
}

/* An isend or irecv got no request; NCCL calls again. Owner. */
static inline void dt_meter_refused(struct dt_meter *meter)
{
    dt_page_add(&meter->row->refused_count, 1);
}

/* isend was called for the next message, whose CTS has not arrived. Owner. */
static inline void dt_meter_waits(struct dt_meter *meter)
{
    if (meter->requested == 0)
        meter->requested = dt_ticks_now(meter->ticks);
}

/* A hold kept a message for this time, or (0) the request for one: the wait for the next one starts again.
 * Owner. */
__attribute__((cold)) void dt_meter_held(struct dt_meter *meter, uint64_t held_ns);

/* A message is complete. Owner. */
static inline void dt_meter_count(struct dt_meter *meter, uint64_t bytes)
{
    dt_page_add(&meter->row->message_count, 1);
    dt_page_add(&meter->row->payload_bytes, bytes);
}

/* Adds a message to a sample of several: the ring is at least half full, or was. Owner. */
__attribute__((cold)) void dt_meter_keep(struct dt_meter *meter, uint64_t requested, uint64_t submitted,
                                         uint64_t done, uint64_t bytes);

/* The payload with these stamps has been delivered. Owner. */
static inline void dt_meter_serviced(struct dt_meter *meter, uint64_t requested, uint64_t submitted,
                                     uint64_t bytes)
{
    struct dt_page_connection *row = meter->row;
    uint32_t head = meter->head;
    struct dt_sample *sample = &meter->sample[head % DT_METER_SAMPLES];
    uint64_t done = dt_ticks_now(meter->ticks);
    /* Stamps of two cores may differ by the time between two instructions. */
    uint64_t service_ns = dt_ticks_to_ns(meter->ticks, done > submitted ? done - submitted : 0);

    DT_CHECK_HOT(head - dt_load_acquire(&meter->tail) <= DT_METER_SAMPLES);
    dt_page_add(&row->service_ns, service_ns);
    dt_page_add(&row->service_count[dt_page_service_bucket(service_ns)], 1);
    if (__builtin_expect(meter->is_keeping || head - dt_load_acquire(&meter->tail) >= meter->room, 0)) {
        dt_meter_keep(meter, requested, submitted, done, bytes);
        return;
    }
    sample->requested = requested;
    sample->submitted = submitted;
    sample->done = done;
    sample->bytes = bytes;
    sample->messages = 1;
    dt_store_release(&meter->head, head + 1);
}

/* A message is complete, with its payload. Owner. */
static inline void dt_meter_sent(struct dt_meter *meter, uint64_t requested, uint64_t submitted,
                                 uint64_t bytes)
{
    dt_meter_count(meter, bytes);
    dt_meter_serviced(meter, requested, submitted, bytes);
}

/* The oldest sample, or NULL; dt_meter_taken() frees its entry. Device thread. */
static inline const struct dt_sample *dt_meter_sample(const struct dt_meter *meter)
{
    uint32_t tail = meter->tail;

    return dt_load_acquire(&meter->head) == tail ? NULL : &meter->sample[tail % DT_METER_SAMPLES];
}

static inline void dt_meter_taken(struct dt_meter *meter)
{
    DT_CHECK_HOT(dt_load_relaxed(&meter->head) != meter->tail);
    dt_store_release(&meter->tail, meter->tail + 1);
}

#ifdef __cplusplus
}
#endif

#endif
