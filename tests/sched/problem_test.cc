// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
struct BadProfile {
    const char *text; /* part of the error line */
    enum detour_status status;
    std::function<void(Profile &)> change;
};

const BadProfile kBadProfiles[] = {
    {"stages[2].f_ns is -1; it must not be negative", DETOUR_INVALID,
     [](Profile &p) { p.stages[2].f_ns = -1; }},
    {"stages[1].w_ns is 100000000001; the limit is 100000000000", DETOUR_LIMIT,
     [](Profile &p) { p.stages[1].w_ns = 100000000001; }},
    {"links[1].backward_serial_ns is -5", DETOUR_INVALID,
     [](Profile &p) { p.links[1].backward_serial_ns = -5; }},
    {"links[0].forward_ns is 9000000000000000000", DETOUR_LIMIT,
     [](Profile &p) { p.links[0].forward_ns = 9000000000000000000; }},
    {"microbatch_count is 0; it must be at least 1", DETOUR_INVALID, [](Profile &p) { p.microbatches = 0; }},
    {"microbatch_count is 70000; the limit is 65536", DETOUR_LIMIT,
     [](Profile &p) { p.microbatches = 70000; }},
    {"stages[0].device is -2", DETOUR_INVALID, [](Profile &p) { p.stages[0].device = -2; }},
    {"device 0 has no stage", DETOUR_INVALID, [](Profile &p) { p.stages[0].device = 1; }},
    {"device_count is 10; the limit is 4", DETOUR_LIMIT, [](Profile &p) { p.stages[0].device = 9; }},
    {"devices[3].capacity_bytes is 9; one microbatch alone needs 10", DETOUR_MEMORY_TOO_SMALL,
     [](Profile &p) {
         p.stages[3].bytes_f = 10;
         p.devices[3].capacity_bytes = 9;
     }},
    {"one microbatch alone needs 12", DETOUR_MEMORY_TOO_SMALL,
     [](Profile &p) {
         p.stages[3].bytes_f = 10;
         p.stages[3].bytes_w = 12;
         p.devices[3].capacity_bytes = 11;
     }},
    {"stages[1].max_inflight is -1", DETOUR_INVALID, [](Profile &p) { p.stages[1].max_inflight = -1; }},
    {"release is 7", DETOUR_INVALID, [](Profile &p) { p.release = 7; }},
};
} // namespace

TEST(ProfileCheck, AcceptsValuesInRange)
{
    Profile profile = Profile::Uniform(4, 12, 10 * kMs, 10 * kMs, 10 * kMs);
    struct detour_error error = {};
    EXPECT_EQ(detour_profile_check(profile.get(), &error), DETOUR_OK) << error.text;
    profile.stages[0].max_inflight = 1;
    profile.devices[2].capacity_bytes = INT64_MAX;
    EXPECT_EQ(detour_profile_check(profile.get(), &error), DETOUR_OK) << error.text;
}

TEST(ProfileCheck, NamesTheErrorAndTheRightForm)
{
    for (const BadProfile &bad : kBadProfiles) {
        Profile profile = Profile::Uniform(4, 12, 10 * kMs, 10 * kMs, 10 * kMs);
        struct detour_error error = {};
        bad.change(profile);
        EXPECT_EQ(detour_profile_check(profile.get(), &error), bad.status) << bad.text;
        EXPECT_EQ(error.status, bad.status);
        EXPECT_NE(std::string(error.text).find(bad.text), std::string::npos) << error.text;
        EXPECT_EQ(detour_profile_check(profile.get(), nullptr), bad.status);
    }
}

TEST(ProfileCheck, RefusesNull)
{
    struct detour_error error = {};
    EXPECT_EQ(detour_profile_check(nullptr, &error), DETOUR_INVALID);
    Profile profile = Profile::Uniform(2, 2, 1, 1, 1);
    struct detour_profile raw = *profile.get();
    raw.links = nullptr;
    EXPECT_EQ(detour_profile_check(&raw, &error), DETOUR_INVALID);
    EXPECT_STREQ(error.text, "profile without links");
}
