/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sched/fuzz/format_fuzz.h"

#include <string.h>

#include "base/util.h"
#include "detour/sched_format.h"

#define NAME "input"

/* The examples' shapes: two devices in a row, and four stages folded onto two devices. */
static const char pair_profile[] =
    "{\"version\":1,\"microbatches\":3,\"stages\":[{\"f_ms\":10,\"b_ms\":11.5,\"w_ms\":7},"
    "{\"f_ms\":12,\"b_ms\":10,\"w_ms\":9,\"bw_ms\":18}],\"links\":[{\"forward_ms\":2.5,\"backward_ms\":4}],"
    "\"memory\":{\"max_inflight\":[3,2],\"offload_ms\":[1,0]}}";
static const char folded_profile[] =
    "{\"version\":1,\"microbatches\":12,\"placement\":[0,1,1,0],\"stages\":[{\"f_ms\":4,\"b_ms\":5,\"w_ms\":"
    "3},"
    "{\"f_ms\":4.25,\"b_ms\":5.125,\"w_ms\":3},{\"f_ms\":0,\"b_ms\":0,\"w_ms\":0},{\"f_ms\":4,\"b_ms\":5,\"w_"
    "ms\":1}],"
    "\"links\":[{\"forward_ms\":1,\"backward_ms\":1.5,\"serial_ms\":2},{\"forward_ms\":9,\"backward_ms\":9},"
    "{\"forward_ms\":0,\"backward_ms\":0}],\"memory\":{\"bytes_f\":3145728,\"bytes_w\":[1,1048576,0,4194304]}"
    "}";

static bool is_one_line(const struct detour_error *error, enum detour_status status)
{
    return error->status == status && strncmp(error->text, NAME ": ", sizeof(NAME) + 1) == 0 &&
           !strpbrk(error->text, "\n\r\t") && strlen(error->text) > sizeof(NAME) + 1;
}

static bool is_input_status(enum detour_status status)
{
    return status == DETOUR_NO_MEMORY || (status >= DETOUR_INVALID && status <= DETOUR_TIMES);
}

static const char *profile_round_trip(struct detour_arena *arena, const struct detour_profile *profile)
{
    struct detour_text once, twice;
    struct detour_profile *again;
    struct detour_error error;

    if (detour_profile_to_json(arena, profile, &once, &error))
        return "an accepted profile cannot be written";
    if (detour_profile_from_json(arena, NAME, once.data, once.bytes, &again, &error))
        return "a written profile is refused";
    if (detour_profile_to_json(arena, again, &twice, &error) || once.bytes != twice.bytes ||
        memcmp(once.data, twice.data, once.bytes) != 0)
        return "a profile changes on its way through JSON";
    return NULL;
}

static const char *check_profile(struct detour_arena *arena, const char *data, size_t bytes)
{
    struct detour_profile *profile = NULL;
    struct detour_error error = {0};

    enum detour_status status = detour_profile_from_json(arena, NAME, data, bytes, &profile, &error);
    if (!status)
        return profile_round_trip(arena, profile);
    if (profile)
        return "an output was written on failure";
    if (!is_input_status(status))
        return "a status that bad input does not explain";
    return is_one_line(&error, status) ? NULL : "the refusal is not one line with the input's name";
}

const char *dt_fuzz_profile(const char *data, size_t bytes)
{
    struct detour_arena *arena = detour_arena_create();
    const char *problem = arena ? check_profile(arena, data, bytes) : NULL;

    detour_arena_destroy(arena);
    return problem;
}

static const char *same_again(struct detour_arena *arena, const struct detour_profile *profile,
                              const struct detour_plan *plan, enum detour_format format)
{
    struct detour_text once, twice;
    struct detour_plan *again;
    struct detour_error error;

    if (detour_plan_write(arena, profile, plan, format, NULL, &once, &error))
        return error.status == DETOUR_LIMIT || error.status == DETOUR_DEPENDENCY
                   ? NULL
                   : "an accepted schedule cannot be written";
    if (detour_plan_read(arena, profile, NAME, once.data, once.bytes, &again, NULL, &error))
        return "a written schedule is refused";
    if (detour_plan_write(arena, profile, again, format, NULL, &twice, &error) || once.bytes != twice.bytes ||
        memcmp(once.data, twice.data, once.bytes) != 0)
        return "a schedule changes on its way through a file";
    return NULL;
}

static const char *draw(struct detour_arena *arena, const struct detour_profile *profile,
                        const struct detour_plan *plan)
{
    struct detour_text text;
    struct detour_error error;

    for (int i = DETOUR_FORMAT_TRACE; i <= DETOUR_FORMAT_TEXT; i++) {
        enum detour_status status =
            detour_plan_write(arena, profile, plan, (enum detour_format)i, NULL, &text, &error);
        if (status && status != DETOUR_LIMIT && status != DETOUR_DEPENDENCY)
            return "an accepted schedule cannot be drawn";
        if (!status && strlen(text.data) != text.bytes)
            return "a text has a NUL inside";
    }
    return NULL;
}

static const char *use_plan(struct detour_arena *arena, const struct detour_profile *profile,
                            struct detour_plan *plan)
{
    struct detour_report *report;
    struct detour_error error;
    const char *problem = NULL;

    /*
     * The times of the file, as they are; those of the simulation are drawn when there are none. What no
     * device could do (DEPENDENCY) and times beyond all formats (LIMIT) may be refused.
     */
    bool drawn = plan->schedule->timed;
    if (drawn)
        problem = draw(arena, profile, plan);
    if (!problem && drawn)
        problem = same_again(arena, profile, plan, DETOUR_FORMAT_JSON);
    bool possible = !detour_validate(arena, profile, plan->schedule, &error);
    bool simulated = !detour_simulate(arena, profile, plan->schedule, &report, &error);

    if (!problem && possible && !simulated)
        problem = "a schedule that is valid cannot be simulated";
    if (simulated)
        plan->makespan_ns = report->makespan_ns;
    if (!problem && simulated && !drawn)
        problem = draw(arena, profile, plan);
    if (!problem && simulated)
        problem = same_again(arena, profile, plan, DETOUR_FORMAT_JSON);
    if (!problem && possible)
        problem = same_again(arena, profile, plan, DETOUR_FORMAT_CSV);
    if (!problem && possible)
        problem = same_again(arena, profile, plan, DETOUR_FORMAT_CSV_COMMS);
    return problem;
}

/* Which reader is meant. */
enum input { INPUT_JSON, INPUT_CSV };

static const char *check_schedule(struct detour_arena *arena, const struct detour_profile *profile,
                                  enum input input, const char *data, size_t bytes)
{
    struct detour_plan *plan = NULL;
    struct detour_error error = {0};

    enum detour_status status =
        input == INPUT_CSV ? detour_plan_from_csv(arena, profile, NAME, data, bytes, &plan, &error)
                           : detour_plan_from_json(arena, profile, NAME, data, bytes, &plan, NULL, &error);

    if (!status)
        return use_plan(arena, profile, plan);
    if (plan)
        return "an output was written on failure";
    if (!is_input_status(status))
        return "a status that bad input does not explain";
    return is_one_line(&error, status) ? NULL : "the refusal is not one line with the input's name";
}

enum { PROFILE_COUNT = 2 };

/* The profiles, read once: they are most of the cost of a refused schedule. Not freed before exit. */
static const char *read_profiles(struct detour_profile **profiles)
{
    static const char *const texts[PROFILE_COUNT] = {pair_profile, folded_profile};
    static struct detour_profile *read[PROFILE_COUNT];
    static struct detour_arena *arena;

    if (!arena)
        arena = detour_arena_create();
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        if (!read[i] &&
            (!arena || detour_profile_from_json(arena, NAME, texts[i], strlen(texts[i]), &read[i], NULL)))
            return "the profile of the test is refused";
        profiles[i] = read[i];
    }
    return NULL;
}

static const char *check_with_all(enum input input, const char *data, size_t bytes)
{
    struct detour_profile *profiles[PROFILE_COUNT];
    const char *problem = read_profiles(profiles);
    struct detour_arena *arena = detour_arena_create();

    for (size_t i = 0; arena && !problem && i < DT_COUNT_OF(profiles); i++) {
        problem = check_schedule(arena, profiles[i], input, data, bytes);
        detour_arena_reset(arena);
    }
    detour_arena_destroy(arena);
    return problem;
}

const char *dt_fuzz_json(const char *data, size_t bytes)
{
    return check_with_all(INPUT_JSON, data, bytes);
}

const char *dt_fuzz_csv(const char *data, size_t bytes)
{
    return check_with_all(INPUT_CSV, data, bytes);
}

static const char *check_delays(struct detour_arena *arena, const struct detour_profile *profile,
                                const struct detour_ranks *ranks, const char *data, size_t bytes)
{
    struct detour_profile *measured = NULL;
    struct detour_error error = {0};
    enum detour_status status =
        detour_delays_from_json(arena, profile, ranks, NAME, data, bytes, &measured, &error);

    if (status && measured)
        return "an output was written on failure";
    if (status && !is_input_status(status))
        return "a status that bad input does not explain";
    if (status)
        return is_one_line(&error, status) ? NULL : "the refusal is not one line with the input's name";
    for (int32_t i = 0; i + 1 < profile->stage_count; i++)
        if (measured->links[i].forward_ns < profile->links[i].forward_ns ||
            measured->links[i].backward_ns < profile->links[i].backward_ns ||
            measured->links[i].forward_serial_ns < profile->links[i].forward_serial_ns ||
            measured->links[i].backward_serial_ns < profile->links[i].backward_serial_ns)
            return "a delay makes a link faster";
    return profile_round_trip(arena, measured);
}

const char *dt_fuzz_delays(const char *data, size_t bytes)
{
    static const int32_t devices[] = {0, 0, 1, 1, 0};
    static const struct detour_ranks ranks = {DT_COUNT_OF(devices), devices};
    struct detour_profile *profiles[PROFILE_COUNT];
    const char *problem = read_profiles(profiles);
    struct detour_arena *arena = detour_arena_create();

    if (arena && !problem)
        problem = check_delays(arena, profiles[0], NULL, data, bytes);
    if (arena && !problem)
        problem = check_delays(arena, profiles[1], &ranks, data, bytes);
    detour_arena_destroy(arena);
    return problem;
}
