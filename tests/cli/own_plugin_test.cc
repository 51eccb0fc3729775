/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/own_plugin.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace
{
/* Sets a variable of the environment for a test. */
class Variable
{
  public:
    Variable(const char *name, const char *value) : name_(name)
    {
        const char *old = getenv(name);
        had_ = old;
        old_ = old ? old : "";
        value ? setenv(name, value, 1) : unsetenv(name);
    }
    ~Variable()
    {
        had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_);
    }

  private:
    const char *name_;
    bool had_;
    std::string old_;
};

TEST(OwnPlugin, IsFoundBesideTheProgramOrLeftToTheLoader)
{
    char path[4096];
    std::string found = dt_own_plugin_find(path, sizeof path);
    EXPECT_EQ(found, path);
    if (access((std::string(DETOUR_BINARY_DIR) + "/lib/libnccl-net-detour.so").c_str(), R_OK) == 0) {
        EXPECT_EQ(access(path, R_OK), 0) << path;
    }
    char small[8];
    EXPECT_EQ(std::string(dt_own_plugin_find(small, sizeof small)), "libnccl") << "no room for the path";
}

TEST(OwnPlugin, TheSoftwareRnicIsChosenWhereThereIsNoOther)
{
    Variable verbs("DETOUR_VERBS", nullptr);
    const char *note = nullptr;
    char error[512];
    ASSERT_EQ(DT_OK, dt_own_plugin_prepare(&note, error, sizeof error));
    EXPECT_EQ(note != nullptr, getenv("DETOUR_VERBS") != nullptr);
    if (note) {
        EXPECT_STREQ(getenv("DETOUR_VERBS"), "soft");
    }
}

TEST(OwnPlugin, AChoiceOfTheUserStands)
{
    for (const char *choice : {"soft", "system"}) {
        Variable verbs("DETOUR_VERBS", choice);
        const char *note = nullptr;
        char error[512];
        ASSERT_EQ(DT_OK, dt_own_plugin_prepare(&note, error, sizeof error));
        EXPECT_STREQ(getenv("DETOUR_VERBS"), choice);
        EXPECT_EQ(note, nullptr);
    }
}

TEST(OwnPlugin, ABadSettingIsNamed)
{
    const char *note = nullptr;
    char error[512];
    {
        Variable verbs("DETOUR_VERBS", "hardware");
        EXPECT_NE(DT_OK, dt_own_plugin_prepare(&note, error, sizeof error));
        EXPECT_STREQ(error, "DETOUR_VERBS=hardware: expected system, soft or auto");
    }
    Variable devices("DETOUR_SOFT_DEVICES", "many");
    EXPECT_NE(DT_OK, dt_own_plugin_prepare(&note, error, sizeof error));
    EXPECT_NE(std::string(error).find("DETOUR_SOFT_DEVICES=many"), std::string::npos) << error;
}
} // namespace
