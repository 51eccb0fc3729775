/* SPDX-License-Identifier: Apache-2.0 */
/* A process as a command finds it: a page and a control socket in a runtime folder, answered by this test. */
#ifndef DETOUR_TESTS_CLI_SERVED_H
#define DETOUR_TESTS_CLI_SERVED_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "obs/page.h"
#include "obs/server.h"
#include "tests/obs/folder.h"

namespace detour_test
{
class Served
{
  public:
    using Answer = std::function<enum dt_status(const std::string &line, std::string *answer)>;

    /* Answers lines "COMMAND ..." with `answer`, which is called on the server's thread. */
    Served(const dt_runtime_dir &dir, int pid, const char *name, const char *command, Answer answer)
        : answer_(std::move(answer))
    {
        char reason[300];
        dt_page_options options = {&dir, pid, name, 0, 0, "", DT_PAGE_RANK_UNKNOWN};
        EXPECT_EQ(DT_OK, dt_page_open(&options, &page_));
        EXPECT_EQ(DT_OK, dt_command_table_create(&table_));
        EXPECT_EQ(DT_OK, dt_command_register(table_, command, Call, this));
        EXPECT_EQ(DT_OK, dt_server_start(&dir, pid, table_, &server_, reason, sizeof reason)) << reason;
    }
    ~Served()
    {
        dt_server_stop(server_);
        dt_command_table_destroy(table_);
        dt_page_close(page_);
    }
    Served(const Served &) = delete;

  private:
    static enum dt_status Call(void *arg, const char *args, char *answer, size_t answer_bytes)
    {
        std::string text;
        enum dt_status status = static_cast<Served *>(arg)->answer_(args, &text);
        snprintf(answer, answer_bytes, "%s", text.c_str());
        return status;
    }

    Answer answer_;
    dt_page *page_ = nullptr;
    dt_command_table *table_ = nullptr;
    dt_server *server_ = nullptr;
};

/* Tests of a command, with a runtime folder of their own. */
class CommandTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        setenv("DETOUR_RUNTIME_DIR", folder.path.c_str(), 1);
    }
    void TearDown() override
    {
        unsetenv("DETOUR_RUNTIME_DIR");
    }

    /* Runs `command NAME words...`; its output is in `out` and `err`. */
    int Run(int (*command)(int, char **), std::vector<std::string> words)
    {
        std::vector<char *> argv;
        for (std::string &word : words)
            argv.push_back(&word[0]);
        argv.push_back(nullptr);
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        int code = command(static_cast<int>(words.size()), argv.data());
        fflush(stdout);
        out = testing::internal::GetCapturedStdout();
        err = testing::internal::GetCapturedStderr();
        return code;
    }

    Folder folder;
    std::string out, err;
};
} // namespace detour_test

#endif
