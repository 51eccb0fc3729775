/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/changing_links.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/prng.h"

#define INTERVAL_NS_MIN 1000000

/* From begin_ns to the begin of the next piece. */
struct piece {
    int64_t begin_ns;
    int64_t delay_ns;
};

struct link {
    struct dt_prng prng;
    int64_t end_ns; /* of the last piece */
    struct piece *pieces;
    size_t count, capacity;
};

struct dt_changing_links {
    const struct dt_delay_rule *rule;
    int32_t count;
    struct link link[];
};

static void add_piece(const struct dt_changing_links *links, struct link *link)
{
    if (link->count == link->capacity) {
        link->capacity = link->capacity ? 2 * link->capacity : 64;
        link->pieces = realloc(link->pieces, link->capacity * sizeof *link->pieces);
        DT_CHECK(link->pieces);
    }
    struct piece *piece = &link->pieces[link->count++];
    piece->begin_ns = link->end_ns;
    if (links->rule->has_every) {
        int64_t interval_ns = (int64_t)dt_delay_draw(&links->rule->every, &link->prng);

        link->end_ns += interval_ns > INTERVAL_NS_MIN ? interval_ns : INTERVAL_NS_MIN;
    } else {
        link->end_ns = INT64_MAX;
    }
    piece->delay_ns = (int64_t)dt_delay_draw(&links->rule->value, &link->prng);
}

struct dt_changing_links *dt_changing_links_create(const struct dt_delay_rule *rule, int32_t count,
                                                   uint64_t seed)
{
    struct dt_changing_links *links = calloc(1, sizeof *links + (size_t)count * sizeof links->link[0]);

    if (!links)
        return NULL;
    links->rule = rule;
    links->count = count;
    for (int32_t i = 0; i < count; i++) {
        dt_prng_init_stream(&links->link[i].prng, seed, (uint64_t)i);
        add_piece(links, &links->link[i]);
    }
    return links;
}

void dt_changing_links_destroy(struct dt_changing_links *links)
{
    for (int32_t i = 0; links && i < links->count; i++)
        free(links->link[i].pieces);
    free(links);
}

/* The piece of this time, by bisection; those behind it may have to be drawn first. */
static size_t piece_at(struct dt_changing_links *links, int32_t number, int64_t at_ns)
{
    struct link *link = &links->link[number];
    size_t low = 0, high;

    DT_CHECK(number >= 0 && number < links->count && at_ns >= 0);
    while (link->end_ns <= at_ns)
        add_piece(links, link);
    for (high = link->count; high - low > 1;) {
        size_t middle = low + (high - low) / 2;

        if (link->pieces[middle].begin_ns <= at_ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int64_t piece_end_ns(const struct link *link, size_t piece)
{
    return piece + 1 < link->count ? link->pieces[piece + 1].begin_ns : link->end_ns;
}

int64_t dt_changing_links_delay_ns(struct dt_changing_links *links, int32_t link, int64_t at_ns)
{
    size_t piece = piece_at(links, link, at_ns);

    return links->link[link].pieces[piece].delay_ns;
}

int64_t dt_changing_links_change_ns(struct dt_changing_links *links, int64_t at_ns)
{
    int64_t first_ns = INT64_MAX;

    for (int32_t i = 0; i < links->count; i++) {
        int64_t end_ns = piece_end_ns(&links->link[i], piece_at(links, i, at_ns));

        first_ns = end_ns < first_ns ? end_ns : first_ns;
    }
    return first_ns;
}

int64_t dt_changing_links_earliest_ns(struct dt_changing_links *links, int32_t number, int64_t at_ns)
{
    int64_t best_ns = INT64_MAX;

    while (at_ns < best_ns) { /* a message that leaves later does not arrive before it leaves */
        size_t piece = piece_at(links, number, at_ns);
        int64_t arrival_ns = at_ns + links->link[number].pieces[piece].delay_ns;

        best_ns = arrival_ns < best_ns ? arrival_ns : best_ns;
        at_ns = piece_end_ns(&links->link[number], piece);
    }
    return best_ns;
}
