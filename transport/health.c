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
 * Feeding
 */

/* When the monitor's sample `number` began, as far back as is remembered. */
static uint64_t began_ns(const struct dt_health *health, uint64_t number)
{
    uint64_t count = health->watch.network.sample_count;
    uint64_t oldest = count > DT_HEALTH_SAMPLES ? count - DT_HEALTH_SAMPLES : 0;

    return health->began_ns[dt_max_u64(number, oldest) % DT_HEALTH_SAMPLES];
}

/* The monitor may have a sample more than before: the present iteration has ended. A new period forgets them
 * all. */
static void note_iteration(struct dt_health *health, uint64_t count_before, uint64_t next_ns)
{
    uint64_t count = health->watch.network.sample_count;

    if (count > count_before)
        health->began_ns[count_before % DT_HEALTH_SAMPLES] = health->iteration_ns;
    if (count != count_before || health->iteration_ns == 0)
        health->iteration_ns = next_ns;
}

static void take(struct dt_health *health, const struct dt_ticks *ticks, const struct dt_sample *sample)
{
    struct dt_sampler_message message = {
        .requested_ns = dt_ticks_moment_ns(ticks, sample->requested),
        .submitted_ns = dt_ticks_moment_ns(ticks, sample->submitted),
        .done_ns = dt_ticks_moment_ns(ticks, sample->done),
        .bytes = sample->bytes,
        .messages = sample->messages,
    };
    uint64_t count = health->watch.network.sample_count, service_ns;
    bool was_surge = health->surge.is_on;

    DT_CHECK(sample->messages > 0);
    message.done_ns = dt_max_u64(message.done_ns, message.submitted_ns);
    service_ns = message.done_ns - message.submitted_ns;
    if (sample->messages > 1) {
        message.idle_ns = dt_ticks_to_ns(ticks, sample->idle);
        message.waited_ns = dt_ticks_to_ns(ticks, sample->waited);
        service_ns = dt_ticks_to_ns(ticks, sample->service) / sample->messages;
    }
    dt_sampler_add(&health->watch, &message);
    note_iteration(health, count, message.submitted_ns);
    dt_surge_message(&health->surge, health->watch.message_bytes, service_ns, message.done_ns);
    if (health->surge.is_on && !was_surge)
        health->surge_since_ns = message.submitted_ns;
    health->message_bytes = health->watch.message_bytes;
}

/* The samples that are there, at most as many as the ring has; returns their number. */
static uint32_t take_all(struct dt_health_net *net, struct dt_health *health, struct dt_meter *meter)
{
    const struct dt_sample *sample = dt_meter_sample(meter);
    uint32_t taken = 0;

    if (!sample)
        return 0;
    pthread_mutex_lock(&net->mutex);
    for (; sample && taken < DT_METER_SAMPLES; taken++) {
        take(health, meter->ticks, sample);
        dt_rank_time_wanted(&health->rank, dt_ticks_moment_ns(meter->ticks, sample->requested),
                            dt_ticks_moment_ns(meter->ticks, sample->done), sample->messages);
        dt_meter_taken(meter);
        sample = dt_meter_sample(meter);
    }
    pthread_mutex_unlock(&net->mutex);
    return taken;
}

/* The verdict's beginning: it is dated better with every sample, until it lies too far back. */
static uint64_t since_ns(const struct dt_health *health, const struct dt_verdict *verdict, uint64_t *sample,
                         uint64_t *sample_ns)
{
    if (!verdict->is_slow) {
        *sample_ns = 0;
    } else if (*sample_ns == 0 || *sample != verdict->since) {
        *sample = verdict->since;
        *sample_ns = began_ns(health, verdict->since);
    }
    return *sample_ns;
}

/* Bytes between two pauses; of traffic without pauses each message is a transfer. */
static uint64_t transfer_bytes(const struct dt_health *health)
{
    uint64_t bytes = dt_sampler_between_pauses(&health->watch);

    return bytes ? bytes : health->message_bytes;
}

/* Adds the verdict of the surge, when the monitor has not learned enough or has found nothing yet. */
static void add_surge(const struct dt_health *health, struct dt_health_summary *summary)
{
    const struct dt_surge *surge = &health->surge;

    if (!surge->is_on)
        return;
    if (!summary->is_slow) {
        summary->slow_since_ns = health->surge_since_ns;
        summary->factor =
            surge->slow_baseline_ns ? (double)surge->slow_ns / (double)surge->slow_baseline_ns : 1;
    }
    /* Without pauses the monitor measures throughput; the delay of a single message is added here. */
    if ((!summary->is_slow || dt_sampler_between_pauses(&health->watch) == 0) &&
        surge->slow_ns > surge->slow_baseline_ns)
        summary->delay_ns = surge->slow_ns - surge->slow_baseline_ns;
    summary->is_slow = true;
}

/* Network time of an iteration. */
static double iteration_seconds(const struct dt_health *health)
{
    const struct dt_sampler *watch = &health->watch;
    uint64_t count = dt_min_u64(watch->period, watch->burst_count);
    double bytes = 0;

    for (uint64_t i = 1; i <= count; i++)
        bytes += watch->sizes[(watch->burst_count - i) % DT_SAMPLER_BURSTS];
    return exp(watch->network.level) * bytes;
}

static struct dt_health_summary summarize(struct dt_health *health)
{
    const struct dt_monitor *network = &health->watch.network, *waiting = &health->watch.waiting;
    struct dt_verdict slow = dt_monitor_verdict(network), late = dt_monitor_verdict(waiting);
    struct dt_health_summary summary = {
        .is_slow = slow.is_slow,
        .is_known = slow.is_known,
        .period = dt_sampler_found_period(&health->watch),
        .slow_since_ns = since_ns(health, &slow, &health->slow_sample, &health->slow_since_ns),
        .waiting_since_ns = since_ns(health, &late, &health->waiting_sample, &health->waiting_since_ns),
        .factor = slow.factor,
        .seconds_a_byte = slow.is_known ? exp(network->level) : 0,
        .transfer_bytes = transfer_bytes(health),
        .message_bytes = health->message_bytes,
        .sample_count = network->sample_count,
    };
    if (slow.is_slow)
        summary.delay_ns = (uint64_t)fmax(0, (exp(network->level) - exp(network->reference)) *
                                                 (double)summary.transfer_bytes * 1e9);
    summary.is_overdue = health->surge.is_on && health->stuck_since_ns != DT_NEVER_NS;
    summary.is_waiting = late.is_slow && exp(waiting->level) > iteration_seconds(health);
    add_surge(health, &summary);
    return summary;
}

/*
 * The oldest message in flight is overdue: it was there in an earlier round, and nothing was completed since.
 * (One round alone proves nothing: this thread may have been descheduled before it.)
 */
static void watch_overdue(struct dt_sender *s, bool is_waiting, uint64_t now_ns)
{
    struct dt_health *health = s->health;
    bool was_on = health->surge.is_on;

    if (!is_waiting || health->message_bytes == 0) {
        health->stuck_since_ns = DT_NEVER_NS;
        return;
    }
    health->stuck_since_ns = dt_earlier_ns(health->stuck_since_ns, now_ns);
    dt_surge_waiting(&health->surge, health->message_bytes, health->stuck_since_ns, now_ns);
    if (health->surge.is_on && !was_on)
        health->surge_since_ns = health->stuck_since_ns;
}

/*
 * Is every message complete that was handed over? By the connection's own counters: its row in the page may
 * be shared. Not exact while they come and go.
 */
static bool has_none_under_way(const struct dt_sender *s)
{
    uint32_t done = dt_load_relaxed(&s->connection.completions);
    uint64_t handed = dt_load_relaxed(&s->next) + dt_load_relaxed(&s->connection.meter.taken_back);

    return (int32_t)((uint32_t)handed - done) <= 0;
}

void dt_health_feed(struct dt_health_net *net, struct dt_sender *s, uint64_t now_ns)
{
    struct dt_health *health = s->health;
    struct dt_meter *meter = &s->connection.meter;
    uint32_t taken = 0;

    if (!health)
        return;
    uint64_t count_before = health->watch.network.sample_count, slow_before_ns = health->surge.slow_ns;
    bool was_surge = health->surge.is_on;
    bool is_idle = has_none_under_way(s);
    bool is_seen = !dt_load_acquire(&meter->is_keeping); /* all of it, once the ring is empty */
    taken = take_all(net, health, meter);
    watch_overdue(s, taken == 0 && !is_idle, now_ns);
    uint64_t count = health->watch.network.sample_count;
    if (is_idle && is_seen)
        dt_sampler_idle(&health->watch, now_ns);
    note_iteration(health, count, 0);
    if (taken == 0 && health->surge.is_on == was_surge && health->surge.slow_ns == slow_before_ns &&
        health->watch.network.sample_count == count_before)
        return;
    struct dt_health_summary summary = summarize(health);
    pthread_mutex_lock(&net->mutex);
    health->summary = summary;
    uint32_t voted = health->voted;
    pthread_mutex_unlock(&net->mutex);
    if (dt_sampler_found_period(&health->watch) == 0)
        dt_sampler_set_period(&health->watch, voted);
}

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

/* Do the waits of NCCL's thread and of the device thread explain the time of this sender? */
static bool is_processor(struct dt_busy *busy, struct dt_health *health, uint64_t now_ns)
{
    const struct dt_connection *c = health->connection;
    const struct dt_processor_thread *threads[2];
    int32_t tids[2] = {dt_load_relaxed(&c->meter.owner_tid), dt_load_relaxed(&c->nic->service->tid)};
    uint32_t count = 0;

    if (!busy->read)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        threads[count] = dt_busy_sums(busy, tids[i], now_ns);
        count += threads[count] != NULL;
    }
    dt_processor_flight_add(&health->flight, dt_load_relaxed(&c->meter.row->service_ns),
                            health->summary.is_overdue, now_ns);
    return health->summary.is_slow &&
           dt_processor_explains(threads, count, &health->flight, health->summary.factor);
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

static struct dt_page_health verdict_of(const struct dt_health *health)
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
        verdict.cause = health->blame->blame;
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
                 (double)verdict->delay_ns / 1e6, dt_blame_text((enum dt_blame)verdict->cause));
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
                 (double)verdict->delay_ns / 1e6, dt_blame_text((enum dt_blame)verdict->cause));
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

static void show(struct dt_health *health, uint64_t now_ns)
{
    struct dt_page_health verdict = verdict_of(health);

    if (!memcmp(&verdict, &health->shown, sizeof verdict))
        return;
    if (verdict.verdict != health->shown.verdict)
        log_verdict(health, &verdict, now_ns);
    health->shown = verdict;
    if (!has_shared_row(health))
        dt_page_set_health(health->connection->meter.row, &verdict);
}

/* Senders that share a row: the row shows the worst of them, which the others would hide. */
static const struct dt_health *worse(const struct dt_health *a, const struct dt_health *b)
{
    static const uint8_t badness[] = {
        [DT_PAGE_VERDICT_LEARNING] = 0,
        [DT_PAGE_VERDICT_HEALTHY] = 1,
        [DT_PAGE_VERDICT_WAITING] = 2,
        [DT_PAGE_VERDICT_SLOW] = 3,
    };

    DT_CHECK(b->shown.verdict < sizeof badness);
    return !a || badness[b->shown.verdict] > badness[a->shown.verdict] ? b : a;
}

static void show_shared(struct dt_health_net *net, const struct dt_health *worst)
{
    if (!memcmp(&worst->shown, &net->shown_shared, sizeof worst->shown))
        return;
    net->shown_shared = worst->shown;
    dt_page_set_health(worst->connection->meter.row, &worst->shown);
}

static void judge(struct dt_health_net *net, uint64_t now_ns)
{
    const struct dt_health *worst = NULL;
    struct dt_page *page = NULL;
    uint32_t count = 0, voted;
    bool is_disturbed = false;

    dt_list_for_each(node, &net->senders)
    {
        struct dt_health *health = dt_container_of(node, struct dt_health, node);

        DT_CHECK(count < net->room);
        health->blame = &net->blame[count];
        fill_blame(health, health->blame);
        health->blame->is_processor = is_processor(&net->busy, health, now_ns);
        net->periods[count++] = health->summary.period;
    }
    DT_CHECK(count == net->count);
    dt_blame_decide(net->blame, count, net->order);
    voted = dt_period_vote(net->periods, count);
    dt_list_for_each(node, &net->senders)
    {
        struct dt_health *health = dt_container_of(node, struct dt_health, node);

        health->voted = voted;
        show(health, now_ns);
        is_disturbed |= health->summary.is_slow && health->blame->blame != DT_BLAME_OWN_PROCESSOR;
        page = health->connection->environment->page;
        if (has_shared_row(health))
            worst = worse(worst, health);
    }
    if (worst)
        show_shared(net, worst);
    if (count > 0)
        dt_pace_judge(&net->pace, page, is_disturbed, now_ns);
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
    dt_list_init(&health->senders);
    dt_pace_init(&health->pace);
    return pthread_mutex_init(&health->mutex, NULL) == 0 ? DT_OK : DT_SYSTEM;
}

void dt_health_close(struct dt_health_net *health)
{
    DT_CHECK(health->count == 0 && dt_list_is_empty(&health->senders)); /* each close removes its sender */
    free(health->blame);
    free(health->order);
    free(health->periods);
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
    memory = realloc(net->order, room * sizeof *net->order);
    if (!memory)
        return false;
    net->order = memory;
    memory = realloc(net->periods, room * sizeof *net->periods);
    if (!memory)
        return false;
    net->periods = memory;
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
        dt_list_push_back(&net->senders, &health->node);
        dt_rank_time_add_sender(&net->pace.time, &health->rank, dt_pace_peer(s->connection.peer));
        net->count++;
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

void dt_health_remove(struct dt_health_net *net, struct dt_sender *s)
{
    if (!s->health)
        return;
    pthread_mutex_lock(&net->mutex);
    DT_CHECK(net->count > 0 && !dt_list_is_empty(&s->health->node));
    dt_list_remove(&s->health->node);
    dt_rank_time_remove_sender(&net->pace.time, &s->health->rank);
    net->count--;
    DT_CHECK((net->count == 0) == dt_list_is_empty(&net->senders));
    pthread_mutex_unlock(&net->mutex);
    free(s->health);
    s->health = NULL;
}
