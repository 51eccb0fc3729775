/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/gone.h"

#include "base/clock.h"
#include "base/prng.h"
#include "tests/sim/draw.h"
#include "tests/sim/mercy.h"
#include "tests/sim/swarm.h"

/* Whether the fault may bring down a path over the device. */
static bool strikes(const struct dt_chaos *f, uint32_t device)
{
    switch (f->kind) {
    case DT_CHAOS_STOP:
    case DT_CHAOS_APP_STOP:
    case DT_CHAOS_CONTROL_HOLD:
    case DT_CHAOS_CONTROL_SLOW:
    case DT_CHAOS_CONTROL_BREAK:
    case DT_CHAOS_KILL: /* which excuses every error */
        return false;
    case DT_CHAOS_FREEZE:
        return true;
    case DT_CHAOS_CUT:
        return f->device == device || f->other == device;
    default:
        return f->device == device;
    }
}

static void spare(struct dt_scenario *s, const uint32_t device[DT_FLOW_SIDES])
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < s->chaos.count; i++)
        if (!strikes(&s->chaos.list[i], device[0]) && !strikes(&s->chaos.list[i], device[1]))
            s->chaos.list[kept++] = s->chaos.list[i];
    s->chaos.count = kept;
    for (int side = 0; side < DT_FLOW_SIDES; side++)
        s->has_cut_at_setup = s->has_cut_at_setup && s->cut_at_setup != device[side];
    s->network.loss_ppm = 0;
    for (uint32_t host = 0; host < DT_HOSTS; host++)
        s->settings[host].retry_count = 6;
}

static bool has_death(const struct dt_scenario *s)
{
    for (uint32_t i = 0; i < s->chaos.count; i++)
        if (dt_swarm_is_death(&s->chaos.list[i]))
            return true;
    return false;
}

/* A path fails and the control network with it, in either order. */
static void draw_both(struct dt_scenario *s, struct dt_prng *prng, uint32_t device)
{
    static const enum dt_chaos_kind kinds[] = {DT_CHAOS_CUT, DT_CHAOS_PORT_DOWN, DT_CHAOS_DEATH};
    enum dt_chaos_kind kind = kinds[dt_prng_below(prng, has_death(s) ? 2 : 3)];
    struct dt_chaos *failure = &s->chaos.list[s->chaos.count++];
    struct dt_chaos *gone = &s->chaos.list[s->chaos.count++];
    uint64_t start_ns = dt_draw_log(prng, 10 * DT_NS_PER_US, 200 * DT_NS_PER_MS);

    dt_swarm_draw_fault(s, prng, kind, failure);
    failure->device = failure->other = device;
    failure->is_in = failure->is_out = true;
    failure->start_ns = dt_prng_below(prng, 2 * start_ns);
    failure->duration_ns = dt_draw_log(prng, DT_NS_PER_MS, 2 * DT_NS_PER_S);
    *gone =
        (struct dt_chaos){.kind = DT_CHAOS_CONTROL_GONE, .start_ns = start_ns, .duration_ns = DT_NEVER_NS};
}

/* One connection between the hosts. */
static void use_one_flow(struct dt_scenario *s)
{
    struct dt_flow_options *flow = &s->flow[0];

    s->flow_count = 1;
    s->is_doomed = false;
    flow->side[DT_FLOW_RECEIVER].host = !flow->side[DT_FLOW_SENDER].host;
    flow->side[DT_FLOW_RECEIVER].device = 0;
    for (uint32_t host = 0; host < DT_HOSTS; host++)
        s->settings[host].dead_ms = 5000; /* one path is up all the time */
}

void dt_gone_draw(struct dt_scenario *s)
{
    uint32_t device[DT_PATHS_MAX][DT_FLOW_SIDES], paths, spared, struck;
    struct dt_prng prng;

    dt_prng_init_stream(&prng, s->seed, 1014);
    if (s->profile != DT_PROFILE_FAILOVER || !dt_draw_one_in(&prng, 7) ||
        s->plugin.host[0].device_count < 2 || s->plugin.host[1].device_count < 2)
        return;
    use_one_flow(s);
    paths = dt_mercy_paths(s, &s->flow[0], device);
    spared = (uint32_t)dt_prng_below(&prng, paths);
    struck = (spared + 1) % paths;
    spare(s, device[spared]);
    for (int side = 0; side < DT_FLOW_SIDES; side++)
        if (device[struck][side] != device[spared][side]) {
            draw_both(s, &prng, device[struck][side]);
            return;
        }
}
