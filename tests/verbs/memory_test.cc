/* SPDX-License-Identifier: Apache-2.0 */
// How memory is registered: ordering, dma-bufs, stand-in memory.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/harness/harness.h"
#include "tests/verbs/fake_verbs.h"
#include "verbs/device.h"

namespace
{
class Memory : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        fake::Reset();
        table = *fake::Table();
    }
    void TearDown() override
    {
        dt_device_close(device);
        dt_verbs_devices_free(list);
        dt_verbs_close(verbs);
        EXPECT_EQ(0, fake::TheWorld().live);
    }
    void Open()
    {
        ASSERT_EQ(DT_OK, dt_verbs_open_table(&table, &verbs));
        ASSERT_EQ(DT_OK, dt_verbs_devices(verbs, &list, &count));
        ASSERT_EQ(DT_OK, dt_device_open(verbs, &list[0], &device));
    }
    /* What the library was asked for. */
    static int AccessOf(const dt_mr *mr)
    {
        return fake::TheWorld().mrs.at(mr->rkey)->access;
    }

    dt_verbs_table table;
    dt_verbs *verbs = nullptr;
    dt_device *device = nullptr;
    dt_device_info *list = nullptr;
    size_t count = 0;
    alignas(4096) char bytes[8192];
};

TEST_F(Memory, PayloadIsRelaxedAndControlMemoryIsNot)
{
    const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    dt_mr *payload, *control;

    Open();
    ASSERT_EQ(DT_OK, dt_mr_register(device, bytes, sizeof bytes, DT_MR_REMOTE_WRITE | DT_MR_RELAXED_ORDERING,
                                    &payload));
    ASSERT_EQ(DT_OK, dt_mr_register(device, bytes, sizeof bytes, DT_MR_REMOTE_WRITE, &control));
    EXPECT_EQ(static_cast<int>(rights | IBV_ACCESS_RELAXED_ORDERING), AccessOf(payload));
    EXPECT_EQ(rights, AccessOf(control));
    EXPECT_EQ(DT_OK, dt_mr_deregister(device, payload));
    EXPECT_EQ(DT_OK, dt_mr_deregister(device, control));
}

TEST_F(Memory, ALibraryThatDoesNotKnowRelaxedOrderingIsNotAskedForIt)
{
    dt_mr *payload;

    table.reg_mr_iova2 = nullptr;
    Open();
    ASSERT_EQ(DT_OK, dt_mr_register(device, bytes, sizeof bytes, DT_MR_REMOTE_WRITE | DT_MR_RELAXED_ORDERING,
                                    &payload));
    EXPECT_EQ(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, AccessOf(payload));
    EXPECT_EQ(DT_OK, dt_mr_deregister(device, payload));
}

TEST_F(Memory, ThatStandsForOtherMemoryHasItsAddressesAndIsNeverTakenForIt)
{
    auto *gpu = reinterpret_cast<char *>(uintptr_t{0x7f0000001000});
    alignas(4096) static char shadow[8192], another[8192];
    dt_mr *mr, *same, *other, *itself;

    Open();
    ASSERT_EQ(DT_OK, dt_mr_register_for(device, shadow + 100, gpu + 100, 4000, DT_MR_REMOTE_WRITE, &mr));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(gpu), mr->addr);
    EXPECT_EQ(8192u, mr->bytes);
    EXPECT_EQ(shadow, fake::TheWorld().mrs.at(mr->rkey)->addr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(gpu), fake::TheWorld().mrs.at(mr->rkey)->iova);
    ASSERT_EQ(DT_OK, dt_mr_register_for(device, shadow + 200, gpu + 200, 1000, DT_MR_REMOTE_WRITE, &same));
    EXPECT_EQ(mr, same);
    ASSERT_EQ(DT_OK, dt_mr_register_for(device, another + 100, gpu + 100, 4000, DT_MR_REMOTE_WRITE, &other));
    EXPECT_NE(mr, other);
    ASSERT_EQ(DT_OK, dt_mr_register(device, gpu + 100, 4000, DT_MR_REMOTE_WRITE, &itself));
    EXPECT_TRUE(itself != mr && itself != other);
    EXPECT_EQ(gpu, fake::TheWorld().mrs.at(itself->rkey)->addr);
    for (dt_mr *each : {mr, same, other, itself})
        EXPECT_EQ(DT_OK, dt_mr_deregister(device, each));
}

TEST_F(Memory, WithoutTheFunctionNothingStandsForOtherMemory)
{
    dt_mr *mr = nullptr;

    table.reg_mr_iova2 = nullptr;
    Open();
    EXPECT_EQ(DT_UNSUPPORTED, dt_mr_register_for(device, bytes, bytes + 4096, 4096, DT_MR_REMOTE_WRITE, &mr));
}

TEST_F(Memory, ADmaBufIsRegisteredByItsFileAndWithoutTheFunctionNotAtAll)
{
    dt_mr *mr = nullptr;

    Open();
    ASSERT_EQ(DT_OK, dt_mr_register_dmabuf(device, bytes, 4096, 0, 7,
                                           DT_MR_REMOTE_WRITE | DT_MR_RELAXED_ORDERING, &mr));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes), mr->addr);
    EXPECT_TRUE(AccessOf(mr) & IBV_ACCESS_RELAXED_ORDERING);
    EXPECT_EQ(DT_OK, dt_mr_deregister(device, mr));
    detour_test::ExpectWarning("fake0: -1 is no dma-buf descriptor");
    EXPECT_EQ(DT_INVALID, dt_mr_register_dmabuf(device, bytes, 4096, 0, -1, DT_MR_REMOTE_WRITE, &mr));
}

TEST_F(Memory, WithoutTheFunctionThereAreNoDmaBufs)
{
    dt_mr *mr = nullptr;

    table.reg_dmabuf_mr = nullptr;
    Open();
    EXPECT_EQ(DT_UNSUPPORTED, dt_mr_register_dmabuf(device, bytes, 4096, 0, 7, DT_MR_REMOTE_WRITE, &mr));
}
} // namespace
