/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detection for connections: feeds the samples of a sender's messages (meter.h) to detect/, and writes the
 * verdict to the counter page, the events and the log. Private to transport/.
 *
 * All of it runs on device threads. The one of a sender's default device takes the samples from the owner's
 * ring; at an interval one of them compares all senders of the process and decides.
 */
#ifndef DETOUR_TRANSPORT_HEALTH_H
#define DETOUR_TRANSPORT_HEALTH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/list.h"
#include "base/status.h"
#include "detect/blame.h"
#include "detect/surge.h"
#include "detect/sampler.h"
#include "obs/page.h"
#include "transport/busy.h"
#include "transport/pace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_connection;
struct dt_net;
struct dt_sender;

#define DT_HEALTH_SAMPLES 256 /* whose start time is kept; more than the monitor looks back */

/* The input of the comparison, per sender. */
struct dt_health_summary {
    bool is_slow;    /* by its monitor, or because of a surge */
    bool is_waiting; /* its peer is late to receive, and that costs more than the network */
    bool is_known;   /* the monitor has learned what is healthy */
    bool is_overdue; /* a message in flight is the surge */
    uint32_t period; /* bursts per iteration, as it found it itself; 0: none */
    uint64_t slow_since_ns;
    uint64_t waiting_since_ns;
    double factor;
    double seconds_a_byte; /* 0: not known */
    uint64_t delay_ns;
    uint64_t transfer_bytes;
    uint64_t message_bytes;
    uint64_t sample_count;
};

/* The end whose busy processors explain the time of a sender. */
enum dt_health_processor { DT_HEALTH_PROCESSOR_NONE, DT_HEALTH_PROCESSOR_OWN, DT_HEALTH_PROCESSOR_PEER };

/* Of a sender. */
struct dt_health {
    /* [device thread], under nic->mutex */
    struct dt_sampler watch;
    struct dt_surge surge;
    uint64_t began_ns[DT_HEALTH_SAMPLES]; /* of the monitor's sample, by its number */
    uint64_t iteration_ns;                /* the present iteration began */
    uint64_t surge_since_ns;
    uint64_t
        stuck_since_ns; /* messages are in flight and none completes since then; DT_NEVER_NS: they complete */
    uint64_t message_bytes; /* of the last message */
    uint64_t slow_sample;   /* the run of the slow verdict began with it, and when */
    uint64_t slow_since_ns;
    uint64_t waiting_sample;
    uint64_t waiting_since_ns;

    /* [under health_mutex of the net] */
    struct dt_list node; /* of `fresh` */
    uint32_t index;      /* in the arrays of the net */
    struct dt_connection *connection;
    struct dt_health_summary summary;
    uint32_t peer_number; /* of the peer's process and of its host, for struct dt_blame_connection */
    uint32_t peer_host_number;
    const struct dt_path *path; /* that the next two are of; NULL: of none yet */
    uint32_t own_nic;
    uint32_t peer_nic_number;
    uint32_t vote;                     /* counted in net->votes */
    struct dt_processor_flight flight; /* of its messages */
    enum dt_health_processor processor;
    struct dt_page_health shown; /* as it stands in the page */
    struct dt_rank_sender rank;  /* its part of net->pace */
};

/* Of the process. */
struct dt_health_net {
    pthread_mutex_t mutex;
    /* struct dt_health: new since the last judgement, fed since, slow, or waiting. A judgement looks at these
     * alone; the others have the input and the verdict of before. */
    struct dt_list fresh;
    uint32_t count;                            /* of all senders */
    uint32_t room;                             /* in each of the arrays */
    struct dt_health **senders;                /* by index */
    struct dt_blame_connection *blame;         /* the same */
    struct dt_blame_connection **order;        /* for the comparison */
    uint32_t votes[DT_SAMPLER_PERIOD_MAX + 1]; /* senders that found this period */
    uint32_t voted;                            /* the period that most of them found; 0: none */
    struct dt_health *worst;                   /* of those that share a row; NULL: there is none */
    bool is_worst_known;
    struct dt_page_health shown_shared; /* as it stands in that row */
    struct dt_pace pace;
    struct dt_busy busy; /* its `read` is set after dt_health_open() */
    uint64_t judged_ns;  /* [atomic] */
};

/* DT_SYSTEM. */
enum dt_status dt_health_open(struct dt_health_net *health);
void dt_health_close(struct dt_health_net *health);

/* A sender is set up: makes sender->health. DT_NO_MEMORY: the sender is not judged. */
enum dt_status dt_health_add(struct dt_health_net *net, struct dt_sender *sender);
/* The sender is closed. Harmless if it was not added. */
void dt_health_remove(struct dt_health_net *net, struct dt_sender *sender);

/* Takes the samples that the owner has recorded. Device thread, holding nic->mutex. */
void dt_health_feed(struct dt_health_net *net, struct dt_sender *sender, uint64_t now_ns);

/* Compares all senders and logs changes, if the last comparison is an interval ago. Any device thread,
 * without a mutex. */
void dt_health_judge(struct dt_health_net *net, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
