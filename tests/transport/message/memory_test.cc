/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/memory.h"

#include <cstdlib>

#include "tests/transport/message/ends.h"
#include "transport/message/send.h"

namespace
{
class Memory : public detour_test::Ends
{
  protected:
    dt_memory_source Source()
    {
        dt_memory_source source = {};
        source.addr = extra.data();
        source.bytes = extra.size();
        source.fd = -1;
        source.access = DT_MR_LOCAL_WRITE | DT_MR_REMOTE_WRITE;
        source.is_host = true;
        return source;
    }
    std::vector<uint8_t> extra = std::vector<uint8_t>(8192);
};

TEST_F(Memory, IsCreatedWithoutRegions)
{
    dt_memory_source source = Source();
    dt_memory *memory = dt_memory_create(&source);
    ASSERT_NE(nullptr, memory);
    EXPECT_EQ((uintptr_t)extra.data(), memory->addr);
    EXPECT_EQ(extra.size(), memory->bytes);
    EXPECT_TRUE(memory->is_host);
    EXPECT_EQ(0u, memory->path_mask);
    EXPECT_TRUE(dt_list_is_empty(&memory->node));
    free(memory);
    detour_test_fail_alloc(0);
    EXPECT_EQ(nullptr, dt_memory_create(&source));
}

TEST_F(Memory, IsRegisteredOnTheDeviceOfEachPath)
{
    dt_memory_source source = Source();
    dt_memory *memory = dt_memory_create(&source);
    uint32_t missing = ~0u;
    ASSERT_EQ(2u, receiver->path_count);
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    EXPECT_EQ(3u, memory->path_mask);
    EXPECT_EQ(0u, missing);
    EXPECT_NE(nullptr, memory->mr[0]);
    EXPECT_NE(nullptr, memory->mr[1]);
    dt_memory_deregister_all(receiver, memory);
    EXPECT_TRUE(memory->is_deregistered);
    dt_memory_deregister_all(receiver,
                             memory); /* harmless: a second deregistration of a region would abort */
    free(memory);
}

TEST_F(Memory, APathThatWasNeverSetUpIsSkipped)
{
    dt_memory_source source = Source();
    dt_memory *memory = dt_memory_create(&source);
    dt_mr *control_mr = receiver->path[1].control_mr;
    uint32_t missing = ~0u;
    receiver->path[1].control_mr = nullptr;
    EXPECT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    receiver->path[1].control_mr = control_mr;
    EXPECT_EQ(1u, memory->path_mask);
    EXPECT_EQ(0u, missing);
    EXPECT_EQ(nullptr, memory->mr[1]);
    dt_memory_deregister_all(receiver, memory);
    free(memory);
}

TEST_F(Memory, RefusingDevicesAreReported)
{
    dt_memory_source source = Source();
    dt_memory *memory = dt_memory_create(&source);
    uint32_t missing = 0;
    source.fd = 1 << 20; /* no such file: no device can register it as a dma-buf */
    EXPECT_NE(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    EXPECT_EQ(0u, memory->path_mask);
    EXPECT_EQ(3u, missing);
    free(memory);
}

TEST_F(Memory, IsInTheListOfItsConnectionFromAddToRemove)
{
    dt_memory_source source = Source();
    dt_memory *memory = dt_memory_create(&source);
    uint32_t missing = 0;
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    EXPECT_DEATH(dt_memory_remove(receiver, memory), "broken invariant");
    dt_memory_add(receiver, memory);
    EXPECT_FALSE(dt_list_is_empty(&memory->node));
    EXPECT_DEATH(dt_memory_add(receiver, memory), "broken invariant");
    dt_memory_remove(receiver, memory);
    EXPECT_TRUE(dt_list_is_empty(&memory->node));
    dt_memory_deregister_all(receiver, memory);
    free(memory);
}

TEST_F(Memory, OpenCountsTheMessagesThatMayTouchIt)
{
    dt_request *receive = Irecv(100);
    EXPECT_EQ(1u, to_memory->open);
    dt_request *send = SendWhenPossible(100);
    EXPECT_EQ(1u, from_memory->open);
    Wait(receive);
    Wait(send);
    EXPECT_EQ(0u, to_memory->open);
    EXPECT_EQ(0u, from_memory->open);
    EXPECT_EQ(1u, to_memory->written_mask) << "the path that wrote it";
    EXPECT_EQ(0u, from_memory->written_mask);
}

TEST_F(Memory, AnAbandonedConnectionIsClosedAndReceivesNoMoreBytes)
{
    dt_request *receive = Irecv(100), *send = nullptr;
    ASSERT_TRUE(Until([&] { return dt_sender_matching_slot(s) != nullptr; }));
    dt_connection_abandon(receiver, to_memory);
    int done = 0;
    EXPECT_EQ(DT_CLOSED, dt_test(receive, &done, nullptr));
    EXPECT_EQ(0, done);
    ASSERT_EQ(DT_OK, dt_isend(sender, from.data(), 100, 0, from_memory, &send));
    ASSERT_NE(nullptr, send);
    for (int i = 0; i < 20; i++)
        Step();
    for (uint32_t i = 0; i < 100; i++)
        ASSERT_EQ(0, to[i]) << "the queue pairs are fenced";
}
} // namespace
