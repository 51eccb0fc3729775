/* SPDX-License-Identifier: Apache-2.0 */
/* The profile as JSON: writer. Optional fields with default values are omitted. */
#include "sched/format/format.h"

/* The array of maker(profile, i) for i < count; NULL when out of memory. */
static json_t *array_of(const struct detour_profile *profile, int32_t count,
                        json_t *maker(const struct detour_profile *profile, int32_t i))
{
    json_t *array = json_array();

    for (int32_t i = 0; i < count; i++)
        dt_json_append(&array, maker(profile, i));
    return array;
}

static json_t *make_stage(const struct detour_profile *profile, int32_t i)
{
    const struct detour_stage *stage = &profile->stages[i];
    json_t *object = json_object();

    dt_json_put(&object, "f_ms", dt_json_ms(stage->f_ns));
    dt_json_put(&object, "b_ms", dt_json_ms(stage->b_ns));
    dt_json_put(&object, "w_ms", dt_json_ms(stage->w_ns));
    if (stage->bw_ns)
        dt_json_put(&object, "bw_ms", dt_json_ms(stage->bw_ns));
    return object;
}

static json_t *make_link(const struct detour_profile *profile, int32_t i)
{
    const struct detour_link *link = &profile->links[i];
    json_t *object = json_object();

    dt_json_put(&object, "forward_ms", dt_json_ms(link->forward_ns));
    dt_json_put(&object, "backward_ms", dt_json_ms(link->backward_ns));
    if (link->forward_serial_ns != link->backward_serial_ns) {
        dt_json_put(&object, "forward_serial_ms", dt_json_ms(link->forward_serial_ns));
        dt_json_put(&object, "backward_serial_ms", dt_json_ms(link->backward_serial_ns));
    } else if (link->forward_serial_ns) {
        dt_json_put(&object, "serial_ms", dt_json_ms(link->forward_serial_ns));
    }
    return object;
}

static json_t *make_device(const struct detour_profile *profile, int32_t i)
{
    return json_integer(profile->stages[i].device);
}

static json_t *make_max_inflight(const struct detour_profile *profile, int32_t i)
{
    int32_t max = profile->stages[i].max_inflight;

    return max ? json_integer(max) : json_null();
}

static json_t *make_bytes_f(const struct detour_profile *profile, int32_t i)
{
    return json_integer(profile->stages[i].bytes_f);
}

static json_t *make_bytes_w(const struct detour_profile *profile, int32_t i)
{
    return json_integer(profile->stages[i].bytes_w);
}

static json_t *make_offload(const struct detour_profile *profile, int32_t i)
{
    return dt_json_ms(profile->stages[i].offload_ns);
}

static json_t *make_capacity(const struct detour_profile *profile, int32_t i)
{
    int64_t bytes = profile->devices[i].capacity_bytes;

    return bytes ? json_integer(bytes) : json_null();
}

json_t *dt_json_links(const struct detour_profile *profile)
{
    return array_of(profile, profile->stage_count - 1, make_link);
}

/* The parts of the memory model that the profile uses. */
struct memory_use {
    bool max_inflight;
    bool bytes_f;
    bool bytes_w;
    bool offload;
    bool capacity;
    bool placement;
};

static struct memory_use find_use(const struct detour_profile *profile)
{
    struct memory_use use = {0};

    for (int32_t i = 0; i < profile->stage_count; i++) {
        const struct detour_stage *stage = &profile->stages[i];
        use.max_inflight = use.max_inflight || stage->max_inflight;
        use.bytes_f = use.bytes_f || stage->bytes_f;
        use.bytes_w = use.bytes_w || stage->bytes_w;
        use.offload = use.offload || stage->offload_ns;
        use.placement = use.placement || stage->device != i;
    }
    for (int32_t d = 0; profile->devices && d < profile->device_count; d++)
        use.capacity = use.capacity || profile->devices[d].capacity_bytes;
    return use;
}

static json_t *memory_json(const struct detour_profile *profile, const struct memory_use *use)
{
    json_t *object = json_object();
    int32_t stages = profile->stage_count;

    if (use->max_inflight)
        dt_json_put(&object, "max_inflight", array_of(profile, stages, make_max_inflight));
    dt_json_put(&object, "release", json_string(profile->release == DETOUR_RELEASE_W ? "W" : "B"));
    if (use->bytes_f)
        dt_json_put(&object, "bytes_f", array_of(profile, stages, make_bytes_f));
    if (use->bytes_w)
        dt_json_put(&object, "bytes_w", array_of(profile, stages, make_bytes_w));
    if (use->capacity)
        dt_json_put(&object, "capacity", array_of(profile, profile->device_count, make_capacity));
    if (use->offload)
        dt_json_put(&object, "offload_ms", array_of(profile, stages, make_offload));
    return object;
}

static json_t *profile_json(const struct detour_profile *profile)
{
    struct memory_use use = find_use(profile);
    json_t *object = json_object();

    dt_json_put(&object, "version", json_integer(1));
    dt_json_put(&object, "microbatches", json_integer(profile->microbatch_count));
    dt_json_put(&object, "stages", array_of(profile, profile->stage_count, make_stage));
    dt_json_put(&object, "links", dt_json_links(profile));
    if (use.placement)
        dt_json_put(&object, "placement", array_of(profile, profile->stage_count, make_device));
    if (use.max_inflight || use.bytes_f || use.bytes_w || use.offload || use.capacity ||
        profile->release != DETOUR_RELEASE_B)
        dt_json_put(&object, "memory", memory_json(profile, &use));
    return object;
}

enum detour_status detour_profile_to_json(struct detour_arena *arena, const struct detour_profile *profile,
                                          struct detour_text *text, struct detour_error *error)
{
    enum detour_status status = detour_profile_check(profile, error);
    struct dt_text made;

    if (status)
        return status;
    dt_text_init(&made);
    dt_text_add_json(&made, profile_json(profile), 2, 0);
    dt_text_add(&made, "\n");
    return dt_text_finish(arena, &made, text, error);
}
