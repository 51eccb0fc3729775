/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched optimize`: the result as a table and as JSON. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/sched/optimize.h"

enum { ROWS_MAX = DETOUR_BASELINE_COUNT + 3 };

struct row {
    const char *name;
    const struct detour_pipeline *pipeline;
};

/* Baselines, what was in use before links or devices became slow, the paper's tuning, and the result. */
static int list_rows(const struct dt_optimize_run *r, struct row rows[ROWS_MAX])
{
    const struct detour_optimization *result = r->result;
    int count = 0;

    for (; count < DETOUR_BASELINE_COUNT; count++)
        rows[count] =
            (struct row){detour_baseline_name((enum detour_baseline)count), &result->baselines[count]};
    if (r->kept)
        rows[count++] = (struct row){"kept", r->kept};
    rows[count++] = (struct row){"tuned", &result->tuned};
    rows[count++] = (struct row){"optimized", &result->best};
    return count;
}

static int64_t peak_bytes(const struct detour_model *model, const struct detour_pipeline *pipeline)
{
    int64_t peak = 0;

    for (int32_t d = 0; d < model->device_count; d++)
        if (pipeline->performance->devices[d].peak_bytes > peak)
            peak = pipeline->performance->devices[d].peak_bytes;
    return peak;
}

static double above(const struct detour_optimization *result, const struct detour_pipeline *pipeline)
{
    int64_t bound_ns = result->bound.iteration_ns;

    return bound_ns ? (double)pipeline->performance->iteration_ns / (double)bound_ns : 1;
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

static json_t *ms_json(int64_t time_ns)
{
    return json_real((double)time_ns / 1e6);
}

static json_t *integers_json(const int32_t *values, int32_t count)
{
    json_t *array = json_array();

    for (int32_t i = 0; array && i < count; i++) {
        if (json_array_append_new(array, json_integer(values[i]))) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

/* The number of layers of each stage, as "fixed" of a model file has it. */
static json_t *layers_json(const struct detour_partition *partition)
{
    json_t *array = json_array();

    for (int32_t i = 0; array && i < partition->stage_count; i++) {
        if (json_array_append_new(array,
                                  json_integer(partition->first_layer[i + 1] - partition->first_layer[i]))) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *devices_json(const struct detour_model *model, const struct detour_performance *performance)
{
    json_t *array = json_array();

    for (int32_t d = 0; array && d < model->device_count; d++) {
        const struct detour_device_performance *device = &performance->devices[d];
        json_t *object = json_pack(
            "{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "compute_ms", ms_json(device->compute_ns),
            "bubble_ms", ms_json(device->bubble_ns), "overlapped_ms", ms_json(device->overlapped_ns),
            "exposed_ms", ms_json(device->exposed_ns), "exchange_ms", ms_json(device->exchange_ns),
            "static_bytes", (json_int_t)device->static_bytes, "gradient_bytes",
            (json_int_t)device->gradient_bytes, "activation_bytes", (json_int_t)device->activation_bytes,
            "peak_bytes", (json_int_t)device->peak_bytes);
        if (json_array_append_new(array, object)) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *row_json(const struct dt_optimize_run *r, const struct row *row)
{
    const struct detour_pipeline *pipeline = row->pipeline;
    const struct detour_partition *partition = &pipeline->partition;

    if (!pipeline->plan)
        return json_pack("{s:s, s:s}", "name", row->name, "problem", pipeline->problem);
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:f, s:f, s:I, s:i, s:o, s:o, s:o}", "name", row->name, "algorithm",
        detour_algorithm_name(pipeline->plan->algorithm), "makespan_ms", ms_json(pipeline->plan->makespan_ns),
        "iteration_ms", ms_json(pipeline->performance->iteration_ns), "ratio_to_bound",
        above(r->result, pipeline), "bubble_ratio", pipeline->performance->bubble_ratio, "peak_bytes",
        (json_int_t)peak_bytes(r->model, pipeline), "stages", (int)partition->stage_count, "layers",
        layers_json(partition), "placement", integers_json(partition->device, partition->stage_count),
        "devices", devices_json(r->model, pipeline->performance));
}

static json_t *bound_json(const struct detour_model_bound *bound)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i}", "makespan_ms", ms_json(bound->makespan_ns),
                     "iteration_ms", ms_json(bound->iteration_ns), "chain_ms", ms_json(bound->chain_ns),
                     "layer_ms", ms_json(bound->layer_ns), "work_ms", ms_json(bound->work_ns), "packing_ms",
                     ms_json(bound->packing_ns), "memory_ms", ms_json(bound->memory_ns), "heaviest_layer",
                     (int)bound->heaviest_layer);
}

int dt_optimize_write_json(const struct dt_optimize_run *r)
{
    const struct detour_optimization *result = r->result;
    char *layout = dt_optimize_layout(r->model, &result->best.partition);
    struct row rows[ROWS_MAX];
    json_t *array = json_array();
    int count = list_rows(r, rows);

    for (int k = 0; array && k < count; k++) {
        if (json_array_append_new(array, row_json(r, &rows[k]))) {
            json_decref(array);
            array = NULL;
        }
    }
    json_t *document =
        json_pack("{s:i, s:s, s:o, s:o, s:s*, s:{s:I, s:I, s:I}}", "version", 1, "model", r->model->name,
                  "lower_bound", bound_json(&result->bound), "pipelines", array, "megatron_layout", layout,
                  "search", "estimated", (json_int_t)result->estimated, "scheduled",
                  (json_int_t)result->scheduled, "effort", (json_int_t)result->effort);
    free(layout);
    return dt_sched_write_json(r->run, document);
}

/* ---- table ------------------------------------------------------------------------------------------ */

static void text_rows(FILE *out, const struct dt_optimize_run *r)
{
    struct row rows[ROWS_MAX];
    int count = list_rows(r, rows);

    fprintf(out, "%-10s %12s %9s %9s %8s %7s  %s\n", "pipeline", "iteration ms", "bubbles %", "peak GB",
            "x bound", "stages", "schedule");
    for (int k = 0; k < count; k++) {
        const struct detour_pipeline *pipeline = rows[k].pipeline;
        fprintf(out, "%-10s ", rows[k].name);
        if (pipeline->plan)
            fprintf(out, "%12.3f %9.2f %9.2f %8.4f %7" PRId32 "  %s\n",
                    (double)pipeline->performance->iteration_ns / 1e6,
                    100 * pipeline->performance->bubble_ratio, (double)peak_bytes(r->model, pipeline) / 1e9,
                    above(r->result, pipeline), pipeline->partition.stage_count,
                    detour_algorithm_name(pipeline->plan->algorithm));
        else
            fprintf(out, "none: %s\n", pipeline->problem);
    }
}

/* "0-3: embedding, decoder x3" */
static void text_layers(FILE *out, const struct detour_model *model, int32_t first, int32_t end)
{
    fprintf(out, "%" PRId32 "-%" PRId32 ":", first, end - 1);
    for (int32_t l = first, count; l < end; l += count) {
        for (count = 1; l + count < end && !strcmp(model->layers[l].type, model->layers[l + count].type);)
            count++;
        fprintf(out, "%s %s", l > first ? "," : "", model->layers[l].type);
        if (count > 1)
            fprintf(out, " x%" PRId32, count);
    }
}

static void text_stages(FILE *out, const struct dt_optimize_run *r)
{
    const struct detour_partition *partition = &r->result->best.partition;

    for (int32_t d = 0; d < r->model->device_count; d++) {
        fprintf(out, "device %-3" PRId32, d);
        for (int32_t i = 0, seen = 0; i < partition->stage_count; i++) {
            if (partition->device[i] != d)
                continue;
            fprintf(out, "%s stage %" PRId32 ", layers ", seen++ ? ";" : "", i);
            text_layers(out, r->model, partition->first_layer[i], partition->first_layer[i + 1]);
        }
        fputc('\n', out);
    }
}

int dt_optimize_write_text(const struct dt_optimize_run *r, const struct detour_text *schedule)
{
    char *layout = dt_optimize_layout(r->model, &r->result->best.partition), *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (!out) {
        free(layout);
        return dt_sched_say(r->run->options, DT_EXIT_FAILED, "out of memory");
    }
    fprintf(out,
            "%s: %" PRId32 " layers on %" PRId32 " devices, %" PRId32
            " microbatches; no pipeline is below %.3f ms\n",
            r->model->name, r->model->layer_count, r->model->device_count, r->model->microbatch_count,
            (double)r->result->bound.iteration_ns / 1e6);
    text_rows(out, r);
    fprintf(out, "looked at %" PRIu64 " pipelines, scheduled %" PRIu64 "\n\n", r->result->estimated,
            r->result->scheduled);
    text_stages(out, r);
    if (layout)
        fprintf(out, "Megatron-LM: --pipeline-model-parallel-layout \"%s\"\n", layout);
    fprintf(out, "\n%.*s", (int)schedule->bytes, schedule->data);
    free(layout);
    if (fclose(out) != 0) {
        free(text);
        return dt_sched_say(r->run->options, DT_EXIT_FAILED, "out of memory");
    }
    int code = dt_sched_write(r->run, text, bytes);
    free(text);
    return code;
}
