/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/pipeline_loop.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "pipeline/agreement.h"
#include "tests/sim/stream_sim.h"

/* As in cli/pipeline/: adapt.c and rank.c. */
#define CHANGE_PERMILLE      200
#define CONFIRM_COUNT        2
#define SEARCH_US            20000
#define ROUNDS_OF_A_PROPOSAL 2

/* A schedule and the links that it was made for. */
struct candidate {
    struct detour_arena *arena; /* has the members below; NULL: they are the caller's */
    const struct detour_schedule *schedule;
    struct detour_program *program;
    struct detour_profile profile;
    struct detour_link links[DT_SIM_HOSTS_MAX];
};

struct dt_pipeline_loop {
    const struct detour_profile *healthy;
    struct candidate *present;
    struct candidate *next; /* prepared; NULL: none */
    struct candidate *old;  /* a device may still hold its program until the next change */
    struct detour_adapt_state state;
    struct detour_link proposed[DT_SIM_HOSTS_MAX];
    struct dt_agreement agreement[DT_SIM_HOSTS_MAX]; /* of each device */
};

static void destroy(struct candidate *candidate)
{
    if (candidate)
        detour_arena_destroy(candidate->arena);
    free(candidate);
}

static struct candidate *create(const struct detour_profile *profile, const struct detour_link *links)
{
    struct candidate *candidate = calloc(1, sizeof *candidate);

    if (!candidate)
        return NULL;
    candidate->profile = *profile;
    candidate->profile.links = candidate->links;
    memcpy(candidate->links, links, (size_t)profile->stage_count * sizeof *links);
    return candidate;
}

struct dt_pipeline_loop *dt_pipeline_loop_create(const struct detour_profile *healthy,
                                                 const struct detour_profile *planned,
                                                 const struct detour_schedule *schedule)
{
    struct dt_pipeline_loop *loop = calloc(1, sizeof *loop);

    DT_CHECK(healthy->stage_count <= DT_SIM_HOSTS_MAX);
    if (!loop)
        return NULL;
    loop->healthy = healthy;
    loop->present = create(planned, planned->links);
    if (!loop->present) {
        free(loop);
        return NULL;
    }
    loop->present->schedule = schedule;
    return loop;
}

void dt_pipeline_loop_destroy(struct dt_pipeline_loop *loop)
{
    if (!loop)
        return;
    destroy(loop->present);
    destroy(loop->next);
    destroy(loop->old);
    free(loop);
}

uint32_t dt_pipeline_loop_changes(const struct dt_pipeline_loop *loop)
{
    return loop->agreement[0].adopted;
}

/* ---- decisions ---- */

static bool adapt(const struct dt_pipeline_loop *loop, struct candidate *candidate, int32_t confirm_count,
                  struct detour_adapt_state *state, struct detour_arena *arena)
{
    const struct detour_adapt_options options = {
        .generate = {.node_budget = detour_node_budget(loop->healthy, SEARCH_US)},
        .change_permille_min = CHANGE_PERMILLE,
        .confirm_count = confirm_count,
    };
    struct detour_adaptation *adaptation;

    if (detour_adapt(arena, &loop->present->profile, &candidate->profile, loop->present->schedule, &options,
                     state, &adaptation, NULL) != DETOUR_OK ||
        adaptation->verdict != DETOUR_ADAPT_CHANGE)
        return false;
    candidate->schedule = adaptation->plan->schedule;
    return true;
}

static int64_t beyond(uint64_t transit_ns, int64_t healthy_ns)
{
    return (int64_t)transit_ns > healthy_ns ? (int64_t)transit_ns - healthy_ns : 0;
}

/* Device 0: a proposal, when the measured delays call for another schedule. */
static void propose(struct dt_pipeline_loop *loop, uint32_t iteration,
                    const struct dt_pipeline_sim_transit *transit)
{
    struct detour_arena *arena = detour_arena_create();
    struct detour_link links[DT_SIM_HOSTS_MAX];
    struct candidate *measured;

    memcpy(links, loop->healthy->links, (size_t)loop->healthy->stage_count * sizeof *links);
    for (int32_t i = 0; i + 1 < loop->healthy->stage_count; i++) {
        links[i].forward_ns +=
            beyond(transit->forward_ns[i], links[i].forward_ns + links[i].forward_serial_ns);
        links[i].backward_ns +=
            beyond(transit->backward_ns[i], links[i].backward_ns + links[i].backward_serial_ns);
    }
    measured = create(loop->healthy, links);
    if (arena && measured && adapt(loop, measured, CONFIRM_COUNT, &loop->state, arena) &&
        dt_agreement_propose(&loop->agreement[0], iteration + 1 + ROUNDS_OF_A_PROPOSAL))
        memcpy(loop->proposed, links, sizeof links);
    destroy(measured);
    detour_arena_destroy(arena);
}

/* ---- rounds ---- */

static uint64_t digest_of(const struct detour_schedule *schedule)
{
    uint64_t digest =
        dt_digest_add(DT_DIGEST_EMPTY, schedule->ops, schedule->op_count * sizeof *schedule->ops);

    return digest ? digest : 1;
}

/* Every device makes the same schedule from the same delays; here it is made once. 0: there is none. */
static uint64_t prepare(struct dt_pipeline_loop *loop)
{
    struct detour_adapt_state state = {0};

    destroy(loop->next);
    loop->next = create(loop->healthy, loop->proposed);
    if (loop->next)
        loop->next->arena = detour_arena_create();
    if (loop->next && loop->next->arena && adapt(loop, loop->next, 1, &state, loop->next->arena) &&
        detour_program_create(loop->next->arena, loop->healthy, loop->next->schedule, &loop->next->program,
                              NULL) == DETOUR_OK)
        return digest_of(loop->next->schedule);
    destroy(loop->next);
    loop->next = NULL;
    return 0;
}

static void adopt(struct dt_pipeline_loop *loop)
{
    destroy(loop->old);
    loop->old = loop->present;
    loop->present = loop->next;
    loop->next = NULL;
    loop->state = (struct detour_adapt_state){0};
}

/* The round between two iterations. All devices decide alike. */
static enum dt_agreement_action round_of_all(struct dt_pipeline_loop *loop, uint32_t next_iteration)
{
    const size_t devices = (size_t)loop->healthy->device_count;
    struct dt_agreement_part parts[DT_SIM_HOSTS_MAX];
    enum dt_agreement_action action = DT_AGREEMENT_KEEP;
    uint64_t digest = 0;

    for (size_t i = 0; i < devices; i++)
        parts[i] = loop->agreement[i].own;
    for (size_t i = 0; i < devices; i++) {
        enum dt_agreement_action own =
            dt_agreement_round(&loop->agreement[i], parts, devices, next_iteration);

        DT_CHECK(i == 0 || own == action);
        action = own;
        if (i == 0 && action == DT_AGREEMENT_PREPARE)
            digest = prepare(loop);
        if (digest)
            dt_agreement_prepared(&loop->agreement[i], digest);
    }
    return action;
}

const struct detour_program *dt_pipeline_loop_after(void *arg, uint32_t iteration,
                                                    const struct dt_pipeline_sim_transit *transit)
{
    struct dt_pipeline_loop *loop = arg;
    enum dt_agreement_action action = round_of_all(loop, iteration + 1);

    if (action == DT_AGREEMENT_ADOPT)
        adopt(loop);
    if (!loop->agreement[0].own.number)
        propose(loop, iteration, transit);
    return loop->present->program;
}
