/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold for every validation. */
#ifndef DETOUR_TESTS_PLANNER_MITIGATE_PASSES_OF_H
#define DETOUR_TESTS_PLANNER_MITIGATE_PASSES_OF_H

#include <algorithm>
#include <set>
#include <utility>

#include "detour/mitigate.h"
#include "tests/sched/sched_test.h"

namespace mitigate_test
{
using Link = std::pair<int32_t, int32_t>; /* the smaller rank first */

inline Link LinkOf(int32_t a, int32_t b)
{
    return {std::min(a, b), std::max(a, b)};
}

/* The links of a validation whose passes are disjoint. */
inline std::set<Link> CheckPasses(const struct detour_validation *validation)
{
    std::set<Link> links;
    EXPECT_EQ(validation->first_pair[0], 0);
    EXPECT_EQ(validation->first_pair[validation->pass_count], validation->pair_count);
    for (int32_t pass = 0; pass < validation->pass_count; pass++) {
        std::set<int32_t> ranks;
        EXPECT_LT(validation->first_pair[pass], validation->first_pair[pass + 1]) << "pass " << pass;
        for (int32_t k = validation->first_pair[pass]; k < validation->first_pair[pass + 1]; k++) {
            struct detour_rank_pair pair = validation->pairs[k];
            EXPECT_TRUE(ranks.insert(pair.from).second) << "rank " << pair.from << " twice in pass " << pass;
            EXPECT_TRUE(ranks.insert(pair.to).second) << "rank " << pair.to << " twice in pass " << pass;
            links.insert(LinkOf(pair.from, pair.to));
        }
        EXPECT_TRUE(ranks.empty() || (*ranks.begin() >= 0 && *ranks.rbegin() < validation->rank_count));
    }
    return links;
}
} // namespace mitigate_test

#endif
