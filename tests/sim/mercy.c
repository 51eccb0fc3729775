/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/mercy.h"

#include "base/util.h"
#include "tests/sim/swarm.h"
#include "failover/backup.h"

/* What one end of a flow offers: devices without sysfs are all near. */
static void offer_of(const struct dt_scenario *s, const struct dt_flow_options *flow, int side,
                     struct dt_backup_list *list, struct dt_backup_offer *offer)
{
    const struct dt_host_options *host = &s->plugin.host[flow->side[side].host];
    struct dt_backup_device device[DT_DEVICES_PER_HOST_MAX] = {0};

    for (uint32_t i = 0; i < host->device_count; i++)
        device[i].rail = i;
    dt_backup_make_list(device, host->device_count, (uint32_t)flow->side[side].device, "", list);
    dt_backup_make_offer(device, list, offer);
}

static bool is_dead(const struct dt_scenario *s, uint32_t device)
{
    for (uint32_t i = 0; i < s->chaos.count; i++)
        if (dt_swarm_is_death(&s->chaos.list[i]) && s->chaos.list[i].device == device)
            return true;
    return false;
}

uint32_t dt_mercy_paths(const struct dt_scenario *s, const struct dt_flow_options *flow,
                        uint32_t device[DT_PATHS_MAX][DT_FLOW_SIDES])
{
    uint64_t paths = DT_PATHS_MAX;
    struct dt_backup_list list[DT_FLOW_SIDES];
    struct dt_backup_offer offer[DT_FLOW_SIDES];
    struct dt_backup_pair pair[DT_PATHS_MAX];

    for (int side = 0; side < DT_FLOW_SIDES; side++) {
        offer_of(s, flow, side, &list[side], &offer[side]);
        paths = dt_min_u64(paths, s->settings[flow->side[side].host].paths);
    }
    paths = dt_backup_make_pairs(&offer[DT_FLOW_SENDER], &offer[DT_FLOW_RECEIVER], (uint32_t)paths, pair);
    for (uint32_t p = 0; p < paths; p++) {
        const uint32_t place[] = {pair[p].sender, pair[p].receiver};

        for (int side = 0; side < DT_FLOW_SIDES; side++)
            device[p][side] =
                s->plugin.host[flow->side[side].host].device_first + list[side].index[place[side]];
    }
    return (uint32_t)paths;
}

/* Is there a path whose devices live at the end? */
static bool keeps_a_path(const struct dt_scenario *s, const struct dt_flow_options *flow)
{
    uint32_t device[DT_PATHS_MAX][DT_FLOW_SIDES];
    uint32_t paths = dt_mercy_paths(s, flow, device);

    for (uint32_t p = 0; p < paths; p++)
        if (!is_dead(s, device[p][DT_FLOW_SENDER]) && !is_dead(s, device[p][DT_FLOW_RECEIVER]))
            return true;
    return false;
}

/* Can the receiver lose completions for good? Then acknowledged is not received. */
static bool may_lose_completions(const struct dt_scenario *s, const struct dt_flow_options *flow)
{
    const struct dt_host_options *host = &s->plugin.host[flow->side[DT_FLOW_RECEIVER].host];

    for (uint32_t i = 0; i < s->chaos.count; i++) {
        const struct dt_chaos *f = &s->chaos.list[i];

        if ((f->kind == DT_CHAOS_DEATH_BLIND || f->kind == DT_CHAOS_CQ_SILENT ||
             f->kind == DT_CHAOS_HALF_SILENT || f->kind == DT_CHAOS_RECEIVES_LATE) &&
            f->device - host->device_first < host->device_count)
            return true;
    }
    return false;
}

/* A packet does not arrive, or its completion is not seen; either may also make an end fence a path. */
static bool may_hide_ack(const struct dt_chaos *fault)
{
    switch (fault->kind) {
    case DT_CHAOS_CUT:
    case DT_CHAOS_LOSS:
    case DT_CHAOS_DROP:
    case DT_CHAOS_LATE:
    case DT_CHAOS_PORT_DOWN:
    case DT_CHAOS_FLAP:
    case DT_CHAOS_DEATH:
    case DT_CHAOS_DEATH_BLIND:
    case DT_CHAOS_CQ_SILENT:
    case DT_CHAOS_HALF_SILENT:
    case DT_CHAOS_FREEZE:
    case DT_CHAOS_REMOVED:
    case DT_CHAOS_QPS_FAIL:
    case DT_CHAOS_RECEIVES_LATE:
        return true;
    default:
        return false;
    }
}

bool dt_mercy_may_miss_acks(const struct dt_scenario *s)
{
    bool may_miss = s->network.loss_ppm > 0;

    for (uint32_t i = 0; i < s->chaos.count; i++)
        may_miss |= may_hide_ack(&s->chaos.list[i]);
    return may_miss;
}

bool dt_mercy_may_miss_stop(const struct dt_scenario *s)
{
    for (uint32_t i = 0; i < s->chaos.count; i++) {
        switch (s->chaos.list[i].kind) {
        case DT_CHAOS_STOP:
        case DT_CHAOS_FREEZE:
        case DT_CHAOS_KILL:
        case DT_CHAOS_CONTROL_HOLD:
        case DT_CHAOS_CONTROL_SLOW:
        case DT_CHAOS_CONTROL_BREAK:
            return true;
        default:
            break;
        }
    }
    return false;
}

enum dt_flow_mercy dt_mercy_for(const struct dt_scenario *s, const struct dt_flow_options *flow)
{
    if (s->is_doomed || !keeps_a_path(s, flow))
        return DT_MERCY_ANY;
    return may_lose_completions(s, flow) ? DT_MERCY_UNSEEN : DT_MERCY_NONE;
}

bool dt_mercy_can_do_without(const struct dt_scenario *s, uint32_t device)
{
    struct dt_scenario without = *s;

    without.chaos.count = 1;
    without.chaos.list[0] = (struct dt_chaos){.kind = DT_CHAOS_DEATH, .device = device};
    for (uint32_t i = 0; i < s->flow_count; i++)
        if (!keeps_a_path(&without, &s->flow[i]))
            return false;
    return true;
}
