/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/exhaustive.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"

#define SEED    1
#define HEAL_NS (30 * DT_NS_PER_MS)

/* The script's devices: path 0 is soft0 to soft2, path 1 soft1 to soft3. */
struct kind {
    const char *name;
    struct dt_chaos fault; /* of path 0 */
};

static const struct kind kinds[] = {
    {"drop", {.kind = DT_CHAOS_DROP}},
    {"cut", {.kind = DT_CHAOS_CUT, .other = 2, .is_in = true, .is_out = true}},
    {"cut-there", {.kind = DT_CHAOS_CUT, .other = 2, .is_out = true}},
    {"cut-back", {.kind = DT_CHAOS_CUT, .other = 2, .is_in = true}},
    {"down-near", {.kind = DT_CHAOS_PORT_DOWN, .device = 0}},
    {"down-far", {.kind = DT_CHAOS_PORT_DOWN, .device = 2}},
    {"late-there",
     {.kind = DT_CHAOS_LATE, .device = 0, .chance_ppm = 1000000, .delay_ns = 10 * DT_NS_PER_MS}},
    {"late-back", {.kind = DT_CHAOS_LATE, .device = 2, .chance_ppm = 1000000, .delay_ns = 10 * DT_NS_PER_MS}},
    {"dead-near", {.kind = DT_CHAOS_DEATH, .device = 0}},
    {"dead-far", {.kind = DT_CHAOS_DEATH, .device = 2}},
};

static const char pair_name[] = "cut-both";

static struct dt_scenario scenario;

static struct dt_chaos *add(const struct dt_chaos *fault, uint64_t packet)
{
    struct dt_chaos *f = &scenario.chaos.list[scenario.chaos.count++];

    *f = *fault;
    f->start_packet = packet;
    f->duration_ns = HEAL_NS;
    return f;
}

static bool finish(const char *name, dt_exhaustive_func *done, void *arg)
{
    struct dt_world_report report;
    bool is_good = dt_world_run(&scenario, &report);

    return done(arg, name, is_good, &report);
}

static bool run_single(const struct kind *kind, uint64_t packet, dt_exhaustive_func *done, void *arg)
{
    char name[64];

    dt_scenario_draw(DT_PROFILE_SCRIPT, SEED, &scenario);
    add(&kind->fault, packet);
    snprintf(name, sizeof name, "%s:%" PRIu64, kind->name, packet);
    return finish(name, done, arg);
}

/* The first path has recovered when the second fails, or a little later. */
static bool run_pair(uint64_t first, uint64_t second, dt_exhaustive_func *done, void *arg)
{
    struct dt_chaos cut = {.kind = DT_CHAOS_CUT, .other = 2, .is_in = true, .is_out = true};
    char name[64];

    dt_scenario_draw(DT_PROFILE_SCRIPT, SEED, &scenario);
    add(&cut, first);
    cut.device = 1;
    cut.other = 3;
    add(&cut, second);
    snprintf(name, sizeof name, "%s:%" PRIu64 ":%" PRIu64, pair_name, first, second);
    return finish(name, done, arg);
}

/* Packets of a run without faults. */
static uint64_t count_packets(void)
{
    struct dt_world_report report;

    dt_scenario_draw(DT_PROFILE_SCRIPT, SEED, &scenario);
    dt_world_run(&scenario, &report);
    return report.packets;
}

void dt_exhaustive_run(uint64_t stride, dt_exhaustive_func *done, void *arg)
{
    uint64_t packets = count_packets();

    for (size_t k = 0; k < DT_COUNT_OF(kinds); k++)
        for (uint64_t packet = 1; packet <= packets; packet++)
            if (!run_single(&kinds[k], packet, done, arg))
                return;
    for (uint64_t first = 1; first <= packets; first++)
        for (uint64_t second = first + first % stride; second <= packets; second += stride)
            if (!run_pair(first, second, done, arg))
                return;
}

bool dt_exhaustive_run_case(const char *name, dt_exhaustive_func *done, void *arg)
{
    size_t bytes = strcspn(name, ":");
    uint64_t first = 0, second = 0;
    int numbers = sscanf(name + bytes, ":%" SCNu64 ":%" SCNu64, &first, &second);

    if (numbers == 2 && bytes == strlen(pair_name) && !strncmp(name, pair_name, bytes)) {
        run_pair(first, second, done, arg);
        return true;
    }
    for (size_t k = 0; k < DT_COUNT_OF(kinds) && numbers == 1; k++) {
        if (bytes == strlen(kinds[k].name) && !strncmp(name, kinds[k].name, bytes)) {
            run_single(&kinds[k], first, done, arg);
            return true;
        }
    }
    return false;
}
