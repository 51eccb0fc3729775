/* SPDX-License-Identifier: Apache-2.0 */
/* `detour pipeline --adapt control`: the decisions of a controller while the job runs. */
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/process/command.h"
#include "tests/process/remedy_file.h"

using detour_test::Await;
using detour_test::Command;
using detour_test::Outcome;
using detour_test::WriteRemedy;
using detour_test::WriteReplan;

namespace
{
/* The rows of the table. */
size_t Rows(const std::string &out)
{
    size_t rows = 0;
    for (size_t at = 0, end; (end = out.find('\n', at)) != std::string::npos; at = end + 1)
        rows += out[at] != '#';
    return rows;
}

bool EndsWithout(const std::string &out, const std::string &text)
{
    size_t end = out.rfind('\n'), begin = end == std::string::npos ? end : out.rfind('\n', end - 1);

    return begin != std::string::npos && out.substr(begin, end - begin).find(text) == std::string::npos;
}

struct Row {
    double model_ms = 0;
    int schedule = -1; /* its number; -1: there is no such row */
};

/* The row of the table that begins there. */
Row ReadRow(const std::string &out, size_t begin)
{
    std::istringstream words(out.substr(begin, out.find('\n', begin) - begin));
    std::string skipped, model, schedule;
    Row row;

    /* iteration, time, model, bubble, held, processor, schedule */
    if (words >> skipped >> skipped >> model >> skipped >> skipped >> skipped >> schedule)
        row = {strtod(model.c_str(), nullptr), atoi(schedule.c_str())};
    return row;
}

/* The last whole line. */
Row LastRow(const std::string &out)
{
    size_t end = out.rfind('\n'), begin = end == std::string::npos ? end : out.rfind('\n', end - 1);

    return begin == std::string::npos || out[begin + 1] != ' ' ? Row() : ReadRow(out, begin + 1);
}

/* The first line from there on that has the text. */
Row RowWith(const std::string &out, const char *text, size_t from)
{
    size_t at = out.find(text, from), begin = at == std::string::npos ? at : out.rfind('\n', at);

    return begin == std::string::npos ? Row() : ReadRow(out, begin + 1);
}
} // namespace

/*
 * The remedies of a controller, one after the other: fewer microbatches for a replica, ranks that exchange
 * their positions, fewer microbatches where the ranks are now, an end of that with the ranks where they are,
 * another exchange, the first positions, and the end of the run for a restart. Every rank checks that the
 * sums of the gradients and the parameters are exactly those of a run without remedies.
 */
TEST(PipelineLoop, RemediesOfAControllerAreCarriedOutAndTakenBack)
{
    const struct {
        int step;
        const char *name, *counts, *nodes;
    } remedies[] = {{1, "remedy S2", "[1,7]", "[0,1,2,3]"}, {2, "remedy S3", "[4,4]", "[3,1,0,2]"},
                    {1, "remedy S2", "[3,5]", "[3,1,0,2]"}, {0, NULL, "[4,4]", "[3,1,0,2]"},
                    {2, "pause", "[5,3]", "[1,0,2,3]"},     {0, NULL, "[4,4]", "[0,1,2,3]"}};
    std::string folder = (std::filesystem::temp_directory_path() / "detour-remedy-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    Command command({"pipeline", "--devices", "2", "--dp", "2", "--microbatches", "4", "--times", "1,1,1",
                     "--adapt", "control", "-n", "1000000"},
                    {{"DETOUR_RUNTIME_DIR", folder}});
    int number = 0;

    ASSERT_TRUE(Await([&] { return Rows(command.Output()) > 2; })) << command.Written();
    for (const auto &remedy : remedies) {
        size_t before = command.Output().size();

        WriteRemedy(folder, ++number, remedy.step, remedy.counts, remedy.nodes);
        ASSERT_TRUE(Await([&] {
            std::string out = command.Output();
            return remedy.name ? out.find(remedy.name, before) != std::string::npos
                               : out.size() > before && EndsWithout(out, "remedy");
        })) << number;
    }
    WriteRemedy(folder, ++number, 3, "[4,4]", "[0,1,2,3]");
    Outcome outcome = command.Wait();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.err;
    EXPECT_LT(Rows(outcome.out), 1000000u);
    std::filesystem::remove_all(folder);
}

/*
 * Re-planned schedules and remedies together: a re-plan, fewer microbatches for a replica, another re-plan,
 * and equal numbers again. The first iteration with other numbers has schedules for the delays already: a
 * number of their own, which all ranks compare, with the orders of operations, after every iteration. The
 * model has the time of these orders, in virtual time. The sums of the gradients are those of a run without
 * remedies.
 */
TEST(PipelineLoop, AReplannedScheduleStaysWithTheRemedies)
{
    std::string folder = (std::filesystem::temp_directory_path() / "detour-remedy-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    Command command({"pipeline", "--devices", "3", "--dp", "2", "--microbatches", "6", "--times", "4,4,4",
                     "-n", "1000000", "--mode", "delegated", "--adapt", "control", "--slow-link",
                     "0@1-1@1=40ms", "--slow-link", "1@1-2@1=40ms"},
                    {{"DETOUR_RUNTIME_DIR", folder}});
    auto reaches = [&](int schedule) {
        return Await([&] { return LastRow(command.Output()).schedule == schedule; });
    };
    auto has = [&](const char *text, size_t from) {
        return Await([&] { return RowWith(command.Output(), text, from).schedule >= 0; });
    };

    ASSERT_TRUE(Await([&] { return Rows(command.Output()) > 2; })) << command.Written();
    const double planned_ms = LastRow(command.Output()).model_ms;
    WriteReplan(folder, 1, {{3, 4}});
    ASSERT_TRUE(reaches(1)) << command.Written();
    EXPECT_LT(LastRow(command.Output()).model_ms, planned_ms);
    WriteRemedy(folder, 2, 1, "[8,4]", "[0,1,2,3,4,5]");
    ASSERT_TRUE(has("remedy S2", 0)) << command.Written();
    const Row uneven = RowWith(command.Output(), "remedy S2", 0);
    EXPECT_EQ(uneven.schedule, 2);
    WriteReplan(folder, 3, {{3, 4}, {4, 5}});
    ASSERT_TRUE(reaches(3)) << command.Written();
    EXPECT_LT(LastRow(command.Output()).model_ms, uneven.model_ms);
    const size_t before = command.Output().size();
    WriteRemedy(folder, 4, 0, "[6,6]", "[0,1,2,3,4,5]");
    ASSERT_TRUE(has("pause of", before)) << command.Written();
    const Row even = RowWith(command.Output(), "pause of", before);
    EXPECT_EQ(even.schedule, 4);
    EXPECT_LT(even.model_ms, planned_ms);
    WriteRemedy(folder, 5, 3, "[6,6]", "[0,1,2,3,4,5]");
    Outcome outcome = command.Wait();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.err;
    EXPECT_NE(outcome.out.find("every gradient was the sum over the replicas"), std::string::npos);
    std::filesystem::remove_all(folder);
}
