// SPDX-License-Identifier: Apache-2.0
// A checkpoint is read as it was written, and every damaged byte is found. A file that cannot be written
// leaves nothing behind.
#include "cli/pipeline/checkpoint_file.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace fs = std::filesystem;

namespace
{
class CheckpointFile : public ::testing::Test
{
  protected:
    CheckpointFile()
    {
        folder = (fs::temp_directory_path() / "detour-checkpoint-XXXXXX").string();
        EXPECT_NE(mkdtemp(folder.data()), nullptr);
        EXPECT_TRUE(dt_pipeline_parameters_create(&parameters, 1, 100));
        EXPECT_TRUE(dt_pipeline_parameters_create(&found, 0, 100));
    }

    ~CheckpointFile() override
    {
        dt_pipeline_parameters_free(&parameters);
        dt_pipeline_parameters_free(&found);
        fs::remove_all(folder);
    }

    bool Write()
    {
        return dt_checkpoint_write(folder.c_str(), &id, &parameters, reason);
    }

    bool Read(struct dt_checkpoint_id of)
    {
        return dt_checkpoint_read(folder.c_str(), &of, &found, reason);
    }

    std::string folder;
    struct dt_checkpoint_id id = {3, 1, 8, 12};
    struct dt_pipeline_parameters parameters = {}, found = {};
    char reason[DT_CHECKPOINT_REASON_BYTES] = "";
};
} // namespace

TEST_F(CheckpointFile, HasTheParameters)
{
    ASSERT_TRUE(Write()) << reason;
    ASSERT_TRUE(Read(id)) << reason;
    EXPECT_EQ(memcmp(found.elements, parameters.elements, 800), 0);
    EXPECT_FALSE(fs::exists(folder + "/checkpoint-3.new"));
    struct dt_checkpoint_id other = id;
    other.device = 0;
    EXPECT_FALSE(Read(other));
    EXPECT_NE(std::string(reason).find("another rank, device"), std::string::npos) << reason;
    other.rank = 4;
    EXPECT_FALSE(Read(other));
    EXPECT_NE(std::string(reason).find("No such file"), std::string::npos) << reason;
}

TEST_F(CheckpointFile, IsRefusedWithAnyByteChangedOrMissing)
{
    ASSERT_TRUE(Write()) << reason;
    const std::string path = folder + "/checkpoint-3.12";
    std::ifstream in(path, std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    ASSERT_GT(whole.size(), 800u);
    for (size_t i = 0; i < whole.size(); i++) {
        std::string wrong = whole;
        wrong[i] = static_cast<char>(wrong[i] ^ 0x10);
        std::ofstream(path, std::ios::binary) << wrong;
        EXPECT_FALSE(Read(id)) << "byte " << i;
    }
    for (size_t bytes : {size_t{0}, size_t{20}, whole.size() - 1}) {
        std::ofstream(path, std::ios::binary) << whole.substr(0, bytes);
        EXPECT_FALSE(Read(id)) << bytes;
    }
    std::ofstream(path, std::ios::binary) << whole << 'x';
    EXPECT_FALSE(Read(id));
    EXPECT_NE(std::string(reason).find("its length is wrong"), std::string::npos) << reason;
}

/* The limit on a file's size ends the write in its middle, as a full disk does. */
TEST_F(CheckpointFile, ThatCannotBeWrittenLeavesTheOneBefore)
{
    struct rlimit before, small = {};
    ASSERT_TRUE(Write()) << reason;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = {500, before.rlim_max};
    auto handler = signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    id.iterations = 16;
    bool is_written = Write();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    EXPECT_FALSE(is_written);
    EXPECT_NE(std::string(reason).find("checkpoint-3.new: could not be written: File too large"),
              std::string::npos)
        << reason;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
    id.iterations = 12;
    EXPECT_TRUE(Read(id)) << reason;
}

TEST_F(CheckpointFile, AreListedByIterations)
{
    uint32_t list[DT_CHECKPOINT_LIST_MAX];
    for (const char *name :
         {"checkpoint-3.7", "checkpoint-3.100", "checkpoint-3.20", "checkpoint-30.8", "checkpoint-3.new",
          "checkpoint-3.07", "checkpoint-3.9x", "checkpoint-now", "other"})
        std::ofstream(folder + "/" + name) << "x";
    ASSERT_EQ(dt_checkpoint_list(folder.c_str(), 3, list, reason), 3);
    EXPECT_EQ(list[0], 100u);
    EXPECT_EQ(list[1], 20u);
    EXPECT_EQ(list[2], 7u);
    for (int i = 200; i < 220; i++)
        std::ofstream(folder + "/checkpoint-3." + std::to_string(i)) << "x";
    ASSERT_EQ(dt_checkpoint_list(folder.c_str(), 3, list, reason), DT_CHECKPOINT_LIST_MAX);
    EXPECT_EQ(list[0], 219u);
    EXPECT_EQ(list[DT_CHECKPOINT_LIST_MAX - 1], 212u);
    dt_checkpoint_remove(folder.c_str(), 3, 219);
    EXPECT_FALSE(fs::exists(folder + "/checkpoint-3.219"));
    EXPECT_EQ(dt_checkpoint_list((folder + "/none").c_str(), 3, list, reason), -1);
    EXPECT_TRUE(dt_checkpoint_take_request(folder.c_str()));
    EXPECT_FALSE(dt_checkpoint_take_request(folder.c_str()));
}
