// SPDX-License-Identifier: Apache-2.0
#include "tests/sched/sched_test.h"

#include <algorithm>
#include <sstream>

#include "tests/harness/harness.h"

namespace sched_test
{
namespace
{
struct detour_op ParseOp(const std::string &word, int32_t stage)
{
    struct detour_op op = {};
    size_t letters = word.find_first_of("0123456789");
    std::string kind = word.substr(0, letters);
    size_t at = word.find('@');

    op.kind = kind == "F"   ? DETOUR_OP_F
              : kind == "B" ? DETOUR_OP_B
              : kind == "W" ? DETOUR_OP_W
                            : DETOUR_OP_BW;
    op.microbatch = std::stoi(word.substr(letters));
    op.stage = static_cast<int16_t>(at == std::string::npos ? stage : std::stoi(word.substr(at + 1)));
    return op;
}
} // namespace

struct detour_schedule *Schedule(struct detour_arena *arena, Profile &profile,
                                 const std::vector<std::string> &lines)
{
    std::vector<struct detour_op> ops;
    std::vector<size_t> first = {0};
    for (size_t d = 0; d < lines.size(); d++) {
        std::istringstream words(lines[d]);
        for (std::string word; words >> word;)
            ops.push_back(ParseOp(word, static_cast<int32_t>(d)));
        first.push_back(ops.size());
    }

    struct detour_schedule *schedule = nullptr;
    struct detour_error error = {};
    EXPECT_EQ(detour_schedule_create(arena, profile.get(), ops.size(), &schedule, &error), DETOUR_OK)
        << error.text;
    if (schedule) {
        std::copy(ops.begin(), ops.end(), schedule->ops);
        std::copy(first.begin(), first.end(), schedule->first);
    }
    return schedule;
}

std::string Line(const struct detour_schedule *schedule, int32_t device)
{
    std::string line;
    for (size_t i = schedule->first[device]; i < schedule->first[device + 1]; i++)
        line += (line.empty() ? "" : " ") +
                std::string(detour_op_name(static_cast<enum detour_op_kind>(schedule->ops[i].kind))) +
                std::to_string(schedule->ops[i].microbatch);
    return line;
}

std::string ProgramLine(const struct detour_program *program, int32_t device)
{
    std::string line;
    for (size_t i = program->first[device]; i < program->first[device + 1]; i++)
        line +=
            (line.empty() ? "" : " ") +
            std::string(detour_action_name(static_cast<enum detour_action_kind>(program->actions[i].kind))) +
            std::to_string(program->actions[i].microbatch);
    return line;
}

int64_t Makespan(Profile &profile, struct detour_schedule *schedule)
{
    Arena arena;
    struct detour_report *report = nullptr;
    struct detour_error error = {};
    EXPECT_EQ(detour_simulate(arena, profile.get(), schedule, &report, &error), DETOUR_OK) << error.text;
    return report ? report->makespan_ns : -1;
}

namespace
{
int32_t Draw(struct dt_prng *prng, int64_t low, int64_t high)
{
    return static_cast<int32_t>(
        dt_prng_between(prng, static_cast<uint64_t>(low), static_cast<uint64_t>(high)));
}

/* One stage per device (in any order), round robin, a V, or anything. */
void Place(struct dt_prng *prng, Profile *profile, bool several)
{
    int32_t count = static_cast<int32_t>(profile->stages.size());
    int32_t devices = several ? Draw(prng, 1, count) : count;

    switch (several ? Draw(prng, 0, 3) : 0) {
    case 1:
        for (int32_t i = 0; i < count; i++)
            profile->stages[i].device = i % devices;
        break;
    case 2:
        for (int32_t i = 0; i < count; i++)
            profile->stages[i].device = std::min(i, count - 1 - i);
        break;
    case 3:
        for (int32_t i = 0; i < count; i++)
            profile->stages[i].device = i < devices ? i : Draw(prng, 0, devices - 1);
        break;
    default:
        for (int32_t i = count - 1; i > 0; i--)
            std::swap(profile->stages[i].device, profile->stages[Draw(prng, 0, i)].device);
    }
}

/* Bytes and limits that leave room for one microbatch and for up to three more. */
void LimitMemory(struct dt_prng *prng, Profile *profile)
{
    std::vector<int64_t> need(profile->stages.size(), 0);

    profile->release = dt_prng_chance(prng, 1, 2) ? DETOUR_RELEASE_B : DETOUR_RELEASE_W;
    for (struct detour_stage &stage : profile->stages) {
        if (dt_prng_chance(prng, 1, 2))
            stage.max_inflight = Draw(prng, 1, 4);
        stage.bytes_f = Draw(prng, 0, 5);
        stage.bytes_w = Draw(prng, 0, 5);
        need[stage.device] += std::max(stage.bytes_f, stage.bytes_w);
    }
    profile->get(); /* sizes devices */
    for (size_t d = 0; d < profile->devices.size(); d++)
        if (dt_prng_chance(prng, 1, 2))
            profile->devices[d].capacity_bytes = std::max<int64_t>(1, need[d] + Draw(prng, 0, 3 * need[d]));
}
} // namespace

Profile RandomProfile(struct dt_prng *prng, const RandomLimits &limits)
{
    Profile profile =
        Profile::Uniform(Draw(prng, 1, limits.stages_max), Draw(prng, 1, limits.microbatches_max), 0, 0, 0);
    bool uniform = dt_prng_chance(prng, 1, 4), delayed = dt_prng_chance(prng, 3, 4);
    bool serial = limits.serial && dt_prng_chance(prng, 1, 4);
    int64_t delay_max = dt_prng_chance(prng, 1, 4) ? 8 * limits.time_max : limits.time_max / 2;

    for (struct detour_stage &stage : profile.stages) {
        stage.f_ns = uniform ? limits.time_max / 2 : Draw(prng, 0, limits.time_max);
        stage.b_ns = uniform ? limits.time_max / 2 : Draw(prng, 0, limits.time_max);
        stage.w_ns = uniform ? limits.time_max / 2 : Draw(prng, 0, limits.time_max);
        if (dt_prng_chance(prng, 1, 4))
            stage.bw_ns = Draw(prng, 0, 2 * limits.time_max);
    }
    for (struct detour_link &link : profile.links)
        link = {delayed ? Draw(prng, 0, delay_max) : 0, delayed ? Draw(prng, 0, delay_max) : 0,
                serial ? Draw(prng, 0, limits.time_max) : 0, serial ? Draw(prng, 0, limits.time_max) : 0};
    Place(prng, &profile, limits.placements && dt_prng_chance(prng, 1, 2));
    if (limits.memory && dt_prng_chance(prng, 1, 2))
        LimitMemory(prng, &profile);
    return profile;
}

std::string Describe(Profile &profile)
{
    std::ostringstream text;
    text << "N " << profile.microbatches << ", release " << (profile.release ? "W" : "B");
    for (const struct detour_stage &s : profile.stages)
        text << "; F " << s.f_ns << " B " << s.b_ns << " W " << s.w_ns << " BW " << s.bw_ns << " bytes "
             << s.bytes_f << "/" << s.bytes_w << " device " << s.device << " inflight " << s.max_inflight;
    for (const struct detour_link &l : profile.links)
        text << "; link " << l.forward_ns << "/" << l.backward_ns << " serial " << l.forward_serial_ns << "/"
             << l.backward_serial_ns;
    for (const struct detour_device &d : profile.devices)
        text << "; capacity " << d.capacity_bytes;
    return text.str();
}

struct detour_plan *Generate(struct detour_arena *arena, Profile &profile, enum detour_algorithm algorithm,
                             struct detour_options options)
{
    struct detour_plan *plan = nullptr;
    struct detour_error error = {};
    options.algorithm = algorithm;
    EXPECT_EQ(detour_generate(arena, profile.get(), &options, &plan, &error), DETOUR_OK)
        << detour_algorithm_name(algorithm) << ": " << error.text;
    return plan;
}

enum detour_status
FailEachAllocation(const std::function<enum detour_status(struct detour_arena *arena)> &call)
{
    for (int index = 0; index < 10000; index++) {
        Arena arena;
        detour_test_fail_alloc(index);
        enum detour_status status = call(arena);
        bool failed = detour_test_alloc_failed();
        detour_test_fail_alloc(-1);
        if (!failed) {
            EXPECT_GT(index, 0) << "the call allocates nothing";
            return status;
        }
        EXPECT_EQ(status, DETOUR_NO_MEMORY) << "allocation " << index;
    }
    ADD_FAILURE() << "the call does not end";
    return DETOUR_NO_MEMORY;
}
} // namespace sched_test
