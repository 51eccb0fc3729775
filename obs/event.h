/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event records: a ring in the counter page that keeps the newest ones. Any thread writes without waiting,
 * and a reader in another process recognizes records that are being written.
 *
 * Record n (counted from 0) is in slot n mod DT_EVENT_SLOTS; its `mark` is n + 1 once it is complete and 0
 * while it is written. If DT_EVENT_SLOTS other writers overtake a writer within one record, that record may
 * be mixed, so readers must not rely on the content.
 */
#ifndef DETOUR_OBS_EVENT_H
#define DETOUR_OBS_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_EVENT_SLOTS      1024u
#define DT_EVENT_TEXT_BYTES 96u

/* name, text for readers */
#define DT_EVENT_KIND_LIST(X)                                                                                \
    X(DT_EVENT_KIND_PROCESS, "process")         /* started, stopped */                                       \
    X(DT_EVENT_KIND_DEVICE, "device")           /* an asynchronous event of a device */                      \
    X(DT_EVENT_KIND_PATH, "path")               /* failover, step by step */                                 \
    X(DT_EVENT_KIND_VERDICT, "verdict")         /* detection: slow, healthy again */                         \
    X(DT_EVENT_KIND_CONTROL, "control")         /* a command from the command socket */                      \
    X(DT_EVENT_KIND_COMMAND, "command")         /* DETOUR_EVENT_COMMAND ended, failed, was dropped */        \
    X(DT_EVENT_KIND_COMPUTATION, "computation") /* this process computes longer than before, or no longer */ \
    X(DT_EVENT_KIND_REMEDY, "remedy")           /* a controller's remedy for the job: S1 to S4 */

enum dt_event_kind {
#define DT_EVENT_KIND_ENUM(name, text) name,
    DT_EVENT_KIND_LIST(DT_EVENT_KIND_ENUM)
#undef DT_EVENT_KIND_ENUM
        DT_EVENT_KIND_COUNT
};

/* "process" and so on; "unknown" outside the list. */
const char *dt_event_kind_text(uint32_t kind);

#define DT_EVENT_NO_VERDICT UINT32_MAX

/* The layout in the page. dt_event_of() has the values of what an event lacks. */
struct dt_event_record {
    uint64_t mark;
    uint64_t time_ns; /* the writer's clock: CLOCK_MONOTONIC in a process */
    uint32_t kind;    /* enum dt_event_kind */
    uint32_t subject; /* row of the connection table; UINT32_MAX: none */
    int64_t value;    /* depends on the kind, for instance nanoseconds; remedy: 1 to 4 for S1 to S4 */
    /* Of the connection. */
    uint64_t connection; /* its number; 0: the event concerns no connection */
    uint32_t is_send;    /* 1: this end sends, 0: it receives */
    int32_t path;        /* that the event is about; -1: none */
    int32_t from_rank;   /* of the sending end, as in struct dt_page_connection */
    uint32_t epoch;      /* of the path, in a path event */
    /* Of the verdict; of a path event the cause, and delay_ns: from the failure to the end of the switchover.
     */
    uint32_t verdict; /* enum dt_page_verdict; DT_EVENT_NO_VERDICT */
    uint32_t cause;   /* enum detour_stat_cause */
    uint64_t since_ns;
    uint64_t factor_permille;
    uint64_t delay_ns;
    /* Texts end with a zero byte; "": none. */
    char nic[32];      /* this end's device */
    char peer_nic[32]; /* the peer's */
    char next_nic[32]; /* of a path event: this end's device that carries on; "": no path was up */
    char peer[96];     /* process at the other end: "host:pid" */
    char text[DT_EVENT_TEXT_BYTES];
};

/* A record without a connection and a verdict. */
static inline struct dt_event_record dt_event_of(enum dt_event_kind kind, uint64_t time_ns)
{
    struct dt_event_record record;

    memset(&record, 0, sizeof record);
    record.time_ns = time_ns;
    record.kind = (uint32_t)kind;
    record.subject = UINT32_MAX;
    record.path = record.from_rank = -1;
    record.verdict = DT_EVENT_NO_VERDICT;
    return record;
}

struct dt_event_ring {
    uint64_t written; /* records started since the process started */
    uint64_t reserved[7];
    struct dt_event_record records[DT_EVENT_SLOTS];
};

/* Writes a record with this content and text; a longer text is cut. Any thread. */
void dt_event_write(struct dt_event_ring *ring, const struct dt_event_record *content, const char *format,
                    ...) __attribute__((format(printf, 3, 4)));

/* Copies record `number`. False: not written yet, overwritten, or being written. Any thread. */
bool dt_event_read(const struct dt_event_ring *ring, uint64_t number, struct dt_event_record *record);

#ifdef __cplusplus
}
#endif

#endif
