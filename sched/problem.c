/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/problem.h"

#include <inttypes.h>
#include <string.h>

#include "base/util.h"

/* One number of the profile with its limits; `where` and `index` name it in the error text. */
static enum detour_status check_number(struct detour_error *error, const char *where, int32_t index,
                                       const char *field, int64_t value, int64_t max)
{
    if (value < 0)
        return dt_error_set(error, DETOUR_INVALID,
                            "%s[%" PRId32 "].%s is %" PRId64 "; it must not be negative", where, index, field,
                            value);
    if (value > max)
        return dt_error_set(error, DETOUR_LIMIT, "%s[%" PRId32 "].%s is %" PRId64 "; the limit is %" PRId64,
                            where, index, field, value, max);
    return DETOUR_OK;
}

static enum detour_status check_counts(struct detour_error *error, const struct detour_profile *profile)
{
    const struct {
        const char *name;
        int64_t value;
        int64_t max;
    } counts[] = {
        {"stage_count", profile->stage_count, DETOUR_STAGES_MAX},
        {"microbatch_count", profile->microbatch_count, DETOUR_MICROBATCHES_MAX},
        {"device_count", profile->device_count, profile->stage_count},
        {"stages times microbatches", (int64_t)profile->stage_count * profile->microbatch_count,
         DETOUR_CELLS_MAX},
    };

    for (size_t i = 0; i < DT_COUNT_OF(counts); i++) {
        if (counts[i].value < 1)
            return dt_error_set(error, DETOUR_INVALID, "%s is %" PRId64 "; it must be at least 1",
                                counts[i].name, counts[i].value);
        if (counts[i].value > counts[i].max)
            return dt_error_set(error, DETOUR_LIMIT, "%s is %" PRId64 "; the limit is %" PRId64,
                                counts[i].name, counts[i].value, counts[i].max);
    }
    if (!profile->stages || (!profile->links && profile->stage_count > 1))
        return dt_error_set(error, DETOUR_INVALID, "profile without %s",
                            profile->stages ? "links" : "stages");
    if (profile->release != DETOUR_RELEASE_B && profile->release != DETOUR_RELEASE_W)
        return dt_error_set(error, DETOUR_INVALID, "release is %d; it must be B (0) or W (1)",
                            (int)profile->release);
    return DETOUR_OK;
}

static enum detour_status check_stage(struct detour_error *error, const struct detour_profile *profile,
                                      int32_t i)
{
    const struct detour_stage *stage = &profile->stages[i];
    const struct {
        const char *field;
        int64_t value;
        int64_t max;
    } numbers[] = {
        {"f_ns", stage->f_ns, DETOUR_TIME_MAX_NS},
        {"b_ns", stage->b_ns, DETOUR_TIME_MAX_NS},
        {"w_ns", stage->w_ns, DETOUR_TIME_MAX_NS},
        {"bw_ns", stage->bw_ns, DETOUR_TIME_MAX_NS},
        {"bytes_f", stage->bytes_f, DETOUR_BYTES_MAX},
        {"bytes_w", stage->bytes_w, DETOUR_BYTES_MAX},
        {"offload_ns", stage->offload_ns, DETOUR_TIME_MAX_NS},
        {"max_inflight", stage->max_inflight, DETOUR_MICROBATCHES_MAX},
    };

    for (size_t n = 0; n < DT_COUNT_OF(numbers); n++) {
        enum detour_status status =
            check_number(error, "stages", i, numbers[n].field, numbers[n].value, numbers[n].max);
        if (status)
            return status;
    }
    if (stage->device < 0 || stage->device >= profile->device_count)
        return dt_error_set(error, DETOUR_INVALID,
                            "stages[%" PRId32 "].device is %" PRId32 "; devices are 0 to %" PRId32, i,
                            stage->device, profile->device_count - 1);
    return DETOUR_OK;
}

static enum detour_status check_link(struct detour_error *error, const struct detour_link *link, int32_t i)
{
    const struct {
        const char *field;
        int64_t value;
    } numbers[] = {
        {"forward_ns", link->forward_ns},
        {"backward_ns", link->backward_ns},
        {"forward_serial_ns", link->forward_serial_ns},
        {"backward_serial_ns", link->backward_serial_ns},
    };

    for (size_t n = 0; n < DT_COUNT_OF(numbers); n++) {
        enum detour_status status =
            check_number(error, "links", i, numbers[n].field, numbers[n].value, DETOUR_TIME_MAX_NS);
        if (status)
            return status;
    }
    return DETOUR_OK;
}

static enum detour_status check_fields(struct detour_error *error, const struct detour_profile *profile)
{
    enum detour_status status = check_counts(error, profile);

    for (int32_t i = 0; !status && i < profile->stage_count; i++)
        status = check_stage(error, profile, i);
    for (int32_t i = 0; !status && i + 1 < profile->stage_count; i++)
        status = check_link(error, &profile->links[i], i);
    for (int32_t d = 0; !status && profile->devices && d < profile->device_count; d++)
        status = check_number(error, "devices", d, "capacity_bytes", profile->devices[d].capacity_bytes,
                              INT64_MAX);
    return status;
}

static bool allocate(struct detour_arena *arena, struct dt_problem *p)
{
    int32_t stages = p->stage_count;

    for (int kind = 0; kind < DT_KIND_COUNT; kind++)
        if (!dt_arena_new(arena, p->duration_ns[kind], stages))
            return false;
    return dt_arena_new(arena, p->forward_ns, stages) && dt_arena_new(arena, p->backward_ns, stages) &&
           dt_arena_new(arena, p->forward_serial_ns, stages) &&
           dt_arena_new(arena, p->backward_serial_ns, stages) && dt_arena_new(arena, p->device, stages) &&
           dt_arena_new(arena, p->max_inflight, stages) && dt_arena_new(arena, p->bytes_f, stages) &&
           dt_arena_new(arena, p->bytes_w, stages) && dt_arena_new(arena, p->capacity, p->device_count) &&
           dt_arena_new(arena, p->device_first, p->device_count + 1) &&
           dt_arena_new(arena, p->device_stages, stages);
}

static void fill_stages(struct dt_problem *p)
{
    for (int32_t i = 0; i < p->stage_count; i++) {
        const struct detour_stage *stage = &p->profile->stages[i];
        p->duration_ns[DETOUR_OP_F][i] = stage->f_ns;
        p->duration_ns[DETOUR_OP_B][i] = stage->b_ns;
        p->duration_ns[DETOUR_OP_W][i] = stage->w_ns;
        p->duration_ns[DETOUR_OP_BW][i] = stage->bw_ns ? stage->bw_ns : stage->b_ns + stage->w_ns;
        p->device[i] = stage->device;
        p->max_inflight[i] = stage->max_inflight ? stage->max_inflight : INT32_MAX;
        p->bytes_f[i] = stage->bytes_f;
        p->bytes_w[i] = stage->bytes_w;
        p->limited = p->limited || stage->max_inflight;
    }
}

static void fill_links(struct dt_problem *p)
{
    for (int32_t i = 0; i + 1 < p->stage_count; i++) {
        const struct detour_link *link = &p->profile->links[i];
        if (p->device[i] == p->device[i + 1])
            continue;
        p->forward_ns[i] = link->forward_ns;
        p->backward_ns[i] = link->backward_ns;
        p->forward_serial_ns[i] = link->forward_serial_ns;
        p->backward_serial_ns[i] = link->backward_serial_ns;
        p->serial = p->serial || link->forward_serial_ns || link->backward_serial_ns;
    }
}

static void fill_devices(struct dt_problem *p)
{
    const struct detour_device *devices = p->profile->devices;

    for (int32_t d = 0; d < p->device_count; d++) {
        p->capacity[d] = devices && devices[d].capacity_bytes ? devices[d].capacity_bytes : INT64_MAX;
        p->limited = p->limited || p->capacity[d] != INT64_MAX;
    }
    for (int32_t i = 0; i < p->stage_count; i++)
        p->device_first[p->device[i] + 1]++;
    for (int32_t d = 0; d < p->device_count; d++)
        p->device_first[d + 1] += p->device_first[d];
    /* Filled from the end, so that device_first ends up at the first entries. */
    for (int32_t i = p->stage_count - 1; i >= 0; i--)
        p->device_stages[--p->device_first[p->device[i] + 1]] = i;
    memmove(p->device_first, p->device_first + 1, (size_t)p->device_count * sizeof(*p->device_first));
    p->device_first[p->device_count] = p->stage_count;
    p->one_stage_per_device = p->stage_count == p->device_count;
}

/* Bytes that one microbatch needs on its own: all F's of the device, then B and W stage by stage. */
static int64_t smallest_need(const struct dt_problem *p, int32_t device)
{
    int64_t bytes = 0, peak = 0;

    for (int32_t k = p->device_first[device]; k < p->device_first[device + 1]; k++)
        bytes += p->bytes_f[p->device_stages[k]];
    peak = bytes;
    for (int32_t k = p->device_first[device + 1] - 1; k >= p->device_first[device]; k--) {
        int32_t stage = p->device_stages[k];
        bytes += p->bytes_w[stage] - p->bytes_f[stage];
        peak = bytes > peak ? bytes : peak;
        bytes -= p->bytes_w[stage];
    }
    return peak;
}

static enum detour_status check_devices(struct detour_error *error, const struct dt_problem *p)
{
    for (int32_t d = 0; d < p->device_count; d++) {
        if (p->device_first[d] == p->device_first[d + 1])
            return dt_error_set(error, DETOUR_INVALID,
                                "device %" PRId32 " has no stage; every device must have one", d);
        int64_t need = smallest_need(p, d);
        if (need > p->capacity[d])
            return dt_error_set(error, DETOUR_MEMORY_TOO_SMALL,
                                "devices[%" PRId32 "].capacity_bytes is %" PRId64
                                "; one microbatch alone needs %" PRId64,
                                d, p->capacity[d], need);
    }
    return DETOUR_OK;
}

enum detour_status dt_problem_create(struct dt_call *call, const struct detour_profile *profile,
                                     struct dt_problem **problem)
{
    struct dt_problem *p;

    if (!call->arena || !profile)
        return dt_fail(call, DETOUR_INVALID, "%s is NULL", profile ? "arena" : "profile");
    enum detour_status status = check_fields(call->error, profile);
    if (status)
        return status;
    if (!dt_arena_new(call->arena, p, 1))
        return dt_fail_memory(call->error);
    p->profile = profile;
    p->stage_count = profile->stage_count;
    p->microbatch_count = profile->microbatch_count;
    p->device_count = profile->device_count;
    p->release = profile->release;
    if (!allocate(call->arena, p))
        return dt_fail_memory(call->error);
    fill_stages(p);
    fill_links(p);
    fill_devices(p);
    status = check_devices(call->error, p);
    if (!status)
        *problem = p;
    return status;
}

enum detour_status detour_profile_check(const struct detour_profile *profile, struct detour_error *error)
{
    struct detour_arena *arena = detour_arena_create();
    struct dt_problem *problem;
    struct dt_call call;

    if (!arena)
        return dt_fail_memory(error);
    dt_call_init(&call, arena, error, NULL);
    enum detour_status status = dt_problem_create(&call, profile, &problem);
    detour_arena_destroy(arena);
    return status;
}
