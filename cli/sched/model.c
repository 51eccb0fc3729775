/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched model`: writes a model file, of a known family or from measured times. */
#include <stdlib.h>

#include "cli/command.h"
#include "cli/sched/run.h"

/* From --profile. */
static int read_measured(struct dt_sched_run *run, struct detour_model **model)
{
    const char *path = run->options->profile_path;
    size_t bytes;
    char *data;

    int code = dt_sched_read_file(run, path, &data, &bytes);
    if (code != DT_EXIT_OK)
        return code;
    if (detour_model_from_measured(run->arena, &run->options->measured, dt_sched_name_of(path), data, bytes,
                                   model, &run->error))
        code = dt_sched_fail(run, NULL);
    free(data);
    return code;
}

static int make_family(struct dt_sched_run *run, struct detour_model **model)
{
    struct detour_family_options family = run->options->family;

    family.device_count = run->options->measured.device_count;
    family.microbatch_count = run->options->measured.microbatch_count;
    return detour_model_of_family(run->arena, &family, model, &run->error) ? dt_sched_fail(run, NULL)
                                                                           : DT_EXIT_OK;
}

static int write_model(struct dt_sched_run *run, const struct detour_model *model)
{
    struct detour_text text;

    if (detour_model_to_json(run->arena, model, &text, &run->error))
        return dt_sched_fail(run, NULL);
    return dt_sched_write(run, text.data, text.bytes);
}

int dt_sched_model(struct dt_sched_run *run)
{
    const struct dt_sched_options *options = run->options;
    const struct detour_measured_options *measured = &options->measured;
    struct detour_model *model;

    if (options->has_family == (options->profile_path != NULL))
        return dt_sched_say(options, DT_EXIT_USAGE,
                            "give either --family, a known model, or --profile, a file with measured times");
    if (options->has_family && (measured->capacity_bytes || measured->bytes_per_s || measured->latency_ns))
        return dt_sched_say(options, DT_EXIT_USAGE,
                            "--capacity, --bandwidth and --latency-ms go with --profile; a family has those "
                            "of --gpu");
    int code = options->has_family ? make_family(run, &model) : read_measured(run, &model);

    return code == DT_EXIT_OK ? write_model(run, model) : code;
}
