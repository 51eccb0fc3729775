/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "detect/blame.h"
#include "detour/stat.h"
#include "transport/message/receiver.h"

DT_STATIC_CHECK((int)DETOUR_STAT_CAUSE_OWN_COMPUTATION == (int)DT_BLAME_COUNT,
                "the cause of a process follows those of its connections");

void dt_pace_init(struct dt_pace *pace)
{
    memset(pace, 0, sizeof *pace);
    dt_rank_time_init(&pace->time);
}

uint32_t dt_pace_number_of(const char *name, size_t bytes)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < bytes && name[i]; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return hash;
}

uint32_t dt_pace_peer(const char *peer)
{
    return dt_pace_number_of(peer, strcspn(peer, " "));
}

/* ------------------------------------------------------------------------------------------------------------
 * Receivers
 */
enum dt_status dt_pace_add(struct dt_pace *pace, pthread_mutex_t *mutex, struct dt_receiver *r)
{
    struct dt_rank_receiver *rank = calloc(1, sizeof *rank);

    if (!rank)
        return DT_NO_MEMORY;
    DT_CHECK(!r->rank); /* added once */
    pthread_mutex_lock(mutex);
    dt_rank_time_add_receiver(&pace->time, rank, dt_pace_peer(r->connection.peer));
    pthread_mutex_unlock(mutex);
    r->rank = rank;
    return DT_OK;
}

void dt_pace_remove(struct dt_pace *pace, pthread_mutex_t *mutex, struct dt_receiver *r)
{
    if (!r->rank)
        return;
    pthread_mutex_lock(mutex);
    dt_rank_time_remove_receiver(&pace->time, r->rank);
    pthread_mutex_unlock(mutex);
    free(r->rank);
    r->rank = NULL;
}

void dt_pace_feed(pthread_mutex_t *mutex, struct dt_receiver *r)
{
    const struct dt_ticks *ticks = r->connection.meter.ticks;
    uint64_t stamp, messages = r->rank ? dt_receiver_take_stamp(r, &stamp) : 0;

    if (messages == 0)
        return;
    pthread_mutex_lock(mutex);
    for (uint32_t taken = 0; messages > 0 && taken < DT_ARRIVAL_STAMPS; taken++) {
        dt_rank_time_arrived(r->rank, dt_ticks_moment_ns(ticks, stamp), messages);
        messages = taken + 1 < DT_ARRIVAL_STAMPS ? dt_receiver_take_stamp(r, &stamp) : 0;
    }
    pthread_mutex_unlock(mutex);
}

/* ------------------------------------------------------------------------------------------------------------
 * The result
 */
static struct dt_page_pace result_of(const struct dt_rank_time *time)
{
    struct dt_verdict verdict = dt_rank_time_verdict(time);

    return (struct dt_page_pace){
        .iterations = time->iterations,
        .iteration_ns = time->iteration_ns,
        .compute_ns = time->compute_ns,
        .verdict = verdict.is_slow    ? DT_PAGE_VERDICT_SLOW
                   : verdict.is_known ? DT_PAGE_VERDICT_HEALTHY
                                      : DT_PAGE_VERDICT_LEARNING,
        .since_ns = dt_rank_time_since_ns(time),
        .factor_permille = (uint64_t)(fmin(verdict.factor, 1e9) * 1000),
    };
}

/* By how much the computing gap of an iteration is longer than the healthy one. */
static uint64_t delay_ns(const struct dt_page_pace *pace)
{
    return pace->factor_permille > 1000 ? pace->compute_ns - (uint64_t)((double)pace->compute_ns * 1000 /
                                                                        (double)pace->factor_permille)
                                        : 0;
}

/* One line, in the log and among the events. */
static void log_verdict(const struct dt_page_pace *pace, struct dt_page *page, uint64_t now_ns)
{
    struct dt_event_record event = dt_event_of(DT_EVENT_KIND_COMPUTATION, now_ns);
    bool is_slow = pace->verdict == DT_PAGE_VERDICT_SLOW;
    double factor = (double)pace->factor_permille / 1000;
    char text[96];

    snprintf(text, sizeof text, "no longer computes longer than it did");
    if (is_slow) {
        event.cause = DETOUR_STAT_CAUSE_OWN_COMPUTATION;
        event.since_ns = pace->since_ns;
        event.delay_ns = delay_ns(pace);
        snprintf(text, sizeof text, "computes %.2f times as long per iteration as it did, +%.3f ms", factor,
                 (double)event.delay_ns / 1e6);
    }
    dt_info("computation", "this process %s", text);
    if (!page)
        return;
    event.verdict = pace->verdict;
    event.factor_permille = pace->factor_permille;
    event.value = (int64_t)pace->factor_permille;
    if (is_slow)
        dt_event_write(dt_page_events(page), &event, "slow %.2fx (+%.3f ms per iteration): %s", factor,
                       (double)event.delay_ns / 1e6,
                       detour_stat_cause_text(DETOUR_STAT_CAUSE_OWN_COMPUTATION));
    else
        dt_event_write(dt_page_events(page), &event, "this rank's computation is no longer slow");
}

void dt_pace_judge(struct dt_pace *pace, struct dt_page *page, bool is_disturbed, uint64_t now_ns)
{
    struct dt_page_pace present;
    bool was_slow = pace->shown.verdict == DT_PAGE_VERDICT_SLOW;

    dt_rank_time_update(&pace->time, now_ns, is_disturbed);
    present = result_of(&pace->time);
    if (!memcmp(&present, &pace->shown, sizeof present))
        return;
    if (was_slow != (present.verdict == DT_PAGE_VERDICT_SLOW))
        log_verdict(&present, page, now_ns);
    pace->shown = present;
    if (page)
        dt_page_set_pace(page, &present);
}
