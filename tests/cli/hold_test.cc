/* SPDX-License-Identifier: Apache-2.0 */
/* `detour hold` and `detour release` against processes of this test: what they send, and what they print. */
#include "cli/hold.h"

#include <mutex>

#include "cli/command.h"
#include "tests/cli/served.h"

namespace
{
using detour_test::Served;
using Words = std::vector<std::string>;

class HoldCommand : public detour_test::CommandTest
{
  protected:
    int Hold(Words words)
    {
        words.insert(words.begin(), DT_HOLD_COMMAND);
        return Run(dt_hold_command, words);
    }
    int Release(Words words)
    {
        words.insert(words.begin(), DT_RELEASE_COMMAND);
        return Run(dt_release_command, words);
    }
    Served::Answer Answers(enum dt_status status, const char *text)
    {
        return [this, status, text](const std::string &line, std::string *answer) {
            std::lock_guard<std::mutex> lock(mutex);
            lines.push_back(line);
            *answer = text;
            return status;
        };
    }

    std::mutex mutex;
    Words lines;
};

TEST_F(HoldCommand, SendsTheScopeAndTheTimeToEveryProcess)
{
    Served one(folder.dir, 11, "rank0", "hold", Answers(DT_OK, "held"));
    Served two(folder.dir, 12, "rank1", "hold", Answers(DT_OK, "held"));
    EXPECT_EQ(DT_EXIT_OK, Hold({"device=soft0", "--for=30s", "peer=nodeB:"})) << err;
    EXPECT_EQ((Words{"device=soft0 peer=nodeB: for=30s", "device=soft0 peer=nodeB: for=30s"}), lines);
    EXPECT_EQ("11 (rank0): held\n12 (rank1): held\n", out);
    lines.clear();
    EXPECT_EQ(DT_EXIT_OK, Hold({"--pid", "12", "--for", "5ms"})) << err;
    EXPECT_EQ(Words{"for=5ms"}, lines);
}

TEST_F(HoldCommand, ListsTheHoldsOfEachProcess)
{
    Served one(folder.dir, 11, "rank0", "hold", [](const std::string &line, std::string *answer) {
        *answer = line == "list" ? "3 8" : line == "show 3" ? "1500000000 42 for=5s" : "no hold 8";
        return line == "show 8" ? DT_NOT_FOUND : DT_OK; /* it has ended since */
    });
    EXPECT_EQ(DT_EXIT_OK, Hold({"--list"})) << err;
    EXPECT_EQ("PID      PROCESS                LEFT(s)   MESSAGES  HOLD\n"
              "11       rank0                    1.500         42  for=5s\n",
              out);
}

TEST_F(HoldCommand, RefusesBadInputBeforeItAsksAProcess)
{
    Served one(folder.dir, 11, "rank0", "hold", Answers(DT_OK, "held"));
    const struct {
        Words words;
        const char *error;
    } rows[] = {{{}, "--for is missing: how long, for example --for=30s"},
                {{"device=soft0"}, "--for is missing"},
                {{"--for=0s"}, "for= must be above 0"},
                {{"--for=11min"}, "a hold lasts at most 10min"},
                {{"--for=30"}, "expected a time with a unit"},
                {{"--for=" + std::string(500, '1')}, "expected a time like 30s"},
                {{"--for=1s latency=3ms"}, "expected device=, peer=, connection=, id= or for="},
                {{"size=4K..", "--for=1s"}, "expected device=, peer=, connection=, id= or for="},
                {{"--for=1s", std::string(400, 'x')}, "a scope has less than 384 characters"},
                {{"--list", "device=soft0"}, "--list takes no scope and no --for"}};
    for (const auto &row : rows) {
        EXPECT_EQ(DT_EXIT_USAGE, Hold(row.words)) << row.error;
        EXPECT_EQ(0u, err.find("detour hold: ")) << err;
        EXPECT_NE(std::string::npos, err.find(row.error)) << err;
    }
    EXPECT_EQ(DT_EXIT_USAGE, Release({"for=1s"}));
    EXPECT_NE(std::string::npos, err.find("expected device=, peer=, connection= or id=")) << err;
    EXPECT_TRUE(lines.empty());
}

TEST_F(HoldCommand, ReleaseFailsWhereNothingIsHeld)
{
    Served one(folder.dir, 11, "rank0", "release", Answers(DT_OK, "released 1 hold"));
    Served two(folder.dir, 12, "rank1", "release", Answers(DT_NOT_FOUND, "nothing is held"));
    EXPECT_EQ(DT_EXIT_OK, Release({"device=soft0"})) << err;
    EXPECT_EQ((Words{"device=soft0", "device=soft0"}), lines);
    EXPECT_EQ("11 (rank0): released 1 hold\n", out);
    EXPECT_EQ(DT_EXIT_FAILED, Release({"--pid=12"}));
    EXPECT_EQ("detour release: process 12 (rank1): nothing is held\n", err);
}
} // namespace
