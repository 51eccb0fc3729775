/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/event_queue.h"

#include <string.h>

#include "base/atomics.h"
#include "base/check.h"

static bool find_kind(const char *name, size_t bytes, uint32_t *kinds)
{
    for (uint32_t kind = 0; kind < DT_EVENT_KIND_COUNT; kind++) {
        const char *text = dt_event_kind_text(kind);

        if (kind != DT_EVENT_KIND_COMMAND && strlen(text) == bytes && !memcmp(text, name, bytes)) {
            *kinds |= 1u << kind;
            return true;
        }
    }
    return false;
}

bool dt_event_kinds_parse(const char *text, uint32_t *kinds, const char **unknown, size_t *unknown_bytes)
{
    *kinds = 0;
    for (;; text++) {
        size_t bytes = strcspn(text, ",");

        if (!find_kind(text, bytes, kinds)) {
            *unknown = text;
            *unknown_bytes = bytes;
            return false;
        }
        text += bytes;
        if (!*text)
            return true;
    }
}

static void add(struct dt_event_queue *queue, const struct dt_event_record *record)
{
    DT_CHECK(queue->count <= DT_EVENT_QUEUE_MAX);
    if (!(queue->kinds & 1u << (record->kind % 32)))
        return;
    if (queue->count == DT_EVENT_QUEUE_MAX) {
        queue->dropped++;
        return;
    }
    queue->records[(queue->first + queue->count) % DT_EVENT_QUEUE_MAX] = *record;
    queue->count++;
}

void dt_event_queue_fill(struct dt_event_queue *queue, const struct dt_event_ring *ring)
{
    uint64_t written = dt_load_acquire(&ring->written);
    struct dt_event_record record;

    if (written - queue->next > DT_EVENT_SLOTS) {
        queue->dropped += written - DT_EVENT_SLOTS - queue->next;
        queue->next = written - DT_EVENT_SLOTS;
    }
    for (; queue->next < written; queue->next++) {
        if (dt_event_read(ring, queue->next, &record))
            add(queue, &record);
        else if (written - queue->next < DT_EVENT_SLOTS / 2)
            return; /* is being written */
        else
            queue->dropped++; /* was being overwritten */
    }
}

bool dt_event_queue_take(struct dt_event_queue *queue, struct dt_event_record *record)
{
    if (queue->count == 0)
        return false;
    *record = queue->records[queue->first];
    queue->first = (queue->first + 1) % DT_EVENT_QUEUE_MAX;
    queue->count--;
    return true;
}
