// SPDX-License-Identifier: Apache-2.0
// The readers on mutated examples.
#include "tests/sched/format/mutation.h"

#include <fstream>
#include <sstream>

#include "tests/harness/harness.h"
#include "tests/sched/fuzz/format_fuzz.h"

namespace
{
using sched_test::Mutate;

std::string Slurp(const std::string &name)
{
    std::ifstream file(std::string(DETOUR_SOURCE_DIR "/tests/sched/golden/") + name, std::ios::binary);
    std::stringstream text;
    EXPECT_TRUE(file.good()) << name;
    text << file.rdbuf();
    return text.str();
}

TEST(Mutations, OfProfilesAreReadOrRefusedInOneLine)
{
    Mutate("profiles", dt_fuzz_profile, {Slurp("pair.profile.json"), Slurp("v.profile.json")}, 20000, 1);
}

TEST(Mutations, OfSchedulesAreReadOrRefusedInOneLine)
{
    Mutate("schedules", dt_fuzz_json, {Slurp("pair.json"), Slurp("pair.report.json")}, 8000, 2);
}

TEST(Mutations, OfCsvFilesAreReadOrRefusedInOneLine)
{
    Mutate("CSV files", dt_fuzz_csv,
           {Slurp("pair.csv"), Slurp("pair.comms.csv"), Slurp("v.csv"), Slurp("v.comms.csv")}, 8000, 3);
}

TEST(Mutations, OfDelaysAreReadOrRefusedInOneLine)
{
    Mutate("delays", dt_fuzz_delays, {Slurp("delays.json")}, 10000, 4);
}

TEST(Mutations, TheExamplesThemselvesAreAccepted)
{
    EXPECT_EQ(dt_fuzz_delays(Slurp("delays.json").data(), Slurp("delays.json").size()), nullptr);
    for (const char *name : {"pair.profile.json", "v.profile.json"})
        EXPECT_EQ(dt_fuzz_profile(Slurp(name).data(), Slurp(name).size()), nullptr);
    for (const char *name : {"pair.json", "v.json"})
        EXPECT_EQ(dt_fuzz_json(Slurp(name).data(), Slurp(name).size()), nullptr) << name;
    for (const char *name : {"pair.csv", "v.csv", "pair.comms.csv", "v.comms.csv"})
        EXPECT_EQ(dt_fuzz_csv(Slurp(name).data(), Slurp(name).size()), nullptr) << name;
}
} // namespace
