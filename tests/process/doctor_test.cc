/* SPDX-License-Identifier: Apache-2.0 */
/* `detour doctor` as a user runs it, on this machine and its software RNICs. */
#include <gtest/gtest.h>

#include <jansson.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/process/command.h"

using detour_test::Outcome;
using detour_test::RunDetour;

namespace
{
namespace fs = std::filesystem;
using Environment = std::vector<std::pair<std::string, std::string>>;

Environment Soft()
{
    return {{"DETOUR_VERBS", "soft"},
            {"DETOUR_SOCKET_IFNAME", "=lo"},
            {"DETOUR_SOFT_DEVICES", "3"},
            {"NCCL_IB_TIMEOUT", "20"}};
}

bool Contains(const std::string &text, const std::string &part)
{
    return text.find(part) != std::string::npos;
}

TEST(DoctorCommand, ReportsDevicesAndSucceedsWithWarningsAlone)
{
    Outcome outcome = RunDetour({"doctor"}, Soft());
    EXPECT_EQ(0, outcome.exit_code) << outcome.out << outcome.err;
    EXPECT_EQ("", outcome.err);
    for (const char *part :
         {"soft0: used\n", "rail 2, backups: soft0\n", "  <- RoCE v2, IPv6: the best kind that the port has",
          "DETOUR_TIMEOUT               20               exponent   NCCL_IB_TIMEOUT\n",
          "warning  devices: software RNICs: for tests and demonstrations on one host, not for production\n",
          "warning  set-up: the control channel listens on lo", "         right: ", ", problems 0\n"})
        EXPECT_TRUE(Contains(outcome.out, part)) << part << " in\n" << outcome.out;
}

TEST(DoctorCommand, ReportIsOneFileWithoutOtherVariables)
{
    std::string folder = (fs::temp_directory_path() / "detour-report-XXXXXX").string();
    ASSERT_NE(nullptr, mkdtemp(folder.data()));
    std::string file = folder + "/report.json", log = folder + "/log";
    std::ofstream(log) << "node1:7 NET/Plugin [loaded] Detour\n";
    Environment environment = Soft();
    environment.push_back({"SECRET_OF_ANOTHER", "hidden"});
    Outcome outcome = RunDetour({"doctor", "--report", file, "--log", log}, environment);
    EXPECT_EQ(0, outcome.exit_code) << outcome.err;
    std::ifstream stream(file);
    std::string text{std::istreambuf_iterator<char>(stream), {}};
    for (const char *part : {"\"soft2\"", "\"NCCL_IB_TIMEOUT\": \"20\"", "[loaded] Detour", "\"kernel\"",
                             "\"version\"", "libjansson.so"})
        EXPECT_TRUE(Contains(text, part)) << part << " in\n" << text;
    EXPECT_FALSE(Contains(text, "hidden"));
    outcome = RunDetour({"doctor", "--report", file}, environment);
    EXPECT_EQ(2, outcome.exit_code) << "it does not overwrite";
    EXPECT_EQ("detour doctor: --report " + file + ": the file exists; name a new one\n", outcome.err);
    EXPECT_EQ("", outcome.out);
    outcome = RunDetour({"doctor", "--report", folder + "/other", "--log", folder + "/none"}, environment);
    EXPECT_EQ(2, outcome.exit_code);
    EXPECT_EQ("detour doctor: " + folder + "/none: No such file or directory\n", outcome.err);
    outcome = RunDetour({"doctor", "--report", folder + "/other", "--log", folder}, environment);
    EXPECT_EQ("detour doctor: " + folder + ": Is a directory\n", outcome.err);
    EXPECT_EQ(2, RunDetour({"doctor", "--log", log}, environment).exit_code);
    fs::remove_all(folder);
}

TEST(DoctorCommand, JsonReportsTheSame)
{
    Outcome outcome = RunDetour({"doctor", "--json"}, Soft());
    json_error_t error;
    json_t *document = json_loads(outcome.out.c_str(), 0, &error);
    EXPECT_EQ(0, outcome.exit_code);
    ASSERT_NE(nullptr, document) << error.text << outcome.out;
    EXPECT_EQ(3u, json_array_size(json_object_get(document, "devices")));
    const char *name = nullptr;
    EXPECT_EQ(0,
              json_unpack(json_array_get(json_object_get(document, "devices"), 1), "{s:s}", "name", &name));
    EXPECT_STREQ("soft1", name);
    size_t index, levels = 0;
    json_t *finding;
    json_array_foreach(json_object_get(document, "findings"), index, finding)
    {
        std::string level = json_string_value(json_object_get(finding, "level"));
        EXPECT_TRUE(level == "ok" || level == "warning") << level;
        levels++;
    }
    EXPECT_GT(levels, 5u);
    json_decref(document);
}

TEST(DoctorCommand, AProblemIsTheExitCode)
{
    Environment environment = Soft();
    environment.emplace_back("DETOUR_PATHS", "99");
    Outcome outcome = RunDetour({"doctor"}, environment);
    EXPECT_EQ(1, outcome.exit_code);
    EXPECT_TRUE(
        Contains(outcome.out, "problem  settings: DETOUR_PATHS=99: expected a number from 1 to 4 (count)\n"))
        << outcome.out;
    outcome = RunDetour({"doctor"}, {{"DETOUR_IBV_LIB", "libno-such-verbs.so.9"}});
    EXPECT_EQ(1, outcome.exit_code);
    EXPECT_TRUE(Contains(outcome.out,
                         "problem  devices: verbs: cannot load the verbs library: libno-such-verbs.so.9"))
        << outcome.out;
}

TEST(DoctorCommand, BadArgumentsAreRefused)
{
    EXPECT_EQ(2, RunDetour({"doctor", "mlx5_0"}).exit_code);
    EXPECT_EQ(2, RunDetour({"doctor", "--nccl"}).exit_code);
    EXPECT_EQ(2, RunDetour({"doctor", "--no-such"}).exit_code);
    EXPECT_TRUE(Contains(RunDetour({"doctor", "mlx5_0"}).err, "detour doctor: unexpected argument 'mlx5_0'"));
    EXPECT_EQ(0, RunDetour({"doctor", "--help"}).exit_code);
}
} // namespace
