/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <string>
#include <vector>

#include "tests/harness/harness.h"
#include "tests/transport/link_local.h"
#include "transport/protocol/address.h"

/* Takes the place of the C library's. NULL: the interfaces of this host. */
static ifaddrs *g_interfaces;

extern "C" int getifaddrs(ifaddrs **out)
{
    if (!g_interfaces)
        return reinterpret_cast<int (*)(ifaddrs **)>(dlsym(RTLD_NEXT, "getifaddrs"))(out);
    *out = g_interfaces;
    return 0;
}

extern "C" void freeifaddrs(ifaddrs *all)
{
    if (all != g_interfaces)
        reinterpret_cast<void (*)(ifaddrs *)>(dlsym(RTLD_NEXT, "freeifaddrs"))(all);
}

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

std::string Choose(const std::vector<dt_interface> &all, const char *filter,
                   dt_address_family family = DT_ADDRESS_NONE)
{
    int i = dt_interface_choose(all.data(), all.size(), filter, family);
    return i < 0 ? "none"
                 : std::string(all[i].name) + (all[i].address.family == DT_ADDRESS_IPV6 ? "/6" : "/4");
}

TEST(Interface, TheFirstRealOneWinsAndLoopbackIsTheLastResort)
{
    std::vector<dt_interface> all = {Interface("lo", DT_ADDRESS_IPV4, true, true),
                                     Interface("docker0", DT_ADDRESS_IPV4),
                                     Interface("virbr0", DT_ADDRESS_IPV4),
                                     Interface("eth9", DT_ADDRESS_IPV4, false),
                                     Interface("eth0", DT_ADDRESS_IPV6),
                                     Interface("eth0", DT_ADDRESS_IPV4),
                                     Interface("ib0", DT_ADDRESS_IPV4)};
    EXPECT_EQ("eth0/4", Choose(all, ""));
    all.resize(5);
    EXPECT_EQ("eth0/6", Choose(all, ""));
    all.resize(4);
    EXPECT_EQ("lo/4", Choose(all, ""));
    all.erase(all.begin());
    EXPECT_EQ("none", Choose(all, ""));
    EXPECT_EQ("none", Choose({}, ""));
}

TEST(Interface, TheFilterOfTheUserDecides)
{
    std::vector<dt_interface> all = {
        Interface("eth0", DT_ADDRESS_IPV4), Interface("docker0", DT_ADDRESS_IPV4),
        Interface("lo", DT_ADDRESS_IPV4, true, true), Interface("eth1", DT_ADDRESS_IPV4, false)};
    EXPECT_EQ("docker0/4", Choose(all, "docker"));
    EXPECT_EQ("lo/4", Choose(all, "=lo"));
    EXPECT_EQ("docker0/4", Choose(all, "^eth"));
    EXPECT_EQ("none", Choose(all, "eth1")) << "down";
}

TEST(Interface, AFamilyThatWasAskedForIsTheOnlyOne)
{
    std::vector<dt_interface> all = {Interface("eth0", DT_ADDRESS_IPV4), Interface("eth1", DT_ADDRESS_IPV6)};
    EXPECT_EQ("eth1/6", Choose(all, "", DT_ADDRESS_IPV6));
    EXPECT_EQ("eth0/4", Choose(all, "", DT_ADDRESS_IPV4));
    EXPECT_EQ("none", Choose(all, "eth0", DT_ADDRESS_IPV6));
    EXPECT_EQ(DT_ADDRESS_IPV4, dt_address_family_of("AF_INET"));
    EXPECT_EQ(DT_ADDRESS_IPV6, dt_address_family_of("AF_INET6"));
    EXPECT_EQ(DT_ADDRESS_NONE, dt_address_family_of(""));
    detour_test::ExpectWarning("NCCL_SOCKET_FAMILY=inet6: expected AF_INET or AF_INET6");
    EXPECT_EQ(DT_ADDRESS_NONE, dt_address_family_of("inet6"));
}

dt_address Address(uint8_t first, uint8_t second, uint32_t scope = 0)
{
    dt_address out = {};
    out.family = DT_ADDRESS_IPV6;
    out.ip[0] = first;
    out.ip[1] = second;
    out.ip[15] = 1;
    out.scope = scope;
    return out;
}

TEST(Interface, ALinkLocalAddressComesAfterTheOthersAndBeforeLoopback)
{
    std::vector<dt_interface> all = {Interface("lo", DT_ADDRESS_IPV4, true, true),
                                     Interface("eth0", DT_ADDRESS_IPV6), Interface("eth1", DT_ADDRESS_IPV6),
                                     Interface("eth2", DT_ADDRESS_IPV4)};
    all[1].address = Address(0xfe, 0x80, 2);
    EXPECT_EQ("eth2/4", Choose(all, ""));
    EXPECT_EQ("eth1/6", Choose(all, "", DT_ADDRESS_IPV6));
    all.resize(2);
    EXPECT_EQ("eth0/6", Choose(all, ""));
}

TEST(Interface, LinkLocalAddressesOfThisHostAreFound)
{
    dt_address expected, address;
    char name[IF_NAMESIZE], found[32];
    if (!detour_test::FindLinkLocal(&expected))
        GTEST_SKIP() << "this host has no IPv6 link-local address";
    ASSERT_NE(nullptr, if_indextoname(expected.scope, name));
    ASSERT_EQ(DT_OK, dt_interface_find((std::string("=") + name).c_str(), DT_ADDRESS_IPV6, &address, found));
    EXPECT_STREQ(name, found);
    EXPECT_EQ(address.ip[0] == 0xfe ? expected.scope : 0, address.scope);
}

TEST(Interface, ThisHostHasLoopback)
{
    dt_address address;
    char name[32];
    ASSERT_EQ(DT_OK, dt_interface_find("=lo", DT_ADDRESS_NONE, &address, name));
    EXPECT_STREQ("lo", name);
    char text[DT_ADDRESS_TEXT_BYTES];
    EXPECT_STREQ("127.0.0.1:0", dt_address_text(&address, text));
}

/* Without a carrier (IFF_RUNNING), an address alone reaches no peer. */
TEST(Interface, AnInterfaceWithoutALinkIsNotChosen)
{
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    char names[2][IF_NAMESIZE] = {"eth0", "eth1"};
    ifaddrs all[2] = {};
    for (int i = 0; i < 2; i++) {
        all[i].ifa_name = names[i];
        all[i].ifa_flags = IFF_UP | IFF_RUNNING;
        all[i].ifa_addr = reinterpret_cast<sockaddr *>(&at);
    }
    all[0].ifa_next = &all[1];
    g_interfaces = all;
    dt_address address;
    char name[32];
    EXPECT_EQ(DT_OK, dt_interface_find("", DT_ADDRESS_NONE, &address, name));
    EXPECT_STREQ("eth0", name);
    all[0].ifa_flags = IFF_UP;
    EXPECT_EQ(DT_OK, dt_interface_find("", DT_ADDRESS_NONE, &address, name));
    EXPECT_STREQ("eth1", name);
    all[1].ifa_flags = IFF_RUNNING;
    detour_test::ExpectWarning("no network interface for set-up");
    EXPECT_EQ(DT_NOT_FOUND, dt_interface_find("", DT_ADDRESS_NONE, &address, name));
    g_interfaces = nullptr;
}

TEST(Interface, AFilterThatLetsNoneThroughIsNamed)
{
    dt_address address;
    char name[32];
    detour_test::ExpectWarning("DETOUR_SOCKET_IFNAME or NCCL_SOCKET_IFNAME=\"nosuch\"");
    EXPECT_EQ(DT_NOT_FOUND, dt_interface_find("nosuch", DT_ADDRESS_NONE, &address, name));
}

TEST(Interface, ThoseThatAreLeftOutAreNamedOnceEach)
{
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    char names[3][8] = {"lo", "eth0", "lo"}; // an entry per address
    ifaddrs all[3] = {};
    for (int i = 0; i < 3; i++) {
        all[i].ifa_name = names[i];
        all[i].ifa_addr = reinterpret_cast<sockaddr *>(&at);
        all[i].ifa_next = i < 2 ? &all[i + 1] : nullptr;
    }
    g_interfaces = all;
    dt_address address;
    char name[32];
    detour_test::ExpectWarning("those with an address: lo eth0");
    EXPECT_EQ(DT_NOT_FOUND, dt_interface_find("nosuch", DT_ADDRESS_NONE, &address, name));
    g_interfaces = nullptr;
    EXPECT_EQ(std::string::npos, detour_test::LoggedLines().back().find("eth0 lo"));
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
    address = Address(0xfe, 0x80, if_nametoindex("lo"));
    EXPECT_STREQ("[fe80::1%lo]:0", dt_address_text(&address, text));
    address.scope = 0;
    EXPECT_STREQ("[fe80::1]:0", dt_address_text(&address, text)) << "a peer's, as received";
}

TEST(Address, APeersLinkLocalAddressIsValidOnOurOwnLink)
{
    dt_address own = Address(0xfe, 0x80, 3);
    dt_address peer = Address(0xfe, 0xbf), other = Address(0xfe, 0xc0, 9);
    EXPECT_EQ(3u, dt_address_on_link_of(&own, &peer).scope);
    EXPECT_EQ(0u, dt_address_on_link_of(&own, &other).scope) << "fe80::/10 ends before it";
}
} // namespace
