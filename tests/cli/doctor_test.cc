/* SPDX-License-Identifier: Apache-2.0 */
/* `detour doctor` on the machine of the test; tests/doctor has machines that are made up. */
#include "cli/doctor.h"

#include <jansson.h>

#include "cli/command.h"
#include "tests/cli/served.h"

namespace
{
class DoctorCommand : public detour_test::CommandTest
{
};

TEST_F(DoctorCommand, TheJsonDocumentIsOneObject)
{
    int code = Run(dt_doctor_command, {"detour doctor", "--json"});
    EXPECT_TRUE(code == DT_EXIT_OK || code == DT_EXIT_FAILED) << code;
    json_error_t error;
    json_t *json = json_loads(out.c_str(), 0, &error);
    ASSERT_NE(json, nullptr) << error.text;
    EXPECT_TRUE(json_is_object(json));
    EXPECT_GT(json_array_size(json_object_get(json, "settings")), 10u);
    EXPECT_GT(json_array_size(json_object_get(json, "findings")), 0u);
    json_decref(json);
}

TEST_F(DoctorCommand, TheTextNamesEverySettingThatIsSet)
{
    setenv("DETOUR_PATHS", "3", 1);
    Run(dt_doctor_command, {"detour doctor"});
    unsetenv("DETOUR_PATHS");
    EXPECT_NE(out.find("DETOUR_PATHS"), std::string::npos) << out;
    EXPECT_NE(out.find("Settings, and where each value comes from"), std::string::npos) << out;
}

TEST_F(DoctorCommand, BadInputIsOneLine)
{
    EXPECT_EQ(Run(dt_doctor_command, {"detour doctor", "--jsn"}), DT_EXIT_USAGE);
    EXPECT_EQ(Run(dt_doctor_command, {"detour doctor", "x"}), DT_EXIT_USAGE);
    EXPECT_EQ(err.find('\n'), err.size() - 1) << err;
    EXPECT_EQ(out, "");
}
} // namespace
