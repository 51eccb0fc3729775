/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the file formats share. */
#ifndef DETOUR_TESTS_SCHED_FORMAT_FORMAT_TEST_H
#define DETOUR_TESTS_SCHED_FORMAT_FORMAT_TEST_H

#include <string>

#include "detour/sched_format.h"
#include "tests/sched/sched_test.h"

namespace sched_test
{
/* The profile, or NULL with one line in *error. */
inline const struct detour_profile *ReadProfile(struct detour_arena *arena, const std::string &json,
                                                std::string *error = nullptr)
{
    struct detour_profile *profile = nullptr;
    struct detour_error found = {};

    enum detour_status status =
        detour_profile_from_json(arena, "p.json", json.data(), json.size(), &profile, &found);
    EXPECT_EQ(status, found.status) << found.text;
    EXPECT_EQ(status == DETOUR_OK, profile != nullptr);
    if (error)
        *error = found.text;
    else
        EXPECT_EQ(status, DETOUR_OK) << found.text;
    return profile;
}

/* The plan of a JSON or CSV text, or NULL with one line in *error. */
inline struct detour_plan *ReadPlan(struct detour_arena *arena, const struct detour_profile *profile,
                                    const std::string &text, std::string *error = nullptr,
                                    struct detour_profile **planned = nullptr)
{
    struct detour_plan *plan = nullptr;
    struct detour_error found = {};

    enum detour_status status =
        detour_plan_read(arena, profile, "s", text.data(), text.size(), &plan, planned, &found);
    EXPECT_EQ(status, found.status) << found.text;
    EXPECT_EQ(status == DETOUR_OK, plan != nullptr);
    if (error)
        *error = found.text;
    else
        EXPECT_EQ(status, DETOUR_OK) << found.text;
    return plan;
}

/* The plan as text; fails the test on an error. */
inline std::string WritePlan(struct detour_arena *arena, const struct detour_profile *profile,
                             const struct detour_plan *plan, enum detour_format format,
                             const struct detour_format_options *options = nullptr)
{
    struct detour_text text = {};
    struct detour_error found = {};

    EXPECT_EQ(detour_plan_write(arena, profile, plan, format, options, &text, &found), DETOUR_OK)
        << found.text;
    return std::string(text.data ? text.data : "", text.bytes);
}

/* Every occurrence of `from` replaced. */
inline std::string Replace(std::string text, const std::string &from, const std::string &to)
{
    size_t at = 0;

    EXPECT_NE(text.find(from), std::string::npos) << from;
    while ((at = text.find(from, at)) != std::string::npos) {
        text.replace(at, from.size(), to);
        at += to.size();
    }
    return text;
}

/* Two stages, two microbatches, 10 ms each, no delay. */
const char *const kPair = R"({"version":1,"microbatches":2,
"stages":[{"f_ms":10,"b_ms":10,"w_ms":10},{"f_ms":10,"b_ms":10,"w_ms":10}],
"links":[{"forward_ms":0,"backward_ms":0}]})";
} // namespace sched_test

#endif
