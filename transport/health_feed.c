/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/util.h"
#include "transport/health.h"
#include "transport/message/send.h"

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
    if (dt_list_is_empty(&health->node))
        dt_list_push_back(&net->fresh, &health->node);
    uint32_t voted = net->voted;
    pthread_mutex_unlock(&net->mutex);
    if (dt_sampler_found_period(&health->watch) == 0)
        dt_sampler_set_period(&health->watch, voted);
}
