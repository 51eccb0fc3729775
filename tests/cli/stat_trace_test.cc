/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stat_trace.h"

#include <gtest/gtest.h>
#include <jansson.h>

#include <vector>

#include "tests/cli/stat_page.h"

namespace
{
class StatTrace : public testing::Test
{
  protected:
    void SetUp() override
    {
        out = open_memstream(&text, &bytes);
        trace = dt_stat_trace_begin(out);
    }
    void TearDown() override
    {
        json_decref(document);
        free(text);
    }
    void Add()
    {
        EXPECT_TRUE(dt_stat_trace_add(trace, StatPage::Read(folder)));
    }
    void End()
    {
        json_error_t error;

        dt_stat_trace_end(trace);
        fclose(out);
        document = json_loadb(text, bytes, 0, &error);
        ASSERT_NE(nullptr, document) << error.text << "\n" << text;
    }
    std::vector<json_t *> Phase(const std::string &phase)
    {
        std::vector<json_t *> found;
        size_t i;
        json_t *event;

        json_array_foreach(document, i, event)
        {
            if (Text(event, "ph") == phase)
                found.push_back(event);
        }
        return found;
    }
    static std::string Text(json_t *event, const char *name)
    {
        const char *value = json_string_value(json_object_get(event, name));

        return value ? value : "";
    }
    static double Number(json_t *event, const char *name)
    {
        return json_number_value(json_object_get(event, name));
    }

    Folder folder;
    char *text = nullptr;
    size_t bytes = 0;
    FILE *out;
    dt_stat_trace *trace;
    json_t *document = nullptr;
};

TEST_F(StatTrace, CountersAreTheDifferenceOfTwoSnapshots)
{
    StatPage page(folder);
    detour_stat_snapshot *first = StatPage::Read(folder), *second;
    int64_t start_ns = detour_stat_time_ns(first), ns;

    EXPECT_TRUE(dt_stat_trace_add(trace, first));
    dt_page_add(&page.send->payload_bytes, 5000000);
    dt_page_add(&page.send->message_count, 10);
    dt_page_add(&page.send->service_ns, 20000);
    second = StatPage::Read(folder);
    ns = detour_stat_time_ns(second) - start_ns;
    EXPECT_TRUE(dt_stat_trace_add(trace, second));
    End();
    std::vector<json_t *> names = Phase("M"), counters = Phase("C");
    ASSERT_EQ(1u, names.size());
    EXPECT_EQ("rank 3, trainer, nodea", Text(json_object_get(names[0], "args"), "name"));
    ASSERT_EQ(2u, counters.size()) << text;
    EXPECT_EQ("send 4 to ?, mlx5_0 (0abc): MB/s", Text(counters[0], "name"));
    EXPECT_NEAR(5e9 / static_cast<double>(ns), Number(json_object_get(counters[0], "args"), "MB/s"), 1e-3);
    EXPECT_NEAR(static_cast<double>(ns) / 1e3, Number(counters[0], "ts"), 1e-3);
    EXPECT_DOUBLE_EQ(2, Number(json_object_get(counters[1], "args"), "us"));
}

TEST_F(StatTrace, AVerdictIsASliceUntilTheNextOne)
{
    StatPage page(folder);

    Add();
    dt_event_record slow = page.EventNow(DT_EVENT_KIND_VERDICT);
    slow.verdict = DT_PAGE_VERDICT_SLOW;
    dt_event_write(dt_page_events(page.page), &slow, "slow 8.00x \xff");
    Add();
    dt_event_record healthy = page.EventNow(DT_EVENT_KIND_VERDICT);
    healthy.verdict = DT_PAGE_VERDICT_HEALTHY;
    dt_event_write(dt_page_events(page.page), &healthy, "healthy");
    Add();
    Add(); /* an event is written once */
    dt_event_write(dt_page_events(page.page), &slow, "slow again");
    Add();
    End();
    std::vector<json_t *> begins = Phase("b"), ends = Phase("e");
    ASSERT_EQ(2u, begins.size()) << text;
    ASSERT_EQ(2u, ends.size()) << "an open slice ends with the trace\n" << text;
    EXPECT_EQ("slow 8.00x ?", Text(begins[0], "name"));
    EXPECT_EQ("slow 8.00x ?", Text(ends[0], "name"));
    EXPECT_EQ(Text(begins[0], "id"), Text(ends[0], "id"));
    EXPECT_NEAR(static_cast<double>(healthy.time_ns - slow.time_ns) / 1e3,
                Number(ends[0], "ts") - Number(begins[0], "ts"), 1e-2);
    EXPECT_EQ("slow again", Text(ends[1], "name"));
}

TEST_F(StatTrace, AVerdictThatHeldBeforeIsShownFromTheBeginning)
{
    StatPage page(folder);

    page.Judge(DT_PAGE_VERDICT_SLOW, 2500);
    Add();
    Add();
    End();
    ASSERT_EQ(1u, Phase("b").size()) << text;
    EXPECT_EQ("to there:12: slow 2.50x: the link between the two NICs", Text(Phase("b")[0], "name"));
    EXPECT_DOUBLE_EQ(0, Number(Phase("b")[0], "ts"));
    EXPECT_GT(Number(Phase("e")[0], "ts"), 0);
}

TEST_F(StatTrace, ASwitchoverHasALengthAndOtherEventsAMoment)
{
    StatPage page(folder);
    dt_event_record past = page.EventNow(DT_EVENT_KIND_CONTROL);

    dt_event_write(dt_page_events(page.page), &past, "before the trace");
    Add();
    dt_event_record path = page.EventNow(DT_EVENT_KIND_PATH);
    path.path = 0;
    path.delay_ns = 3000000;
    dt_event_write(dt_page_events(page.page), &path, "path 0 down");
    dt_event_record command = page.EventNow(DT_EVENT_KIND_CONTROL);
    command.connection = 0;
    dt_event_write(dt_page_events(page.page), &command, "migrate");
    Add();
    End();
    ASSERT_EQ(1u, Phase("X").size()) << text;
    EXPECT_EQ("path 0 down", Text(Phase("X")[0], "name"));
    EXPECT_DOUBLE_EQ(3000, Number(Phase("X")[0], "dur"));
    ASSERT_EQ(1u, Phase("i").size()) << text;
    EXPECT_EQ("migrate", Text(Phase("i")[0], "name"));
}

TEST_F(StatTrace, AProcessThatComesAndGoesIsNoProblem)
{
    Add();
    {
        StatPage page(folder);

        Add();
        Add();
    }
    Add();
    End();
    EXPECT_EQ(1u, Phase("M").size());
}

TEST(StatTraceFile, IsADocumentWithoutAnySnapshot)
{
    char *text = nullptr;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    dt_stat_trace_end(dt_stat_trace_begin(out));
    fclose(out);
    json_t *document = json_loadb(text, bytes, 0, nullptr);
    EXPECT_EQ(0u, json_array_size(document));
    EXPECT_TRUE(json_is_array(document)) << text;
    json_decref(document);
    free(text);
}
} // namespace
