/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/harness/harness.h"
#include "transport/protocol/address.h"

namespace
{
dt_interface Interface(const char *name, dt_address_family family, bool up = true, bool loopback = false)
{
    dt_interface out = {};
    snprintf(out.name, sizeof out.name, "%s", name);
    out.address.family = family;
    out.is_up = up;
    out.is_loopback = loopback;
    return out;
}

std::string Choose(const std::vector<dt_interface> &all, const char *filter)
{
    int i = dt_interface_choose(all.data(), all.size(), filter);
    return i < 0 ? "none"
                 : std::string(all[i].name) + (all[i].address.family == DT_ADDRESS_IPV6 ? "/6" : "/4");
}

TEST(Interface, TheFirstRealOneWinsAndLoopbackIsTheLastResort)
{
    std::vector<dt_interface> all = {
        Interface("lo", DT_ADDRESS_IPV4, true, true), Interface("docker0", DT_ADDRESS_IPV4),
        Interface("eth9", DT_ADDRESS_IPV4, false),    Interface("eth0", DT_ADDRESS_IPV6),
        Interface("eth0", DT_ADDRESS_IPV4),           Interface("ib0", DT_ADDRESS_IPV4)};
    EXPECT_EQ("eth0/4", Choose(all, ""));
    all.resize(4);
    EXPECT_EQ("eth0/6", Choose(all, ""));
    all.resize(3);
    EXPECT_EQ("lo/4", Choose(all, ""));
    all.erase(all.begin());
    EXPECT_EQ("none", Choose(all, ""));
    EXPECT_EQ("none", Choose({}, ""));
}

TEST(Interface, TheUsersWordDecides)
{
    std::vector<dt_interface> all = {
        Interface("eth0", DT_ADDRESS_IPV4), Interface("docker0", DT_ADDRESS_IPV4),
        Interface("lo", DT_ADDRESS_IPV4, true, true), Interface("eth1", DT_ADDRESS_IPV4, false)};
    EXPECT_EQ("docker0/4", Choose(all, "docker"));
    EXPECT_EQ("lo/4", Choose(all, "=lo"));
    EXPECT_EQ("docker0/4", Choose(all, "^eth"));
    EXPECT_EQ("none", Choose(all, "eth1")) << "down";
}

TEST(Interface, ThisHostHasLoopback)
{
    dt_address address;
    char name[32];
    ASSERT_EQ(DT_OK, dt_interface_find("=lo", &address, name));
    EXPECT_STREQ("lo", name);
    char text[DT_ADDRESS_TEXT_BYTES];
    EXPECT_STREQ("127.0.0.1:0", dt_address_text(&address, text));
}

TEST(Interface, AFilterThatLetsNoneThroughIsNamed)
{
    dt_address address;
    char name[32];
    detour_test::ExpectWarning("DETOUR_SOCKET_IFNAME=\"nosuch\"");
    EXPECT_EQ(DT_NOT_FOUND, dt_interface_find("nosuch", &address, name));
}

TEST(Address, TextsOfBothFamilies)
{
    dt_address address = {};
    char text[DT_ADDRESS_TEXT_BYTES];
    EXPECT_STREQ("?:0", dt_address_text(&address, text));
    address.family = DT_ADDRESS_IPV6;
    address.ip[15] = 1;
    address.port = 80;
    EXPECT_STREQ("[::1]:80", dt_address_text(&address, text));
}
} // namespace
