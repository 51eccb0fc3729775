/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/passing.h"

#include "base/clock.h"
#include "base/prng.h"
#include "tests/sim/draw.h"

static struct dt_chaos *add(struct dt_scenario *s, struct dt_prng *prng, enum dt_chaos_kind kind)
{
    struct dt_chaos *f = &s->chaos.list[s->chaos.count++];

    *f = (struct dt_chaos){.kind = kind, .host = (uint32_t)dt_prng_below(prng, DT_HOSTS)};
    f->start_ns = dt_draw_log(prng, DT_NS_PER_US, 200 * DT_NS_PER_MS);
    return f;
}

/* The process alone, whose devices go on, or all of its machine. */
static void draw_stop(struct dt_scenario *s, struct dt_prng *prng)
{
    struct dt_chaos *f = add(s, prng, dt_draw_one_in(prng, 2) ? DT_CHAOS_STOP : DT_CHAOS_FREEZE);

    f->duration_ns = dt_draw_log(prng, DT_NS_PER_MS, 20 * DT_NS_PER_S);
}

static void draw_death(struct dt_scenario *s, struct dt_prng *prng)
{
    struct dt_chaos *f = add(s, prng, DT_CHAOS_KILL);

    f->duration_ns = dt_draw_log(prng, 1, 100 * DT_NS_PER_MS);
    f->stream_death = (enum dt_stream_death)dt_prng_below(prng, DT_STREAM_DEATHS);
    f->is_device_first = dt_draw_one_in(prng, 2);
}

void dt_passing_draw(struct dt_scenario *s)
{
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1003);
    for (uint32_t host = 0; host < DT_HOSTS; host++) {
        s->chaos.devices[host].first = s->plugin.host[host].device_first;
        s->chaos.devices[host].count = s->plugin.host[host].device_count;
    }
    if (s->profile != DT_PROFILE_FAILOVER)
        return;
    if (dt_draw_one_in(&prng, 4))
        draw_stop(s, &prng);
    if (dt_draw_one_in(&prng, 6))
        draw_death(s, &prng);
}
