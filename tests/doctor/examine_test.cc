/* SPDX-License-Identifier: Apache-2.0 */
/* All parts in one report, with software RNICs or without a library. */
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/doctor/examination.h"

namespace
{
using detour_test::Examination;

std::set<std::string> Topics(const Examination &e)
{
    std::set<std::string> topics;
    for (size_t i = 0; const json_t *finding = e.Fact("findings", i); i++)
        topics.insert(Examination::Text(finding, "topic"));
    return topics;
}

TEST(Examine, ReportsEveryPartOfAMachineWithSoftwareRnics)
{
    Examination e;
    e.environment["DETOUR_VERBS"] = "soft";
    e.environment["DETOUR_SOFT_DEVICES"] = "3";
    e.environment["DETOUR_SOCKET_IFNAME"] = "=lo";
    e.options.nccl_library = FAKE_NCCL;
    dt_doctor_examine(&e.options, &e.report);
    EXPECT_EQ(3u, json_array_size(json_object_get(e.report.document, "devices")));
    EXPECT_LT(20u, json_array_size(json_object_get(e.report.document, "settings")));
    std::set<std::string> topics = Topics(e);
    for (const char *topic : {"devices", "memlock", "nccl"})
        EXPECT_EQ(1u, topics.count(topic)) << topic;
}

TEST(Examine, WithoutALibraryItReportsWhyAndContinues)
{
    Examination e;
    e.environment["DETOUR_IBV_LIB"] = "libibverbs-that-is-not-there.so.1";
    e.environment["DETOUR_VERBS"] = "system";
    e.options.nccl_library = FAKE_NCCL;
    dt_doctor_examine(&e.options, &e.report);
    bool is_found = false;
    for (size_t i = 0; const json_t *finding = e.Fact("findings", i); i++)
        is_found |=
            Examination::Text(finding, "topic") == "devices" &&
            Examination::Text(finding, "level") == "problem" &&
            Examination::Text(finding, "text").find("libibverbs-that-is-not-there.so.1") != std::string::npos;
    EXPECT_TRUE(is_found) << json_dumps(e.report.document, JSON_INDENT(1));
    EXPECT_EQ(0u, json_array_size(json_object_get(e.report.document, "devices")));
    EXPECT_EQ(1u, Topics(e).count("nccl")) << "the parts behind it are examined too";
}
} // namespace
