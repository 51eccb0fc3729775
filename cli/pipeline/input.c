/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "cli/file.h"

static bool fail(struct detour_error *error, enum detour_status status, const char *format, ...)
{
    va_list arguments;

    error->status = status;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

static char *read_file(struct dt_pipeline_input *input, const char *path, size_t *bytes,
                       struct detour_error *error)
{
    FILE *stream = fopen(path, "rbe");
    char *data = stream ? dt_file_read(stream, DETOUR_INPUT_BYTES_MAX, bytes) : NULL;

    if (!data)
        fail(error, errno == ENOMEM ? DETOUR_NO_MEMORY : DETOUR_INVALID, "%s: %s", path, strerror(errno));
    if (stream)
        fclose(stream);
    if (data)
        input->digest = dt_digest_add(input->digest, data, *bytes);
    return data;
}

/* The largest delay of a message from device `from` to device `to`. */
static struct detour_link largest(const struct detour_profile *profile, int32_t from, int32_t to)
{
    struct detour_link found = {0};

    for (int32_t i = 0; i + 1 < profile->stage_count; i++) {
        const struct detour_link *link = &profile->links[i];
        int32_t low = profile->stages[i].device, high = profile->stages[i + 1].device;
        bool forward = low == from && high == to;

        if (!forward && !(high == from && low == to))
            continue;
        int64_t delay_ns = forward ? link->forward_ns : link->backward_ns;
        int64_t serial_ns = forward ? link->forward_serial_ns : link->backward_serial_ns;
        if (delay_ns > found.forward_ns)
            found.forward_ns = delay_ns;
        if (serial_ns > found.forward_serial_ns)
            found.forward_serial_ns = serial_ns;
    }
    return found;
}

/* The profile with one delay for each direction between two devices. */
static void unify_links(struct dt_pipeline_input *input, const struct detour_profile *read)
{
    input->unified = *read;
    input->unified.links = input->links;
    for (int32_t i = 0; i + 1 < read->stage_count; i++) {
        int32_t low = read->stages[i].device, high = read->stages[i + 1].device;
        struct detour_link up = largest(read, low, high), down = largest(read, high, low);

        input->links[i] = (struct detour_link){up.forward_ns, down.forward_ns, up.forward_serial_ns,
                                               down.forward_serial_ns};
    }
    input->profile = &input->unified;
}

static bool read_profile(struct dt_pipeline_input *input, const char *path, struct detour_error *error)
{
    struct detour_profile *read = NULL;
    size_t bytes;
    char *data = read_file(input, path, &bytes, error);

    if (!data)
        return false;
    detour_profile_from_json(input->arena, path, data, bytes, &read, error);
    free(data);
    if (!read)
        return false;
    if (read->device_count > DT_PIPELINE_RANKS_MAX || read->stage_count > DT_PIPELINE_STAGES_MAX)
        return fail(error, DETOUR_LIMIT, "%s: %" PRId32 " devices and %" PRId32 " stages; at most %d and %d",
                    path, read->device_count, read->stage_count, DT_PIPELINE_RANKS_MAX,
                    DT_PIPELINE_STAGES_MAX);
    unify_links(input, read);
    return true;
}

static bool read_plan(struct dt_pipeline_input *input, const char *path, struct detour_error *error)
{
    struct detour_plan *plan = NULL;
    struct detour_profile *planned;
    size_t bytes;
    char *data = read_file(input, path, &bytes, error);

    if (!data)
        return false;
    detour_plan_read(input->arena, input->profile, path, data, bytes, &plan, &planned, error);
    free(data);
    if (!plan)
        return false;
    plan->schedule->timed = false; /* only its order counts: the links may have got other delays */
    if (detour_validate(input->arena, input->profile, plan->schedule, error))
        return false;
    input->schedule = plan->schedule;
    return true;
}

bool dt_pipeline_input_read(struct dt_pipeline_input *input, const char *profile_path, const char *plan_path,
                            struct detour_error *error)
{
    *input = (struct dt_pipeline_input){.arena = detour_arena_create(), .digest = DT_DIGEST_EMPTY};
    if (!input->arena)
        return fail(error, DETOUR_NO_MEMORY, "out of memory");
    return read_profile(input, profile_path, error) && (!plan_path || read_plan(input, plan_path, error));
}

void dt_pipeline_input_free(struct dt_pipeline_input *input)
{
    detour_arena_destroy(input->arena);
    *input = (struct dt_pipeline_input){0};
}
