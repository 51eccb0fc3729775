// SPDX-License-Identifier: Apache-2.0
/* `detour control` and `detour agent` as processes. */
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/harness/free_address.h"
#include "tests/process/command.h"

namespace
{
using detour_test::Await;
using detour_test::Command;

std::string File(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);

    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ControlProcess, NoOtherUserCanReadThePassword)
{
    const std::string address = detour_test::FreeAddress(); /* where no server listens */
    Command agent({"agent", "--redis", "redis://detour:secret@" + address, "--host", "h"});
    const std::string words = "/proc/" + std::to_string(agent.Pid()) + "/cmdline";

    EXPECT_TRUE(
        Await([&] { return File(words).find("redis://*************@" + address) != std::string::npos; }));
    EXPECT_EQ(File(words).find("secret"), std::string::npos);
    EXPECT_TRUE(Await([&] { return agent.Written().find("Redis at " + address) != std::string::npos; }));
    EXPECT_EQ(agent.Written().find("secret"), std::string::npos);
}

TEST(ControlProcess, TheEnvironmentNamesTheStore)
{
    const std::string address = detour_test::FreeAddress();
    Command agent({"agent", "--host", "h"}, {{"DETOUR_REDIS", "redis://detour:secret@" + address}});

    EXPECT_TRUE(Await([&] { return agent.Written().find("Redis at " + address) != std::string::npos; }));
    EXPECT_EQ(agent.Written().find("secret"), std::string::npos);
}
} // namespace
