/* SPDX-License-Identifier: Apache-2.0 */
/* The profile as JSON: reader. */
#include <string.h>

#include "base/util.h"
#include "detour/sched_format.h"
#include "sched/arena.h"
#include "sched/call.h"
#include "sched/format/format.h"
#include "sched/format/json_read.h"

static const char *const top_keys[] = {"version",   "microbatches", "stages", "links",
                                       "placement", "memory",       NULL};
static const char *const stage_keys[] = {"f_ms", "b_ms", "w_ms", "bw_ms", NULL};
static const char *const memory_keys[] = {"max_inflight", "release",    "bytes_f", "bytes_w",
                                          "capacity",     "offload_ms", NULL};
static const char *const release_names[] = {"B", "W", NULL};

static const char *const link_keys[] = {"forward_ms",        "backward_ms",        "serial_ms",
                                        "forward_serial_ms", "backward_serial_ms", NULL};

/* The profile under construction; the public struct has const pointers. */
struct draft {
    struct detour_arena *arena;
    struct detour_profile *profile;
    struct detour_stage *stages;
    struct detour_link *links;
    struct detour_device *devices;
};

static bool out_of_memory(const struct dt_json_at *at)
{
    at->reader->status = dt_fail_memory(at->reader->error);
    return false;
}

static bool read_stage(const struct dt_json_at *at, struct detour_stage *stage)
{
    const struct {
        const char *key;
        int64_t *time_ns;
    } times[] = {{"f_ms", &stage->f_ns}, {"b_ms", &stage->b_ns}, {"w_ms", &stage->w_ns}};
    struct dt_json_at member;

    if (!dt_json_object(at, stage_keys))
        return false;
    for (size_t i = 0; i < DT_COUNT_OF(times); i++)
        if (!dt_json_member(at, times[i].key, &member) ||
            !dt_json_time(&member, DETOUR_TIME_MAX_NS, times[i].time_ns))
            return false;
    return dt_json_time_optional(at, "bw_ms", DETOUR_TIME_MAX_NS, &stage->bw_ns);
}

static bool read_stages(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at stages;
    size_t count;

    if (!dt_json_member(root, "stages", &stages) || !dt_json_array(&stages, DETOUR_STAGES_MAX, &count))
        return false;
    if (count == 0)
        return dt_json_fail(&stages, DETOUR_INVALID, "is empty; there must be at least one stage");
    if (!dt_arena_new(draft->arena, draft->stages, count))
        return out_of_memory(root);
    for (size_t i = 0; i < count; i++) {
        struct dt_json_at stage = dt_json_element(&stages, i);
        if (!read_stage(&stage, &draft->stages[i]))
            return false;
    }
    draft->profile->stage_count = (int32_t)count;
    draft->profile->stages = draft->stages;
    return true;
}

static bool read_link(const struct dt_json_at *at, struct detour_link *link)
{
    struct dt_json_at member;

    if (!dt_json_object(at, link_keys) || !dt_json_member(at, "forward_ms", &member) ||
        !dt_json_time(&member, DETOUR_TIME_MAX_NS, &link->forward_ns))
        return false;
    link->backward_ns = link->forward_ns;
    if (!dt_json_time_optional(at, "backward_ms", DETOUR_TIME_MAX_NS, &link->backward_ns) ||
        !dt_json_time_optional(at, "serial_ms", DETOUR_TIME_MAX_NS, &link->forward_serial_ns))
        return false;
    link->backward_serial_ns = link->forward_serial_ns;
    return dt_json_time_optional(at, "forward_serial_ms", DETOUR_TIME_MAX_NS, &link->forward_serial_ns) &&
           dt_json_time_optional(at, "backward_serial_ms", DETOUR_TIME_MAX_NS, &link->backward_serial_ns);
}

bool dt_json_read_links(const struct dt_json_at *links, size_t count, struct detour_link *out)
{
    if (!dt_json_array_of(links, count, "one for each pair of neighboring stages"))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct dt_json_at link = dt_json_element(links, i);
        if (!read_link(&link, &out[i]))
            return false;
    }
    return true;
}

static bool read_links(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at links = dt_json_optional(root, "links");
    size_t count = (size_t)draft->profile->stage_count - 1;

    if (!dt_arena_new(draft->arena, draft->links, count))
        return out_of_memory(root);
    draft->profile->links = draft->links;
    if (!links.value && count == 0)
        return true;
    return dt_json_member(root, "links", &links) && dt_json_read_links(&links, count, draft->links);
}

/* Without a placement every stage has a device of its own. */
static bool read_placement(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at placement = dt_json_optional(root, "placement");
    int32_t count = draft->profile->stage_count;
    int64_t device;
    int32_t device_max = 0;

    if (placement.value && !dt_json_array_of(&placement, (size_t)count, "one device for each stage"))
        return false;
    for (int32_t i = 0; i < count; i++) {
        struct dt_json_at entry = dt_json_element(&placement, (size_t)i);
        device = i;
        if (placement.value && !dt_json_int(&entry, "a device", 0, count - 1, &device))
            return false;
        draft->stages[i].device = (int32_t)device;
        device_max = device > device_max ? (int32_t)device : device_max;
    }
    draft->profile->device_count = device_max + 1;
    return true;
}

static void store_max_inflight(struct draft *draft, size_t i, int64_t value)
{
    draft->stages[i].max_inflight = (int32_t)value;
}

static void store_bytes_f(struct draft *draft, size_t i, int64_t value)
{
    draft->stages[i].bytes_f = value;
}

static void store_bytes_w(struct draft *draft, size_t i, int64_t value)
{
    draft->stages[i].bytes_w = value;
}

static void store_offload(struct draft *draft, size_t i, int64_t value)
{
    draft->stages[i].offload_ns = value;
}

static void store_capacity(struct draft *draft, size_t i, int64_t value)
{
    draft->devices[i].capacity_bytes = value;
}

/* The fields of `memory` with numbers: an array with one for each stage or device, or one number for all. */
struct numbers {
    const char *key;
    const char *what;
    void (*store)(struct draft *draft, size_t index, int64_t value);
    int64_t min;
    int64_t max;      /* in nanoseconds for times */
    bool is_time;     /* in milliseconds */
    bool per_device;  /* else per stage */
    bool may_be_null; /* null: no limit, stored as 0 */
};

static const struct numbers memory_numbers[] = {
    {.key = "max_inflight",
     .what = "a count of microbatches (or null: no limit)",
     .store = store_max_inflight,
     .min = 1,
     .max = DETOUR_MICROBATCHES_MAX,
     .may_be_null = true},
    {.key = "bytes_f", .what = "a size in bytes", .store = store_bytes_f, .max = DETOUR_BYTES_MAX},
    {.key = "bytes_w", .what = "a size in bytes", .store = store_bytes_w, .max = DETOUR_BYTES_MAX},
    {.key = "capacity",
     .what = "a size in bytes (or null: no limit)",
     .store = store_capacity,
     .min = 1,
     .max = INT64_MAX,
     .per_device = true,
     .may_be_null = true},
    {.key = "offload_ms", .store = store_offload, .max = DETOUR_TIME_MAX_NS, .is_time = true},
};

static bool read_number(const struct dt_json_at *at, const struct numbers *numbers, int64_t *value)
{
    *value = 0;
    if (numbers->may_be_null && json_is_null(at->value))
        return true;
    if (numbers->is_time)
        return dt_json_time(at, numbers->max, value);
    return dt_json_int(at, numbers->what, numbers->min, numbers->max, value);
}

/* A missing field stores nothing. */
static bool read_numbers(const struct dt_json_at *memory, struct draft *draft, const struct numbers *numbers)
{
    struct dt_json_at field = dt_json_optional(memory, numbers->key);
    bool is_array = json_is_array(field.value);
    size_t count = (size_t)(numbers->per_device ? draft->profile->device_count : draft->profile->stage_count);
    int64_t value;

    if (!field.value)
        return true;
    if (is_array &&
        !dt_json_array_of(&field, count, numbers->per_device ? "one for each device" : "one for each stage"))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct dt_json_at entry = is_array ? dt_json_element(&field, i) : field;
        if (!read_number(&entry, numbers, &value))
            return false;
        numbers->store(draft, i, value);
    }
    return true;
}

static bool read_memory(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at memory = dt_json_optional(root, "memory");
    size_t release = DETOUR_RELEASE_B;

    if (!dt_arena_new(draft->arena, draft->devices, draft->profile->device_count))
        return out_of_memory(root);
    draft->profile->devices = draft->devices;
    if (!memory.value)
        return true;
    if (!dt_json_object(&memory, memory_keys))
        return false;
    struct dt_json_at at = dt_json_optional(&memory, "release");
    if (at.value && !dt_json_choice(&at, release_names, &release))
        return false;
    draft->profile->release = (enum detour_release)release;
    for (size_t i = 0; i < DT_COUNT_OF(memory_numbers); i++)
        if (!read_numbers(&memory, draft, &memory_numbers[i]))
            return false;
    return true;
}

static bool read_profile(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at at;
    int64_t microbatches;

    if (!dt_json_object(root, top_keys) || !dt_json_version(root) ||
        !dt_json_member(root, "microbatches", &at) ||
        !dt_json_int(&at, "a count of microbatches", 1, DETOUR_MICROBATCHES_MAX, &microbatches))
        return false;
    draft->profile->microbatch_count = (int32_t)microbatches;
    return read_stages(root, draft) && read_links(root, draft) && read_placement(root, draft) &&
           read_memory(root, draft);
}

/* Conditions on several fields: the sum of sizes, the devices' stages, memory for one microbatch. */
static enum detour_status check_profile(const struct dt_json_reader *reader,
                                        const struct detour_profile *profile)
{
    struct detour_error found = {0};

    enum detour_status status = detour_profile_check(profile, &found);
    if (status)
        dt_error_set(reader->error, status, "%s: %s%s", reader->name,
                     status == DETOUR_MEMORY_TOO_SMALL ? "memory: "
                     : status == DETOUR_INVALID        ? "placement: "
                                                       : "",
                     found.text);
    return status;
}

enum detour_status detour_profile_from_json(struct detour_arena *arena, const char *name, const char *text,
                                            size_t bytes, struct detour_profile **profile,
                                            struct detour_error *error)
{
    struct dt_json_reader reader = {.name = name, .error = error};
    struct draft draft = {.arena = arena};
    struct dt_json_at root;

    if (!dt_arena_new(arena, draft.profile, 1))
        return dt_fail_memory(error);
    if (!dt_json_parse(&reader, text, bytes, &root))
        return reader.status;
    if (read_profile(&root, &draft))
        reader.status = check_profile(&reader, draft.profile);
    json_decref((json_t *)root.value);
    if (reader.status == DETOUR_OK)
        *profile = draft.profile;
    return reader.status;
}
