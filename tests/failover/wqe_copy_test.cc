// SPDX-License-Identifier: Apache-2.0
// Elements copied from ring to ring on plain memory: random queues, with any compiler. fuzz/run.sh searches
// guided.
#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"
#include "tests/failover/fuzz/rewind_fuzz.h"

namespace
{
TEST(RewindElements, RandomQueuesComeOutAsTheyWentIn)
{
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        dt_prng random;
        dt_prng_init(&random, seed);
        std::vector<uint8_t> bytes(dt_prng_between(&random, 20, 3000));
        for (auto &byte : bytes)
            byte = static_cast<uint8_t>(dt_prng_next(&random));
        ASSERT_EQ(nullptr, dt_fuzz_rewind(bytes.data(), bytes.size())) << "seed " << seed;
    }
}
} // namespace
