/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transfers of one flow in one iteration: which may be posted, and which are in flight. Transfers are
 * posted and completed in order, so four counts describe them: completed <= posted <= reached <= total.
 */
#ifndef DETOUR_PIPELINE_WINDOW_H
#define DETOUR_PIPELINE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pipeline_window {
    uint64_t total;   /* of the iteration */
    uint64_t reached; /* by the program */
    uint64_t posted;
    uint64_t completed;
    uint64_t slots;    /* most transfers in flight */
    uint64_t freed_ns; /* when the last slot became free for which a transfer was waiting; 0: none was */
};

/* A new iteration; the one before must be done. slots: 0 means no limit. */
void dt_pipeline_window_open(struct dt_pipeline_window *window, uint64_t total, uint64_t slots);

/* The program has come to `count` more transfers. */
void dt_pipeline_window_reach(struct dt_pipeline_window *window, uint64_t count);

/* A transfer is reached and has a slot. */
bool dt_pipeline_window_can_post(const struct dt_pipeline_window *window);

/* Posts the next transfer; returns its number, from 0. */
uint64_t dt_pipeline_window_post(struct dt_pipeline_window *window);

/* The oldest transfer in flight is complete; returns its number. */
uint64_t dt_pipeline_window_complete(struct dt_pipeline_window *window, uint64_t now_ns);

bool dt_pipeline_window_is_done(const struct dt_pipeline_window *window);

#ifdef __cplusplus
}
#endif

#endif
