// SPDX-License-Identifier: Apache-2.0
// The library's helpers for files in sysfs, on files of the test's own.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

extern "C" {
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t bytes);
int ibv_read_ibdev_sysfs_file(char *text, size_t bytes, void *device, const char *format, ...);
}

namespace
{
class Sysfs : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        folder = ::testing::TempDir() + "detour-sysfs-XXXXXX";
        ASSERT_NE(nullptr, mkdtemp(folder.data()));
    }
    void TearDown() override
    {
        remove((folder + "/file").c_str());
        remove(folder.c_str());
    }
    void Write(const std::string &content)
    {
        FILE *file = fopen((folder + "/file").c_str(), "w");
        ASSERT_NE(nullptr, file);
        fputs(content.c_str(), file);
        fclose(file);
    }

    std::string folder;
    char text[16];
};

TEST_F(Sysfs, TheLastNewlineIsCutOff)
{
    Write("4: ACTIVE\n");
    EXPECT_EQ(9, ibv_read_sysfs_file(folder.c_str(), "file", text, sizeof text));
    EXPECT_STREQ("4: ACTIVE", text);
    Write("no newline");
    EXPECT_EQ(10, ibv_read_sysfs_file(folder.c_str(), "file", text, sizeof text));
    EXPECT_STREQ("no newline", text);
}

TEST_F(Sysfs, AFileThatDoesNotFitIsCutAndEnded)
{
    Write("0123456789abcdefghij");
    EXPECT_EQ(15, ibv_read_sysfs_file(folder.c_str(), "file", text, sizeof text));
    EXPECT_STREQ("0123456789abcde", text);
    EXPECT_EQ(-1, ibv_read_sysfs_file(folder.c_str(), "file", text, 0));
}

TEST_F(Sysfs, AMissingFileIsAnError)
{
    EXPECT_EQ(-1, ibv_read_sysfs_file(folder.c_str(), "file", text, sizeof text));
    EXPECT_EQ(-1, ibv_read_sysfs_file(folder.c_str(), std::string(5000, 'x').c_str(), text, sizeof text));
    EXPECT_EQ(-1, ibv_read_ibdev_sysfs_file(text, sizeof text, nullptr, "ports/1/state"));
}

TEST_F(Sysfs, ThePathComesFromTheEnvironment)
{
    unsetenv("SYSFS_PATH");
    EXPECT_STREQ("/sys", ibv_get_sysfs_path());
    setenv("SYSFS_PATH", "", 1);
    EXPECT_STREQ("/sys", ibv_get_sysfs_path());
    setenv("SYSFS_PATH", "/elsewhere", 1);
    EXPECT_STREQ("/elsewhere", ibv_get_sysfs_path());
    unsetenv("SYSFS_PATH");
}
} // namespace
