/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/controller/cluster_trace.h"

#include <math.h>
#include <string.h>

#include "base/util.h"

#define PI           3.14159265358979323846
#define PIPELINE_ONE ((TRACE_STAGES - 1) * TRACE_REPLICAS) /* pipeline links of one direction */
#define MEDIAN_ERROR 1.2533 /* of a median, in standard errors of a mean: sqrt(pi / 2) */

static double uniform(struct cluster_trace *trace, double low, double high)
{
    return low + (high - low) * ((double)(dt_prng_next(&trace->prng) >> 11) * 0x1p-53);
}

/* Box and Muller; each second call uses the other half of a pair. */
static double normal(struct cluster_trace *trace)
{
    if (trace->has_spare) {
        trace->has_spare = false;
        return trace->spare;
    }
    double radius = sqrt(-2 * log(uniform(trace, 0x1p-53, 1))), angle = uniform(trace, 0, 2 * PI);

    trace->spare = radius * sin(angle);
    trace->has_spare = true;
    return radius * cos(angle);
}

static uint32_t below(struct cluster_trace *trace, uint32_t bound)
{
    return (uint32_t)dt_prng_below(&trace->prng, bound);
}

static uint32_t draw_factor(struct cluster_trace *trace, double low, double high)
{
    return (uint32_t)lround(exp(uniform(trace, log(low), log(high))));
}

struct trace_link cluster_trace_link(uint32_t link)
{
    const uint32_t host_steps = TRACE_RANKS_PER_HOST;

    if (link < PIPELINE_ONE)
        return (struct trace_link){link, link + TRACE_REPLICAS, false};
    if (link < 2 * PIPELINE_ONE)
        return (struct trace_link){link - PIPELINE_ONE + TRACE_REPLICAS, link - PIPELINE_ONE, false};
    uint32_t rank = link - 2 * PIPELINE_ONE, replica = rank % TRACE_REPLICAS;

    return (struct trace_link){rank, rank - replica + (replica + host_steps) % TRACE_REPLICAS, true};
}

/* ---- incidents ---- */

static void draw_factors(struct cluster_trace *trace, struct trace_incident *incident)
{
    bool is_processor = incident->kind == TRACE_KIND_PROCESSOR;
    double slow_max = is_processor                          ? TRACE_PROCESSOR_MAX
                      : incident->kind == TRACE_KIND_DEVICE ? TRACE_DEVICE_MAX
                      : incident->kind == TRACE_KIND_FABRIC ? TRACE_FABRIC_MAX
                                                            : TRACE_LINK_MAX;

    if (incident->band == TRACE_BAND_SLOW) {
        incident->factor = draw_factor(trace, TRACE_SLOW_MIN, slow_max);
    } else if (incident->band == TRACE_BAND_MILD) {
        incident->factor = draw_factor(trace, TRACE_MILD_MIN, TRACE_SLOW_MIN);
    } else {
        incident->factor = draw_factor(trace, TRACE_DRIFT_MIN, TRACE_DRIFT_MAX);
        incident->ramp_ns =
            TRACE_TICK_NS * dt_prng_between(&trace->prng, TRACE_DRIFT_TICKS_MIN, TRACE_DRIFT_TICKS_MAX);
    }
    if (is_processor)
        incident->factor_link = draw_factor(trace, incident->factor, TRACE_PROCESSOR_LINK_MAX);
}

static void draw_place(struct cluster_trace *trace, struct trace_incident *incident)
{
    bool is_pipeline = incident->kind == TRACE_KIND_FLUCTUATING;
    struct trace_link link = cluster_trace_link(below(trace, is_pipeline ? 2 * PIPELINE_ONE : TRACE_LINKS));

    incident->rank = link.from;
    incident->peer = link.to;
}

static struct trace_incident draw_incident(struct cluster_trace *trace, enum trace_kind kind,
                                           enum trace_band band)
{
    struct trace_incident incident = {.kind = kind, .band = band};
    bool is_short = kind == TRACE_KIND_DEVICE || kind == TRACE_KIND_PROCESSOR;
    double seconds =
        -(is_short ? TRACE_DURATION_DEVICE : TRACE_DURATION_LINK) * log(uniform(trace, 0x1p-53, 1));

    draw_place(trace, &incident);
    draw_factors(trace, &incident);
    incident.duration_ns = (uint64_t)lround(fmax(seconds, TRACE_DURATION_MIN) * 1e3) * 1000000;
    incident.start_ns = TRACE_QUIET_TICKS * TRACE_TICK_NS + dt_prng_below(&trace->prng, 128 * TRACE_TICK_NS);
    return incident;
}

static void draw_incidents(struct cluster_trace *trace, enum trace_kind kind, enum trace_band band)
{
    if (kind == TRACE_KIND_QUIET)
        return;
    trace->incidents[trace->incident_count++] = draw_incident(trace, kind, band);
    if (band != TRACE_BAND_SLOW || kind == TRACE_KIND_FABRIC ||
        !dt_prng_chance(&trace->prng, TRACE_SECOND_OF_16, 16))
        return;
    static const enum trace_kind seconds[] = {TRACE_KIND_LINK, TRACE_KIND_NIC, TRACE_KIND_DEVICE};

    trace->incidents[trace->incident_count++] =
        draw_incident(trace, seconds[below(trace, DT_COUNT_OF(seconds))], TRACE_BAND_SLOW);
}

/* Does the incident cover at least half of the tick? */
static bool covers(const struct trace_incident *incident, uint64_t tick)
{
    uint64_t middle_ns = tick * TRACE_TICK_NS + TRACE_TICK_NS / 2;

    return middle_ns >= incident->start_ns && middle_ns < incident->start_ns + incident->duration_ns;
}

/* Its factor in this tick, for what it concerns. */
static double level(const struct trace_incident *incident, uint32_t permille, uint64_t tick)
{
    double rise = (double)permille / 1000 - 1;
    double age_ns = (double)(tick * TRACE_TICK_NS + TRACE_TICK_NS / 2) - (double)incident->start_ns;

    if (!covers(incident, tick))
        return 1;
    return 1 + rise * (incident->ramp_ns ? fmin(1, age_ns / (double)incident->ramp_ns) : 1);
}

static bool is_of_host(const struct trace_incident *incident, uint32_t rank)
{
    return cluster_trace_host(incident->rank) == cluster_trace_host(rank);
}

static bool concerns_link(const struct trace_incident *incident, const struct trace_link *link)
{
    bool is_forward = link->from == incident->rank && link->to == incident->peer;
    bool is_backward = link->to == incident->rank && link->from == incident->peer;

    switch (incident->kind) {
    case TRACE_KIND_LINK:
    case TRACE_KIND_FLUCTUATING:
        return is_forward;
    case TRACE_KIND_LINK_BOTH:
        return is_forward || is_backward;
    case TRACE_KIND_NIC:
        return link->from == incident->rank || link->to == incident->rank;
    case TRACE_KIND_PROCESSOR:
        return is_of_host(incident, link->from) || is_of_host(incident, link->to);
    case TRACE_KIND_FABRIC:
        return true;
    default:
        return false;
    }
}

/*
 * PipeMorph section 7.5: median 13.0, mean 22.3, 99 % 79.3 ms; between them the quantile is linear up to the
 * median and linear in the logarithm from there, and the last hundredth ends where the mean is right
 * (assumption).
 */
static double draw_delay_ns(struct cluster_trace *trace)
{
    double at = uniform(trace, 0, 1);

    if (at < 0.5)
        return 26.0e6 * at;
    if (at < 0.99)
        return 13.0e6 * pow(79.3 / 13.0, (at - 0.5) / 0.49);
    return 79.3e6 + (at - 0.99) * 100 * 61.4e6;
}

/* ---- values ---- */

static double healthy_ns(bool is_ring)
{
    return (double)(is_ring ? TRACE_RING_BYTES : TRACE_PIPELINE_BYTES) / TRACE_BYTES_PER_S * 1e9;
}

void cluster_trace_draw(struct cluster_trace *trace, enum trace_kind kind, enum trace_band band,
                        uint64_t seed)
{
    memset(trace, 0, sizeof *trace);
    dt_prng_init_stream(&trace->prng, seed, (uint64_t)kind * TRACE_BAND_COUNT + (uint64_t)band);
    draw_incidents(trace, kind, band);
}

void cluster_trace_start(struct cluster_trace *trace, enum trace_kind kind, enum trace_band band,
                         uint64_t seed)
{
    cluster_trace_draw(trace, kind, band, seed);
    for (uint32_t i = 0; i < TRACE_LINKS; i++)
        trace->link_base[i] =
            healthy_ns(cluster_trace_link(i).is_ring) * exp(TRACE_BETWEEN_LINKS * normal(trace));
    for (uint32_t i = 0; i < TRACE_RANKS; i++)
        trace->rank_base[i] = TRACE_COMPUTE_NS * exp(TRACE_BETWEEN_DEVICES * normal(trace));
    for (uint32_t i = 0; i < TRACE_LINKS; i++)
        trace->link_slow[i] = TRACE_SLOW_NOISE * normal(trace);
}

static void step_bursts(struct cluster_trace *trace)
{
    if (dt_prng_chance(&trace->prng, 1, TRACE_BURST_EVERY_TICKS)) {
        uint32_t nic = below(trace, TRACE_RANKS);

        trace->burst_end[nic] = trace->tick + 1 + below(trace, TRACE_BURST_TICKS);
        trace->burst_factor[nic] = draw_factor(trace, TRACE_SLOW_MIN, TRACE_LINK_MAX) / 1000.;
    }
    if (trace->tick >= trace->checkpoint_tick) {
        uint32_t iterations = 50 + below(trace, TRACE_CHECKPOINT_MAX - 50 + 1);

        trace->checkpoint_factor = draw_factor(trace, 1000, TRACE_CHECKPOINT_LEVEL) / 1000.;
        trace->checkpoint_tick = trace->tick + (uint64_t)iterations * TRACE_TICKS_PER_ITERATION;
    }
}

static double burst(const struct cluster_trace *trace, uint32_t nic)
{
    return trace->tick < trace->burst_end[nic] ? trace->burst_factor[nic] : 1;
}

/* All links at once, for two ticks before the next checkpoint. */
static double checkpoint(const struct cluster_trace *trace)
{
    return trace->checkpoint_tick - trace->tick <= 2 ? trace->checkpoint_factor : 1;
}

static double link_service(struct cluster_trace *trace, uint32_t index)
{
    const double keep = 1 - 1. / TRACE_SLOW_TICKS;
    struct trace_link link = cluster_trace_link(index);
    uint32_t transfers = link.is_ring ? TRACE_TRANSFERS_RING : TRACE_TRANSFERS_PIPELINE;
    double factor = fmax(burst(trace, link.from), burst(trace, link.to)) * checkpoint(trace), extra_ns = 0;

    trace->link_slow[index] =
        keep * trace->link_slow[index] + TRACE_SLOW_NOISE * sqrt(1 - keep * keep) * normal(trace);
    for (uint32_t i = 0; i < trace->incident_count; i++) {
        const struct trace_incident *incident = &trace->incidents[i];

        if (!concerns_link(incident, &link) || !covers(incident, trace->tick))
            continue;
        if (incident->kind == TRACE_KIND_FLUCTUATING)
            extra_ns += draw_delay_ns(trace);
        else
            factor *= level(incident,
                            incident->kind == TRACE_KIND_PROCESSOR ? incident->factor_link : incident->factor,
                            trace->tick);
    }
    double noise = MEDIAN_ERROR * TRACE_BETWEEN_TRANSFERS / sqrt(transfers) * normal(trace);

    return trace->link_base[index] * factor * exp(noise + trace->link_slow[index]) + extra_ns;
}

static double rank_compute(struct cluster_trace *trace, uint32_t rank)
{
    double factor = 1;

    for (uint32_t i = 0; i < trace->incident_count; i++) {
        const struct trace_incident *incident = &trace->incidents[i];

        if ((incident->kind == TRACE_KIND_DEVICE && incident->rank == rank) ||
            (incident->kind == TRACE_KIND_PROCESSOR && is_of_host(incident, rank)))
            factor *= level(incident, incident->factor, trace->tick);
    }
    return trace->rank_base[rank] * factor * exp(TRACE_COMPUTE_NOISE * normal(trace));
}

/* A busy host: 60 to 100 % of the time that its links lose are waits for a processor (assumption). */
static double host_wait_share(struct cluster_trace *trace, uint32_t host)
{
    double share = -TRACE_WAIT_SHARE * log(uniform(trace, 0x1p-53, 1));

    for (uint32_t i = 0; i < trace->incident_count; i++) {
        const struct trace_incident *incident = &trace->incidents[i];

        if (incident->kind == TRACE_KIND_PROCESSOR && cluster_trace_host(incident->rank) == host)
            share += (1 - 1 / level(incident, incident->factor_link, trace->tick)) * uniform(trace, 0.6, 1);
    }
    return fmin(share, 1);
}

void cluster_trace_step(struct cluster_trace *trace)
{
    bool is_last;

    trace->tick = trace->next_tick++;
    is_last = trace->tick % TRACE_TICKS_PER_ITERATION == TRACE_TICKS_PER_ITERATION - 1;
    step_bursts(trace);
    for (uint32_t i = 0; i < TRACE_LINKS; i++)
        trace->service_ns[i] = i < 2 * PIPELINE_ONE || is_last ? link_service(trace, i) : 0;
    for (uint32_t i = 0; i < TRACE_RANKS; i++)
        trace->compute_ns[i] = is_last ? rank_compute(trace, i) : 0;
    for (uint32_t i = 0; i < TRACE_HOSTS; i++)
        trace->wait_share[i] = host_wait_share(trace, i);
}

const char *cluster_trace_kind_name(enum trace_kind kind)
{
    static const char *const names[] = {
#define KIND_NAME(kind, text) #kind,
        TRACE_KINDS(KIND_NAME)
#undef KIND_NAME
    };

    return (uint32_t)kind < DT_COUNT_OF(names) ? names[kind] : "?";
}

const char *cluster_trace_band_name(enum trace_band band)
{
    static const char *const names[] = {"20 % and more", "10 to 20 %", "drift below 10 %"};

    return (uint32_t)band < DT_COUNT_OF(names) ? names[band] : "?";
}
