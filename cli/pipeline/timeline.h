/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measured times of one iteration: each rank sends the spans of its actions to the launcher, which keeps
 * those of all devices. One iteration, so that memory does not grow with the run.
 *
 * Ranks of one machine share a clock. The times of a rank on another machine than rank 0 are counted from the
 * beginning of the iteration on that rank instead; all ranks begin behind one barrier.
 */
#ifndef DETOUR_CLI_PIPELINE_TIMELINE_H
#define DETOUR_CLI_PIPELINE_TIMELINE_H

#include "cli/pipeline/ranks.h"
#include "detour/sched_format.h"
#include "pipeline/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An action as it was executed. */
struct dt_pipeline_record {
    struct dt_executor_span span;
    struct detour_action action;
};

/* A frame of a rank's records has this, then `count` records. A rank sends as many frames as it needs. */
struct dt_pipeline_records_head {
    uint32_t count;
    uint32_t has_own_clock; /* the rank is on another machine than rank 0 */
    uint64_t begin_ns;      /* of the iteration */
};

/*
 * A rank, after the iteration: sends the records of the actions of `program` that the executor has executed.
 * False when out of memory or the launcher is gone.
 */
bool dt_pipeline_timeline_send(int fd, const struct dt_executor *executor,
                               const struct detour_program *program, int32_t device, bool has_own_clock);

/* The launcher's collection. */
struct dt_pipeline_timeline_device {
    struct dt_pipeline_record *records;
    size_t count;
    bool has_own_clock;
    uint64_t begin_ns;
};

struct dt_pipeline_timeline {
    struct dt_pipeline_timeline_device devices[DT_PIPELINE_RANKS_MAX];
};

/*
 * Takes a frame of records. False: not of that form, or the device has more than `records_max` records.
 */
bool dt_pipeline_timeline_take(struct dt_pipeline_timeline *timeline, unsigned device, const void *payload,
                               size_t bytes, size_t records_max);
void dt_pipeline_timeline_free(struct dt_pipeline_timeline *timeline);

/* One device cannot have more records of an iteration than this. */
size_t dt_pipeline_timeline_records_max(int32_t stage_count, int32_t microbatch_count);

/*
 * The operations and messages of the iteration, from its beginning on. Messages whose clocks differ may
 * arrive as they are sent, never before. The schedule lies in the arena, the messages are malloc'ed and the
 * caller's. An error unless DETOUR_OK: the records are not those of the profile, or there is no memory.
 */
enum detour_status dt_pipeline_timeline_measure(const struct dt_pipeline_timeline *timeline,
                                                const struct detour_profile *profile,
                                                struct detour_arena *arena, struct detour_measured *measured,
                                                struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
