// SPDX-License-Identifier: Apache-2.0
#include "controller/store_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.h"

namespace
{

class StoreMemory : public testing::Test
{
  protected:
    struct dt_store *store = dt_store_memory_create(0);
    const struct dt_store_ops *ops = store->ops;

    ~StoreMemory() override
    {
        ops->close(store);
    }

    struct Visit {
        std::vector<std::string> records;
        std::string last_id;
        size_t end_after = SIZE_MAX;
    };

    static bool Take(void *arg, const char *id, const char *record, size_t bytes)
    {
        Visit *visit = static_cast<Visit *>(arg);

        EXPECT_EQ(record[bytes], '\0');
        EXPECT_LT(visit->last_id, id);
        visit->records.emplace_back(record, bytes);
        visit->last_id = id;
        return visit->records.size() < visit->end_after;
    }

    std::vector<std::string> Read(const char *stream, const std::string &after = "", size_t count = 100000)
    {
        Visit visit;

        EXPECT_EQ(ops->read(store, stream, after.c_str(), count, Take, &visit), DT_OK);
        return visit.records;
    }
};

using Records = std::vector<std::string>;

TEST_F(StoreMemory, ReadsWhatFollowsAnId)
{
    char id[DT_STORE_ID_BYTES];

    EXPECT_EQ(Read("s"), Records());
    ASSERT_EQ(ops->append(store, "s", "one", nullptr), DT_OK);
    ASSERT_EQ(ops->append(store, "s", "two", id), DT_OK);
    ASSERT_EQ(ops->append(store, "other", "x", nullptr), DT_OK);
    ASSERT_EQ(ops->append(store, "s", "three", nullptr), DT_OK);
    EXPECT_EQ(Read("s"), Records({"one", "two", "three"}));
    EXPECT_EQ(Read("s", id), Records({"three"}));
    EXPECT_EQ(Read("s", "", 2), Records({"one", "two"}));
}

TEST_F(StoreMemory, AVisitorEndsItsVisit)
{
    Visit visit;

    for (const char *text : {"one", "two", "three"})
        ASSERT_EQ(ops->append(store, "s", text, nullptr), DT_OK);
    visit.end_after = 2;
    ASSERT_EQ(ops->read(store, "s", "", 100, Take, &visit), DT_OK);
    EXPECT_EQ(visit.records, Records({"one", "two"}));
}

TEST_F(StoreMemory, AStreamKeepsItsNewestRecords)
{
    for (int i = 0; i < DT_STORE_STREAM_RECORDS + 10; i++)
        ASSERT_EQ(ops->append(store, "s", std::to_string(i).c_str(), nullptr), DT_OK);
    Records kept = Read("s");
    ASSERT_EQ(kept.size(), (size_t)DT_STORE_STREAM_RECORDS);
    EXPECT_EQ(kept.front(), "10");
    EXPECT_EQ(kept.back(), std::to_string(DT_STORE_STREAM_RECORDS + 9));
}

TEST_F(StoreMemory, LargeRecordsAreBoundedByBytes)
{
    const std::string large(DT_STORE_RECORD_BYTES - 1, 'x');

    for (int i = 0; i < 300; i++)
        ASSERT_EQ(ops->append(store, "s", large.c_str(), nullptr), DT_OK);
    EXPECT_EQ(Read("s").size(), (size_t)(DT_STORE_MEMORY_STREAM_BYTES / large.size()));
    EXPECT_EQ(ops->append(store, "s", (large + "x").c_str(), nullptr), DT_INVALID);
    EXPECT_NE(std::string(store->reason), "");
}

TEST_F(StoreMemory, AFieldHasItsLastValue)
{
    char value[8];

    EXPECT_EQ(ops->get(store, "f", value, sizeof value), DT_NOT_FOUND);
    ASSERT_EQ(ops->set(store, "f", "old"), DT_OK);
    ASSERT_EQ(ops->set(store, "f", "1234567"), DT_OK);
    ASSERT_EQ(ops->get(store, "f", value, sizeof value), DT_OK);
    EXPECT_STREQ(value, "1234567");
    ASSERT_EQ(ops->set(store, "f", "12345678"), DT_OK);
    EXPECT_EQ(ops->get(store, "f", value, sizeof value), DT_INVALID);
}

TEST_F(StoreMemory, NamesAndRoomAreLimited)
{
    EXPECT_EQ(ops->append(store, "a b", "x", nullptr), DT_INVALID);
    EXPECT_EQ(ops->set(store, "", "x"), DT_INVALID);
    for (int i = 0; i < DT_STORE_MEMORY_NAMES_MAX; i++) {
        ASSERT_EQ(ops->append(store, ("s" + std::to_string(i)).c_str(), "x", nullptr), DT_OK);
        ASSERT_EQ(ops->set(store, ("f" + std::to_string(i)).c_str(), "x"), DT_OK);
    }
    EXPECT_EQ(ops->append(store, "one-more", "x", nullptr), DT_FULL);
    EXPECT_EQ(ops->set(store, "one-more", "x"), DT_FULL);
    EXPECT_EQ(ops->append(store, "s0", "x", nullptr), DT_OK);
}

TEST_F(StoreMemory, ALeaseHasOneHolderUntilItEnds)
{
    const uint64_t s = DT_NS_PER_S;
    uint64_t first = 0, second = 0, again = 0;

    ASSERT_EQ(ops->lease_acquire(store, "lease", "a", 1000, 1 * s, &first), DT_OK);
    EXPECT_EQ(first, 1u);
    EXPECT_EQ(ops->lease_acquire(store, "lease", "b", 1000, 1 * s, &second), DT_AGAIN);
    EXPECT_EQ(ops->lease_acquire(store, "lease", "a", 1000, 1 * s + s / 2, &again), DT_OK);
    EXPECT_EQ(again, first);
    EXPECT_EQ(ops->lease_renew(store, "lease", "a", first, 1000, 2 * s), DT_OK);
    EXPECT_EQ(ops->lease_acquire(store, "lease", "b", 1000, 3 * s, &second), DT_OK);
    EXPECT_GT(second, first);
    EXPECT_EQ(ops->lease_renew(store, "lease", "a", first, 1000, 3 * s), DT_AGAIN);
}

TEST_F(StoreMemory, IdsAndFencingNumbersAreAboveItsStart)
{
    struct dt_store *later = dt_store_memory_create(1700000000000);
    uint64_t fence = 0, other = 0;
    char id[DT_STORE_ID_BYTES];

    ASSERT_EQ(later->ops->append(later, "s", "x", id), DT_OK);
    EXPECT_STREQ(id, "00000001700000000001");
    ASSERT_EQ(later->ops->lease_acquire(later, "lease", "a", 1000, 5, &fence), DT_OK);
    EXPECT_EQ(fence, 1700000000001u);
    ASSERT_EQ(later->ops->lease_acquire(later, "another", "a", 1000, 5, &other), DT_OK);
    EXPECT_EQ(other, 1700000000001u);
    later->ops->close(later);
}

TEST_F(StoreMemory, AnEndedLeaseIsNotRenewed)
{
    uint64_t fence = 0, other = 0;

    ASSERT_EQ(ops->lease_acquire(store, "lease", "a", 1000, 0, &fence), DT_OK);
    EXPECT_EQ(ops->lease_renew(store, "lease", "a", fence, 1000, DT_NS_PER_S), DT_AGAIN);
    ASSERT_EQ(ops->lease_acquire(store, "lease", "a", 1000, DT_NS_PER_S, &other), DT_OK);
    EXPECT_GT(other, fence); /* another holder may have decided in between */
}

TEST_F(StoreMemory, AReleasedLeaseIsFreeAtOnceAndOnlyItsHolderReleasesIt)
{
    uint64_t fence = 0, other = 0;

    ASSERT_EQ(ops->lease_acquire(store, "lease", "a", 1000, 5, &fence), DT_OK);
    ASSERT_EQ(ops->lease_release(store, "lease", "b", fence), DT_OK);
    EXPECT_EQ(ops->lease_acquire(store, "lease", "b", 1000, 6, &other), DT_AGAIN);
    ASSERT_EQ(ops->lease_release(store, "lease", "a", fence), DT_OK);
    EXPECT_EQ(ops->lease_acquire(store, "lease", "b", 1000, 6, &other), DT_OK);
    EXPECT_GT(other, fence);
}

} // namespace
