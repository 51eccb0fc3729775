/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stat_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "tests/cli/stat_page.h"

namespace
{
std::string TextOf(const Folder &folder, const char *job, const char *host = nullptr)
{
    const dt_metrics_labels labels = {host, job};
    detour_stat_snapshot *snapshot = StatPage::Read(folder);
    char *text = nullptr;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    dt_metrics_write(out, snapshot, &labels);
    fclose(out);
    std::string copy(text, bytes);
    free(text);
    detour_stat_free(snapshot);
    return copy;
}

size_t CountOf(const std::string &text, const std::string &line)
{
    std::istringstream lines(text);
    size_t count = 0;

    for (std::string one; std::getline(lines, one);)
        count += one == line;
    return count;
}

TEST(StatMetrics, HaveCountersGaugesAndAHistogramOfEachConnection)
{
    Folder folder;
    StatPage page(folder, "a \"quoted\\\" name");

    dt_page_add(&page.send->message_count, 3);
    dt_page_add(&page.send->failover_ns, 1500000000);
    dt_page_add(&page.send->service_count[0], 1);
    dt_page_add(&page.send->service_count[27], 2);
    page.Judge(DT_PAGE_VERDICT_SLOW, 2500);
    std::string text = TextOf(folder, "job 7");
    std::string connection = "{host=\"nodea\",rank=\"3\",job=\"job 7\",pid=\"11\",process=\"a "
                             "\\\"quoted\\\\\\\" name\",connection="
                             "\"0000000000000abc\",direction=\"send\",from=\"4\",to=\"\",peer=\"there:12\"";
    std::string labels = connection + ",nic=\"mlx5_0\",peer_nic=\"mlx5_3\"";
    for (const std::string &line :
         {"detour_messages_total" + labels + "} 3",
          "detour_failover_seconds_total" + connection + "} 1.500000000",
          "detour_service_seconds_bucket" + labels + ",le=\"1.024e-06\"} 1",
          "detour_service_seconds_bucket" + labels + ",le=\"+Inf\"} 3",
          "detour_service_seconds_count" + labels + "} 3", "detour_is_slow" + labels + "} 1",
          "detour_slow_factor" + labels + "} 2.5", "detour_slow_delay_seconds" + labels + "} 0.0025",
          "detour_path" + labels + "} 0", std::string("# TYPE detour_service_seconds histogram"),
          std::string("detour_processes 1")})
        EXPECT_EQ(1u, CountOf(text, line)) << line << "\n" << text;
    EXPECT_EQ(std::string::npos, TextOf(folder, nullptr).find("job=")) << "a label that is not known";
    /* The text format: a sample's metric was announced, and no other stands between. */
    std::istringstream lines(text);
    std::string metric;
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind("# TYPE ", 0) == 0)
            metric = line.substr(7, line.find(' ', 7) - 7);
        else if (line[0] != '#') {
            EXPECT_EQ(0u, line.rfind(metric, 0)) << line;
        }
    }
}

/* As the records of an agent and the findings about its host. */
TEST(StatMetrics, TheHostIsThatOfTheAgent)
{
    Folder folder;
    StatPage page(folder);
    std::string text = TextOf(folder, "job", "node-7");

    EXPECT_NE(std::string::npos, text.find("detour_messages_total{host=\"node-7\",")) << text;
    EXPECT_NE(std::string::npos, text.find("detour_process_start_time_seconds{host=\"node-7\",")) << text;
    EXPECT_EQ(std::string::npos, text.find("nodea"));
}

/* increase() does not see what changes together with a label. */
TEST(StatMetrics, ASwitchoverIsASeriesThatItDoesNotEnd)
{
    Folder folder;
    StatPage page(folder);
    std::string before = TextOf(folder, nullptr);

    page.send->path_now = UINT32_MAX;
    dt_page_add(&page.send->path_down_count, 1);
    std::string after = TextOf(folder, nullptr);
    for (const char *name :
         {"detour_switches_total{", "detour_errors_total{", "detour_failover_seconds_total{"}) {
        size_t at = before.find(name), end = before.find("} ", at);

        EXPECT_NE(std::string::npos, after.find(before.substr(at, end - at + 2)))
            << before.substr(at, end - at);
    }
    EXPECT_NE(std::string::npos, after.find("nic=\"\",peer_nic=\"\"} -1")) << after;
}

/* A scraper refuses a whole answer for one byte that is not UTF-8, and a line for one line break. */
TEST(StatMetrics, APeersNameIsAsciiOnOneLine)
{
    Folder folder;
    StatPage page(folder, "trainer", 11, "a\xff\xfe\nb\"} 1\x01");
    std::string text = TextOf(folder, nullptr);

    EXPECT_NE(std::string::npos, text.find("peer=\"a???b\\\"} 1?\"")) << text;
    EXPECT_TRUE(
        std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}
} // namespace
