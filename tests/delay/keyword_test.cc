/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/keyword.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>

namespace
{
const dt_delay_keywords *const kLists[] = {&dt_delay_calls, &dt_delay_hanging_calls, &dt_delay_statuses,
                                           &dt_delay_events, &dt_delay_errors};

TEST(Keyword, EachIsFoundByItsTextAndByItsValueAlone)
{
    for (const dt_delay_keywords *list : kLists) {
        std::set<int> values;
        for (size_t i = 0; i < list->count; i++) {
            const char *text = list->entry[i].text;
            int value = -1;
            EXPECT_TRUE(dt_delay_keyword_find(list, text, strlen(text), &value)) << text;
            EXPECT_EQ(list->entry[i].value, value) << text;
            EXPECT_STREQ(text, dt_delay_keyword_text(list, value));
            EXPECT_TRUE(values.insert(value).second) << text;
        }
    }
}

TEST(Keyword, TheErrorMessageNamesEachAndNoOther)
{
    for (const dt_delay_keywords *list : kLists) {
        std::string expected = std::string(list->expected) + ",";
        size_t separators = 0;
        for (size_t i = 0; i < list->count; i++) {
            std::string text = list->entry[i].text;
            EXPECT_TRUE(expected.find(" " + text + ",") != std::string::npos ||
                        expected.find(" " + text + " or ") != std::string::npos)
                << text << " is not in: " << list->expected;
        }
        for (char c : expected)
            separators += c == ',';
        EXPECT_EQ(list->count, separators + 1) << list->expected; // the last one follows "or"
    }
}

TEST(Keyword, EveryValueOfAnEnumHasAWord)
{
    EXPECT_EQ(static_cast<size_t>(DT_DELAY_CALL_COUNT), dt_delay_calls.count);
    EXPECT_EQ(static_cast<size_t>(DT_DELAY_STATUS_COUNT), dt_delay_statuses.count);
    EXPECT_EQ(static_cast<size_t>(DT_DELAY_EVENT_COUNT), dt_delay_events.count);
}

TEST(Keyword, APartOfOneOrMoreThanOneIsNone)
{
    int value = 42;
    EXPECT_FALSE(dt_delay_keyword_find(&dt_delay_calls, "post_sen", 8, &value));
    EXPECT_FALSE(dt_delay_keyword_find(&dt_delay_calls, "post_sends", 10, &value));
    EXPECT_FALSE(dt_delay_keyword_find(&dt_delay_calls, "", 0, &value));
    EXPECT_EQ(42, value);
    EXPECT_TRUE(dt_delay_keyword_find(&dt_delay_errors, "EIO=1", 3, &value)) << "the length decides";
    EXPECT_EQ(EIO, value);
    EXPECT_STREQ("?", dt_delay_keyword_text(&dt_delay_calls, DT_DELAY_CALL_COUNT));
}

TEST(Keyword, NoCallOfTheDataPathHangs)
{
    int value;
    for (const char *call : {"post_send", "post_recv", "poll_cq"})
        EXPECT_FALSE(dt_delay_keyword_find(&dt_delay_hanging_calls, call, strlen(call), &value)) << call;
}
} // namespace
