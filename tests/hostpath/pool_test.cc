// SPDX-License-Identifier: Apache-2.0
#include "hostpath/pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace
{

struct Pool {
    std::unique_ptr<dt_pool> pool = std::make_unique<dt_pool>();
    explicit Pool(uint64_t bytes)
    {
        EXPECT_EQ(dt_pool_open(pool.get(), bytes), DT_OK);
    }
    ~Pool()
    {
        dt_pool_close(pool.get());
    }
    dt_pool *operator->()
    {
        return pool.get();
    }
    void *take(uint64_t bytes)
    {
        return dt_pool_alloc(pool.get(), bytes);
    }
    void give(void *run, uint64_t bytes)
    {
        dt_pool_free(pool.get(), run, bytes);
    }
};

TEST(Pool, HasOneSlotAtLeast)
{
    Pool pool(1);
    void *run = pool.take(4096);

    ASSERT_NE(run, nullptr);
    EXPECT_EQ(pool.take(1), nullptr);
    pool.give(run, 4096);
    EXPECT_EQ(pool.take(4097), nullptr);
    EXPECT_EQ(pool.take(1), run);
}

TEST(Pool, TakesTheLowestRunThatFits)
{
    Pool pool(1u << 20);
    void *a = pool.take(8192), *b = pool.take(4096), *c = pool.take(4096);

    pool.give(a, 8192);
    EXPECT_EQ(pool.take(8193), static_cast<uint8_t *>(c) + 4096);
    EXPECT_EQ(pool.take(8192), a);
    pool.give(b, 4096);
    EXPECT_EQ(pool.take(100), b);
}

TEST(Pool, NeverHoldsMoreThanItsSize)
{
    for (uint64_t bytes : {4096ull, 5000ull, 1ull << 20, (16ull << 20) + 1, 300ull << 20}) {
        Pool pool(bytes);
        uint64_t held = 0;

        EXPECT_LE(pool->granule_count, DT_POOL_GRANULES_MAX);
        EXPECT_LE(pool->bytes, std::max<uint64_t>(bytes, 4096));
        EXPECT_GE(pool->bytes, bytes / 2);
        while (pool.take(pool->granule_bytes))
            held += pool->granule_bytes;
        EXPECT_EQ(held, pool->bytes);
    }
}

TEST(Pool, RunsOverWordsOfTheBitmap)
{
    Pool pool(200 * 4096);
    void *first = pool.take(63 * 4096), *second = pool.take(100 * 4096);

    EXPECT_EQ(second, static_cast<uint8_t *>(first) + 63 * 4096);
    EXPECT_EQ(pool.take(38 * 4096), nullptr);
    pool.give(second, 100 * 4096);
    EXPECT_EQ(dt_pool_taken(pool.pool.get()), 63u);
    EXPECT_EQ(pool.take(137 * 4096), second);
}

// No byte is in two hands: each thread fills what it has with its own mark, and finds it unchanged.
TEST(Pool, ThreadsNeverShareARun)
{
    Pool pool(150 * 4096);
    std::vector<std::thread> threads;

    for (int id = 1; id <= 4; id++)
        threads.emplace_back([&pool, id] {
            std::mt19937 random(static_cast<unsigned>(id));

            for (int i = 0; i < 3000; i++) {
                uint64_t bytes = 1 + random() % (70 * 4096);
                auto *run = static_cast<uint8_t *>(pool.take(bytes));

                if (!run)
                    continue;
                run[0] = run[bytes / 2] = run[bytes - 1] = static_cast<uint8_t>(id);
                std::this_thread::yield();
                EXPECT_TRUE(run[0] == id && run[bytes / 2] == id && run[bytes - 1] == id);
                pool.give(run, bytes);
            }
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(dt_pool_taken(pool.pool.get()), 0u);
}

} // namespace
