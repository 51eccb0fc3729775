/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/health.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "detect/period.h"
#include "detour/stat.h"
#include "transport/message/send.h"
#include "transport/net_state.h"
#include "transport/peer_processor.h"

#define JUDGE_EVERY_NS (100 * DT_NS_PER_MS)
#define ROOM_FIRST     16

DT_STATIC_CHECK((int)DT_BLAME_NONE == (int)DETOUR_STAT_CAUSE_NONE &&
                    (int)DT_BLAME_OWN_NIC == (int)DETOUR_STAT_CAUSE_OWN_NIC &&
                    (int)DT_BLAME_PEER_NIC == (int)DETOUR_STAT_CAUSE_PEER_NIC &&
                    (int)DT_BLAME_LINK == (int)DETOUR_STAT_CAUSE_LINK &&
                    (int)DT_BLAME_PEER_NOT_READY == (int)DETOUR_STAT_CAUSE_PEER_NOT_READY &&
                    (int)DT_BLAME_OWN_PROCESSOR == (int)DETOUR_STAT_CAUSE_OWN_PROCESSOR,
                "causes are shown as they are");

/* ------------------------------------------------------------------------------------------------------------
 * Judging; all under the mutex
 */

static uint32_t size_class(uint64_t bytes)
{
    return bytes ? 64 - (uint32_t)__builtin_clzll(bytes) : 0;
}

/* The path of new messages; path 0 when none is up. */
static const struct dt_path *present_path(const struct dt_connection *c)
{
    uint32_t now = dt_load_relaxed(&c->meter.row->path_now);

    return &c->path[now < c->path_count ? now : 0];
}

/* Do the waits of the threads at both ends explain the time of this sender? The greater part decides whose.
 */
static enum dt_health_processor processor_of(struct dt_busy *busy, struct dt_health *health, uint64_t now_ns)
{
    const struct dt_connection *c = health->connection;
    const struct dt_processor_thread *own[DT_PROCESSOR_ENDS_THREADS], *peer[DT_PROCESSOR_ENDS_THREADS];
    struct dt_processor_thread peer_threads[DT_PROCESSOR_ENDS_THREADS];
    double factor = health->summary.factor, own_part, peer_part;
    uint32_t count;

    if (!busy->read)
        return DT_HEALTH_PROCESSOR_NONE;
    count = dt_processor_threads(busy, c, now_ns, own);
    dt_processor_flight_add(&health->flight, dt_load_relaxed(&c->meter.row->service_ns),
                            health->summary.is_overdue, now_ns);
    if (!health->summary.is_slow)
        return DT_HEALTH_PROCESSOR_NONE;
    dt_peer_processor_read(dt_load_relaxed(&dt_sender_of(health->connection)->peer_processor), peer_threads);
    for (uint32_t i = 0; i < DT_PROCESSOR_ENDS_THREADS; i++)
        peer[i] = &peer_threads[i];
    own_part = dt_processor_part(own, count, &health->flight, factor);
    peer_part = dt_processor_part(peer, DT_PROCESSOR_ENDS_THREADS, &health->flight, factor);
    if (own_part + peer_part < DT_PROCESSOR_PART)
        return DT_HEALTH_PROCESSOR_NONE;
    return own_part >= peer_part ? DT_HEALTH_PROCESSOR_OWN : DT_HEALTH_PROCESSOR_PEER;
}

/* The names of a connection and of its paths do not change: their numbers are computed once. */
static void number_path(struct dt_health *health)
{
    const struct dt_path *path = present_path(health->connection);

    if (path == health->path)
        return;
    health->path = *path->peer_device ? path : NULL; /* the peer may not have named it yet */
    health->own_nic = path->nic ? path->nic->index : UINT32_MAX;
    health->peer_nic_number = dt_pace_number_of(path->peer_device, sizeof path->peer_device);
}

static void fill_blame(struct dt_health *health, struct dt_blame_connection *blame)
{
    number_path(health);
    *blame = (struct dt_blame_connection){
        .own_nic = health->own_nic,
        .peer = health->peer_number,
        .peer_host = health->peer_host_number,
        .peer_nic = health->peer_nic_number,
        .size_class = size_class(health->summary.message_bytes),
        .seconds_a_byte = health->summary.seconds_a_byte,
        .is_slow = health->summary.is_slow,
        .is_waiting = health->summary.is_waiting,
    };
}

static struct dt_page_health verdict_of(const struct dt_health *health, enum dt_blame blame)
{
    const struct dt_health_summary *summary = &health->summary;
    struct dt_page_health verdict = {
        .verdict = summary->is_slow      ? DT_PAGE_VERDICT_SLOW
                   : summary->is_waiting ? DT_PAGE_VERDICT_WAITING
                   : summary->is_known   ? DT_PAGE_VERDICT_HEALTHY
                                         : DT_PAGE_VERDICT_LEARNING,
        .factor_permille = (uint64_t)(fmin(summary->factor, 1e9) * 1000),
        .transfer_bytes = summary->transfer_bytes,
        .sample_count = summary->sample_count,
        .merged_count = dt_load_relaxed(&health->connection->meter.merged),
    };

    if (summary->is_slow) {
        verdict.since_ns = summary->slow_since_ns;
        verdict.delay_ns = summary->delay_ns;
        verdict.cause = blame == DT_BLAME_OWN_PROCESSOR && health->processor == DT_HEALTH_PROCESSOR_PEER
                            ? (uint32_t)DETOUR_STAT_CAUSE_PEER_PROCESSOR
                            : (uint32_t)blame;
    } else if (summary->is_waiting) {
        verdict.since_ns = summary->waiting_since_ns;
        verdict.cause = DT_BLAME_PEER_NOT_READY;
    }
    return verdict;
}

static bool is_news(uint32_t verdict)
{
    return verdict == DT_PAGE_VERDICT_SLOW || verdict == DT_PAGE_VERDICT_WAITING;
}

/* One line, in the log and among the events. To be healthy from the beginning is no news. */
static void log_verdict(const struct dt_health *health, const struct dt_page_health *verdict, uint64_t now_ns)
{
    const struct dt_connection *c = health->connection;
    struct dt_event_record event = dt_meter_event(c, DT_EVENT_KIND_VERDICT, now_ns, present_path(c));
    uint64_t age_ns = now_ns > verdict->since_ns ? now_ns - verdict->since_ns : 0;
    char text[160];

    if (!is_news(health->shown.verdict) && !is_news(verdict->verdict))
        return;
    if (verdict->verdict == DT_PAGE_VERDICT_SLOW)
        snprintf(text, sizeof text,
                 "slow for %llu ms, %.2f times its healthy time, a transfer takes %.3f ms longer: %s",
                 (unsigned long long)(age_ns / DT_NS_PER_MS), (double)verdict->factor_permille / 1000,
                 (double)verdict->delay_ns / 1e6,
                 detour_stat_cause_text((enum detour_stat_cause)verdict->cause));
    else if (verdict->verdict == DT_PAGE_VERDICT_WAITING)
        snprintf(text, sizeof text, "healthy, but its waits have been longer than before for %llu ms: %s",
                 (unsigned long long)(age_ns / DT_NS_PER_MS), dt_blame_text(DT_BLAME_PEER_NOT_READY));
    else
        snprintf(text, sizeof text, "%s",
                 verdict->verdict == DT_PAGE_VERDICT_HEALTHY ? "healthy again"
                                                             : "measuring its healthy time again");
    dt_info("link-health", "connection %016llx to %s on %s is %s", (unsigned long long)c->id, c->peer,
            c->nic->name, text);
    if (!c->environment->page)
        return;
    /* An event has less room; the cause must not be truncated. */
    if (verdict->verdict == DT_PAGE_VERDICT_SLOW)
        snprintf(text, sizeof text, "slow %.2fx (+%.3f ms): %s", (double)verdict->factor_permille / 1000,
                 (double)verdict->delay_ns / 1e6,
                 detour_stat_cause_text((enum detour_stat_cause)verdict->cause));
    event.value = (int64_t)verdict->factor_permille;
    event.verdict = verdict->verdict;
    event.cause = verdict->cause;
    event.since_ns = verdict->since_ns;
    event.factor_permille = verdict->factor_permille;
    event.delay_ns = verdict->delay_ns;
    dt_event_write(dt_page_events(c->environment->page), &event, "to %.32s: %s", c->peer, text);
}

static bool has_shared_row(const struct dt_health *health)
{
    const struct dt_page *page = health->connection->environment->page;

    return page && dt_page_is_shared(page, health->connection->meter.row);
}

static uint8_t badness(const struct dt_health *health)
{
    static const uint8_t badness[] = {
        [DT_PAGE_VERDICT_LEARNING] = 0,
        [DT_PAGE_VERDICT_HEALTHY] = 1,
        [DT_PAGE_VERDICT_WAITING] = 2,
        [DT_PAGE_VERDICT_SLOW] = 3,
    };

    DT_CHECK(health->shown.verdict < sizeof badness);
    return badness[health->shown.verdict];
}

/* Senders that share a row: the row shows the worst of them, which the others would hide. */
static void find_worst(struct dt_health_net *net)
{
    net->worst = NULL;
    for (uint32_t i = 0; i < net->count; i++) {
        struct dt_health *health = net->senders[i];

        if (has_shared_row(health) && (!net->worst || badness(health) > badness(net->worst)))
            net->worst = health;
    }
    net->is_worst_known = true;
}

/* The verdict of a sender with a shared row is another one than before. */
static void compare_with_worst(struct dt_health_net *net, struct dt_health *health, uint8_t badness_before)
{
    if (!net->worst || badness(health) > badness(net->worst))
        net->worst = health;
    else if (health == net->worst && badness(health) < badness_before)
        net->is_worst_known = false;
}

static void show(struct dt_health_net *net, struct dt_health *health, enum dt_blame blame, uint64_t now_ns)
{
    struct dt_page_health verdict = verdict_of(health, blame);
    uint8_t badness_before = badness(health);

    if (!memcmp(&verdict, &health->shown, sizeof verdict))
        return;
    if (verdict.verdict != health->shown.verdict)
        log_verdict(health, &verdict, now_ns);
    health->shown = verdict;
    if (has_shared_row(health))
        compare_with_worst(net, health, badness_before);
    else
        dt_page_set_health(health->connection->meter.row, &verdict);
}

static void show_shared(struct dt_health_net *net)
{
    if (!net->is_worst_known)
        find_worst(net);
    if (!net->worst || !memcmp(&net->worst->shown, &net->shown_shared, sizeof net->shown_shared))
        return;
    net->shown_shared = net->worst->shown;
    dt_page_set_health(net->worst->connection->meter.row, &net->worst->shown);
}

static void vote(struct dt_health_net *net, struct dt_health *health)
{
    DT_CHECK(health->summary.period < DT_COUNT_OF(net->votes) && net->votes[health->vote] > 0);
    net->votes[health->vote]--;
    health->vote = health->summary.period;
    net->votes[health->vote]++;
}

/* The input of the comparison, of the senders for which it may differ from the last one. */
static void fill(struct dt_health_net *net, uint64_t now_ns)
{
    dt_list_for_each(node, &net->fresh)
    {
        struct dt_health *health = dt_container_of(node, struct dt_health, node);
        struct dt_blame_connection *blame = &net->blame[health->index];

        DT_CHECK(health->index < net->count && net->senders[health->index] == health);
        fill_blame(health, blame);
        health->processor = processor_of(&net->busy, health, now_ns);
        blame->is_processor = health->processor != DT_HEALTH_PROCESSOR_NONE;
        vote(net, health);
    }
}

/* A sender that is neither slow nor waiting has the same verdict, whatever the others have, until it is fed.
 */
static bool is_settled(const struct dt_health *health)
{
    return !health->summary.is_slow && !health->summary.is_waiting;
}

/* Returns whether a sender is slow for another reason than a host's processors. */
static bool show_fresh(struct dt_health_net *net, uint64_t now_ns)
{
    bool is_disturbed = false;

    dt_list_for_each(node, &net->fresh)
    {
        struct dt_health *health = dt_container_of(node, struct dt_health, node);
        enum dt_blame blame = net->blame[health->index].blame;

        show(net, health, blame, now_ns);
        is_disturbed |= health->summary.is_slow && blame != DT_BLAME_OWN_PROCESSOR;
        if (is_settled(health))
            dt_list_remove(node);
    }
    return is_disturbed;
}

static void judge(struct dt_health_net *net, uint64_t now_ns)
{
    bool is_disturbed;

    if (net->count == 0)
        return;
    fill(net, now_ns);
    dt_blame_decide(net->blame, net->count, net->order);
    net->voted = dt_period_vote(net->votes, DT_COUNT_OF(net->votes));
    is_disturbed = show_fresh(net, now_ns);
    show_shared(net);
    dt_pace_judge(&net->pace, net->senders[0]->connection->environment->page, is_disturbed, now_ns);
}

void dt_health_judge(struct dt_health_net *health, uint64_t now_ns)
{
    uint64_t last_ns = dt_load_relaxed(&health->judged_ns);

    if (now_ns - last_ns < JUDGE_EVERY_NS || !dt_compare_swap(&health->judged_ns, &last_ns, now_ns))
        return;
    pthread_mutex_lock(&health->mutex);
    judge(health, now_ns);
    pthread_mutex_unlock(&health->mutex);
}

/* ------------------------------------------------------------------------------------------------------------
 * Life
 */
enum dt_status dt_health_open(struct dt_health_net *health)
{
    dt_list_init(&health->fresh);
    health->is_worst_known = true; /* there is none */
    dt_pace_init(&health->pace);
    return pthread_mutex_init(&health->mutex, NULL) == 0 ? DT_OK : DT_SYSTEM;
}

void dt_health_close(struct dt_health_net *health)
{
    DT_CHECK(health->count == 0 && dt_list_is_empty(&health->fresh)); /* each close removes its sender */
    free(health->blame);
    free(health->order);
    free(health->senders);
    pthread_mutex_destroy(&health->mutex);
}

/* Room for one more. */
static bool grow(struct dt_health_net *net)
{
    uint32_t room = net->room ? 2 * net->room : ROOM_FIRST;
    void *memory;

    if (net->count < net->room)
        return true;
    memory = realloc(net->blame, room * sizeof *net->blame);
    if (!memory)
        return false;
    net->blame = memory;
    /* These two are arrays of pointers. */
    memory = realloc(net->order, room * sizeof *net->order); /* NOLINT(bugprone-sizeof-expression) */
    if (!memory)
        return false;
    net->order = memory;
    memory = realloc(net->senders, room * sizeof *net->senders); /* NOLINT(bugprone-sizeof-expression) */
    if (!memory)
        return false;
    net->senders = memory;
    net->room = room;
    return true;
}

enum dt_status dt_health_add(struct dt_health_net *net, struct dt_sender *s)
{
    struct dt_health *health = calloc(1, sizeof *health);
    bool has_room;

    if (!health)
        return DT_NO_MEMORY;
    dt_sampler_init(&health->watch);
    dt_surge_init(&health->surge);
    health->stuck_since_ns = DT_NEVER_NS;
    health->connection = &s->connection;
    health->peer_number = dt_pace_number_of(s->connection.peer, sizeof s->connection.peer);
    health->peer_host_number = dt_pace_number_of(s->connection.peer, strcspn(s->connection.peer, ":"));
    DT_CHECK(!s->health && s->connection.is_sender); /* added once */
    pthread_mutex_lock(&net->mutex);
    has_room = grow(net);
    if (has_room) {
        health->index = net->count++;
        net->senders[health->index] = health;
        net->votes[0]++;
        dt_list_push_back(&net->fresh, &health->node);
        dt_rank_time_add_sender(&net->pace.time, &health->rank, dt_pace_peer(s->connection.peer));
        DT_CHECK(net->count <= net->room);
    }
    pthread_mutex_unlock(&net->mutex);
    if (!has_room) {
        free(health);
        return DT_NO_MEMORY;
    }
    s->health = health;
    return DT_OK;
}

/* The last sender takes the place in the arrays. */
static void leave(struct dt_health_net *net, struct dt_health *health)
{
    uint32_t last = --net->count;

    DT_CHECK(health->index <= last && net->senders[health->index] == health && net->votes[health->vote] > 0);
    net->senders[health->index] = net->senders[last];
    net->senders[health->index]->index = health->index;
    net->blame[health->index] = net->blame[last];
    net->votes[health->vote]--;
    dt_list_remove(&health->node);
    if (health == net->worst) {
        net->worst = NULL;
        net->is_worst_known = false;
    }
}

void dt_health_remove(struct dt_health_net *net, struct dt_sender *s)
{
    if (!s->health)
        return;
    pthread_mutex_lock(&net->mutex);
    leave(net, s->health);
    dt_rank_time_remove_sender(&net->pace.time, &s->health->rank);
    DT_CHECK(net->count > 0 || dt_list_is_empty(&net->fresh));
    pthread_mutex_unlock(&net->mutex);
    free(s->health);
    s->health = NULL;
}
