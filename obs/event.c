/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/event.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "obs/atomic_copy.h"

DT_STATIC_CHECK(sizeof(struct dt_event_record) == 376, "the layout of a record is fixed");
DT_STATIC_CHECK((DT_EVENT_SLOTS & (DT_EVENT_SLOTS - 1)) == 0, "slots are found with a mask");

#define BODY_OFFSET offsetof(struct dt_event_record, time_ns)
#define BODY_BYTES  (sizeof(struct dt_event_record) - BODY_OFFSET)

const char *dt_event_kind_text(uint32_t kind)
{
    static const char *const texts[] = {
#define KIND_TEXT(name, text) text,
        DT_EVENT_KIND_LIST(KIND_TEXT)
#undef KIND_TEXT
    };

    return kind < DT_EVENT_KIND_COUNT ? texts[kind] : "unknown";
}

void dt_event_write(struct dt_event_ring *ring, const struct dt_event_record *content, const char *format,
                    ...)
{
    struct dt_event_record record = *content;
    uint64_t number = dt_fetch_add_relaxed(&ring->written, 1);
    struct dt_event_record *slot = &ring->records[number % DT_EVENT_SLOTS];
    va_list args;

    DT_CHECK(record.kind < DT_EVENT_KIND_COUNT);
    va_start(args, format);
    vsnprintf(record.text, sizeof record.text, format, args);
    va_end(args);
    dt_store_relaxed(&slot->mark, 0);
    dt_atomic_copy_store((char *)slot + BODY_OFFSET, (char *)&record + BODY_OFFSET, BODY_BYTES);
    dt_store_release(&slot->mark, number + 1);
}

bool dt_event_read(const struct dt_event_ring *ring, uint64_t number, struct dt_event_record *record)
{
    const struct dt_event_record *slot = &ring->records[number % DT_EVENT_SLOTS];

    if (dt_load_acquire(&slot->mark) != number + 1)
        return false;
    dt_atomic_copy_load((char *)record + BODY_OFFSET, (const char *)slot + BODY_OFFSET, BODY_BYTES);
    record->nic[sizeof record->nic - 1] = '\0';
    record->peer_nic[sizeof record->peer_nic - 1] = '\0';
    record->next_nic[sizeof record->next_nic - 1] = '\0';
    record->peer[sizeof record->peer - 1] = '\0';
    record->text[DT_EVENT_TEXT_BYTES - 1] = '\0';
    record->mark = number + 1;
    return dt_load_relaxed(&slot->mark) == number + 1;
}
