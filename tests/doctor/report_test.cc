/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/report.h"

#include <gtest/gtest.h>

#include <string>

namespace
{
std::string Dump(const dt_report &report)
{
    char *text = json_dumps(report.document, JSON_COMPACT | JSON_SORT_KEYS);
    std::string copy = text ? text : "";
    free(text);
    return copy;
}

TEST(Report, FindingsAreCountedByLevelAndKeepTheirAdvice)
{
    dt_report report;
    dt_report_init(&report);
    dt_report_add_finding(&report, DT_LEVEL_OK, "devices", nullptr, "%d devices", 2);
    dt_report_add_finding(&report, DT_LEVEL_PROBLEM, "limits", "ulimit -l", "locked memory: %s", "64 KiB");
    dt_report_add_finding(&report, DT_LEVEL_PROBLEM, "limits", "x", "y");
    EXPECT_EQ(1u, report.counts[DT_LEVEL_OK]);
    EXPECT_EQ(0u, report.counts[DT_LEVEL_WARNING]);
    EXPECT_EQ(2u, report.counts[DT_LEVEL_PROBLEM]);
    EXPECT_EQ(
        "{\"devices\":[],\"findings\":[{\"level\":\"ok\",\"text\":\"2 devices\",\"topic\":\"devices\"},"
        "{\"advice\":\"ulimit -l\",\"level\":\"problem\",\"text\":\"locked memory: 64 "
        "KiB\",\"topic\":\"limits\"},"
        "{\"advice\":\"x\",\"level\":\"problem\",\"text\":\"y\",\"topic\":\"limits\"}],\"settings\":[]}",
        Dump(report));
    dt_report_free(&report);
}

TEST(Report, FactsStandInTheListOfTheirName)
{
    dt_report report;
    dt_report_init(&report);
    dt_report_add_fact(&report, "devices", json_pack("{s:s}", "name", "mlx5_0"));
    dt_report_add_fact(&report, "devices", nullptr);
    dt_report_add_fact(&report, "no such list", json_object());
    EXPECT_EQ("{\"devices\":[{\"name\":\"mlx5_0\"}],\"findings\":[],\"settings\":[]}", Dump(report));
    dt_report_free(&report);
}

TEST(Report, WithoutMemoryEverythingIsHarmless)
{
    dt_report report;
    dt_report_init(&report);
    json_decref(report.document);
    report.document = nullptr;
    dt_report_add_finding(&report, DT_LEVEL_WARNING, "topic", "advice", "text");
    dt_report_add_fact(&report, "devices", json_object());
    EXPECT_EQ(1u, report.counts[DT_LEVEL_WARNING]) << "counted all the same";
    dt_report_free(&report);
}
} // namespace
