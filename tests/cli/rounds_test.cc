// SPDX-License-Identifier: Apache-2.0
#include "cli/rounds.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <string>

namespace
{
class Rounds : public ::testing::Test
{
  protected:
    Rounds()
    {
        pthread_sigmask(SIG_SETMASK, nullptr, &before);
        dt_rounds_begin(&rounds, "detour test", 1);
    }
    ~Rounds() override
    {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    std::string Result(enum dt_status status)
    {
        testing::internal::CaptureStderr();
        dt_rounds_result(&rounds, &store, status);
        std::string line = testing::internal::GetCapturedStderr();
        size_t text = line.find(' ', line.find(": ") + 2); /* behind the time of day */
        return line.empty() ? "" : line.substr(0, line.find(": ")) + line.substr(text);
    }

    sigset_t before;
    dt_rounds rounds;
    dt_store store = {nullptr, "the server does not answer"};
};

TEST_F(Rounds, GoOnUntilASignal)
{
    EXPECT_TRUE(dt_rounds_wait(&rounds));
    EXPECT_TRUE(dt_rounds_wait(&rounds));
    for (int signal : {SIGINT, SIGTERM}) {
        raise(signal);
        EXPECT_FALSE(dt_rounds_wait(&rounds));
    }
    EXPECT_TRUE(dt_rounds_wait(&rounds));
}

TEST_F(Rounds, ASeriesOfFailuresIsTwoLines)
{
    EXPECT_EQ(Result(DT_OK), "");
    EXPECT_EQ(Result(DT_CLOSED), "detour test the server does not answer; trying again\n");
    EXPECT_EQ(Result(DT_CLOSED), "");
    EXPECT_EQ(Result(DT_OK), "detour test the store answers again\n");
    EXPECT_EQ(Result(DT_OK), "");
}
} // namespace
