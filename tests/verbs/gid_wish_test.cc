/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses a RoCE port shall use: what the settings say, and what they mean for an entry. */
#include "verbs/gid_wish.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/harness/harness.h"

namespace
{
const uint8_t kIpv4[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3};
const uint8_t kIpv6[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};

bool IsMet(uint32_t version, const char *family, const char *range, const uint8_t *gid, uint32_t of_version)
{
    dt_gid_wish wish;
    EXPECT_TRUE(dt_gid_wish_parse(version, family, range, &wish)) << family << " " << range;
    return dt_gid_wish_is_met(&wish, gid, of_version);
}

TEST(GidWish, WithoutOneEveryEntryMeetsIt)
{
    EXPECT_TRUE(IsMet(0, "", "", kIpv4, 1));
    EXPECT_TRUE(IsMet(0, nullptr, nullptr, kIpv6, 2));
}

TEST(GidWish, VersionFamilyAndRangeMustAllMatch)
{
    EXPECT_TRUE(IsMet(2, "AF_INET", "10.0.0.0/8", kIpv4, 2));
    EXPECT_FALSE(IsMet(2, "AF_INET", "10.0.0.0/8", kIpv4, 1));
    EXPECT_FALSE(IsMet(2, "AF_INET6", "", kIpv4, 2));
    EXPECT_FALSE(IsMet(2, "AF_INET", "", kIpv6, 2));
    EXPECT_TRUE(IsMet(0, "AF_INET6", "2001:db8::/32", kIpv6, 2));
    EXPECT_FALSE(IsMet(0, "AF_INET6", "2001:db9::/32", kIpv6, 2));
}

TEST(GidWish, ARangeIsComparedByItsBits)
{
    EXPECT_TRUE(IsMet(0, "", "10.1.2.3/32", kIpv4, 2)) << "without a family it is of IPv4";
    EXPECT_FALSE(IsMet(0, "", "10.1.2.2/32", kIpv4, 2));
    EXPECT_TRUE(IsMet(0, "", "10.1.2.2/31", kIpv4, 2));
    EXPECT_TRUE(IsMet(0, "", "10.1.0.0/15", kIpv4, 2));
    EXPECT_FALSE(IsMet(0, "", "10.2.0.0/15", kIpv4, 2));
    EXPECT_TRUE(IsMet(0, "", "99.0.0.0/0", kIpv4, 2)) << "any address";
    EXPECT_FALSE(IsMet(0, "", "99.0.0.0/0", kIpv6, 2)) << "of IPv4";
    EXPECT_TRUE(IsMet(0, "AF_INET6", "2001:db8::7/128", kIpv6, 2));
    EXPECT_FALSE(IsMet(0, "AF_INET6", "2001:db8::8/128", kIpv6, 2));
}

TEST(GidWish, ATextThatCannotBeReadIsIgnoredAndNamed)
{
    dt_gid_wish wish;

    detour_test::ExpectWarning("NCCL_IB_ADDR_FAMILY=inet: expected AF_INET or AF_INET6; it is ignored");
    EXPECT_FALSE(dt_gid_wish_parse(0, "inet", "", &wish));
    EXPECT_TRUE(dt_gid_wish_is_met(&wish, kIpv6, 1));
    detour_test::ExpectWarning("expected ADDRESS/BITS of AF_INET, as in 10.0.0.0/8; it is ignored");
    for (const char *range :
         {"10.0.0.0", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "10.0.0/8", "fd00::/8", "/8", "10.0.0.0/-1",
          "1000000000000000000000000000000000000000000000000000000/8"}) {
        EXPECT_FALSE(dt_gid_wish_parse(0, "", range, &wish)) << range;
        EXPECT_TRUE(dt_gid_wish_is_met(&wish, kIpv6, 2)) << range;
    }
    detour_test::ExpectWarning("of AF_INET6");
    EXPECT_FALSE(dt_gid_wish_parse(0, "AF_INET6", "10.0.0.0/8", &wish));
    EXPECT_EQ(AF_INET6, wish.family) << "the family stays";
}
} // namespace
