/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/eager_store.h"

#include "tests/hostpath/staged/staged_ends.h"

namespace
{
class EagerStore : public detour_test::StagedEnds
{
};

TEST_F(EagerStore, HasWholePagesForEachPlaceWithinTheBudget)
{
    const dt_eager_store *store = r->eager;
    EXPECT_EQ(0u, store->bytes % 4096);
    EXPECT_LE(store->bytes, DT_EAGER_BYTES_MAX);
    EXPECT_EQ(DT_EAGER_HEADERS_BYTES + (size_t)store->bytes * DT_EAGER_PLACES, store->memory_bytes);
    EXPECT_EQ(store->memory_bytes, here.net->hostpath.granted_bytes);
    EXPECT_EQ(store->memory, receiver->group.staged.base);
}

TEST_F(EagerStore, GivesItsMemoryBackWithItsReceiver)
{
    dt_net_deregister(receiver, to_memory);
    to_memory = nullptr;
    dt_net_close(receiver);
    receiver = nullptr;
    EXPECT_TRUE(Until([&] { return here.net->hostpath.granted_bytes == 0; }));
}

TEST_F(EagerStore, IsNotMadeWhenTheBudgetIsSpent)
{
    dt_eager_store *store = r->eager;
    dt_region region = receiver->group.staged;
    uint64_t granted = here.net->hostpath.granted_bytes;

    r->eager = nullptr;
    here.net->hostpath.granted_bytes = here.net->environment.params.hostpath_bytes - 4096;
    dt_eager_open(receiver);
    EXPECT_EQ(nullptr, r->eager);
    here.net->hostpath.granted_bytes = granted;
    r->eager = store;
    receiver->group.staged = region;
}

TEST_F(EagerStore, ResumeReportsTheLastArrivalOfEachBuffer)
{
    dt_resume resume = {};
    AwaitGrant();
    SendEagerly(100);
    dt_eager_snapshot(r, &resume);
    EXPECT_EQ((uint8_t)eager->place[0].generation, resume.eager[0]);
    EXPECT_EQ(0u, resume.eager[1]);
    ASSERT_NE(nullptr, Irecv(100));
    AwaitDelivery();
}
} // namespace
