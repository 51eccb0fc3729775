/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the schedule tests share: profiles that own their arrays, an arena that frees itself, and schedules
 * written as text.
 */
#ifndef DETOUR_TESTS_SCHED_TEST_H
#define DETOUR_TESTS_SCHED_TEST_H

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <cstring>
#include <functional>
#include <vector>

#include "base/prng.h"
#include "detour/sched.h"

namespace sched_test
{
constexpr int64_t kMs = 1000000;

struct ArenaDeleter {
    void operator()(struct detour_arena *arena) const
    {
        detour_arena_destroy(arena);
    }
};

class Arena
{
  public:
    Arena() : arena_(detour_arena_create()) {}
    operator struct detour_arena *() const
    {
        return arena_.get();
    }

  private:
    std::unique_ptr<struct detour_arena, ArenaDeleter> arena_;
};

/* A profile with its arrays; `get()` is valid until the next change or move. */
struct Profile {
    std::vector<struct detour_stage> stages;
    std::vector<struct detour_link> links;
    std::vector<struct detour_device> devices;
    int32_t microbatches = 1;
    int release = DETOUR_RELEASE_B; // an int, so that tests may say what the enum does not have

    /* `count` equal stages, one per device, without delay. */
    static Profile Uniform(int32_t count, int32_t microbatches, int64_t f_ns, int64_t b_ns, int64_t w_ns)
    {
        Profile profile;
        profile.microbatches = microbatches;
        for (int32_t i = 0; i < count; i++) {
            struct detour_stage stage = {};
            stage.f_ns = f_ns;
            stage.b_ns = b_ns;
            stage.w_ns = w_ns;
            stage.device = i;
            profile.stages.push_back(stage);
        }
        profile.links.resize(static_cast<size_t>(count - 1));
        profile.devices.resize(static_cast<size_t>(count));
        return profile;
    }

    Profile &Delay(size_t link, int64_t both_ns)
    {
        links[link].forward_ns = links[link].backward_ns = both_ns;
        return *this;
    }

    Profile &MaxInflight(const std::vector<int32_t> &limits)
    {
        for (size_t i = 0; i < limits.size(); i++)
            stages[i].max_inflight = limits[i];
        return *this;
    }

    const struct detour_profile *get()
    {
        int32_t device_count = 0;
        for (const struct detour_stage &stage : stages)
            device_count = std::max(device_count, stage.device + 1);
        devices.resize(static_cast<size_t>(device_count));
        profile_ = {static_cast<int32_t>(stages.size()),
                    microbatches,
                    device_count,
                    DETOUR_RELEASE_B,
                    stages.data(),
                    links.data(),
                    devices.data()};
        memcpy(&profile_.release, &release, sizeof release);
        return &profile_;
    }

  private:
    struct detour_profile profile_ = {};
};

/*
 * A schedule from one line per device: operations by kind, microbatch and optionally "@stage", which is the
 * number of the line by default: "F0 F1 B0 W0", "F0@2 BW0@5".
 */
struct detour_schedule *Schedule(struct detour_arena *arena, Profile &profile,
                                 const std::vector<std::string> &lines);

/* The order of a device as text in the same form, without "@stage". */
std::string Line(const struct detour_schedule *schedule, int32_t device);

/* The actions of a device, by name and microbatch: "F0 SEND_F0 ...". */
std::string ProgramLine(const struct detour_program *program, int32_t device);

/* Makespan in nanoseconds of a schedule under a profile; the schedule is timed. Fails the test on an error.
 */
int64_t Makespan(Profile &profile, struct detour_schedule *schedule);

/* How random profiles differ; every property is drawn independently of the others. */
struct RandomLimits {
    int32_t stages_max = 6;
    int32_t microbatches_max = 10;
    int64_t time_max = 12;  /* small, so that ties and zeros are common */
    bool placements = true; /* several stages per device */
    bool memory = true;
    bool serial = true;
};

Profile RandomProfile(struct dt_prng *prng, const RandomLimits &limits);

/* A profile in words, for the trace of a failing test. */
std::string Describe(Profile &profile);

/* Runs one generator; fails the test if that fails. */
struct detour_plan *Generate(struct detour_arena *arena, Profile &profile, enum detour_algorithm algorithm,
                             struct detour_options options = {});

/*
 * Calls with a fresh arena and allocation n failing, for n = 0, 1, ..., and expects DETOUR_NO_MEMORY, until
 * no allocation fails; returns the status of that last call.
 */
enum detour_status
FailEachAllocation(const std::function<enum detour_status(struct detour_arena *arena)> &call);
} // namespace sched_test

#endif
