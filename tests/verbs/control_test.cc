/* SPDX-License-Identifier: Apache-2.0 */
/* dt_verbs_device_control: actions on a software RNIC, as text. */
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tests/verbs/fake_verbs.h"
#include "verbs/table.h"
#include "verbs/verbs.h"

namespace
{
struct Controlled {
    std::string device;
    dt_control control;
    uint64_t argument;
    int answer = 0;
} controlled;

int RecordControl(const char *device, dt_control control, uint64_t argument)
{
    controlled.device = device;
    controlled.control = control;
    controlled.argument = argument;
    return controlled.answer;
}

class Control : public ::testing::Test
{
  protected:
    enum dt_status Do(const char *action)
    {
        dt_verbs_table table = *fake::Table();
        dt_verbs *soft;
        enum dt_status status;

        fake::Reset();
        table.control = RecordControl;
        EXPECT_EQ(DT_OK, dt_verbs_open_table(&table, &soft));
        status = dt_verbs_device_control(soft, "soft7", action, answer, sizeof answer);
        dt_verbs_close(soft);
        return status;
    }

    char answer[200];
};

TEST_F(Control, UnderstandsItsWords)
{
    const struct {
        const char *action;
        dt_control control;
        uint64_t argument;
    } rows[] = {{"down", DT_CONTROL_DOWN, 0},
                {"up", DT_CONTROL_UP, 0},
                {"fatal", DT_CONTROL_FATAL, 0},
                {"plug", DT_CONTROL_PLUG, 0},
                {"drop 5", DT_CONTROL_DROP_NEXT, 5},
                {"drop 0%", DT_CONTROL_DROP_PERCENT, 0},
                {"drop 100%", DT_CONTROL_DROP_PERCENT, 100},
                {"rate 2K", DT_CONTROL_RATE, 2048},
                {"verbs 300", DT_CONTROL_VERBS_US, 300}};

    for (const auto &row : rows) {
        controlled = {};
        EXPECT_EQ(DT_OK, Do(row.action)) << row.action;
        EXPECT_EQ("soft7", controlled.device);
        EXPECT_EQ(row.control, controlled.control) << row.action;
        EXPECT_EQ(row.argument, controlled.argument) << row.action;
        EXPECT_EQ("soft7: " + std::string(row.action), answer);
    }
}

TEST_F(Control, RefusesEverythingElse)
{
    controlled = {};
    for (const char *action : {"", "Down", "down ", "drop", "drop ", "drop %", "drop -1", "drop 101%",
                               "drop 5 %", "drop 1K", "drop 99999999999999999999999999999", "explode"}) {
        EXPECT_EQ(DT_INVALID, Do(action)) << action;
        EXPECT_EQ("'" + std::string(action) +
                      "' is no action: down, up, fatal, plug, drop N, drop P%, rate R or verbs N",
                  answer);
    }
    EXPECT_EQ(DT_INVALID, Do("verbs 10000001"));
    EXPECT_STREQ("verbs 10000001: expected 0 to 10000000 microseconds", answer);
    EXPECT_EQ("", controlled.device);
}

TEST_F(Control, PassesOnTheDevicesAnswer)
{
    controlled = {};
    controlled.answer = ENODEV;
    EXPECT_EQ(DT_NOT_FOUND, Do("down"));
    EXPECT_STREQ("no software RNIC named 'soft7' is open in this process", answer);
    controlled.answer = EEXIST;
    EXPECT_EQ(DT_INVALID, Do("plug"));
    EXPECT_STREQ("soft7: plug: the device has not left the system; `fatal` removes it", answer);
    controlled.answer = EINVAL;
    EXPECT_EQ(DT_INVALID, Do("up"));
    EXPECT_STREQ("soft7: up: Invalid argument", answer);
}
} // namespace
