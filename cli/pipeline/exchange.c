/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char through[] = ",through=";

bool dt_pipeline_exchanges_add(struct dt_pipeline_exchanges *exchanges, const char *text)
{
    struct dt_pipeline_exchange *made = &exchanges->list[exchanges->count];
    const size_t prefix = sizeof through - 1;
    int length = 0;

    if (exchanges->count == DT_PIPELINE_EXCHANGES_MAX || strspn(text, "0123456789") == 0 ||
        sscanf(text, "%5u-%5u@%9" SCNu32 "%n", &made->a, &made->b, &made->before, &length) != 3 ||
        made->a == made->b || made->before == 0)
        return false;
    if (exchanges->count > 0 && made->before < made[-1].before)
        return false;
    text += length;
    if (!strncmp(text, through, prefix)) {
        if (!text[prefix] || strlen(text + prefix) >= sizeof exchanges->directory || exchanges->directory[0])
            return false;
        strcpy(exchanges->directory, text + prefix);
    } else if (*text) {
        return false;
    }
    exchanges->count++;
    return true;
}

bool dt_pipeline_exchanges_find_wrong(const struct dt_pipeline_exchanges *exchanges, int32_t devices,
                                      int32_t replicas, uint32_t iterations,
                                      char text[DT_PIPELINE_EXCHANGE_TEXT_BYTES])
{
    unsigned ranks = (unsigned)(devices * replicas);

    for (size_t i = 0; i < exchanges->count; i++) {
        const struct dt_pipeline_exchange *one = &exchanges->list[i];

        if (replicas > 1 && one->a < ranks && one->b < ranks && one->before < iterations)
            continue;
        snprintf(text, DT_PIPELINE_EXCHANGE_TEXT_BYTES,
                 "%u-%u@%" PRIu32
                 ": needs --dp of at least 2, ranks of 0 to %u, an iteration of 1 to %" PRIu32,
                 one->a, one->b, one->before, ranks - 1, iterations - 1);
        return true;
    }
    return false;
}

bool dt_pipeline_exchanges_name(const struct dt_pipeline_exchanges *exchanges, unsigned rank)
{
    for (size_t i = 0; i < exchanges->count; i++)
        if (exchanges->list[i].a == rank || exchanges->list[i].b == rank)
            return true;
    return false;
}

bool dt_pipeline_exchanges_has(const struct dt_pipeline_exchanges *exchanges, uint32_t iteration)
{
    for (size_t i = 0; i < exchanges->count; i++)
        if (exchanges->list[i].before == iteration)
            return true;
    return false;
}

/*
 * Positions change like this: the ranks A and B take each other's place. The ranks of two positions are known
 * from the ranks before, so that one array is enough; ranks that no exchange names stay where they are.
 */
struct places {
    unsigned ranks[2 * DT_PIPELINE_EXCHANGES_MAX];     /* that an exchange names */
    unsigned positions[2 * DT_PIPELINE_EXCHANGES_MAX]; /* theirs */
    size_t count;
};

static unsigned *find(struct places *places, unsigned rank)
{
    size_t i = 0;

    while (i < places->count && places->ranks[i] != rank)
        i++;
    if (i == places->count) {
        places->ranks[i] = places->positions[i] = rank;
        places->count++;
    }
    return &places->positions[i];
}

static struct places places_at(const struct dt_pipeline_exchanges *exchanges, uint32_t iteration)
{
    struct places places = {.count = 0};

    for (size_t i = 0; i < exchanges->count && exchanges->list[i].before <= iteration; i++) {
        unsigned *a = find(&places, exchanges->list[i].a), *b = find(&places, exchanges->list[i].b);
        unsigned position = *a;

        *a = *b;
        *b = position;
    }
    return places;
}

unsigned dt_pipeline_exchanges_rank_at(const struct dt_pipeline_exchanges *exchanges, unsigned position,
                                       uint32_t iteration)
{
    const struct places places = places_at(exchanges, iteration);

    for (size_t i = 0; i < places.count; i++)
        if (places.positions[i] == position)
            return places.ranks[i];
    return position;
}

unsigned dt_pipeline_exchanges_position_of(const struct dt_pipeline_exchanges *exchanges, unsigned rank,
                                           uint32_t iteration)
{
    const struct places places = places_at(exchanges, iteration);

    for (size_t i = 0; i < places.count; i++)
        if (places.ranks[i] == rank)
            return places.positions[i];
    return rank;
}

/* ---- what is slow ---- */

/* Where the rank is now that began at `first`; `replica` stands for every one. */
static struct dt_pipeline_position moved_to(const struct dt_pipeline_exchanges *exchanges, int32_t devices,
                                            uint32_t iteration, struct dt_pipeline_position first,
                                            int32_t replica)
{
    if (first.replica == DT_PIPELINE_EVERY_REPLICA)
        first.replica = replica;
    return dt_pipeline_position_of(devices, dt_pipeline_exchanges_position_of(
                                                exchanges, dt_pipeline_rank_of(devices, first), iteration));
}

static bool is_of(struct dt_pipeline_position position, int32_t replica)
{
    return position.replica == DT_PIPELINE_EVERY_REPLICA || replica == 0;
}

static bool add_link(struct dt_pipeline_slow *moved, const struct dt_pipeline_slow_link *link,
                     struct dt_pipeline_position a, struct dt_pipeline_position b)
{
    bool is_turned = a.device > b.device;

    if (moved->link_count == DT_PIPELINE_SLOW_MAX)
        return false;
    moved->links[moved->link_count] = *link;
    moved->links[moved->link_count].a = is_turned ? b : a;
    moved->links[moved->link_count++].b = is_turned ? a : b;
    return true;
}

bool dt_pipeline_exchanges_move_slow(const struct dt_pipeline_exchanges *exchanges, int32_t devices,
                                     int32_t replicas, uint32_t iteration,
                                     const struct dt_pipeline_slow *slow, struct dt_pipeline_slow *moved)
{
    moved->link_count = moved->device_count = 0;
    moved->kill = slow->kill;
    for (int32_t r = 0; r < replicas; r++) {
        for (size_t i = 0; i < slow->link_count; i++) {
            const struct dt_pipeline_slow_link *link = &slow->links[i];

            if (is_of(link->a, r) &&
                !add_link(moved, link, moved_to(exchanges, devices, iteration, link->a, r),
                          moved_to(exchanges, devices, iteration, link->b, r)))
                return false;
        }
        for (size_t i = 0; i < slow->device_count; i++) {
            struct dt_pipeline_slow_device device = slow->devices[i];

            if (!is_of(device.position, r))
                continue;
            if (moved->device_count == DT_PIPELINE_SLOW_MAX)
                return false;
            device.position = moved_to(exchanges, devices, iteration, device.position, r);
            moved->devices[moved->device_count++] = device;
        }
    }
    return true;
}
