// SPDX-License-Identifier: Apache-2.0
/* What `detour doctor --report` adds, on a tree that is made up. */
#include <filesystem>
#include <fstream>

#include "tests/doctor/examination.h"

namespace
{
namespace fs = std::filesystem;
using detour_test::Examination;

class Bundle : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = (fs::temp_directory_path() / "detour-bundle-XXXXXX").string();
        ASSERT_NE(nullptr, mkdtemp(pattern.data()));
        root = pattern;
        exam.options.root = root.c_str();
    }
    void TearDown() override
    {
        fs::remove_all(root);
    }
    void Write(const std::string &path, const std::string &text)
    {
        fs::create_directories(fs::path(root + path).parent_path());
        std::ofstream(root + path, std::ios::binary) << text;
    }
    std::string Document()
    {
        char *text = json_dumps(exam.report.document, 0);
        EXPECT_NE(nullptr, text);
        std::string document = text ? text : "";
        free(text);
        return document;
    }
    const json_t *Log()
    {
        return exam.Fact("logs", 0);
    }

    std::string root;
    Examination exam;
};

TEST_F(Bundle, HasFirmwareAndTheVariablesOfDetourAndNcclAlone)
{
    Write("/sys/class/infiniband/mlx5_0/fw_ver", "28.39.1002\n");
    Write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    Write("/etc/os-release", "PRETTY_NAME=\"Made up 1\"\n");
    char hca[] = "NCCL_IB_HCA=mlx5", stall[] = "DETOUR_STALL_MS=500", key[] = "API_TOKEN=hidden",
         odd[] = "NCCL_WITHOUT_A_VALUE", redis[] = "DETOUR_REDIS=redis://u:hidden@h",
         mistyped[] = "DETOUR_REDIS_URL=redis://u:hidden@h",
         none[] = "DETOUR_EVENT_COMMAND=", proxy[] = "NCCL_MADE_UP=http://host/path";
    char *environment[] = {hca, stall, key, odd, redis, mistyped, none, proxy, nullptr};
    exam.options.environment = environment;
    dt_report_add_fact(&exam.report, "settings",
                       json_pack("{s:s, s:s}", "name", "DETOUR_EVENT_COMMAND", "value", "curl -H hidden"));
    dt_report_add_fact(&exam.report, "settings", json_pack("{s:s, s:i}", "name", "DETOUR_PATHS", "value", 2));
    dt_doctor_bundle(&exam.options, &exam.report);
    EXPECT_EQ("28.39.1002", Examination::Text(exam.Fact("rnics", 0), "fw_ver"));
    EXPECT_EQ("4: ACTIVE", Examination::Text(exam.Fact("rnics", 0), "ports/1/state"));
    const json_t *variables = json_object_get(exam.report.document, "environment");
    EXPECT_EQ(6u, json_object_size(variables));
    EXPECT_EQ("mlx5", Examination::Text(variables, "NCCL_IB_HCA"));
    EXPECT_EQ("500", Examination::Text(variables, "DETOUR_STALL_MS"));
    for (const char *name : {"DETOUR_REDIS", "DETOUR_REDIS_URL"})
        EXPECT_EQ("(set; withheld)", Examination::Text(variables, name));
    EXPECT_EQ("", Examination::Text(variables, "DETOUR_EVENT_COMMAND"));
    EXPECT_EQ("http://host/path", Examination::Text(variables, "NCCL_MADE_UP"));
    EXPECT_EQ("(set; withheld)", Examination::Text(exam.Fact("settings", 0), "value"));
    EXPECT_EQ(2, Examination::Number(exam.Fact("settings", 1), "value"));
    EXPECT_EQ(std::string::npos, Document().find("hidden"));
    EXPECT_FALSE(Examination::Text(json_object_get(exam.report.document, "system"), "kernel").empty());
}

TEST_F(Bundle, TakesTheBeginningAndTheEndOfALog)
{
    dt_doctor_bundle(&exam.options, &exam.report);
    std::string text = "first line\n" + std::string(3 << 20, '.') + "\nlast line\n";
    Write("/log", text);
    ASSERT_TRUE(dt_doctor_bundle_log(&exam.options, &exam.report, (root + "/log").c_str()));
    EXPECT_EQ(0u, Examination::Text(Log(), "beginning").find("first line\n"));
    std::string end = Examination::Text(Log(), "end");
    EXPECT_EQ(end.size() - 11, end.rfind("\nlast line\n"));
    EXPECT_LT(Document().size(), 2u << 20);
    EXPECT_EQ(static_cast<long long>(text.size()), Examination::Number(Log(), "bytes"));
}

TEST_F(Bundle, ALogThatIsNoTextIsMadeOne)
{
    dt_doctor_bundle(&exam.options, &exam.report);
    Write("/log", std::string("a\0b\x01\xff\n", 6));
    ASSERT_TRUE(dt_doctor_bundle_log(&exam.options, &exam.report, (root + "/log").c_str()));
    EXPECT_EQ("a?b??\n", Examination::Text(Log(), "beginning"));
    EXPECT_EQ(nullptr, json_object_get(Log(), "end"));
    EXPECT_FALSE(dt_doctor_bundle_log(&exam.options, &exam.report, (root + "/none").c_str()));
}
TEST_F(Bundle, HasNoSecretOfTheLog)
{
    char key[] = "NCCL_API_KEY=hidden-key", pkey[] = "NCCL_IB_PKEY=7";
    char *environment[] = {key, pkey, nullptr};
    exam.options.environment = environment;
    dt_doctor_bundle(&exam.options, &exam.report);
    Write("/log", "NCCL_API_KEY set to hidden-key\nNCCL_COMM_ID set to https://user:hidden@host/x\n");
    ASSERT_TRUE(dt_doctor_bundle_log(&exam.options, &exam.report, (root + "/log").c_str()));
    EXPECT_EQ(std::string::npos, Document().find("hidden"));
    EXPECT_NE(std::string::npos, Document().find("NCCL_API_KEY set to *"));
    EXPECT_EQ("7", Examination::Text(json_object_get(exam.report.document, "environment"), "NCCL_IB_PKEY"));
}

TEST_F(Bundle, AFolderIsNoLog)
{
    dt_doctor_bundle(&exam.options, &exam.report);
    EXPECT_FALSE(dt_doctor_bundle_log(&exam.options, &exam.report, root.c_str()));
    EXPECT_EQ(EISDIR, errno);
}

TEST_F(Bundle, HasEachPortAndTheLibraries)
{
    Write("/sys/class/infiniband/mlx4_0/ports/1/state", "4: ACTIVE\n");
    Write("/sys/class/infiniband/mlx4_0/ports/2/state", "1: DOWN\n");
    dt_doctor_bundle(&exam.options, &exam.report);
    EXPECT_EQ("4: ACTIVE", Examination::Text(exam.Fact("rnics", 0), "ports/1/state"));
    EXPECT_EQ("1: DOWN", Examination::Text(exam.Fact("rnics", 0), "ports/2/state"));
    EXPECT_NE(std::string::npos, Document().find("libjansson.so"));
}
} // namespace
