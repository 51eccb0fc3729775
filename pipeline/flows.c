/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/flows.h"

#include <stdlib.h>

#include "base/check.h"

enum { MESSAGE_KINDS = DETOUR_ACTION_RECV_B - DETOUR_ACTION_SEND_F + 1 };

bool dt_action_is_message(int kind)
{
    return kind >= DETOUR_ACTION_SEND_F && kind <= DETOUR_ACTION_RECV_B;
}

bool dt_action_is_send(int kind)
{
    return kind == DETOUR_ACTION_SEND_F || kind == DETOUR_ACTION_SEND_B;
}

bool dt_action_is_of_gradient(int kind)
{
    return kind == DETOUR_ACTION_RECV_B || kind == DETOUR_ACTION_WAIT_B || kind == DETOUR_ACTION_SEND_B;
}

int32_t dt_action_peer_stage(const struct detour_action *action)
{
    bool up = action->kind == DETOUR_ACTION_SEND_F || action->kind == DETOUR_ACTION_RECV_B;

    return up ? action->stage + 1 : action->stage - 1;
}

static size_t *number_of(const struct dt_pipeline_flows *flows, int32_t stage, int kind)
{
    DT_CHECK(flows->local[stage] >= 0 && dt_action_is_message(kind));
    return &flows->numbers[(size_t)flows->local[stage] * MESSAGE_KINDS +
                           (size_t)(kind - DETOUR_ACTION_SEND_F)];
}

size_t dt_pipeline_flows_of(const struct dt_pipeline_flows *flows, const struct detour_action *action)
{
    return *number_of(flows, action->stage, action->kind);
}

static void add_flow(struct dt_pipeline_flows *flows, const struct detour_profile *profile, int32_t stage,
                     int kind)
{
    struct detour_action action = {.stage = (int16_t)stage, .kind = (uint8_t)kind};
    int32_t other = dt_action_peer_stage(&action);

    if (other < 0 || other >= profile->stage_count ||
        profile->stages[other].device == profile->stages[stage].device)
        return;
    *number_of(flows, stage, kind) = flows->count;
    flows->ends[flows->count++] = (struct dt_executor_flow){
        .peer = profile->stages[other].device,
        .link = other < stage ? other : stage,
        .backward = dt_action_is_of_gradient(kind),
        .sends = dt_action_is_send(kind),
    };
}

bool dt_pipeline_flows_init(struct dt_pipeline_flows *flows, const struct detour_profile *profile,
                            int32_t device)
{
    *flows = (struct dt_pipeline_flows){.local = calloc((size_t)profile->stage_count, sizeof *flows->local)};
    if (!flows->local)
        return false;
    for (int32_t i = 0; i < profile->stage_count; i++)
        flows->local[i] = profile->stages[i].device == device ? flows->local_count++ : -1;
    size_t flows_max = MESSAGE_KINDS * (size_t)flows->local_count + 1;
    flows->ends = calloc(flows_max, sizeof *flows->ends);
    flows->numbers = calloc(flows_max, sizeof *flows->numbers);
    if (!flows->ends || !flows->numbers)
        return false;
    for (int32_t i = 0; i < profile->stage_count; i++)
        for (int kind = DETOUR_ACTION_SEND_F; flows->local[i] >= 0 && kind <= DETOUR_ACTION_RECV_B; kind++)
            add_flow(flows, profile, i, kind);
    return true;
}

void dt_pipeline_flows_free(struct dt_pipeline_flows *flows)
{
    free(flows->local);
    free(flows->ends);
    free(flows->numbers);
    *flows = (struct dt_pipeline_flows){0};
}
