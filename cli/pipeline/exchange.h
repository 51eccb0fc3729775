/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that exchange their positions between two iterations (--exchange): strategy S3 of FALCON,
 * section 5.3. At the start rank r has position r; what is slow belongs to ranks, what is executed to
 * positions. Pure.
 *
 *   --exchange A-B@N[,through=DIR]   the ranks A and B, before iteration N
 *
 * Their parameters go through the plugin, or through files in DIR.
 */
#ifndef DETOUR_CLI_PIPELINE_EXCHANGE_H
#define DETOUR_CLI_PIPELINE_EXCHANGE_H

#include "cli/pipeline/slow.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PIPELINE_EXCHANGES_MAX 64 /* any other places of DT_PIPELINE_RANKS_MAX ranks */

struct dt_pipeline_exchange {
    unsigned a;
    unsigned b;
    uint32_t before; /* this iteration */
};

/* In ascending order of iterations; those of one iteration are made one after the other. */
struct dt_pipeline_exchanges {
    struct dt_pipeline_exchange list[DT_PIPELINE_EXCHANGES_MAX];
    size_t count;
    char directory[256]; /* of the files; "": through the plugin */
};

/* Adds the text of an option. False: not of that form, an iteration before the one of the last text, two
 * directories, or the table is full. */
bool dt_pipeline_exchanges_add(struct dt_pipeline_exchanges *exchanges, const char *text);

/* True: an exchange does not fit to a run of these replicas and iterations; `text` says which and why. */
enum { DT_PIPELINE_EXCHANGE_TEXT_BYTES = 128 };
bool dt_pipeline_exchanges_find_wrong(const struct dt_pipeline_exchanges *exchanges, int32_t devices,
                                      int32_t replicas, uint32_t iterations,
                                      char text[DT_PIPELINE_EXCHANGE_TEXT_BYTES]);

/* An exchange names that rank: it moves at some time. */
bool dt_pipeline_exchanges_name(const struct dt_pipeline_exchanges *exchanges, unsigned rank);

/* An exchange is made before that iteration. */
bool dt_pipeline_exchanges_has(const struct dt_pipeline_exchanges *exchanges, uint32_t iteration);

/* The rank at a position, and the position of a rank, in that iteration. */
unsigned dt_pipeline_exchanges_rank_at(const struct dt_pipeline_exchanges *exchanges, unsigned position,
                                       uint32_t iteration);
unsigned dt_pipeline_exchanges_position_of(const struct dt_pipeline_exchanges *exchanges, unsigned rank,
                                           uint32_t iteration);

/*
 * What is slow at the positions of that iteration: `slow` names the ranks by their first positions. Links and
 * devices of every replica become one for each. False: the table of *moved is full.
 */
bool dt_pipeline_exchanges_move_slow(const struct dt_pipeline_exchanges *exchanges, int32_t devices,
                                     int32_t replicas, uint32_t iteration,
                                     const struct dt_pipeline_slow *slow, struct dt_pipeline_slow *moved);

#ifdef __cplusplus
}
#endif

#endif
