// SPDX-License-Identifier: Apache-2.0
// What the links of a kind have in common: through the judge, whose findings depend on it.
#include "controller/judge_kind.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/controller/small_job.h"

namespace
{
TEST(JudgeKind, TheMedianIsTheUpperOneOfTheMiddle)
{
    std::vector<double> values = {5, 1, 4, 1, 3, 9};

    do {
        std::vector<double> copy = values;
        ASSERT_EQ(dt_judge_median(copy.data(), 6), 4);
        copy = values;
        std::sort(copy.begin(), copy.begin() + 5);
        ASSERT_EQ(dt_judge_median(copy.data(), 5), copy[2]);
    } while (std::next_permutation(values.begin(), values.end()));
    EXPECT_EQ(dt_judge_median(values.data(), 1), values[0]);
}

/* Twelve links have no traffic any more, and were slow at last: the ten others have a median of their own. */
TEST(JudgeKind, LinksWithoutTrafficAreNotInTheMedian)
{
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge{dt_judge_create(22, 4), dt_judge_destroy};
    uint32_t count = 0;
    const dt_finding *list = nullptr;

    for (uint64_t i = 1; i <= 110; i++) {
        for (uint32_t k = 0; k < 22; k++) {
            const bool is_slow = i > 100 ? k == 0 : i > 50 && k >= 10;
            dt_link_report report = SmallJob::Link(
                k, 100 + k, is_slow ? 2000000 : 1000000 + (i + k) % 7 * 1000, i * SmallJob::kStepNs);

            if (i <= 60 || k < 10) {
                ASSERT_TRUE(dt_judge_add_link(judge.get(), &report));
            }
        }
        list = dt_judge_decide(judge.get(), i * SmallJob::kStepNs, &count);
    }
    uint32_t found = 0;
    for (uint32_t k = 0; k < count; k++)
        found += list[k].rank == 0 && list[k].kind == DT_FINDING_LINK;
    EXPECT_EQ(found, 1u);
}

/* Six of ten hosts have clocks that were set back by ten seconds. All links become slow alike: none is. */
TEST(JudgeKind, LinksWhoseHostsClockIsBehindHaveTraffic)
{
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge{dt_judge_create(10, 4), dt_judge_destroy};
    const uint64_t start_ns = 20000000000;

    for (uint64_t i = 1; i <= 100; i++) {
        const uint64_t now_ns = start_ns + i * SmallJob::kStepNs;

        for (uint32_t k = 0; k < 10; k++) {
            dt_link_report report =
                SmallJob::Link(4 * k, 100 + k, (i > 60 ? 2 : 1) * (1000000 + (i + k) % 7 * 1000),
                               k < 6 ? now_ns - 10000000000 : now_ns);
            ASSERT_TRUE(dt_judge_add_link(judge.get(), &report));
        }
        uint32_t count;
        const dt_finding *list = dt_judge_decide(judge.get(), now_ns, &count);
        ASSERT_EQ(count, 0u) << i << ": " << list[0].reason;
    }
}
} // namespace
