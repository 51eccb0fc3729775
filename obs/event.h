/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event records: a ring in the counter page that keeps the newest ones. Any thread writes without waiting,
 * and a reader in another process recognizes records that are being written.
 *
 * Record n (counted from 0) is in slot n mod DT_EVENT_SLOTS; its `mark` is n + 1 once it is complete and 0
 * while it is written. If DT_EVENT_SLOTS other writers overtake a writer within one record, that record may
 * be mixed, so readers must not rely on the text.
 */
#ifndef DETOUR_OBS_EVENT_H
#define DETOUR_OBS_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_EVENT_SLOTS      1024u
#define DT_EVENT_TEXT_BYTES 96u

/* name, text for readers */
#define DT_EVENT_KIND_LIST(X)                                                   \
    X(DT_EVENT_KIND_PROCESS, "process") /* started, stopped */                  \
    X(DT_EVENT_KIND_DEVICE, "device")   /* an asynchronous event of a device */ \
    X(DT_EVENT_KIND_PATH, "path")       /* failover, step by step */            \
    X(DT_EVENT_KIND_VERDICT, "verdict") /* detection: slow, healthy again */    \
    X(DT_EVENT_KIND_CONTROL, "control") /* a command from the command socket */

enum dt_event_kind {
#define DT_EVENT_KIND_ENUM(name, text) name,
    DT_EVENT_KIND_LIST(DT_EVENT_KIND_ENUM)
#undef DT_EVENT_KIND_ENUM
        DT_EVENT_KIND_COUNT
};

/* "process" and so on; "unknown" outside the list. */
const char *dt_event_kind_text(uint32_t kind);

/* The layout in the page: 128 bytes. */
struct dt_event_record {
    uint64_t mark;
    uint64_t time_ns;               /* the writer's clock: CLOCK_MONOTONIC in a process */
    uint32_t kind;                  /* enum dt_event_kind */
    uint32_t subject;               /* row of the connection table; UINT32_MAX: none */
    int64_t value;                  /* depends on the kind, for instance nanoseconds */
    char text[DT_EVENT_TEXT_BYTES]; /* ends with a zero byte */
};

struct dt_event_ring {
    uint64_t written; /* records started since the process started */
    uint64_t reserved[7];
    struct dt_event_record records[DT_EVENT_SLOTS];
};

/* Writes one record; a longer text is cut. Any thread. */
void dt_event_write(struct dt_event_ring *ring, uint64_t time_ns, enum dt_event_kind kind, uint32_t subject,
                    int64_t value, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Copies record `number`. False: not written yet, overwritten, or being written. Any thread. */
bool dt_event_read(const struct dt_event_ring *ring, uint64_t number, struct dt_event_record *record);

#ifdef __cplusplus
}
#endif

#endif
