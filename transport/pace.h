/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The iterations of the job in this process, and whether its own computation is slow: feeds the stamps of all
 * connections to detect/rank_time.h, and writes the result to the counter page, the events and the log.
 * Private to transport/.
 *
 * Senders have stamps anyway (meter.h): when NCCL first wanted to send a message. Receivers stamp arrivals
 * (receiver.h). The device threads take both; all of it is under the mutex of struct dt_health_net, except
 * for what a function says.
 */
#ifndef DETOUR_TRANSPORT_PACE_H
#define DETOUR_TRANSPORT_PACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "detect/rank_time.h"
#include "obs/page.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_receiver;

/* Of the process. */
struct dt_pace {
    struct dt_rank_time time;
    struct dt_page_pace shown; /* as it stands in the page */
};

void dt_pace_init(struct dt_pace *pace);

/* A receiver is set up or closed. DT_NO_MEMORY: the process has no computing gap. Device thread, without the
 * mutex `mutex`, as the next one. */
enum dt_status dt_pace_add(struct dt_pace *pace, pthread_mutex_t *mutex, struct dt_receiver *receiver);
void dt_pace_remove(struct dt_pace *pace, pthread_mutex_t *mutex, struct dt_receiver *receiver);

/* Takes the stamps of a receiver. Device thread, holding nic->mutex and not `mutex`. */
void dt_pace_feed(pthread_mutex_t *mutex, struct dt_receiver *receiver);

/* A number for the process at the other end: FNV-1a of at most `bytes` of its name. Two names with the same
 * number would only blur a conclusion. */
uint32_t dt_pace_number_of(const char *name, size_t bytes);

/* Of the process in "host:pid (device)". */
uint32_t dt_pace_peer(const char *peer);

/* Evaluates and publishes. `page` may be NULL. `is_disturbed`: a link of the process is slow. */
void dt_pace_judge(struct dt_pace *pace, struct dt_page *page, bool is_disturbed, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
