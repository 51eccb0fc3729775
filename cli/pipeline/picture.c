/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The operations in the order in which they were executed, at the times that the model gives them. */
static bool predict(struct dt_pipeline_picture *picture, struct detour_error *error)
{
    const struct detour_schedule *run = picture->measured.schedule;
    struct detour_report *report;

    if (detour_schedule_create(picture->arena, &picture->profile, run->op_count, &picture->predicted, error))
        return false;
    memcpy(picture->predicted->first, run->first, ((size_t)run->device_count + 1) * sizeof *run->first);
    memcpy(picture->predicted->ops, run->ops, run->op_count * sizeof *run->ops);
    if (detour_simulate(picture->arena, &picture->profile, picture->predicted, &report, error))
        return false;
    picture->makespan_ns = report->makespan_ns;
    return true;
}

bool dt_pipeline_picture_make(struct dt_pipeline_picture *picture, const struct dt_pipeline_options *options,
                              const struct dt_pipeline_timeline *timeline, struct detour_error *error)
{
    *picture = (struct dt_pipeline_picture){.options = options, .arena = detour_arena_create()};
    *error = (struct detour_error){.status = DETOUR_NO_MEMORY, .text = "out of memory"};
    if (picture->arena &&
        dt_pipeline_profile_make(options, 0, options->timeline_iteration, &picture->profile) &&
        !dt_pipeline_timeline_measure(timeline, &picture->profile, picture->arena, &picture->measured,
                                      error) &&
        predict(picture, error))
        return true;
    dt_pipeline_picture_free(picture);
    return false;
}

void dt_pipeline_picture_free(struct dt_pipeline_picture *picture)
{
    dt_pipeline_profile_free(&picture->profile);
    free((void *)picture->measured.messages);
    detour_arena_destroy(picture->arena);
    *picture = (struct dt_pipeline_picture){0};
}

static int64_t end_ns(const struct detour_schedule *schedule)
{
    int64_t last_ns = 0;

    for (size_t i = 0; i < schedule->op_count; i++)
        last_ns = schedule->ops[i].finish_ns > last_ns ? schedule->ops[i].finish_ns : last_ns;
    return last_ns;
}

bool dt_pipeline_picture_write(const struct dt_pipeline_picture *picture, enum detour_format format,
                               struct detour_text *text, struct detour_error *error)
{
    const struct dt_pipeline_options *options = picture->options;
    const struct detour_plan plan = {.schedule = picture->predicted,
                                     .algorithm = DETOUR_ALGORITHM_EXTERNAL,
                                     .makespan_ns = picture->makespan_ns};
    char title[160];

    snprintf(title, sizeof title, "schedule %s, mode %s, iteration %" PRIu32 ": %.2f ms, predicted %.2f ms",
             dt_pipeline_schedule_name(options), dt_pipeline_mode_name(options->mode),
             options->timeline_iteration, (double)end_ns(picture->measured.schedule) / 1e6,
             (double)picture->makespan_ns / 1e6);
    const struct detour_format_options format_options = {.title = title, .measured = &picture->measured};
    return !detour_plan_write(picture->arena, &picture->profile, &plan, format, &format_options, text, error);
}

static json_t *operations_json(const struct dt_pipeline_picture *picture)
{
    const struct detour_schedule *run = picture->measured.schedule;
    json_t *list = json_array();

    for (int32_t d = 0; d < run->device_count; d++)
        for (size_t i = run->first[d]; i < run->first[d + 1]; i++) {
            const struct detour_op *op = &run->ops[i], *predicted = &picture->predicted->ops[i];

            json_array_append_new(list,
                                  json_pack("{s:i, s:s, s:i, s:i, s:f, s:f, s:f}", "device", (int)d, "kind",
                                            detour_op_name((enum detour_op_kind)op->kind), "stage",
                                            (int)op->stage, "microbatch", (int)op->microbatch, "start_ms",
                                            (double)op->start_ns / 1e6, "end_ms", (double)op->finish_ns / 1e6,
                                            "model_start_ms", (double)predicted->start_ns / 1e6));
        }
    return list;
}

static json_t *messages_json(const struct detour_measured *measured)
{
    json_t *list = json_array();

    for (size_t i = 0; i < measured->message_count; i++) {
        const struct detour_message *message = &measured->messages[i];

        json_array_append_new(list, json_pack("{s:i, s:i, s:i, s:f, s:f, s:f}", "from_stage",
                                              (int)message->from_stage, "to_stage", (int)message->to_stage,
                                              "microbatch", (int)message->microbatch, "ready_ms",
                                              (double)message->ready_ns / 1e6, "sent_ms",
                                              (double)message->depart_ns / 1e6, "arrived_ms",
                                              (double)message->arrive_ns / 1e6));
    }
    return list;
}

json_t *dt_pipeline_picture_json(const struct dt_pipeline_picture *picture)
{
    return json_pack("{s:I, s:o, s:o}", "iteration", (json_int_t)picture->options->timeline_iteration,
                     "operations", operations_json(picture), "messages", messages_json(&picture->measured));
}
