/* SPDX-License-Identifier: Apache-2.0 */
/* The partition key of queue pairs by its value: where it is found, and what is reported where it is not. */
#include "verbs/pkey.h"

#include <algorithm>
#include <string>

#include "tests/verbs/device_fixture.h"

namespace
{
class Pkey : public DeviceFixture
{
  protected:
    std::vector<uint16_t> &Table()
    {
        return fake::TheWorld().devices[0]->ports[0].pkeys;
    }
    uint16_t Find()
    {
        uint16_t index = 999;

        EXPECT_EQ(DT_OK, dt_pkey_find(device, &index));
        return index;
    }
    void OpenWith(uint32_t value, const std::vector<uint16_t> &table)
    {
        Table() = table;
        verbs->pkey_index = 7;
        verbs->pkey_value = value;
        Open();
    }
    void TearDown() override
    {
        dt_device_close(device);
        DeviceFixture::TearDown();
    }
};

TEST_F(Pkey, WithoutAValueItIsTheIndexThatWasAskedFor)
{
    OpenWith(0, std::vector<uint16_t>(8, 0xffff));
    EXPECT_EQ(7, Find());
}

TEST_F(Pkey, AnIndexThatThePortDoesNotHaveIsNamedOnceWithTheSettingAndTheRange)
{
    uint16_t index;

    OpenWith(0, {0xffff, 0x8111});
    detour_test::ExpectWarning("fake0 port 1: DETOUR_PKEY or NCCL_IB_PKEY is 7, and the port's table of "
                               "partition keys has entries 0 to 1 only");
    for (int attempt = 0; attempt < 3; attempt++)
        EXPECT_EQ(DT_NOT_FOUND, dt_pkey_find(device, &index));
    auto logged = detour_test::LoggedLines();
    EXPECT_EQ(1, std::count_if(logged.begin(), logged.end(), [](const std::string &line) {
                  return line.find("DETOUR_PKEY") != std::string::npos;
              }));
}

TEST_F(Pkey, AnIndexIsTheDevicesToJudgeWhereTheLengthOfTheTableIsUnknown)
{
    OpenWith(0, {});
    EXPECT_EQ(7, Find());
    fake::Fail("query_port", EIO);
    EXPECT_EQ(7, Find());
}

TEST_F(Pkey, TheKindOfMembershipIsNotCompared)
{
    OpenWith(0x0111, {0xffff, 0x8222, 0x8111});
    EXPECT_EQ(2, Find());
    verbs->pkey_value = 0xffff;
    EXPECT_EQ(0, Find());
}

TEST_F(Pkey, AFullMemberIsPreferredToALimitedOne)
{
    OpenWith(0x8111, {0x7fff, 0x0111, 0x8111});
    EXPECT_EQ(2, Find());
    Table()[2] = 0;
    EXPECT_EQ(1, Find()) << "limited members reach full ones";
}

TEST_F(Pkey, AKeyThatMovesInTheTableIsFoundAgain)
{
    OpenWith(0x8111, {0xffff, 0x8111});
    EXPECT_EQ(1, Find());
    Table() = {0xffff, 0x8222, 0x8111};
    EXPECT_EQ(2, Find());
}

TEST_F(Pkey, OneThatStaysIsNotSearchedForAgain)
{
    OpenWith(0x8111, {0xffff, 0x8111});
    EXPECT_EQ(1, Find());
    fake::Fail("query_pkey", EIO, 1); // the second query from now on
    EXPECT_EQ(1, Find());
    EXPECT_EQ(1, Find()) << "the entry cannot be read: the table is searched";
}

TEST_F(Pkey, AFullMembershipThatIsAddedLaterIsUsed)
{
    OpenWith(0x8111, {0xffff, 0x0111});
    EXPECT_EQ(1, Find());
    EXPECT_EQ(1, Find());
    Table().push_back(0x8111);
    EXPECT_EQ(2, Find());
}

TEST_F(Pkey, APortThatIsNotInThePartitionIsNamedOnceUntilItIs)
{
    uint16_t index;
    auto lines = [] {
        auto logged = detour_test::LoggedLines();
        return std::count_if(logged.begin(), logged.end(), [](const std::string &line) {
            return line.find("is not in its table") != std::string::npos;
        });
    };

    OpenWith(0x8111, {0xffff});
    detour_test::ExpectWarning("partition key 0x8111 is not in its table");
    for (int attempt = 0; attempt < 3; attempt++)
        EXPECT_EQ(DT_NOT_FOUND, dt_pkey_find(device, &index));
    EXPECT_EQ(1, lines());
    Table() = {0xffff, 0x8111};
    EXPECT_EQ(1, Find());
    Table() = {0xffff, 0};
    EXPECT_EQ(DT_NOT_FOUND, dt_pkey_find(device, &index));
    EXPECT_EQ(2, lines()) << "the port has left the partition again";
}

TEST_F(Pkey, APortThatIsNotInThePartitionIsNamedWithItsKeys)
{
    uint16_t index;

    OpenWith(0x8111, {0xffff, 0, 0x0222});
    detour_test::ExpectWarning(
        "fake0 port 1: partition key 0x8111 is not in its table, which has 0xffff 0x0222");
    EXPECT_EQ(DT_NOT_FOUND, dt_pkey_find(device, &index));
    fake::Fail("query_port", EIO);
    detour_test::ExpectWarning("its table of partition keys cannot be read: Input/output error");
    EXPECT_EQ(DT_SYSTEM, dt_pkey_find(device, &index));
}

TEST_F(Pkey, ATableThatStaysUnreadableIsLoggedOnce)
{
    uint16_t index;

    OpenWith(0x8111, {0xffff});
    detour_test::ExpectWarning("cannot be read: Input/output error");
    for (int attempt = 0; attempt < 3; attempt++) {
        fake::Fail("query_port", EIO);
        EXPECT_EQ(DT_SYSTEM, dt_pkey_find(device, &index));
    }
    auto logged = detour_test::LoggedLines();
    EXPECT_EQ(1, std::count_if(logged.begin(), logged.end(), [](const std::string &line) {
                  return line.find("cannot be read") != std::string::npos;
              }));
}

TEST_F(Pkey, AnEmptyEntryIsNoMatch)
{
    uint16_t index;

    OpenWith(0x8000, {0}); // of no partition
    detour_test::ExpectWarning("partition key 0x8000 is not in its table, which has none");
    EXPECT_EQ(DT_NOT_FOUND, dt_pkey_find(device, &index));
}

TEST_F(Pkey, ALongTableIsNamedAsFarAsTheLineHasRoom)
{
    uint16_t index;

    OpenWith(0x8111, std::vector<uint16_t>(128, 0x8222));
    detour_test::ExpectWarning("which has 0x8222 0x8222");
    EXPECT_EQ(DT_NOT_FOUND, dt_pkey_find(device, &index));
}

TEST_F(Pkey, QueuePairsUseIt)
{
    dt_cq *cq;
    dt_qp *qp;

    OpenWith(0x8111, {0xffff, 0x8111});
    ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &cq));
    dt_qp_options options = Options(cq);
    ASSERT_EQ(DT_OK, dt_qp_create(device, &options, &qp));
    EXPECT_EQ(1, fake::TheWorld().qps.at(dt_qp_number(qp))->attr.pkey_index);
    dt_qp_destroy(qp);
    Table()[1] = 0x8222;
    detour_test::ExpectWarning("partition key 0x8111 is not in its table");
    EXPECT_EQ(DT_NOT_FOUND, dt_qp_create(device, &options, &qp)); // and nothing of it is left
    dt_cq_destroy(cq);
}
} // namespace
