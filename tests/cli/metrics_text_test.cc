// SPDX-License-Identifier: Apache-2.0
#include "cli/metrics_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/obs/folder.h"

namespace
{
bool Write(void *arg, FILE *out, char *reason, size_t reason_bytes)
{
    const char *text = static_cast<const char *>(arg);

    snprintf(reason, reason_bytes, "there are none");
    if (text)
        fputs(text, out);
    return text != nullptr;
}

std::string Content(const std::string &path)
{
    std::ifstream file(path);
    return std::string((std::istreambuf_iterator<char>(file)), {});
}

TEST(MetricsText, AFileIsReplacedInOneStepOrNotAtAll)
{
    Folder files;
    std::string path = files.path + "/detour.prom", folder = files.path + "/folder";
    char text[] = "detour_x 1\n", reason[256] = "";

    std::ofstream(path) << "old";
    EXPECT_TRUE(dt_metrics_save(path.c_str(), Write, text, reason, sizeof reason)) << reason;
    EXPECT_EQ(Content(path), text);
    EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::others_read,
              std::filesystem::perms::others_read)
        << "node_exporter is another user";
    EXPECT_FALSE(dt_metrics_save(path.c_str(), Write, nullptr, reason, sizeof reason));
    EXPECT_STREQ(reason, "there are none");
    EXPECT_EQ(Content(path), text) << "as before";
    EXPECT_FALSE(
        dt_metrics_save((files.path + "/none/detour.prom").c_str(), Write, text, reason, sizeof reason));
    EXPECT_STREQ(reason, "No such file or directory");
    std::filesystem::create_directory(folder);
    EXPECT_FALSE(dt_metrics_save(folder.c_str(), Write, text, reason, sizeof reason));
    EXPECT_STREQ(reason, "Is a directory");
    EXPECT_FALSE(dt_metrics_save(std::string(5000, 'x').c_str(), Write, text, reason, sizeof reason));
    EXPECT_STREQ(reason, "File name too long");
    EXPECT_EQ(files.Count(), 2u) << "nothing else is left behind";
}

TEST(MetricsText, ALabelIsAsciiOnOneLine)
{
    char *text = nullptr;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    dt_metrics_label(out, "a", "q\"\\\n\xff~");
    dt_metrics_label_number(out, "b", -1);
    dt_metrics_label_number(out, "c", INT64_MAX);
    fclose(out);
    EXPECT_STREQ(text, "a=\"q\\\"\\\\??~\"b=\"\"c=\"9223372036854775807\"");
    free(text);
}
} // namespace
