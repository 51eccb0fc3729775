/* SPDX-License-Identifier: Apache-2.0 */
/* Which RNICs back up which, on made-up hosts. */
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "failover/backup.h"

namespace
{
/* A host: its devices, and what its user set. */
struct Host {
    std::vector<std::string> names;
    std::vector<dt_backup_device> devices;
    std::string setting;

    /* "0011": the NUMA node of each device; 'i' is an InfiniBand device of node 0, '-' a rail without a link.
     */
    explicit Host(const std::string &nodes, std::string backup = "") : setting(std::move(backup))
    {
        names.reserve(nodes.size());
        for (size_t rail = 0; rail < nodes.size(); rail++) {
            if (nodes[rail] == '-')
                continue;
            bool is_infiniband = nodes[rail] == 'i';
            names.push_back("n" + std::to_string(rail));
            devices.push_back(
                {nullptr, (uint32_t)rail, is_infiniband ? 0 : nodes[rail] - '0', is_infiniband ? 1u : 2u});
            devices.back().name = names.back().c_str();
        }
    }
    Host(const Host &) = delete;

    uint32_t Find(const std::string &name) const
    {
        for (uint32_t i = 0; i < devices.size(); i++)
            if (name == devices[i].name)
                return i;
        ADD_FAILURE() << name;
        return 0;
    }
    dt_backup_list List(const std::string &self) const
    {
        dt_backup_list list;
        dt_backup_make_list(devices.data(), (uint32_t)devices.size(), Find(self), setting.c_str(), &list);
        return list;
    }
    dt_backup_offer Offer(const std::string &self) const
    {
        dt_backup_list list = List(self);
        dt_backup_offer offer;
        dt_backup_make_offer(devices.data(), &list, &offer);
        return offer;
    }
    std::string Name(const std::string &self, uint32_t place) const
    {
        return devices[List(self).index[place]].name;
    }
    std::string Check() const
    {
        char error[256] = "";
        dt_status status =
            dt_backup_check(setting.c_str(), devices.data(), (uint32_t)devices.size(), error, sizeof error);
        EXPECT_EQ(status == DT_OK, !*error);
        return error;
    }
};

/* "n1-n1 same rail, ..." */
std::string Paths(const Host &sender, const std::string &from, const Host &receiver, const std::string &to,
                  uint32_t paths_max = 2)
{
    dt_backup_offer a = sender.Offer(from), b = receiver.Offer(to);
    dt_backup_pair pairs[DT_PATHS_MAX];
    uint32_t count = dt_backup_make_pairs(&a, &b, paths_max, pairs);
    std::string text;

    EXPECT_GE(count, 1u);
    EXPECT_LE(count, paths_max);
    for (uint32_t p = 0; p < count; p++) {
        text +=
            (p ? ", " : "") + sender.Name(from, pairs[p].sender) + "-" + receiver.Name(to, pairs[p].receiver);
        if (p)
            text += std::string(" ") + dt_backup_kind_text(pairs[p].kind);
    }
    return text;
}

TEST(Backup, TakesTheNextOfTheNodeOnTheSameRail)
{
    Host a("00001111"), b("00001111");
    EXPECT_EQ("n0-n0, n1-n1 same rail", Paths(a, "n0", b, "n0"));
    EXPECT_EQ("n2-n2, n3-n3 same rail", Paths(a, "n2", b, "n2"));
    EXPECT_EQ("n3-n3, n0-n0 same rail", Paths(a, "n3", b, "n3")) << "round in its node";
    EXPECT_EQ("n7-n7, n4-n4 same rail", Paths(a, "n7", b, "n7"));
    EXPECT_EQ("n6-n6, n7-n7 same rail, n4-n4 same rail, n5-n5 same rail", Paths(a, "n6", b, "n6", 4));
}

TEST(Backup, OfADeviceAloneInItsNodeIsAnyOther)
{
    Host a("0111"), b("0111");
    EXPECT_EQ("n0-n0, n1-n1 same rail", Paths(a, "n0", b, "n0"));
    EXPECT_EQ("n1-n1, n2-n2 same rail", Paths(a, "n1", b, "n1"));
}

TEST(Backup, ChoosesTheRailBeforeTheNode)
{
    Host a("01"), b("0011");
    EXPECT_EQ("n0-n0, n1-n1 same rail", Paths(a, "n0", b, "n0"));
    EXPECT_EQ("n1-n3, n0-n0 same rail", Paths(a, "n1", b, "n3"));
}

TEST(Backup, WithoutACommonRailIsOfTheSameNodeIfItCan)
{
    Host a("00"), b("--0011");
    EXPECT_EQ("n0-n2, n1-n3 same node", Paths(a, "n0", b, "n2"));
    Host c("--01"), d("01");
    EXPECT_EQ("n2-n0, n3-n1 distant", Paths(c, "n2", d, "n0"));
}

/* 1 and 2, 2 and 8, odd counts: in both directions. */
TEST(Backup, OfAsymmetricHosts)
{
    Host one("0"), two("00"), three("001"), eight("00001111");
    EXPECT_EQ("n0-n0", Paths(one, "n0", one, "n0", 4)) << "its next epoch is the backup";
    EXPECT_EQ("n0-n0, n0-n1 same node", Paths(one, "n0", two, "n0", 4));
    EXPECT_EQ("n1-n0, n0-n0 same rail", Paths(two, "n1", one, "n0", 4));
    EXPECT_EQ("n0-n0, n1-n1 same rail", Paths(two, "n0", eight, "n0"));
    EXPECT_EQ("n1-n5, n0-n0 same rail", Paths(two, "n1", eight, "n5"));
    EXPECT_EQ("n0-n0, n1-n1 same rail, n0-n2 same node, n0-n3 same node", Paths(two, "n0", eight, "n0", 4));
    EXPECT_EQ("n2-n2, n0-n0 same rail, n1-n1 same rail, n2-n3 same node", Paths(three, "n2", eight, "n2", 4));
    EXPECT_EQ("n2-n0, n1-n1 same rail", Paths(three, "n2", two, "n0"));
}

/* A rail without a link at one end shifts nothing. */
TEST(Backup, CountsRailsWithoutALink)
{
    Host a("0000"), b("0-00");
    EXPECT_EQ("n0-n0, n2-n2 same rail", Paths(a, "n0", b, "n0"));
    EXPECT_EQ("n1-n0, n2-n2 same rail", Paths(a, "n1", b, "n0"));
}

TEST(Backup, IsNeverOfAnotherLinkLayer)
{
    Host a("0i0"), b("000");
    EXPECT_EQ("n0-n0, n2-n2 same rail", Paths(a, "n0", b, "n0"));
    Host c("0i"), d("0i");
    EXPECT_EQ("n0-n0", Paths(c, "n0", d, "n0"));
}

/* What holds for all hosts, whatever they have. */
TEST(Backup, AlwaysBringsADeviceThatNoEarlierPathHas)
{
    const char *hosts[] = {
        "0", "00", "01", "001", "0011", "01010", "0000111", "00001111", "0000000000000000000"};
    for (const char *sender : hosts) {
        for (const char *receiver : hosts) {
            Host a(sender), b(receiver);
            for (size_t i = 0; i < a.devices.size(); i++) {
                for (size_t j = 0; j < b.devices.size(); j++) {
                    dt_backup_offer from = a.Offer(a.names[i]), to = b.Offer(b.names[j]);
                    dt_backup_pair pair[DT_PATHS_MAX];
                    uint32_t count = dt_backup_make_pairs(&from, &to, DT_PATHS_MAX, pair), used_a = 0,
                             used_b = 0;
                    uint32_t common = std::min(from.count, to.count);
                    EXPECT_EQ(count,
                              std::min<uint32_t>(DT_PATHS_MAX, from.count + to.count - 1 - (common - 1)));
                    EXPECT_EQ(0u, pair[0].sender + pair[0].receiver);
                    for (uint32_t p = 0; p < count; p++) {
                        bool is_new_a = !(used_a >> pair[p].sender & 1),
                             is_new_b = !(used_b >> pair[p].receiver & 1);
                        EXPECT_TRUE(is_new_a || is_new_b) << sender << " " << receiver;
                        EXPECT_TRUE((is_new_a && is_new_b) || p >= common) << sender << " " << receiver;
                        used_a |= 1u << pair[p].sender;
                        used_b |= 1u << pair[p].receiver;
                    }
                }
            }
        }
    }
}

/* Connections of all devices of a node fall on different backups when theirs fail together one by one. */
TEST(Backup, IsEachDeviceOfTheNodeInTurn)
{
    Host a("0000"), b("0000");
    std::string all;
    for (const char *name : {"n0", "n1", "n2", "n3"})
        all += Paths(a, name, b, name).substr(7, 2);
    EXPECT_EQ("n1n2n3n0", all);
}

/* ------------------------------------------------------------------------------------------------------------
 * DETOUR_BACKUP
 */
TEST(BackupSetting, OfOneEndOverridesTheNearest)
{
    Host a("00001111", "n0=n5,n0=n6"), b("00001111");
    EXPECT_EQ("n0-n0, n5-n5 DETOUR_BACKUP", Paths(a, "n0", b, "n0"));
    EXPECT_EQ("n0-n0, n5-n5 DETOUR_BACKUP, n6-n6 DETOUR_BACKUP", Paths(a, "n0", b, "n0", 3));
    EXPECT_EQ("n0-n0, n5-n5 DETOUR_BACKUP", Paths(b, "n0", a, "n0")) << "also as the receiver";
    EXPECT_EQ("n1-n1, n2-n2 same rail", Paths(a, "n1", b, "n1")) << "no item for it, and none for all";
}

TEST(BackupSetting, WithoutADeviceIsForAll)
{
    Host a("0000", "n3,n2"), b("0000");
    EXPECT_EQ("n0-n0, n3-n3 DETOUR_BACKUP, n2-n2 DETOUR_BACKUP", Paths(a, "n0", b, "n0", 3));
    EXPECT_EQ("n3-n3, n2-n2 DETOUR_BACKUP", Paths(a, "n3", b, "n3")) << "itself is left out";
    Host c("0000", "n3,n0=n1"), d("0000");
    EXPECT_EQ("n0-n0, n1-n1 DETOUR_BACKUP", Paths(c, "n0", d, "n0")) << "its own item comes first";
    EXPECT_EQ("n1-n1, n3-n3 DETOUR_BACKUP", Paths(c, "n1", d, "n1"));
}

TEST(BackupSetting, OfBothEndsIsTakenInTheOrderOfBoth)
{
    Host a("0000", "n0=n1,n0=n2"), b("0000", "n0=n3,n0=n2");
    EXPECT_EQ("n0-n0, n1-n3 DETOUR_BACKUP, n2-n2 DETOUR_BACKUP", Paths(a, "n0", b, "n0", 4));
}

TEST(BackupSetting, IsTakenFromTheDevicesWithALink)
{
    Host a("0-0", "n0=n1,n0=n2"), b("000");
    EXPECT_EQ("n0-n0, n2-n2 DETOUR_BACKUP", Paths(a, "n0", b, "n0"));
    Host c("0-0", "n0=n1");
    EXPECT_EQ("n0-n0, n0-n1 DETOUR_BACKUP", Paths(c, "n0", b, "n0"));
}

TEST(BackupSetting, IsRefusedWithTheRightForm)
{
    EXPECT_EQ("", Host("00").Check());
    EXPECT_EQ("", Host("00", "n0=n1,n1=n0").Check());
    EXPECT_EQ("", Host("00", "n1").Check());
    EXPECT_EQ("'n7' is no device here; there are n0 n1", Host("00", "n0=n7").Check());
    EXPECT_EQ("'n7' is no device here; there are n0 n1", Host("00", "n7=n0").Check());
    EXPECT_EQ("'n' is no device here; there are n0 n1", Host("00", "n").Check()) << "whole names";
    EXPECT_EQ("n1 cannot be its own backup", Host("00", "n0=n1,n1=n1").Check());
    EXPECT_EQ("n1 cannot back up n0: one is InfiniBand, the other Ethernet", Host("0i", "n0=n1").Check());
    for (const char *wrong : {",", "n0=", "=n1", "n0=n1,,n1", "="})
        EXPECT_EQ("expected names of backups, or DEVICE=BACKUP, separated by commas: soft0=soft1,soft1=soft0",
                  Host("00", wrong).Check())
            << wrong;
}
} // namespace
