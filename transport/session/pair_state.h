/* SPDX-License-Identifier: Apache-2.0 */
/* State of the carriers (pair.h). Private to transport/session/pair*.c. Members without a remark:
 * pairs->mutex. */
#ifndef DETOUR_TRANSPORT_SESSION_PAIR_STATE_H
#define DETOUR_TRANSPORT_SESSION_PAIR_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "transport/session/channel.h"
#include "transport/session/pair.h"
#include "transport/session/pair_record.h"
#include "transport/session/poller.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PAIR_BUCKETS    256u         /* of a pair's streams */
#define DT_PAIR_READ_BYTES (32u * 1024) /* of one read; more than a record */

/* As in pair.h. */
enum dt_pair_state { DT_PAIR_IDLE, DT_PAIR_CONNECTING, DT_PAIR_JOINING, DT_PAIR_UP, DT_PAIR_STATE_COUNT };

/* One other process. Only progress changes `state` and `carrier`, and frees it. */
struct dt_pair {
    struct dt_list node; /* in pairs->pairs */
    struct dt_pairs *pairs;
    uint64_t identity;         /* the other process's; constant */
    struct dt_address address; /* of the last stream that was dialed; family NONE: none was */
    enum dt_pair_state state;
    uint32_t round;            /* of the carrier in use, or the last one */
    uint32_t offered;          /* the newest that was offered, or that STALE has named */
    struct dt_channel carrier; /* CONNECTING, JOINING: whole; UP: its stream alone is used */
    struct dt_channel *parked; /* or NULL */
    uint32_t parked_round;
    bool is_broken;   /* a record could not be appended: the carrier has to be replaced */
    bool is_readable; /* [progress] the carrier may have something to read */
    bool is_blocked;  /* [progress] the last write did not take everything */
    uint32_t watched; /* [progress] events that the thread's epoll set has for the carrier */

    struct dt_list bucket[DT_PAIR_BUCKETS]; /* struct dt_pair_stream, by number */
    uint32_t stream_count;
    uint32_t waiting_count; /* of them, those that wait for the carrier */
    uint32_t stream_next;

    struct dt_record_buffer out;     /* appended */
    struct dt_record_buffer writing; /* [progress] being written */
    size_t written;                  /* [progress] */
    size_t in_used;                  /* [progress] */
    uint8_t in[DT_PAIR_READ_BYTES];  /* [progress] */
};

/* One multiplexed stream. It is its owner's until close, whatever becomes of the carrier. */
struct dt_pair_stream {
    struct dt_stream stream;
    struct dt_list node; /* in its bucket, or on no list */
    struct dt_pairs *pairs;
    struct dt_pair *pair; /* NULL: the carrier is lost */
    uint32_t number;
    bool is_waiting;          /* for the carrier */
    bool has_joined;          /* a carrier has carried it */
    bool is_opened;           /* OPEN was sent, or came */
    uint32_t has_ended;       /* the peer sends no more, or the carrier is lost [atomic] */
    enum dt_status ended;     /* then: why */
    struct dt_poller *poller; /* woken by news; or NULL */
    struct dt_address peer;
    uint32_t credit;       /* bytes that may be sent */
    bool is_starved;       /* bytes wait for credit */
    uint32_t consumed;     /* bytes read since the last CREDIT */
    uint32_t in_begin;     /* of the inbox, a ring */
    uint32_t in_used;      /* [atomic: zero is read without the mutex] */
    struct dt_list opened; /* in pairs->opened until it is accepted */
    uint8_t in[DT_PAIR_WINDOW_BYTES];
};

struct dt_pair_port {
    struct dt_stream_port port;
    struct dt_pairs *pairs;
    struct dt_stream_port *real;
};

struct dt_pair_arrival {
    struct dt_list node;
    struct dt_channel *channel;
    struct dt_pair_frame frame;
};

struct dt_pairs {
    struct dt_network network;
    struct dt_network *real; /* constant */
    uint64_t identity;       /* constant */
    pthread_mutex_t mutex;
    struct dt_list pairs;
    struct dt_list arrivals; /* struct dt_pair_arrival: PAIR frames that the listener has read */
    struct dt_list opened;   /* struct dt_pair_stream */
    uint32_t opened_count;
    bool has_port; /* else streams of peers are ended at once */
    bool is_progressing;
    struct dt_pairs_stats stats;

    /* The thread. */
    struct dt_pairs_listener listener;
    pthread_t thread;
    uint32_t has_thread;  /* [atomic] */
    uint32_t is_stopping; /* [atomic] */
    uint32_t is_woken;    /* wake_fd was written since it was read [atomic] */
    int wake_fd;
    int epoll_fd;
};

/* Has the thread progress. With the mutex; without a thread nothing happens. */
void dt_pairs_wake(struct dt_pairs *pairs);

/* The pair of this process, made if need be; NULL: out of memory. */
struct dt_pair *dt_pair_of(struct dt_pairs *pairs, uint64_t identity);

/* One pair's progress. It may free the pair. */
void dt_pair_progress(struct dt_pair *pair);

/* Streams (pair_stream.c), called by progress. */
void dt_pair_streams_joined(struct dt_pair *pair);                      /* the carrier is up */
void dt_pair_streams_lost(struct dt_pair *pair, enum dt_status status); /* it is lost, or not to be had */
enum dt_status dt_pair_take_record(struct dt_pair *pair, const struct dt_record *record); /* DT_PROTOCOL */

/* Bytes (pair_io.c), called by progress with the mutex, which they release while they call the carrier. */
enum dt_status dt_pair_write(struct dt_pair *pair);
enum dt_status dt_pair_read(struct dt_pair *pair);

/* The thread's epoll set (pair_thread.c); without the thread nothing happens. */
void dt_pair_watch(struct dt_pair *pair);
void dt_pair_unwatch(struct dt_pair *pair);

extern const struct dt_network_ops dt_pair_network_ops;

#ifdef __cplusplus
}
#endif

#endif
