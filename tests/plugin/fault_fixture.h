/* SPDX-License-Identifier: Apache-2.0 */
/* A connection over four devices whose paths fail under traffic, and the reports of what was done about it.
 */
#ifndef DETOUR_TESTS_PLUGIN_FAULT_FIXTURE_H
#define DETOUR_TESTS_PLUGIN_FAULT_FIXTURE_H

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "detour/stat.h"
#include "obs/page.h"
#include "tests/plugin/traffic.h"

namespace detour_test
{
/* Events of a kind, as another process reads them in the counter page of this one. */
inline std::vector<dt_event_record> ReadEvents(uint32_t kind)
{
    std::vector<dt_event_record> events;
    dt_runtime_dir dir;
    dt_page_copy copy;
    char reason[256];
    EXPECT_EQ(DT_OK, dt_runtime_dir_open("", 0, &dir, reason, sizeof reason)) << reason;
    EXPECT_EQ(DT_OK, dt_page_read(&dir, getpid(), &copy));
    dt_event_record event;
    for (uint64_t i = 0; dt_event_read(dt_page_copy_events(&copy), i, &event); i++) {
        if (event.kind != kind)
            continue;
        EXPECT_TRUE(event.subject == UINT32_MAX || dt_page_copy_connection(&copy, event.subject))
            << event.text;
        events.push_back(event);
    }
    dt_page_copy_free(&copy);
    dt_runtime_dir_close(&dir);
    return events;
}

inline std::vector<dt_event_record> ReadSwitches()
{
    std::vector<dt_event_record> switches = ReadEvents(DT_EVENT_KIND_PATH);
    for (const dt_event_record &event : switches) {
        EXPECT_NE(UINT32_MAX, event.subject) << event.text;
        EXPECT_NE(0u, event.connection) << event.text;
        EXPECT_LE(0, event.path) << event.text;
        EXPECT_NE(std::string(""), event.nic) << event.text;
        EXPECT_NE(std::string(""), event.peer_nic) << event.text;
        EXPECT_NE(std::string(""), event.next_nic) << event.text;
        EXPECT_NE(std::string(event.nic), event.next_nic) << event.text;
        EXPECT_LE(static_cast<uint32_t>(DETOUR_STAT_CAUSE_FAILED_WORK), event.cause) << event.text;
        EXPECT_EQ(event.value, static_cast<int64_t>(event.delay_ns)) << event.text;
    }
    return switches;
}

/* Fenced, agreed, again, first; "-" for a step without a time. */
using Steps = std::vector<std::string>;

inline Steps StepsOfLine(const std::string &line)
{
    Steps steps;
    for (const char *step :
         {"; fenced after ", "agreed after ", "ed again after ", "first completion after "}) {
        size_t begin = line.find(step) + strlen(step);
        steps.push_back(line.substr(begin, line.find(' ', begin) - begin));
    }
    return steps;
}

inline Steps StepsOfEvent(const dt_event_record &event)
{
    unsigned path, epoch;
    char text[5][24] = {};
    unsigned long long us[5] = {}, resumed, last = 0;
    EXPECT_EQ(7,
              sscanf(event.text,
                     "switch path %u epoch %u us: fenced %23s agreed %23s resumed %23s again %23s first %23s",
                     &path, &epoch, text[0], text[1], text[2], text[3], text[4]))
        << event.text;
    for (int i = 0; i < 5; i++) {
        us[i] = strtoull(text[i], nullptr, 10);
        last = std::max(last, us[i]);
    }
    resumed = us[2];
    EXPECT_LE(us[0], resumed) << event.text;
    for (int i : {3, 4})
        EXPECT_TRUE(us[i] >= resumed || text[i] == std::string("-")) << event.text;
    EXPECT_EQ(last, (unsigned long long)event.value / 1000) << event.text;
    return {text[0], text[1], text[3], text[4]};
}

class Fault : public FourDevices
{
  protected:
    void FailUnderTraffic(const char *device, const char *action)
    {
        bool is_ordered = false;
        traffic->Move(300, [&](int sent) {
            if (sent >= 150 && !is_ordered)
                Order(device, action);
            is_ordered |= sent >= 150;
        });
        AwaitReports(1);
        traffic->Move(50);
        ExpectReports(1);
    }

    /* A report waits for the first completion over another path. */
    void AwaitReports(int count)
    {
        Until([&] {
            traffic->Move(10);
            return (CountLines("is settled") >= count && CountLines("is fenced") >= count) || HasFailure();
        });
    }
    /* Each end has one line and one event for each switch, with the same steps, in their order. */
    void ExpectReports(int count)
    {
        EXPECT_EQ(count, CountLines("is settled"));
        EXPECT_EQ(count, CountLines("is fenced"));
        // An event is written after its line.
        Until([&] { return ReadSwitches().size() >= 2u * count || HasFailure(); });
        std::multiset<Steps> lines, events;
        for (const std::string &line : detour_test::LoggedLines())
            if (line.find("first completion after") != std::string::npos)
                lines.insert(StepsOfLine(line));
        for (const dt_event_record &event : ReadSwitches())
            events.insert(StepsOfEvent(event));
        EXPECT_EQ(2u * count, lines.size());
        EXPECT_EQ(lines, events);
    }
};
} // namespace detour_test

#endif
