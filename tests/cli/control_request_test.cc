// SPDX-License-Identifier: Apache-2.0
/* The command lines of `detour control hold` and `release`; scripts/control_loop.py has hosts that answer. */
#include "cli/control_request.h"

#include <signal.h>

#include "cli/command.h"
#include "cli/control.h"
#include "tests/cli/served.h"

namespace
{
using Words = std::vector<std::string>;

class ControlRequest : public detour_test::CommandTest
{
  protected:
    int Control(Words words)
    {
        sigset_t before;
        words.insert(words.begin(), "detour control");
        pthread_sigmask(SIG_BLOCK, nullptr, &before);
        int code = Run(dt_control_command, words); /* blocks the signals that end it */
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        return code;
    }
};

TEST_F(ControlRequest, BadInputIsOneLine)
{
    const struct {
        Words words;
        const char *line;
    } cases[] = {
        {{"hold"}, "detour control: --redis URL is missing; on one machine, use `detour hold`\n"},
        {{"release"}, "detour control: --redis URL is missing; on one machine, use `detour release`\n"},
        {{"hold", "--redis", "redis://h"},
         "detour control: --for is missing: how long, for example --for=30s\n"},
        {{"hold", "--redis", "redis://h", "--for", "20us"},
         "detour control: --for=20us: expected at least 1ms\n"},
        {{"hold", "--redis", "redis://h", "--for", "30x"},
         "detour control: --for=30x: line 1, column 5: expected a time with a unit (ns, us, ms, s, min, h) "
         "of at "
         "most 1000000s, like 30ms, got '30x'\n"},
        {{"release", "--redis", "redis://h", "--for", "2s"}, "detour control: release takes no --for\n"},
        {{"hold", "more"}, "detour control: unexpected argument 'more'\n"},
        {{"release", "--redis", "redis://h", "--reason", "a\nb"},
         "detour control: --reason: expected printable ASCII characters\n"},
        {{"release", "--redis", "redis://h", "--host", std::string(64, 'x')},
         "detour control: --host xxxxxxxxxxxxxxxxxxxx...: expected less than 64 characters\n"},
        {{"release", "--redis", "http://h"},
         "detour control: the URL of the store: expected redis[s]://[USER:PASSWORD@]HOST[:PORT][/DB]\n"},
    };

    for (const auto &one : cases) {
        EXPECT_EQ(Control(one.words), DT_EXIT_USAGE) << one.line;
        EXPECT_EQ(err, one.line);
    }
    EXPECT_EQ(Control({"hold", "--redis", "redis://h", "--for", "11min"}), DT_EXIT_USAGE);
    EXPECT_NE(err.find("a hold lasts at most 10min"), std::string::npos) << err;
}

/* A store of this process alone, without a controller. */
TEST_F(ControlRequest, WithoutAControllerItFails)
{
    EXPECT_EQ(Control({"hold", "--redis", "memory:", "--for", "2s", "--timeout", "1", "--job", "j"}),
              DT_EXIT_FAILED);
    EXPECT_EQ(err, "detour control: no controller of job j has taken the request within 1 s\n");
}
} // namespace
