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

#define DT_METER_SAMPLES                                                               \
    256 /* what a link of 100 Gbit/s carries of 64 KiB messages in about a millisecond \
         */

#define DT_METER_SAMPLES_EACH (DT_METER_SAMPLES / 2) /* the others stand for several messages */
#define DT_METER_MERGED       64                     /* messages per such sample */

/* One complete message, or several; stamps and times are in ticks. */
struct dt_sample {
    uint64_t requested; /* the first isend call for the first message */
    uint64_t submitted; /* the first message had its CTS and all parts */
    uint64_t done;      /* the last message was complete */
    uint64_t bytes;
    uint64_t messages;
    /* Where there are several: */
    uint64_t service; /* the sum of their times from `handed` to `done` */
    uint64_t idle;    /* between those two, nothing was under way */
    uint64_t waited;  /* of that, something was wanted */
};

struct dt_meter {
    struct dt_page_connection *row; /* never NULL while the connection lives */
    const struct dt_ticks *ticks;
    uint64_t requested; /* when isend was first refused for the next message; 0: it was not [owner] */
    int32_t tag;        /* of the last message [owner] */
    uint64_t
        taken_back;           /* messages that were complete, and then were not [atomic; the same] */
    uint64_t merged;               /* messages in samples of several [atomic; written by the owner] */
    bool is_keeping;               /* `kept` has some [atomic; written by the owner] */
    uint32_t head;            /* samples made, modulo 2^32 [atomic; written by the owner] */
    uint32_t tail;                 /* samples taken [atomic; written by Detour's thread] */
    uint32_t room;                 /* DT_METER_SAMPLES_EACH, or 0: there was no memory for any */
    struct dt_sample *sample; /* sender: DT_METER_SAMPLES */
    struct dt_sample kept;         /* of messages that found little room, or none; of 0 otherwise [owner] */
    struct dt_page_connection own; /* the row of a connection without a page */
};

/* A new connection, and its end. Out of memory is not reported: then nothing is sampled. */
void dt_meter_init(struct dt_meter *meter, const struct dt_ticks *ticks, bool is_sender);
void dt_meter_fini(struct dt_meter *meter);

/*
 * The connection is set up, or closed: its row is claimed and given back. In between others may look at it.
 * Not on the data path; the owner is quiet.
 */
void dt_meter_open(struct dt_connection *connection, uint64_t now_ns);
void dt_meter_close(struct dt_connection *connection);

/* The connection's path for new messages is another. Owner. */
void dt_meter_path(struct dt_connection *connection);

/* Messages carry another tag than before. Owner. */
__attribute__((cold)) void dt_meter_tag_changed(struct dt_meter *meter, int32_t tag);

static inline void dt_meter_tag(struct dt_meter *meter, int32_t tag)
{
    if (__builtin_expect(meter->tag != tag, 0))
        dt_meter_tag_changed(meter, tag);
}

/* NCCL asked for something that cannot be had now. Owner. */
static inline void dt_meter_refused(struct dt_meter *meter)
{
    dt_page_add(&meter->row->refused_count, 1);
}

/* NCCL asked for the next message, and the peer has not said clear-to-send. Owner. */
static inline void dt_meter_waits(struct dt_meter *meter)
{
    if (meter->requested == 0)
        meter->requested = dt_ticks_now(meter->ticks);
}

/* A message is complete. Owner. */
static inline void dt_meter_count(struct dt_meter *meter, uint64_t bytes)
{
    dt_page_add(&meter->row->message_count, 1);
    dt_page_add(&meter->row->payload_bytes, bytes);
}

/* The ring is half full, or was. Owner. */
__attribute__((cold)) void dt_meter_keep(struct dt_meter *meter, uint64_t requested, uint64_t submitted,
                                         uint64_t done, uint64_t bytes);

/* A payload has come that was handed over, and wanted, at these stamps. Owner. */
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
