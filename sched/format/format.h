/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the readers and writers. */
#ifndef DETOUR_SCHED_FORMAT_INTERNAL_H
#define DETOUR_SCHED_FORMAT_INTERNAL_H

#include <jansson.h>

#include "detour/sched_format.h"
#include "sched/format/json_read.h"
#include "sched/problem.h"
#include "sched/format/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- JSON, writing: values are made and printed by jansson ------------------------------------------- */

/* A time as a number of milliseconds. NULL when out of memory, like all of jansson's makers. */
json_t *dt_json_ms(int64_t time_ns);

/*
 * Sets a member and takes over `value`. When anything is NULL or fails, *object is dropped and becomes NULL:
 * makers need to check only their result.
 */
void dt_json_put(json_t **object, const char *key, json_t *value);

/* Appends to an array, likewise. */
void dt_json_append(json_t **array, json_t *value);

/*
 * Prints `value` and drops its reference: containers down to `levels` deep are spread over lines, indented by
 * `indent` and more, deeper ones stand on one line. A NULL value makes the text failed, so that a failed
 * allocation needs no check on the way.
 */
void dt_text_add_json(struct dt_text *text, json_t *value, int levels, int indent);

/* Prints the members of an object, each on a line with a comma behind it, and drops its reference. */
void dt_text_add_json_members(struct dt_text *text, json_t *object, int levels, int indent);

/* Moves a text that is complete to the arena and destroys it. */
enum detour_status dt_text_finish(struct detour_arena *arena, struct dt_text *text, struct detour_text *out,
                                  struct detour_error *error);

/* ---- reading ---------------------------------------------------------------------------------------- */

/* The array at `links`, which must have `count` entries. */
bool dt_json_read_links(const struct dt_json_at *links, size_t count, struct detour_link *out);

/* links[] of a profile as JSON. */
json_t *dt_json_links(const struct detour_profile *profile);

/*
 * ---- messages and memory of a timed schedule ----------------------------------------------------------
 */

/* Those that the profile gives a plan, in the order of their links' stages, forward first, by time within a
 * link; or those of a run. */
struct dt_messages {
    size_t count;
    const struct detour_message *messages;
};

static inline bool dt_message_is_forward(const struct detour_message *message)
{
    return message->to_stage > message->from_stage;
}

/* All messages of a timed schedule, in call->arena. */
enum detour_status dt_messages_create(struct dt_call *call, const struct dt_problem *p,
                                      const struct detour_schedule *schedule, struct dt_messages *messages);

/* From `time_ns` until the next step the device holds `value`. */
struct dt_usage_step {
    int64_t time_ns;
    int64_t value;
};

struct dt_usage {
    bool in_bytes; /* else microbatches in flight, all stages of the device together */
    size_t *first; /* device_count + 1: device d's steps are steps[first[d]] .. steps[first[d + 1] - 1] */
    struct dt_usage_step *steps;
    int64_t *peak;  /* [device] */
    int64_t *limit; /* [device]; INT64_MAX for none */
};

/* Memory over time, in bytes where the profile has any, else in microbatches. In call->arena. */
enum detour_status dt_usage_create(struct dt_call *call, const struct dt_problem *p,
                                   const struct detour_schedule *schedule, struct dt_usage *usage);

/* A value of the usage for a label: microbatches as they are, bytes as "15.3M" (powers of 1024). */
void dt_text_add_usage(struct dt_text *text, const struct dt_usage *usage, int64_t value);

/*
 * 1, 2 or 5 times a power of ten nanoseconds: the least that is `distance` wide where `span_ns` is `width`
 * wide.
 */
int64_t dt_round_step(int64_t span_ns, int64_t width, int64_t distance);

/* ---- the writers, behind detour_plan_write() ---------------------------------------------------------- */

/* The arguments of every writer. */
struct dt_write {
    struct dt_call *call;
    const struct dt_problem *p;
    const struct detour_plan *plan;
    const struct detour_schedule *schedule; /* the plan's */
    const struct detour_format_options *options;
};

/* Appends to `text`; running out of memory may also be left to text->failed. */
typedef enum detour_status dt_write_func(const struct dt_write *w, struct dt_text *text);

dt_write_func dt_write_json;
dt_write_func dt_write_csv;
dt_write_func dt_write_csv_comms;
dt_write_func dt_write_trace;
dt_write_func dt_write_svg;
dt_write_func dt_write_gantt;

/* The member "adapt". NULL when out of memory. */
json_t *dt_json_adapt(const struct dt_write *w, const struct detour_adapt_note *note);

/* "beam: makespan 390 ms, lower bound 390 ms (optimal)", for titles. */
void dt_text_add_summary(struct dt_text *text, const struct detour_plan *plan);

/* The algorithm's name, "external" for DETOUR_ALGORITHM_EXTERNAL. */
const char *dt_algorithm_label(enum detour_algorithm algorithm);

#ifdef __cplusplus
}
#endif

#endif
