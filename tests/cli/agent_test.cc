// SPDX-License-Identifier: Apache-2.0
/* The command lines of `detour agent`; its work is tests/controller/agent_test.cc. */
#include "cli/command.h"
#include "cli/control.h"
#include "tests/cli/served.h"

namespace
{
using Words = std::vector<std::string>;

class AgentCommand : public detour_test::CommandTest
{
  protected:
    int Agent(Words words)
    {
        words.insert(words.begin(), "detour agent");
        return Run(dt_agent_command, words);
    }
};

TEST_F(AgentCommand, BadInputIsOneLine)
{
    const struct {
        Words words;
        const char *line;
    } cases[] = {
        {{}, "detour agent: --redis URL is missing; on one machine, `detour control` needs no agent\n"},
        {{"--redis", "redis://h", "--host", "a:b"},
         "detour agent: --host a:b: expected letters, digits, '-', '_' and '.', at most 63\n"},
        {{"--redis", "redis://h", "--job", ""},
         "detour agent: the name of the job: expected letters, digits, '-', '_' and '.', at most 63\n"},
        {{"--redis", "http://h"},
         "detour agent: the URL of the store: expected redis[s]://[USER:PASSWORD@]HOST[:PORT][/DB]\n"},
        {{"--redis", "redis://h", "--listen", "host:1"},
         "detour agent: --listen host:1: expected PORT or an IPv4 ADDRESS:PORT\n"},
        {{"--period", "0"}, "detour agent: --period 0: expected a whole number from 10 to 60000\n"},
    };

    for (const auto &one : cases) {
        EXPECT_EQ(Agent(one.words), DT_EXIT_USAGE) << one.line;
        EXPECT_EQ(err, one.line);
    }
}
} // namespace
