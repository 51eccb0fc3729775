// SPDX-License-Identifier: Apache-2.0
// Checkpoints of `detour pipeline`: parameters after a restart are, byte for byte, those of a run without
// one.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "controller/execute.h"
#include "detour/mitigate.h"
#include "tests/process/command.h"
#include "tests/process/remedy_file.h"

using detour_test::Await;
using detour_test::Command;
using detour_test::LineCount;
using detour_test::Outcome;
using detour_test::RunDetour;
using detour_test::WriteRemedy;

namespace fs = std::filesystem;

namespace
{
using Words = std::vector<std::string>;

class PipelineCheckpoint : public ::testing::Test
{
  protected:
    PipelineCheckpoint()
    {
        folder = (fs::temp_directory_path() / "detour-checkpoint-XXXXXX").string();
        EXPECT_NE(mkdtemp(folder.data()), nullptr);
        for (const char *name : {"/plain", "/job"})
            fs::create_directory(folder + name);
    }

    ~PipelineCheckpoint() override
    {
        fs::remove_all(folder);
    }

    /* Four ranks, with the files in that folder. */
    Words Job(const std::string &where, Words more) const
    {
        Words words = {"pipeline",    "--devices", "2",     "--dp",        "2",    "--microbatches",
                       "4",           "--times",   "1,1,1", "--gradients", "256K", "--checkpoint",
                       folder + where};
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }

    std::string Content(const std::string &name) const
    {
        std::ifstream file(folder + name, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }

    /* The files of these iterations, and no others, are the same in both folders. */
    void ExpectSame(const std::string &iterations) const
    {
        for (const char *rank : {"0", "1", "2", "3"}) {
            const std::string name = std::string("/checkpoint-") + rank + "." + iterations;
            EXPECT_GT(Content("/plain" + name).size(), 256u * 1024) << name;
            EXPECT_TRUE(Content("/plain" + name) == Content("/job" + name)) << name;
        }
        EXPECT_EQ(std::distance(fs::directory_iterator(folder + "/job"), fs::directory_iterator()), 4);
    }

    /* The most iterations of a file of the job; 0: there is none. */
    unsigned long Newest() const
    {
        unsigned long newest = 0;
        for (const auto &entry : fs::directory_iterator(folder + "/job")) {
            const std::string name = entry.path().filename();
            newest = std::max(newest, strtoul(name.substr(name.find('.') + 1).c_str(), nullptr, 10));
        }
        return newest;
    }

    void ExpectRefused(const Words &words, const std::string &line) const
    {
        Outcome outcome = RunDetour(words);
        EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
        EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
        EXPECT_NE(outcome.err.find(line), std::string::npos) << outcome.err;
    }

    std::string folder;
};

/* As the agent of the host does. */
void ExecuteRestart(const std::string &runtime)
{
    auto decision = std::make_unique<dt_decision>();
    char text[DT_RECORD_TEXT_BYTES];

    decision->number = decision->fence = 1;
    decision->kind = DT_DECISION_REMEDY;
    decision->from_rank = decision->to_rank = -1;
    decision->step = DETOUR_STEP_S4;
    decision->replica_count = 2;
    decision->node_count = 4;
    for (int i = 0; i < 4; i++) {
        decision->nodes[i] = i;
        decision->counts[i] = 4;
    }
    strcpy(decision->reason, "S4: a test");
    EXPECT_EQ(dt_execute(runtime.c_str(), decision.get(), text), DT_OK) << text;
}
} // namespace

TEST_F(PipelineCheckpoint, ARestartChangesNoParameter)
{
    Outcome outcome = RunDetour(Job("/plain", {"-n", "6", "--every", "6"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("1 checkpoints, 0 of them early; 0 failed"), std::string::npos) << outcome.out;
    /* The iterations behind the last checkpoint are lost, and executed again. */
    outcome = RunDetour(Job("/job", {"-n", "3", "--every", "2", "--resume"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    outcome = RunDetour(Job("/job", {"-n", "6", "--every", "2", "--resume"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("# continued from the checkpoint after iteration 1\n"), std::string::npos)
        << outcome.out;
    EXPECT_NE(outcome.out.find("4 iterations: mean"), std::string::npos) << outcome.out;
    ExpectSame("6");
    ExpectRefused(Job("/job", {"-n", "6", "--resume"}), "nothing is left of --iterations 6");
    ExpectRefused(Job("/job", {"-n", "8"}), "there are checkpoints of an earlier run");
    ExpectRefused(Job("/none", {}), "No such file or directory");
}

/* A rank is killed while the job runs; what it was writing does not count. */
TEST_F(PipelineCheckpoint, AKilledJobContinues)
{
    Command job(Job("/job", {"-n", "1000000", "--every", "1"}));
    ASSERT_TRUE(Await([&] { return Newest() >= 3; }));
    std::vector<pid_t> ranks = job.Children();
    ASSERT_FALSE(ranks.empty());
    kill(ranks.back(), SIGKILL);
    EXPECT_EQ(job.Wait().exit_code, 1);
    std::ofstream(folder + "/job/checkpoint-2.new") << "half";
    Outcome outcome = RunDetour(Job("/job", {"--resume", "--plugin", "/none"}));
    EXPECT_NE(outcome.exit_code, 0); /* a start that fails costs no checkpoint */
    const std::string end = std::to_string(Newest() + 2);
    outcome = RunDetour(Job("/job", {"-n", end, "--every", end, "--resume"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("# continued from the checkpoint after iteration "), std::string::npos);
    ASSERT_EQ(RunDetour(Job("/plain", {"-n", end, "--every", end})).exit_code, 0);
    ExpectSame(end);
}

/* SHIFT: the event of the failed path runs the hook, and traffic goes on over the backup. */
TEST_F(PipelineCheckpoint, AFailedPathMakesAnEarlyOne)
{
    Command job(Job("/job", {"-n", "1000000", "--kill", "first@iteration=2"}),
                {{"DETOUR_EVENT_COMMAND", "touch '" + folder + "/job/checkpoint-now'"}});
    std::string written;
    EXPECT_TRUE(Await([&] {
        written += job.Written();
        size_t at = written.find("  checkpoint early: ");
        return !job.IsRunning() || (at != std::string::npos && written.find("\n", at) + 1 < written.size());
    })) << written;
    EXPECT_NE(written.find("  checkpoint early: "), std::string::npos) << written;
    EXPECT_TRUE(job.IsRunning()) << "iterations follow";
    EXPECT_GE(Newest(), 3u);
    kill(job.Pid(), SIGINT);
    job.Wait();
}

TEST_F(PipelineCheckpoint, AFileThatCannotBeWrittenCostsNoIteration)
{
    fs::create_directory(folder + "/job/checkpoint-1.new"); /* in its place, for one rank */
    Outcome outcome = RunDetour(Job("/job", {"-n", "3", "--every", "2"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
    EXPECT_NE(outcome.err.find("no checkpoint after iteration 1: rank 1: "), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.out.find("1 failed"), std::string::npos) << outcome.out;
    EXPECT_FALSE(fs::exists(folder + "/job/checkpoint-0.2"));
}

TEST_F(PipelineCheckpoint, ADamagedOneIsNamed)
{
    ASSERT_EQ(RunDetour(Job("/job", {"-n", "2", "--every", "2"})).exit_code, 0);
    std::ofstream(folder + "/job/checkpoint-3.2") << "something else";
    ExpectRefused(Job("/job", {"-n", "4", "--resume"}), "rank 3: ");
    fs::remove(folder + "/job/checkpoint-3.2");
    ExpectRefused(Job("/job", {"-n", "4", "--resume"}), "rank 3: it has none");
}

/*
 * The controller's S4 is an event, ends the run with a checkpoint and an exit code of its own, and the
 * launcher starts it again: it goes on, and S4 is not taken again. A restart for another reason takes the S2
 * that is in force. No parameter differs from that of a run without all this.
 */
TEST_F(PipelineCheckpoint, ARestartOfTheControllerGoesOnAndKeepsWhatIsInForce)
{
    const std::string runtime = folder + "/runtime";
    const std::vector<std::pair<std::string, std::string>> environment = {{"DETOUR_RUNTIME_DIR", runtime}};
    const Words followed = {"--adapt", "control", "--resume", "-n"};
    auto job = [&](const std::string &end, Words more = {}) {
        Words words = followed;
        words.push_back(end);
        words.insert(words.end(), more.begin(), more.end());
        return Job("/job", words);
    };

    fs::create_directory(runtime);
    fs::permissions(runtime, fs::perms::owner_all);
    auto hooked = environment;
    hooked.emplace_back("DETOUR_EVENT_KINDS", "remedy");
    hooked.emplace_back("DETOUR_EVENT_COMMAND", "echo $DETOUR_EVENT_STEP >> '" + folder + "/hook'");
    Command first(job("1000000"), hooked);
    ASSERT_TRUE(Await([&] { return first.Written().find("\n     ") != std::string::npos; }));
    ExecuteRestart(runtime);
    Outcome outcome = first.Wait();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.err;
    EXPECT_TRUE(Await([&] { return Content("/hook") == "S4\nS4\nS4\nS4\n"; })) << Content("/hook");
    EXPECT_NE(outcome.out.find("remedy S4"), std::string::npos) << outcome.out;
    ASSERT_GT(Newest(), 0u);

    std::string end = std::to_string(Newest() + 4);
    outcome = RunDetour(job(end, {"--every", end}), environment);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("# continued from the checkpoint after iteration "), std::string::npos)
        << outcome.out;
    EXPECT_EQ(outcome.out.find("remedy"), std::string::npos) << outcome.out;

    WriteRemedy(runtime, 2, 1, "[1,7]", "[0,1,2,3]");
    end = std::to_string(Newest() + 4);
    outcome = RunDetour(job(end, {"--every", end}), environment);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("remedy S2"), std::string::npos) << outcome.out;
    ASSERT_EQ(RunDetour(Job("/plain", {"-n", end, "--every", end})).exit_code, 0);
    ExpectSame(end);
}
