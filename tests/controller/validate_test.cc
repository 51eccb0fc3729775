// SPDX-License-Identifier: Apache-2.0
#include "controller/validate.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"

namespace
{
/* A command that has a result after some polls. */
class Validate : public ::testing::Test
{
  protected:
    static bool Start(void *arg, const detour_validation *, char reason[DT_RECORD_REASON_BYTES])
    {
        auto *self = static_cast<Validate *>(arg);
        self->calls.push_back("start");
        strcpy(reason, "no such command");
        return self->starts;
    }
    static dt_status Poll(void *arg, dt_validate_report *report)
    {
        auto *self = static_cast<Validate *>(arg);
        if (self->polls_left-- > 0)
            return DT_AGAIN;
        report->slow_count = 1;
        report->slow[0] = {DETOUR_SLOW_LINK, 1, 2, 3.0};
        return self->result;
    }
    static void Stop(void *arg)
    {
        static_cast<Validate *>(arg)->calls.push_back("stop");
    }
    dt_status Step(uint64_t ns)
    {
        now_ns += ns;
        return dt_validate_step(&validate, &funcs, this, nullptr, 2, now_ns, &report);
    }

    const dt_validate_funcs funcs = {Start, Poll, Stop};
    dt_validate validate = {};
    dt_validate_report report = {};
    std::vector<std::string> calls;
    bool starts = true;
    int polls_left = 2;
    dt_status result = DT_OK;
    uint64_t now_ns = 1;
};

using Calls = std::vector<std::string>;

TEST_F(Validate, TheCommandStartsWhenAllHostsHoldTheirMessages)
{
    dt_validate_begin(&validate, 7, now_ns);
    EXPECT_EQ(Step(1), DT_AGAIN);
    dt_validate_acknowledged(&validate, 7);
    dt_validate_acknowledged(&validate, 6);
    EXPECT_EQ(Step(1), DT_AGAIN);
    EXPECT_EQ(calls, Calls{});
    dt_validate_acknowledged(&validate, 7);
    EXPECT_EQ(Step(1), DT_AGAIN);
    EXPECT_EQ(calls, Calls{"start"});
    EXPECT_EQ(Step(1), DT_AGAIN);
    EXPECT_EQ(Step(1), DT_AGAIN);
    EXPECT_EQ(Step(1), DT_OK);
    EXPECT_EQ(report.slow_count, 1u);
    EXPECT_EQ(validate.state, DT_VALIDATE_IDLE);
    dt_validate_stop(&validate, &funcs, this);
    EXPECT_EQ(calls, Calls{"start"});
}

TEST_F(Validate, AHostThatDoesNotAnswerIsNotWaitedForForever)
{
    dt_validate_begin(&validate, 7, now_ns);
    EXPECT_EQ(Step(DT_VALIDATE_ANSWERS_NS - 1), DT_AGAIN);
    EXPECT_EQ(calls, Calls{});
    EXPECT_EQ(Step(1), DT_AGAIN);
    EXPECT_EQ(calls, Calls{"start"});
}

TEST_F(Validate, ACommandThatDoesNotStartIsAFailure)
{
    starts = false;
    dt_validate_begin(&validate, 7, now_ns);
    EXPECT_EQ(Step(DT_VALIDATE_ANSWERS_NS), DT_SYSTEM);
    EXPECT_STREQ(report.reason, "no such command");
    EXPECT_EQ(validate.state, DT_VALIDATE_IDLE);
}

TEST_F(Validate, ACommandThatFailsIsAFailure)
{
    result = DT_INVALID;
    polls_left = 0;
    dt_validate_begin(&validate, 7, now_ns);
    EXPECT_EQ(Step(DT_VALIDATE_ANSWERS_NS), DT_AGAIN);
    EXPECT_EQ(Step(1), DT_INVALID);
    EXPECT_EQ(validate.state, DT_VALIDATE_IDLE);
}

TEST_F(Validate, ACommandThatHangsIsEnded)
{
    polls_left = 1000;
    dt_validate_begin(&validate, 7, now_ns);
    EXPECT_EQ(Step(DT_VALIDATE_ANSWERS_NS), DT_AGAIN);
    EXPECT_EQ(Step(DT_VALIDATE_LIMIT_NS - 1), DT_AGAIN);
    EXPECT_EQ(Step(1), DT_SYSTEM);
    EXPECT_STREQ(report.reason, "the command has not ended within 60 s");
    EXPECT_EQ(calls, (Calls{"start", "stop"}));
    EXPECT_EQ(validate.state, DT_VALIDATE_IDLE);
}

TEST_F(Validate, ItsEndIsThatOfTheCommand)
{
    polls_left = 1000;
    dt_validate_begin(&validate, 7, now_ns);
    Step(DT_VALIDATE_ANSWERS_NS);
    dt_validate_stop(&validate, &funcs, this);
    EXPECT_EQ(calls, (Calls{"start", "stop"}));
    dt_validate_begin(&validate, 8, now_ns);
    dt_validate_stop(&validate, &funcs, this);
    EXPECT_EQ(calls, (Calls{"start", "stop"})) << "it had not started";
}

TEST(ValidateFind, AFindingIsConfirmedByWhatItIsAbout)
{
    const dt_suspect link = {1, DT_FINDING_LINK, 1, 2}, nic = {2, DT_FINDING_NIC, 1, -1},
                     device = {3, DT_FINDING_DEVICE, 1, -1};
    const struct {
        dt_validate_slow slow;
        bool of_link, of_nic, of_device;
    } cases[] = {
        {{DETOUR_SLOW_LINK, 1, 2, 2}, true, true, false},
        {{DETOUR_SLOW_LINK, 2, 1, 2}, true, true, false},
        {{DETOUR_SLOW_LINK, 1, 3, 2}, false, true, false},
        {{DETOUR_SLOW_LINK, 3, 2, 2}, false, false, false},
        {{DETOUR_SLOW_NETWORK, 1, -1, 2}, true, true, false},
        {{DETOUR_SLOW_NETWORK, 2, -1, 2}, true, false, false},
        {{DETOUR_SLOW_NETWORK, 3, -1, 2}, false, false, false},
        {{DETOUR_SLOW_COMPUTE, 1, -1, 2}, false, false, true},
        {{DETOUR_SLOW_COMPUTE, 2, -1, 2}, false, false, false},
    };

    for (const auto &one : cases) {
        dt_validate_report report = {};
        report.slow_count = 2;
        report.slow[0] = {DETOUR_SLOW_LINK, 8, 9, 2};
        report.slow[1] = one.slow;
        EXPECT_EQ(dt_validate_find(&report, &link) == &report.slow[1], one.of_link)
            << one.slow.kind << one.slow.rank;
        EXPECT_EQ(dt_validate_find(&report, &nic) == &report.slow[1], one.of_nic)
            << one.slow.kind << one.slow.rank;
        EXPECT_EQ(dt_validate_find(&report, &device) == &report.slow[1], one.of_device)
            << one.slow.kind << one.slow.rank;
    }
    const dt_suspect processor = {4, DT_FINDING_PROCESSOR, 1, -1};
    dt_validate_report report = {};
    EXPECT_EQ(dt_validate_find(&report, &link), nullptr);
    report.slow_count = 1;
    report.slow[0] = {DETOUR_SLOW_COMPUTE, 1, -1, 2};
    EXPECT_EQ(dt_validate_find(&report, &processor), nullptr);
}
} // namespace
