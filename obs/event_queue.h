/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events that await the event command (event_hook.h): those of chosen kinds, in the order of the ring. It
 * is bounded: while DT_EVENT_QUEUE_MAX wait, further ones are dropped and counted.
 *
 * Reading the ring costs its writers nothing, so an event needs no second path. One thread; pure.
 */
#ifndef DETOUR_OBS_EVENT_QUEUE_H
#define DETOUR_OBS_EVENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "obs/event.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_EVENT_QUEUE_MAX 16u

struct dt_event_queue {
    uint32_t kinds;   /* bit k: events of kind k */
    uint64_t next;    /* number of the first event that was not seen */
    uint64_t dropped; /* of the chosen kinds, or overwritten before they were seen */
    uint32_t count, first;
    struct dt_event_record records[DT_EVENT_QUEUE_MAX];
};

/*
 * "path,verdict" as bits; not DT_EVENT_KIND_COMMAND, since the command would start itself. False: *unknown is
 * the name, of *unknown_bytes characters, that is no such kind; an empty text has one.
 */
bool dt_event_kinds_parse(const char *text, uint32_t *kinds, const char **unknown, size_t *unknown_bytes);

/* Adds the events that were written since. One that is being written ends it until the next call. */
void dt_event_queue_fill(struct dt_event_queue *queue, const struct dt_event_ring *ring);

/* Takes the oldest event; its number is record->mark - 1. False: none waits. */
bool dt_event_queue_take(struct dt_event_queue *queue, struct dt_event_record *record);

#ifdef __cplusplus
}
#endif

#endif
