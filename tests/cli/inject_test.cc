/* SPDX-License-Identifier: Apache-2.0 */
/* `detour inject` against a process of this test: what it sends, and what it makes of the answers. */
#include "cli/inject.h"

#include <fstream>
#include <mutex>

#include "cli/command.h"
#include "tests/cli/served.h"

namespace
{
using detour_test::Served;
using Words = std::vector<std::string>;

class InjectCommand : public detour_test::CommandTest
{
  protected:
    int Inject(Words words)
    {
        words.insert(words.begin(), DT_INJECT_COMMAND);
        return Run(dt_inject_command, words);
    }

    /* Keeps the lines, answers rules with a number, and lists one rule. */
    enum dt_status Answer(const std::string &line, std::string *answer)
    {
        std::lock_guard<std::mutex> lock(mutex);
        lines.push_back(line);
        if (line.rfind("add", 0) == 0)
            *answer = "7 latency=30ms";
        return status;
    }

    Served::Answer Answerer()
    {
        return [this](const std::string &line, std::string *answer) { return Answer(line, answer); };
    }

    std::mutex mutex;
    Words lines;
    enum dt_status status = DT_OK;
};

TEST_F(InjectCommand, AddSendsTheRuleToEveryProcess)
{
    Served one(folder.dir, 11, "rank0", "inject", Answerer()),
        two(folder.dir, 12, "rank1", "inject", Answerer());
    EXPECT_EQ(Inject({"add", "device=soft0", "latency=30ms"}), DT_EXIT_OK) << err;
    EXPECT_EQ(lines, (Words{"add device=\"soft0\" latency=30ms", "add device=\"soft0\" latency=30ms"}));
    EXPECT_NE(out.find("rule 7"), std::string::npos) << out;
    lines.clear();
    EXPECT_EQ(Inject({"--pid", "12", "clear"}), DT_EXIT_OK) << err;
    EXPECT_EQ(lines, Words{"clear"});
}

TEST_F(InjectCommand, ARuleThatIsWrongReachesNoProcess)
{
    Served one(folder.dir, 11, "rank0", "inject", Answerer());
    EXPECT_EQ(Inject({"add", "latency=1ms", "every=1us"}), DT_EXIT_USAGE);
    EXPECT_NE(err.find("line 1, column 19: every= must be at least 1ms"), std::string::npos) << err;
    EXPECT_EQ(Inject({"remove", "x"}), DT_EXIT_USAGE);
    EXPECT_EQ(Inject({"delete"}), DT_EXIT_USAGE);
    EXPECT_EQ(Inject({}), DT_EXIT_USAGE);
    EXPECT_TRUE(lines.empty());
}

TEST_F(InjectCommand, AProcessThatRefusesIsAFailure)
{
    Served one(folder.dir, 11, "rank0", "inject", Answerer());
    status = DT_INVALID;
    EXPECT_EQ(Inject({"clear"}), DT_EXIT_FAILED);
    EXPECT_NE(err.find("11"), std::string::npos) << err;
}

/* ---- record ---- */

TEST_F(InjectCommand, RecordPollsFromWhereItGotTo)
{
    Words answers = {"0;a;b", "2;c", "3"};
    Served one(folder.dir, 11, "rank0", "inject", [&](const std::string &line, std::string *answer) {
        std::lock_guard<std::mutex> lock(mutex);
        lines.push_back(line);
        *answer = lines.size() <= answers.size() ? answers[lines.size() - 1] : answers.back();
        return DT_OK;
    });
    EXPECT_EQ(Inject({"record", "-", "--for", "0"}), DT_EXIT_OK) << err;
    EXPECT_EQ(lines, (Words{"record 0", "record 2", "record 3"}));
    EXPECT_NE(out.find("\n0,11,a\n0,11,b\n0,11,c\n"), std::string::npos) << out;
    EXPECT_NE(err.find("3 late messages of 1 processes"), std::string::npos) << err;
}

TEST_F(InjectCommand, RecordReportsRowsThatWereOverwritten)
{
    Served one(folder.dir, 11, "rank0", "inject", [](const std::string &line, std::string *answer) {
        *answer = line == "record 0" ? "5;a" : "6";
        return DT_OK;
    });
    struct dt_processes processes = {};
    struct dt_process_choice choice = {DT_INJECT_COMMAND, 0};
    struct dt_inject_request request = {};
    std::string path = folder.path + "/rows.csv";
    ASSERT_EQ(dt_processes_open(&choice, &processes), DT_EXIT_OK);
    request.words[0] = path.c_str();
    request.word_count = 1;
    request.is_bounded = true;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    int code = dt_inject_record(&processes, &request);
    testing::internal::GetCapturedStdout();
    err = testing::internal::GetCapturedStderr();
    dt_processes_close(&processes);
    EXPECT_NE(err.find("5 messages were overwritten before they could be fetched"), std::string::npos) << err;
    EXPECT_EQ(code, DT_EXIT_FAILED);
    std::ifstream file(path);
    std::string rows((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_NE(rows.find("\n0,11,a\n"), std::string::npos) << rows;
}
} // namespace
