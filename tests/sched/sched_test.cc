// SPDX-License-Identifier: Apache-2.0
#include "tests/sched/sched_test.h"

#include <sstream>

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

int64_t Makespan(Profile &profile, struct detour_schedule *schedule)
{
    Arena arena;
    struct detour_report *report = nullptr;
    struct detour_error error = {};
    EXPECT_EQ(detour_simulate(arena, profile.get(), schedule, &report, &error), DETOUR_OK) << error.text;
    return report ? report->makespan_ns : -1;
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
} // namespace sched_test
