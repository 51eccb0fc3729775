// SPDX-License-Identifier: Apache-2.0
#include "doctor/secret.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace
{
std::string Masked(std::string text, std::vector<std::string> variables = {})
{
    std::vector<char *> environment;
    for (std::string &variable : variables)
        environment.push_back(variable.data());
    environment.push_back(nullptr);
    dt_secret_mask(text.data(), environment.data());
    return text;
}

TEST(Secret, IsANameOrAUrlWithAUser)
{
    for (const char *name : {"DETOUR_REDIS", "DETOUR_EVENT_COMMAND", "NCCL_API_KEY", "DETOUR_FOO_TOKEN",
                             "NCCL_PASSWORD", "nccl_auth", "SECRET"})
        EXPECT_TRUE(dt_secret_is(name, "value")) << name;
    for (const char *name : {"NCCL_IB_PKEY", "NCCL_IB_HCA", "DETOUR_PASSING", "NCCL_KEYS", ""})
        EXPECT_FALSE(dt_secret_is(name, "value")) << name;
    EXPECT_TRUE(dt_secret_is("NCCL_X", "https://u:p@host"));
    EXPECT_FALSE(dt_secret_is("NCCL_X", "https://host"));
    EXPECT_FALSE(dt_secret_is("DETOUR_REDIS", "")) << "an empty value is no secret";
}

TEST(Secret, OfAUrlIsOverwritten)
{
    EXPECT_EQ("see redis://****@host:1/0 and http://host/a@b.",
              Masked("see redis://u:pw@host:1/0 and http://host/a@b."));
    EXPECT_EQ("://", Masked("://"));
    EXPECT_EQ("a://b c@d", Masked("a://b c@d")) << "a blank ends a URL";
}

TEST(Secret, OfAVariableIsOverwrittenWhereverItIs)
{
    EXPECT_EQ("a ***** b *****", Masked("a token b token", {"NCCL_X_TOKEN=token"}));
    EXPECT_EQ("a abc b", Masked("a abc b", {"NCCL_X_TOKEN=abc"})) << "too short";
    EXPECT_EQ("mlx5", Masked("mlx5", {"NCCL_IB_HCA=mlx5", "NO_VALUE"}));
}
} // namespace
