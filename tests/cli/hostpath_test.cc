/* SPDX-License-Identifier: Apache-2.0 */
/* `detour hostpath` against processes of this test: what it sends, and what it makes of the answers. */
#include "cli/hostpath.h"

#include <algorithm>
#include <mutex>

#include "cli/command.h"
#include "tests/cli/served.h"

namespace
{
using detour_test::Served;
using Words = std::vector<std::string>;

class HostpathCommand : public detour_test::CommandTest
{
  protected:
    int Hostpath(Words words)
    {
        words.insert(words.begin(), DT_HOSTPATH_COMMAND);
        return Run(dt_hostpath_command, words);
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

TEST_F(HostpathCommand, SendsTheOrderAndItsScopeToEveryProcess)
{
    Served one(folder.dir, 11, "rank0", "hostpath", Answers(DT_OK, "on: 2 connections"));
    Served two(folder.dir, 12, "rank1", "hostpath", Answers(DT_OK, "on: 1 connections"));
    EXPECT_EQ(DT_EXIT_OK, Hostpath({"on", "peer=nodeB:12", "device=soft0"})) << err;
    EXPECT_EQ((Words{"on peer=nodeB:12 device=soft0", "on peer=nodeB:12 device=soft0"}), lines);
    EXPECT_EQ("11 (rank0): on: 2 connections\n12 (rank1): on: 1 connections\n", out);
    lines.clear();
    EXPECT_EQ(DT_EXIT_OK, Hostpath({"--pid", "12", "auto"})) << err;
    EXPECT_EQ(Words{"auto"}, lines);
}

TEST_F(HostpathCommand, ListsTheModesOfEachProcess)
{
    Served one(folder.dir, 11, "rank0", "hostpath", Answers(DT_OK, "auto 1 4 2"));
    Served two(folder.dir, 12, "rank1", "hostpath", Answers(DT_OK, "none 0 0 0"));
    EXPECT_EQ(DT_EXIT_OK, Hostpath({"list"})) << err;
    EXPECT_EQ("PID      PROCESS              MODE         ON     AUTO      OFF\n"
              "11       rank0                auto          1        4        2\n"
              "12       rank1                none          0        0        0\n",
              out);
}

TEST_F(HostpathCommand, ProcessesWithoutItAreSkippedUnlessItIsAll)
{
    Served one(folder.dir, 11, "rank0", "hostpath", Answers(DT_UNSUPPORTED, "cannot"));
    {
        Served two(folder.dir, 12, "rank1", "hostpath", Answers(DT_OK, "off: 3 connections"));
        EXPECT_EQ(DT_EXIT_OK, Hostpath({"off"}));
        EXPECT_EQ("12 (rank1): off: 3 connections\n", out);
        EXPECT_EQ("", err);
    }
    EXPECT_EQ(DT_EXIT_FAILED, Hostpath({"--pid=11", "off"}));
    EXPECT_EQ("detour hostpath: process 11 (rank0): cannot\n", err);
}

TEST_F(HostpathCommand, WithoutAnyConnectionItFailsAndNamesWhereToLook)
{
    Served one(folder.dir, 11, "rank0", "hostpath", Answers(DT_UNSUPPORTED, "cannot"));
    Served two(folder.dir, 12, "rank1", "hostpath", Answers(DT_NOT_FOUND, "no connection"));
    EXPECT_EQ(DT_EXIT_FAILED, Hostpath({"on", "connection=9"}));
    EXPECT_EQ("", out);
    EXPECT_EQ("detour hostpath: none of 2 processes has memory for the host path (DETOUR_HOSTPATH) and a "
              "connection that matches 'connection=9'; `detour hostpath list` and `detour stat` show them\n",
              err);
}

TEST_F(HostpathCommand, BadInputIsOneLineAndReachesNoProcess)
{
    Served one(folder.dir, 11, "rank0", "hostpath", Answers(DT_OK, ""));
    const struct {
        Words words;
        const char *reply;
    } rows[] = {
        {{}, "no action given; expected on, off, auto or list (see --help)"},
        {{"sometimes"}, "unknown action 'sometimes'; expected on, off, auto or list"},
        {{"list", "peer=a"}, "`list` takes no argument; got 'peer=a'"},
        {{"on", "size=1..2"},
         "line 1, column 1: expected device=, peer=, connection= or id=, got 'size=1..2'"},
        {{"on", "peer=a", "peer=b"}, "line 1, column 8: 'peer' is given twice in one rule"},
        {{"on", std::string(500, 'x')}, "a scope has less than 384 characters"},
    };

    for (const auto &row : rows) {
        EXPECT_EQ(DT_EXIT_USAGE, Hostpath(row.words));
        EXPECT_NE(std::string::npos, err.find(row.reply)) << err;
        EXPECT_EQ(1, std::count(err.begin(), err.end(), '\n')) << err;
    }
    EXPECT_EQ(Words{}, lines);
}
} // namespace
