// SPDX-License-Identifier: Apache-2.0
#include "cli/validate_command.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

namespace
{
constexpr int kRanks = 1024; /* the most of `detour perf` */

/* As `detour perf --pairs -J` writes it when everything is slow: the network and the computing of each rank,
 * and two links of each rank. */
std::string EverythingIsSlow()
{
    std::string text = "{\n \"slow\": [";
    for (int i = 0; i < 4 * kRanks; i++) {
        const int rank = i % kRanks, list = i / kRanks;
        const bool is_link = list > 1;
        const std::string peer = is_link ? std::to_string((rank + list - 1) % kRanks) : "null";
        text += std::string(i ? "," : "") + "\n  {\n   \"kind\": \"" +
                (is_link ? "link"
                 : list  ? "network"
                         : "compute") +
                "\",\n   \"rank\": " + std::to_string(rank) + ",\n   \"peer\": " + peer +
                ",\n   \"factor\": 1.1009999999999999\n  }";
    }
    return text;
}

/* Two links of three ranks. */
class ValidateCommand : public ::testing::Test
{
  protected:
    ValidateCommand()
    {
        char pattern[] = "/tmp/validate-command-XXXXXX";
        EXPECT_NE(mkdtemp(pattern), nullptr);
        folder = pattern;
        setenv("TMPDIR", folder.c_str(), 1);
    }
    ~ValidateCommand() override
    {
        EXPECT_EQ(rmdir(folder.c_str()), 0) << "a file is left";
        unsetenv("TMPDIR");
    }
    bool Start(const std::string &text)
    {
        shell = text;
        command.text = shell.c_str();
        return dt_validate_command_start(&command, &links, report->reason);
    }
    dt_status Wait()
    {
        dt_status status;
        while ((status = dt_validate_command_poll(&command, report.get())) == DT_AGAIN)
            usleep(1000);
        return status;
    }
    dt_status Run(const std::string &text)
    {
        EXPECT_TRUE(Start(text)) << report->reason;
        return Wait();
    }
    dt_status Write(const std::string &json)
    {
        return Run("echo '" + json + "' > $DETOUR_VALIDATION_JSON");
    }

    /* Longer than an argument of a shell may be. */
    dt_status WriteLong(const std::string &json)
    {
        std::string path = folder + "/result.json";
        std::ofstream(path) << json;
        dt_status status = Run("mv " + path + " $DETOUR_VALIDATION_JSON");
        unlink(path.c_str());
        return status;
    }

    const int32_t first[3] = {0, 1, 2};
    const detour_rank_pair pairs[2] = {{0, 1}, {1, 2}};
    const detour_validation links = {3, 2, 2, first, pairs};
    std::unique_ptr<dt_validate_report> report = std::make_unique<dt_validate_report>();
    std::string folder, shell;
    dt_validate_command command = {};
};

TEST_F(ValidateCommand, ItsResultIsTheListOfSlowParts)
{
    ASSERT_EQ(Write("{\"slow\": [{\"kind\": \"link\", \"rank\": 0, \"peer\": 1, \"factor\": 2.5},"
                    "{\"kind\": \"network\", \"rank\": 2, \"peer\": null, \"factor\": 3},"
                    "{\"kind\": \"compute\", \"rank\": 1, \"peer\": null, \"factor\": 1.5}]}"),
              DT_OK)
        << report->reason;
    ASSERT_EQ(report->slow_count, 3u);
    EXPECT_EQ(report->slow[0].kind, DETOUR_SLOW_LINK);
    EXPECT_EQ(report->slow[0].peer, 1);
    EXPECT_EQ(report->slow[0].factor, 2.5);
    EXPECT_EQ(report->slow[1].kind, DETOUR_SLOW_NETWORK);
    EXPECT_EQ(report->slow[1].peer, -1);
    EXPECT_EQ(report->slow[2].kind, DETOUR_SLOW_COMPUTE);
    EXPECT_EQ(report->slow[2].rank, 1);
    EXPECT_EQ(Write("{\"slow\": []}"), DT_OK);
    EXPECT_EQ(report->slow_count, 0u);
}

TEST_F(ValidateCommand, AsManySlowPartsAreReadAsTheLargestValidationHas)
{
    ASSERT_EQ(WriteLong(EverythingIsSlow() + "]}"), DT_OK) << report->reason;
    ASSERT_EQ(report->slow_count, 4u * kRanks);
    EXPECT_EQ(report->slow[kRanks].kind, DETOUR_SLOW_NETWORK);
    EXPECT_EQ(report->slow[4 * kRanks - 1].rank, kRanks - 1);
    EXPECT_EQ(report->slow[4 * kRanks - 1].peer, 1);
}

TEST_F(ValidateCommand, MoreSlowPartsAreRefusedByTheirNumber)
{
    EXPECT_EQ(WriteLong(EverythingIsSlow() + ", {}]}"), DT_INVALID);
    EXPECT_STREQ(report->reason,
                 "everything is slow: the command has named 4097 slow links and ranks, more than 4096");
}

TEST_F(ValidateCommand, ItHasTheLinksAndRanksOfTheJob)
{
    EXPECT_EQ(Run("test \"$DETOUR_VALIDATION_PAIRS $DETOUR_VALIDATION_RANKS\" = '0-1,1-2 3' && "
                  "echo '{\"slow\": []}' > $DETOUR_VALIDATION_JSON"),
              DT_OK)
        << report->reason;
}

TEST_F(ValidateCommand, AFailureNamesItsReason)
{
    EXPECT_EQ(Run("exit 3"), DT_SYSTEM);
    EXPECT_STREQ(report->reason, "the command ended with exit code 3");
    EXPECT_EQ(Run("kill -9 $$"), DT_SYSTEM);
    EXPECT_STREQ(report->reason, "the command was ended by signal 9");
    EXPECT_EQ(Run("no-such-program-of-validations 2>/dev/null"), DT_SYSTEM);
    EXPECT_STREQ(report->reason, "the command ended with exit code 127");
}

TEST_F(ValidateCommand, WhatIsNoResultIsRefused)
{
    for (const std::string &json :
         {std::string(), std::string("[]"), std::string("{\"slow\": 1}"), std::string("{\"slow\": [1]}"),
          std::string("{\"slow\": [{\"kind\": \"star\", \"rank\": 1, \"peer\": null, \"factor\": 2}]}"),
          std::string("{\"slow\": [{\"kind\": \"link\", \"rank\": 1, \"peer\": null, \"factor\": 2}]}"),
          std::string("{\"slow\": [{\"kind\": \"link\", \"rank\": 1, \"peer\": -1, \"factor\": 2}]}"),
          std::string("{\"slow\": [{\"kind\": \"compute\", \"rank\": -1, \"peer\": null, \"factor\": 2}]}"),
          std::string(
              "{\"slow\": [{\"kind\": \"compute\", \"rank\": 99999999999, \"peer\": null, \"factor\": 2}]}"),
          std::string(
              "{\"slow\": [{\"kind\": \"compute\", \"rank\": 1, \"peer\": null, \"factor\": -2}]}")}) {
        EXPECT_EQ(Write(json), DT_INVALID) << json;
        EXPECT_STREQ(
            report->reason,
            "the command has written no result of `detour perf --pairs -J` to $DETOUR_VALIDATION_JSON");
    }
}

TEST_F(ValidateCommand, ItsEndIsThatOfItsChildren)
{
    std::string mark = folder + "/pid";
    ASSERT_TRUE(Start("sleep 600 & echo $! > " + mark + ".new; mv " + mark + ".new " + mark + "; wait"));
    while (access(mark.c_str(), F_OK))
        usleep(1000);
    FILE *file = fopen(mark.c_str(), "r");
    int pid = 0;
    ASSERT_EQ(fscanf(file, "%d", &pid), 1);
    fclose(file);
    unlink(mark.c_str());
    EXPECT_EQ(dt_validate_command_poll(&command, report.get()), DT_AGAIN);
    dt_validate_command_stop(&command);
    EXPECT_EQ(command.child, 0);
    /* SIGKILL was sent; the orphan may still be there for a moment, or be a zombie of init. */
    for (bool is_gone = false; !is_gone; usleep(1000)) {
        std::string path = "/proc/" + std::to_string(pid) + "/cmdline";
        char byte;
        file = fopen(path.c_str(), "r");
        is_gone = !file || fread(&byte, 1, 1, file) == 0;
        if (file)
            fclose(file);
    }
}

TEST_F(ValidateCommand, WithoutAFolderForItsResultItDoesNotStart)
{
    setenv("TMPDIR", "/no-such-folder", 1);
    EXPECT_FALSE(Start("true"));
    EXPECT_STREQ(report->reason, "a file for the result: No such file or directory");
}
} // namespace
