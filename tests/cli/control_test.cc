// SPDX-License-Identifier: Apache-2.0
/* The command lines of `detour control`, and one short life; scripts/control_loop.py has a job. */
#include "cli/control.h"

#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "cli/command.h"
#include "tests/cli/served.h"

namespace
{
using Words = std::vector<std::string>;

class ControlCommand : public detour_test::CommandTest
{
  protected:
    int Control(Words words)
    {
        words.insert(words.begin(), "detour control");
        return Run(dt_control_command, words);
    }
};

TEST_F(ControlCommand, BadInputIsOneLine)
{
    const struct {
        Words words;
        const char *line;
    } cases[] = {
        {{"--host", "a"}, "detour control: --host a: expected NAME=DIRECTORY\n"},
        {{"--host", "a="}, "detour control: --host a=: expected NAME=DIRECTORY\n"},
        {{"--host", "a b=/x"},
         "detour control: --host a b=/x: the name has letters, digits, '-', '_' and '.'\n"},
        {{"--host", "a=/x", "--host", "a=/y"}, "detour control: --host a=/y: this name is given twice\n"},
        {{"--do", "replan,reboot"},
         "detour control: --do replan,reboot: expected replan, hostpath or migrate, joined by commas, or "
         "none\n"},
        {{"--do", ""},
         "detour control: --do '': expected replan, hostpath or migrate, joined by commas, or none\n"},
        {{"--redis", "redis://h", "--host", "a=/x"},
         "detour control: --host is for use without --redis; with it, run `detour agent` on the host\n"},
        {{"--job", "a b"},
         "detour control: the name of the job: expected letters, digits, '-', '_' and '.', at most 63\n"},
        {{"--recheck", "0"}, "detour control: --recheck 0: expected a whole number from 1 to 86400\n"},
        {{"--validate", ""}, "detour control: --validate '': expected a shell command\n"},
        {{"--validate", "true"},
         "detour control: --validate needs --cluster: a validation precedes a remedy\n"},
        {{"--cluster", "/nonexistent"},
         "detour control: --cluster /nonexistent: No such file or directory\n"},
        {{"--cluster", "/dev/null"},
         "detour control: --cluster: /dev/null: line 1, column 0: '[' or '{' expected near end of file\n"},
        {{"--listen", "0"}, "detour control: --listen 0: expected PORT or an IPv4 ADDRESS:PORT\n"},
        {{"more"}, "detour control: unexpected argument 'more'\n"},
    };

    for (const auto &one : cases) {
        EXPECT_EQ(Control(one.words), DT_EXIT_USAGE) << one.line;
        EXPECT_EQ(err, one.line);
    }
}

/* The signal is blocked by the command and pending before its first wait. */
TEST_F(ControlCommand, EndsBetweenTwoRoundsWhenItIsInterrupted)
{
    sigset_t signals, before;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    raise(SIGTERM);
    EXPECT_EQ(Control({"--host", "a=" + folder.path, "--dry-run"}), DT_EXIT_OK) << err;
    EXPECT_NE(out.find("dry run: decisions are printed and not carried out"), std::string::npos) << out;
    EXPECT_EQ(err, "");
    raise(SIGTERM);
    std::string path = folder.path + "/job.prom", text;
    EXPECT_EQ(Control({"--host", "a=" + folder.path, "--job", "j", "--textfile", path}), DT_EXIT_OK) << err;
    EXPECT_NE(out.find("this is the controller of the job now"), std::string::npos) << out;
    std::ifstream file(path);
    text.assign(std::istreambuf_iterator<char>(file), {});
    EXPECT_NE(text.find("\ndetour_job_has_lease{job=\"j\"} 1\n"), std::string::npos) << text;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}
} // namespace
