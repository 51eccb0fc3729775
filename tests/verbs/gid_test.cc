/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a port's GID. */
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "tests/harness/harness.h"
#include "tests/verbs/discovery_fixture.h"
#include "verbs/device.h"
#include "verbs/gid.h"
#include "verbs/object.h"
#include "verbs/verbs.h"

namespace
{
const fake::Gid kLinkLocalV1 = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1},
                                IBV_GID_TYPE_ROCE_V1};
const fake::Gid kLinkLocalV2 = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1},
                                IBV_GID_TYPE_ROCE_V2};
const fake::Gid kIpv4V1 = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3}, IBV_GID_TYPE_ROCE_V1};
const fake::Gid kIpv4V2 = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3}, IBV_GID_TYPE_ROCE_V2};
const fake::Gid kIpv6V2 = {{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}, IBV_GID_TYPE_ROCE_V2};
const fake::Gid kEmpty = {{}, IBV_GID_TYPE_ROCE_V2};
const fake::Gid kInfiniBand = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 0x10, 0x20, 0x30},
                               IBV_GID_TYPE_IB};

class Gid : public DiscoveryFixture
{
};

TEST_F(Gid, RoceGidsAreChosenByTypeAndFamily)
{
    const struct {
        std::vector<fake::Gid> gids;
        uint32_t chosen;
    } tables[] = {
        {{kLinkLocalV1, kLinkLocalV2, kIpv4V1, kIpv4V2, kIpv6V2}, 3},
        {{kIpv6V2, kIpv4V2}, 1},
        {{kIpv4V2, kIpv4V2}, 0},
        {{kLinkLocalV1, kLinkLocalV2, kIpv6V2}, 2},
        {{kLinkLocalV1, kLinkLocalV2, kIpv4V1}, 2},
        {{kLinkLocalV1, kLinkLocalV2}, 1},
        {{kEmpty, kEmpty, kLinkLocalV1}, 2},
    };

    for (const auto &table : tables) {
        FirstPort().gids = table.gids;
        ASSERT_EQ(DT_OK, List());
        ASSERT_EQ(2u, count);
        EXPECT_EQ(table.chosen, list[0].gid_index);
        EXPECT_EQ(0, memcmp(list[0].gid, table.gids[table.chosen].raw, 16));
    }
}

/* Where a port gets its link back the order of its GIDs may be another; peers know it by the value. */
TEST_F(Gid, AGidIsLookedUpAgainByItsValue)
{
    dt_device *device;

    FirstPort().gids = {kIpv4V2, kLinkLocalV2};
    ASSERT_EQ(DT_OK, List());
    ASSERT_EQ(DT_OK, dt_device_open(verbs, &list[0], &device));
    EXPECT_EQ(0u, device->info.gid_index);
    FirstPort().gids = {kLinkLocalV2, kEmpty, kIpv4V1, kIpv4V2};
    ASSERT_EQ(DT_OK, dt_device_refresh(device));
    EXPECT_EQ(3u, device->info.gid_index);
    EXPECT_EQ(0, memcmp(list[0].gid, device->info.gid, sizeof list[0].gid));
    fake::Fail("query_gid_ex", EIO, 1); // where it has not moved, one entry is read, not the whole table
    ASSERT_EQ(DT_OK, dt_device_refresh(device));
    EXPECT_EQ(3u, device->info.gid_index);
    EXPECT_EQ(0, fake::TheWorld().failures.at("query_gid_ex").first);
    fake::TheWorld().failures.clear();
    FirstPort().gids = {kEmpty};
    EXPECT_EQ(DT_NOT_FOUND, dt_device_refresh(device));
    dt_device_close(device);
}

TEST_F(Gid, APortWithoutAGidIsLeftOut)
{
    FirstPort().gids = {kEmpty};
    ASSERT_EQ(DT_OK, List());
    ASSERT_EQ(1u, count);
    EXPECT_STREQ("fake1", list[0].name);
    EXPECT_EQ("[skip-no-gid] verbs: fake0 port 1 is left out: it has no GID",
              detour_test::LoggedLines().back());
}

TEST_F(Gid, WithoutGidTypesTheFamilyDecides)
{
    dt_verbs_table table = *fake::Table();
    dt_verbs *old;

    table.query_gid_ex = nullptr;
    FirstPort().gids = {kLinkLocalV2, kIpv4V2};
    ASSERT_EQ(DT_OK, dt_verbs_open_table(&table, &old));
    ASSERT_EQ(DT_OK, dt_verbs_devices(old, &list, &count));
    EXPECT_EQ(1u, list[0].gid_index);
    dt_verbs_close(old);
}

TEST_F(Gid, InfiniBandUsesGidZeroAndItsLid)
{
    FirstPort().link_layer = IBV_LINK_LAYER_INFINIBAND;
    FirstPort().lid = 42;
    FirstPort().speed = 128;
    FirstPort().gids = {kInfiniBand};
    ASSERT_EQ(DT_OK, List());
    EXPECT_EQ(DT_LINK_INFINIBAND, list[0].link_layer);
    EXPECT_EQ(42u, list[0].lid);
    EXPECT_EQ(0u, list[0].gid_index);
    EXPECT_EQ(400000u, list[0].speed_mbps);
    EXPECT_EQ(0, memcmp(list[0].gid, kInfiniBand.raw, 16));
}

TEST_F(Gid, OnInfiniBandTheEntryWithAnFlidIsUsed)
{
    fake::Gid routable = kInfiniBand;
    routable.raw[4] = 0x12;
    routable.raw[5] = 0x34;
    FirstPort().link_layer = IBV_LINK_LAYER_INFINIBAND;
    FirstPort().gids = {kInfiniBand, routable};
    verbs->flid_gid_index = 1;
    ASSERT_EQ(DT_OK, List());
    EXPECT_EQ(1u, list[0].gid_index);
    EXPECT_EQ(0x1234u, dt_gid_flid(list[0].gid));
    FirstPort().gids = {kInfiniBand, kInfiniBand};
    ASSERT_EQ(DT_OK, List());
    EXPECT_EQ(0u, list[0].gid_index) << "it has none";
    verbs->flid_gid_index = 2;
    ASSERT_EQ(DT_OK, List());
    EXPECT_EQ(0u, list[0].gid_index) << "there is no such entry";
}

TEST_F(Gid, AnEntryOfTheWishIsBetterThanAllOthers)
{
    FirstPort().gids = {kLinkLocalV2, kIpv4V1, kIpv4V2, kIpv6V2};
    const struct {
        uint32_t version;
        const char *family, *range;
        uint32_t chosen;
    } wishes[] = {
        {0, "", "", 2},
        {1, "", "", 1},
        {2, "AF_INET6", "", 3},
        {0, "AF_INET6", "2001:db8::/32", 3},
        {0, "", "10.1.0.0/16", 2},
        {0, "", "10.2.0.0/16", 2}, // none: as without a wish
        {1, "AF_INET6", "", 2},    // the same
    };
    for (const auto &wish : wishes) {
        ASSERT_TRUE(dt_gid_wish_parse(wish.version, wish.family, wish.range, &verbs->gid_wish));
        ASSERT_EQ(DT_OK, List());
        EXPECT_EQ(wish.chosen, list[0].gid_index) << wish.version << wish.family << wish.range;
    }
}

/* NCCL applies its setting to RoCE only, and hosts with both kinds of ports are common. */
TEST_F(Gid, AnIndexThatWasAskedForIsOfRocePortsOnly)
{
    verbs->has_gid_index = true;
    verbs->gid_index = 3;
    FirstPort().link_layer = IBV_LINK_LAYER_INFINIBAND;
    FirstPort().gids = {kInfiniBand};
    ASSERT_EQ(DT_OK, List());
    ASSERT_LE(1u, count);
    EXPECT_EQ(DT_LINK_INFINIBAND, list[0].link_layer);
    EXPECT_EQ(0u, list[0].gid_index);
    FirstPort().link_layer = IBV_LINK_LAYER_ETHERNET;
    FirstPort().gids = {kIpv4V2, kLinkLocalV2, kEmpty, kIpv6V2};
    ASSERT_EQ(DT_OK, List());
    EXPECT_EQ(3u, list[0].gid_index);
}
} // namespace
