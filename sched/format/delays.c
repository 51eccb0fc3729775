/* SPDX-License-Identifier: Apache-2.0 */
/* Measured delays as JSON: reader. docs/sched-cli.md has the format. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "sched/format/format.h"

static const char *const direction_names[] = {"both", "forward", "backward", NULL};
static const int directions[] = {DETOUR_BOTH_WAYS, DETOUR_FORWARD, DETOUR_BACKWARD};

#define FACTOR_MAX 1e6

/* The profile under construction and its sources. */
struct draft {
    const struct detour_profile *healthy;
    const struct detour_ranks *ranks; /* NULL: rank r is device r */
    struct detour_link *links;        /* the slowest of what was read so far */
};

/* How much slower: by a time on each message, or by a factor on all its times. */
struct slowness {
    int64_t delay_ns;
    double factor; /* 0: the delay counts */
};

/* A member that exists and is not null. */
static bool is_given(const struct dt_json_at *at, const char *key, struct dt_json_at *member)
{
    *member = dt_json_optional(at, key);
    return member->value && !json_is_null(member->value);
}

static bool read_slowness(const struct dt_json_at *at, struct slowness *slowness)
{
    struct dt_json_at member;

    *slowness = (struct slowness){0};
    if (is_given(at, "delay_ms", &member))
        return dt_json_time(&member, DETOUR_TIME_MAX_NS, &slowness->delay_ns);
    if (!is_given(at, "factor", &member))
        return dt_json_fail(at, DETOUR_SYNTAX,
                            "has neither delay_ms (on top of the profile) nor factor (times the profile)");
    slowness->factor = json_number_value(member.value);
    if (!json_is_number(member.value) || !(slowness->factor > 0) || slowness->factor > FACTOR_MAX)
        return dt_json_fail(&member, DETOUR_INVALID, "must be a number above 0 and up to %.0f", FACTOR_MAX);
    return true;
}

/* Makes one direction slower, unless an entry before this one has made it slower still. */
static bool slow_down(const struct dt_json_at *at, const struct slowness *slowness, int64_t healthy_ns,
                      int64_t healthy_serial_ns, int64_t *latency_ns, int64_t *serial_ns)
{
    double factor = slowness->factor > 1 ? slowness->factor : 1;
    double slow_ns = rint((double)healthy_ns * factor) + (double)slowness->delay_ns;
    double slow_serial_ns = rint((double)healthy_serial_ns * factor);

    if (slowness->factor > 1 && healthy_ns == 0 && healthy_serial_ns == 0)
        return dt_json_fail(at, DETOUR_INVALID,
                            "has a factor, but its link takes no time in the profile; give delay_ms");
    if (slow_ns > DETOUR_TIME_MAX_NS || slow_serial_ns > DETOUR_TIME_MAX_NS)
        return dt_json_fail(at, DETOUR_LIMIT, "makes its link slower than %" PRId64 " ms, the limit",
                            (int64_t)DETOUR_TIME_MAX_NS / 1000000);
    *latency_ns = slow_ns > (double)*latency_ns ? (int64_t)slow_ns : *latency_ns;
    *serial_ns = slow_serial_ns > (double)*serial_ns ? (int64_t)slow_serial_ns : *serial_ns;
    return true;
}

static bool apply(const struct dt_json_at *at, struct draft *draft, int32_t i, int direction,
                  const struct slowness *slowness)
{
    const struct detour_link *healthy = &draft->healthy->links[i];
    struct detour_link *link = &draft->links[i];

    if (direction & DETOUR_FORWARD &&
        !slow_down(at, slowness, healthy->forward_ns, healthy->forward_serial_ns, &link->forward_ns,
                   &link->forward_serial_ns))
        return false;
    return !(direction & DETOUR_BACKWARD) ||
           slow_down(at, slowness, healthy->backward_ns, healthy->backward_serial_ns, &link->backward_ns,
                     &link->backward_serial_ns);
}

/* {"link": 0, "direction": "forward", ...} */
static bool read_by_link(const struct dt_json_at *at, const struct dt_json_at *number, struct draft *draft,
                         const struct slowness *slowness)
{
    struct dt_json_at member;
    size_t direction = 0;
    int64_t link;

    if (draft->healthy->stage_count < 2)
        return dt_json_fail(number, DETOUR_INVALID, "is given, but a profile with one stage has no link");
    if (!dt_json_int(number, "a link", 0, draft->healthy->stage_count - 2, &link))
        return false;
    if (is_given(at, "direction", &member) && !dt_json_choice(&member, direction_names, &direction))
        return false;
    return apply(at, draft, (int32_t)link, directions[direction], slowness);
}

static bool read_device(const struct dt_json_at *at, const char *key, const struct draft *draft,
                        int32_t *device)
{
    int64_t count = draft->ranks ? draft->ranks->count : draft->healthy->device_count;
    struct dt_json_at member;
    int64_t rank;

    if (!dt_json_member(at, key, &member) ||
        !dt_json_int(&member, draft->ranks ? "a rank" : "a device (there is no map of ranks)", 0, count - 1,
                     &rank))
        return false;
    *device = draft->ranks ? draft->ranks->device[rank] : (int32_t)rank;
    return true;
}

/* {"from": 3, "to": 4, ...}: every link whose messages take that way. Other pairs carry no messages of
 * stages. */
static bool read_by_ranks(const struct dt_json_at *at, struct draft *draft, const struct slowness *slowness)
{
    const struct detour_profile *healthy = draft->healthy;
    int32_t from, to;

    if (!read_device(at, "from", draft, &from) || !read_device(at, "to", draft, &to))
        return false;
    for (int32_t i = 0; from != to && i + 1 < healthy->stage_count; i++) {
        int32_t here = healthy->stages[i].device, there = healthy->stages[i + 1].device;
        if (here == from && there == to && !apply(at, draft, i, DETOUR_FORWARD, slowness))
            return false;
        if (here == to && there == from && !apply(at, draft, i, DETOUR_BACKWARD, slowness))
            return false;
    }
    return true;
}

static bool read_entry(const struct dt_json_at *at, struct draft *draft)
{
    struct dt_json_at member;
    struct slowness slowness;

    if (!json_is_object(at->value))
        return dt_json_fail(at, DETOUR_SYNTAX, "must be an object");
    if (is_given(at, "verdict", &member) && json_is_string(member.value) &&
        !strcmp(json_string_value(member.value), "healthy"))
        return true;
    if (!read_slowness(at, &slowness))
        return false;
    if (is_given(at, "link", &member))
        return read_by_link(at, &member, draft, &slowness);
    if (!dt_json_optional(at, "from").value && !dt_json_optional(at, "to").value)
        return dt_json_fail(at, DETOUR_SYNTAX, "has neither link nor from and to (ranks)");
    return read_by_ranks(at, draft, &slowness);
}

static bool read_delays(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at links;
    size_t count;

    if (!json_is_object(root->value))
        return dt_json_fail(root, DETOUR_SYNTAX, "must be an object");
    if (!dt_json_version(root) || !dt_json_member(root, "links", &links) ||
        !dt_json_array(&links, SIZE_MAX, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct dt_json_at entry = dt_json_element(&links, i);
        if (!read_entry(&entry, draft))
            return false;
    }
    return true;
}

static enum detour_status check_ranks(const struct detour_profile *healthy, const struct detour_ranks *ranks,
                                      struct detour_error *error)
{
    for (int32_t r = 0; ranks && r < ranks->count; r++)
        if (ranks->device[r] < 0 || ranks->device[r] >= healthy->device_count)
            return dt_error_set(error, DETOUR_INVALID,
                                "rank %" PRId32 " is on device %" PRId32
                                "; the profile has devices 0 to %" PRId32,
                                r, ranks->device[r], healthy->device_count - 1);
    return DETOUR_OK;
}

enum detour_status detour_delays_from_json(struct detour_arena *arena, const struct detour_profile *healthy,
                                           const struct detour_ranks *ranks, const char *name,
                                           const char *text, size_t bytes, struct detour_profile **measured,
                                           struct detour_error *error)
{
    struct dt_json_reader reader = {.name = name, .error = error};
    struct draft draft = {.healthy = healthy, .ranks = ranks};
    struct detour_profile *made;
    struct dt_json_at root;
    enum detour_status status = detour_profile_check(healthy, error);

    if (!status)
        status = check_ranks(healthy, ranks, error);
    if (status)
        return status;
    if (!dt_arena_new(arena, made, 1) || !dt_arena_new(arena, draft.links, healthy->stage_count))
        return dt_fail_memory(error);
    if (healthy->stage_count > 1)
        memcpy(draft.links, healthy->links, (size_t)(healthy->stage_count - 1) * sizeof(*draft.links));
    if (!dt_json_parse(&reader, text, bytes, &root))
        return reader.status;
    read_delays(&root, &draft);
    json_decref((json_t *)root.value);
    if (reader.status)
        return reader.status;
    *made = *healthy;
    made->links = draft.links;
    status = detour_profile_check(made, error);
    if (!status)
        *measured = made;
    return status;
}
