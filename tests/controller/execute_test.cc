// SPDX-License-Identifier: Apache-2.0
/* Decisions against processes of this test. */
#include "controller/execute.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>

#include "tests/cli/served.h"

namespace
{
using detour_test::Served;

class Execute : public ::testing::Test
{
  protected:
    static dt_decision Of(dt_decision_kind kind)
    {
        dt_decision decision = {};

        decision.kind = kind;
        decision.number = decision.fence = 1;
        decision.connection = 0xab12;
        strcpy(decision.nic, "mlx5_1");
        decision.hold_ns = 2500000000;
        return decision;
    }
    Served::Answer Answers(enum dt_status status, const char *reply)
    {
        return [this, status, reply](const std::string &line, std::string *answer) {
            std::lock_guard<std::mutex> lock(mutex);
            lines.push_back(line);
            *answer = reply;
            return status;
        };
    }
    enum dt_status Run(const dt_decision &decision)
    {
        return dt_execute(folder.path.c_str(), &decision, text);
    }

    Folder folder;
    std::mutex mutex;
    std::vector<std::string> lines;
    char text[DT_RECORD_TEXT_BYTES] = "";
};

TEST_F(Execute, EachKindHasItsCommandLine)
{
    const struct {
        dt_decision_kind kind;
        const char *line;
    } kinds[] = {
        {DT_DECISION_HOSTPATH_ON, "hostpath on id=000000000000ab12"},
        {DT_DECISION_HOSTPATH_OFF, "hostpath off id=000000000000ab12"},
        {DT_DECISION_MIGRATE, "nic mlx5_1 migrate id=000000000000ab12"},
        {DT_DECISION_BACK, "nic mlx5_1 back id=000000000000ab12"},
        {DT_DECISION_HOLD, "hold id=000000000000ab12 for=2500ms"},
        {DT_DECISION_RELEASE, "release id=000000000000ab12"},
    };
    char line[DT_EXECUTE_LINE_BYTES];

    for (const auto &one : kinds) {
        dt_decision decision = Of(one.kind);
        EXPECT_TRUE(dt_execute_line(&decision, line));
        EXPECT_STREQ(line, one.line);
        decision.connection = 0;
        decision.nic[0] = '\0';
        if (one.kind == DT_DECISION_HOLD || one.kind == DT_DECISION_RELEASE)
            continue;
        EXPECT_FALSE(dt_execute_line(&decision, line)) << one.line;
        EXPECT_EQ(Run(decision), DT_INVALID);
    }
    dt_decision all = Of(DT_DECISION_HOLD); /* of every connection */
    all.connection = 0;
    EXPECT_TRUE(dt_execute_line(&all, line));
    EXPECT_STREQ(line, "hold for=2500ms");
    all.hold_ns = 0;
    EXPECT_FALSE(dt_execute_line(&all, line));
    all.kind = DT_DECISION_RELEASE;
    EXPECT_TRUE(dt_execute_line(&all, line));
    EXPECT_STREQ(line, "release");
    dt_decision replan = Of(DT_DECISION_REPLAN);
    EXPECT_FALSE(dt_execute_line(&replan, line));
}

TEST_F(Execute, TheProcessWithTheConnectionExecutesIt)
{
    Served other(folder.dir, 11, "rank0", "hostpath", Answers(DT_NOT_FOUND, "no such connection"));
    Served owner(folder.dir, 12, "rank1", "hostpath", Answers(DT_OK, "on: 1 connections"));

    EXPECT_EQ(Run(Of(DT_DECISION_HOSTPATH_ON)), DT_OK);
    EXPECT_EQ(lines, std::vector<std::string>(2, "on id=000000000000ab12"));
    EXPECT_STREQ(text, "process 12: `hostpath on id=000000000000ab12`: on: 1 connections");
}

TEST_F(Execute, AFailureIsReportedWithItsProcess)
{
    Served one(folder.dir, 11, "rank0", "hostpath", Answers(DT_UNSUPPORTED, "no memory was set aside"));

    EXPECT_EQ(Run(Of(DT_DECISION_HOSTPATH_ON)), DT_UNSUPPORTED);
    EXPECT_STREQ(text, "process 11: `hostpath on id=000000000000ab12`: no memory was set aside");
    EXPECT_EQ(Run(Of(DT_DECISION_MIGRATE)), DT_NOT_FOUND); /* it has no such command, nor the device */
}

TEST_F(Execute, AHostWithoutProcessesIsNamed)
{
    EXPECT_EQ(Run(Of(DT_DECISION_MIGRATE)), DT_NOT_FOUND);
    EXPECT_STREQ(text, "no process of this host has such a connection, RNIC or hold");
    dt_decision decision = Of(DT_DECISION_MIGRATE);
    EXPECT_EQ(dt_execute((folder.path + "/missing").c_str(), &decision, text), DT_NOT_FOUND);
}

/* A connection ends with its job, and an RNIC leaves with its last process: nothing is left to undo. */
TEST_F(Execute, TheEndOfAMeasureWhoseConnectionHasEndedSucceeds)
{
    Served process(folder.dir, 10, "rank0", "hostpath", Answers(DT_NOT_FOUND, "no such connection"));

    EXPECT_EQ(Run(Of(DT_DECISION_HOSTPATH_ON)), DT_NOT_FOUND);
    for (dt_decision_kind kind : {DT_DECISION_HOSTPATH_OFF, DT_DECISION_BACK}) {
        EXPECT_EQ(Run(Of(kind)), DT_OK);
        EXPECT_STREQ(text, "no process of this host has the connection or RNIC any more");
    }
}

TEST_F(Execute, AReplanIsOneWholeFile)
{
    dt_decision decision = Of(DT_DECISION_REPLAN), read = {};
    char reason[DT_RECORD_REASON_BYTES];
    struct stat status;

    decision.link_count = 1;
    decision.links[0] = {2, 3, 20000000};
    ASSERT_EQ(Run(decision), DT_OK) << text;
    std::ifstream file(folder.path + "/" DT_DECISION_FILE);
    std::stringstream content;
    content << file.rdbuf();
    ASSERT_EQ(dt_decision_read(content.str().data(), content.str().size(), &read, reason), DT_OK) << reason;
    EXPECT_EQ(memcmp(&read, &decision, sizeof read), 0);
    ASSERT_EQ(stat((folder.path + "/" DT_DECISION_FILE).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    EXPECT_EQ(folder.Count(), 1u); /* nothing temporary is left */
}

/* The processes have the event before the file is there, also behind a process that does not know it. */
TEST_F(Execute, ARemedyIsAnEventOfEveryProcessAndThenAFile)
{
    bool is_first = true;
    auto note = [&](const std::string &line, std::string *answer) {
        is_first = is_first && access((folder.path + "/" DT_REMEDY_FILE).c_str(), F_OK) != 0;
        return Answers(DT_OK, "noted")(line, answer);
    };
    Served old(folder.dir, 11, "rank0", "hold", Answers(DT_OK, "held"));
    Served broken(folder.dir, 12, "rank1", "remedy", Answers(DT_INVALID, "what is that?"));
    Served one(folder.dir, 13, "rank2", "remedy", note), two(folder.dir, 14, "rank3", "remedy", note);
    dt_decision decision = Of(DT_DECISION_REMEDY);

    decision.step = 3;
    decision.replica_count = decision.node_count = 2;
    decision.counts[0] = decision.counts[1] = 4;
    decision.nodes[1] = 1;
    strcpy(decision.reason, "S4: 1 slow ranks");
    EXPECT_EQ(Run(decision), DT_OK) << text;
    EXPECT_EQ(lines, std::vector<std::string>(3, "S4: 1 slow ranks"));
    EXPECT_TRUE(is_first);
    EXPECT_STREQ(text, "written; no event in process 12: `remedy S4: 1 slow ranks`: what is that?");
    EXPECT_EQ(access((folder.path + "/" DT_REMEDY_FILE).c_str(), F_OK), 0);
    strcpy(decision.reason, std::string(DT_RECORD_TEXT_BYTES - 1, 'x').c_str());
    EXPECT_EQ(Run(decision), DT_OK) << text;
    EXPECT_EQ(lines.back(), "S4: " + std::string(DT_RECORD_TEXT_BYTES - 1, 'x'));
}

TEST_F(Execute, AReplanThatCannotBeWrittenIsAFailure)
{
    ASSERT_EQ(mkdir((folder.path + "/" DT_DECISION_FILE).c_str(), 0700), 0);
    EXPECT_EQ(Run(Of(DT_DECISION_REPLAN)), DT_SYSTEM);
    EXPECT_NE(strstr(text, DT_DECISION_FILE ": rename: "), nullptr) << text;
}
} // namespace
