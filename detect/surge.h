/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a link become slow just now? The monitor needs iterations; this needs three messages, and in exchange
 * sees only what is plain: messages that take several times as long as messages of their size do, and a
 * millisecond longer at least. It is for the verdict that people and schedulers read, so it would rather be
 * late than wrong. When the host path takes over (`DETOUR_HOSTPATH=auto`) is not decided here but by
 * hostpath/auto.h: at once, by the sender's owner, of all bytes under way together, and already at half as
 * long again; being wrong costs that one no more than a copy.
 *
 * On: three messages in a row, each handed over when the one before was complete, since messages that were
 * under way together may have met with one and the same short stop; or one that has been under way for 100 ms
 * longer than it should. Off: 32 messages in a row as they should be, over at least a second. A change of
 * sizes is no surge: what is not known for a size class is taken from the nearest class below it, in
 * proportion.
 *
 * Pure, no allocation. One thread.
 */
#ifndef DETOUR_DETECT_SURGE_H
#define DETOUR_DETECT_SURGE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_SURGE_CLASSES      40 /* by the logarithm to base 2 of the bytes */
#define DT_SURGE_FACTOR       3
#define DT_SURGE_EXTRA_NS     1000000ull
#define DT_SURGE_OVERDUE_NS   100000000ull
#define DT_SURGE_ON_MESSAGES  3
#define DT_SURGE_OFF_MESSAGES 32
#define DT_SURGE_OFF_NS       1000000000ull
#define DT_SURGE_LEARN        8 /* messages of a class before it is known */

struct dt_surge {
    uint64_t usual_ns[DT_SURGE_CLASSES]; /* healthy time per message */
    uint32_t known[DT_SURGE_CLASSES];    /* messages that it was learnt from */
    uint32_t slow_in_row;
    uint64_t slow_until_ns; /* the last of them was complete */
    uint32_t well_in_row;
    uint64_t well_since_ns;
    uint64_t slow_ns; /* what the last slow message took, and what it should have taken */
    uint64_t usual_of_slow_ns;
    bool is_on;
};

void dt_surge_init(struct dt_surge *surge);

/* A message of `bytes` took `service_ns` and was complete at `now_ns`. */
void dt_surge_message(struct dt_surge *surge, uint64_t bytes, uint64_t service_ns, uint64_t now_ns);

/* The oldest message under way: since when, and its size. */
void dt_surge_waiting(struct dt_surge *surge, uint64_t bytes, uint64_t since_ns, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
