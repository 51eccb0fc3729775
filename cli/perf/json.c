/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON document of -J: names and shape of nccl-tests' (its version 3), as far as they apply. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/perf/report.h"
#include "detour/version.h"

static json_t *arguments(int argc, char **argv)
{
    json_t *list = json_array();

    for (int i = 0; i < argc; i++)
        json_array_append_new(list, json_string(argv[i]));
    return list;
}

static json_t *config(const struct dt_perf_options *options)
{
    json_t *object = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:i, s:b}", "ranks", (json_int_t)options->job.ranks, "minimum_bytes",
        (json_int_t)options->bytes_min, "maximum_bytes", (json_int_t)options->bytes_max, "warmup_iters",
        (json_int_t)options->warmup_iterations, "iterations", (json_int_t)options->iterations, "validation",
        (int)options->check, "raw", (int)options->raw);

    if (options->step_factor > 1)
        json_object_set_new(object, "step_factor", json_integer((json_int_t)options->step_factor));
    else
        json_object_set_new(object, "step_bytes", json_integer((json_int_t)options->step_bytes));
    if (options->raw)
        json_object_set_new(object, "window", json_integer(options->window));
    return object;
}

struct json_t *dt_perf_json_create(const struct dt_perf_options *options, int argc, char **argv)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:[]}", "program", "detour perf", "version", DETOUR_VERSION_STRING,
                     "args", arguments(argc, argv), "config", config(options), "results");
}

void dt_perf_json_start(struct json_t *json, const struct dt_perf_start *start,
                        const struct dt_perf_rank_info *ranks, const struct dt_perf_options *options)
{
    json_t *config = json_object_get(json, "config");
    json_t *list = json_array();

    for (unsigned rank = 0; rank < options->job.ranks; rank++) {
        const struct dt_perf_rank_info *info = &ranks[rank];

        json_array_append_new(list,
                              json_pack("{s:i, s:i, s:s, s:s}", "rank", (int)rank, "pid", (int)info->pid,
                                        "hostname", info->host, "devices", info->devices));
    }
    json_object_set_new(config, "plugin", json_string(start->plugin));
    json_object_set_new(config, "channels", json_integer(start->channels));
    json_object_set_new(config, "devices", list);
}

static json_t *column_object(const struct dt_perf_column *column)
{
    if (!column->ran)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:o}", "time", column->time_us, "alg_bw", column->alg_bw, "bus_bw",
                     column->bus_bw, "nwrong", column->wrong < 0 ? json_null() : json_integer(column->wrong));
}

void dt_perf_json_row(struct json_t *json, const struct dt_perf_row *row,
                      const struct dt_perf_options *options)
{
    json_t *object = json_pack("{s:I, s:I, s:s, s:s, s:s, s:o, s:o}", "size", (json_int_t)row->bytes, "count",
                               (json_int_t)row->count, "type", options->type->name, "redop",
                               options->op->reduces ? dt_perf_redop_name(options->redop) : "none", "root",
                               options->op->has_root ? "0" : "-1", "out_of_place",
                               column_object(&row->columns[DT_PERF_OUT_OF_PLACE]), "in_place",
                               column_object(&row->columns[DT_PERF_IN_PLACE]));

    if (row->first_wrong[0])
        json_object_set_new(object, "first_wrong", json_string(row->first_wrong));
    json_array_append_new(json_object_get(json, "results"), object);
}

bool dt_perf_json_finish(struct json_t *json, FILE *file, uint64_t wrong, double average_bus_bw,
                         const struct dt_job_error *error)
{
    json_t *errors = json_array();
    bool ok;

    if (error->exit_code)
        json_array_append_new(errors, json_string(error->text));
    json_object_set_new(json, "out_of_bounds",
                        json_pack("{s:I, s:b}", "count", (json_int_t)wrong, "okay", !wrong));
    json_object_set_new(json, "average_bus_bandwidth",
                        json_pack("{s:f, s:s}", "bandwidth", average_bus_bw, "okay", "unchecked"));
    json_object_set_new(json, "errors", errors);
    /* EINVAL: a pipe or a terminal, which has no content to replace. */
    ok = json && (ftruncate(fileno(file), 0) == 0 || errno == EINVAL) &&
         json_dumpf(json, file, JSON_INDENT(2)) == 0 && fputc('\n', file) != EOF;
    json_decref(json);
    return fclose(file) == 0 && ok;
}
