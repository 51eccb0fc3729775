/* SPDX-License-Identifier: Apache-2.0 */
/* Administrative drain: which paths it marks, what it answers, and its end. */
#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"

namespace
{
class Drain : public detour_test::TwoNets
{
  protected:
    char answer[256] = "";

    bool IsMarked(const dt_connection *c, uint32_t path) const
    {
        return dt_load_relaxed(&c->faults) & 1u << (DT_FAULT_ADMIN + path);
    }
};

TEST_F(Drain, OfADeviceThatDoesNotExistNamesThoseThatDo)
{
    EXPECT_EQ(DT_NOT_FOUND, dt_net_drain(here.net, "soft9", true, answer, sizeof answer));
    EXPECT_STREQ("no device named 'soft9' is in use; there are soft0 soft1", answer);
}

TEST_F(Drain, MarksThePathsOverTheDeviceAndNoOther)
{
    Listen();
    Establish();
    ASSERT_EQ(2u, sender->path_count);
    ASSERT_STREQ("soft1", sender->path[1].nic->name);
    EXPECT_EQ(DT_OK, dt_net_drain(there.net, "soft1", true, answer, sizeof answer));
    EXPECT_STREQ("soft1: 1 connections leave it, those that have another path", answer);
    EXPECT_TRUE(sender->path[1].nic->is_drained);
    EXPECT_TRUE(IsMarked(sender, 1));
    EXPECT_FALSE(IsMarked(sender, 0));
    EXPECT_FALSE(IsMarked(receiver, 1)) << "the drain is of the other process's device";
}

TEST_F(Drain, ItsEndHintsThatThePathMayReturn)
{
    Listen();
    Establish();
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft1", true, answer, sizeof answer));
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft1", false, answer, sizeof answer));
    EXPECT_STREQ("soft1: 1 connections may use it again", answer);
    EXPECT_FALSE(sender->path[1].nic->is_drained);
    EXPECT_EQ(1u << 1, dt_load_relaxed(&sender->hints));
}

TEST_F(Drain, OfOneConnectionLeavesTheDeviceInUse)
{
    char scope[32];

    Listen();
    Establish();
    snprintf(scope, sizeof scope, "id=%016llx", (unsigned long long)sender->id);
    ASSERT_EQ(DT_OK, dt_net_drain_some(there.net, "soft0", scope, true, answer, sizeof answer)) << answer;
    EXPECT_STREQ("soft0: 1 connections leave it, those that have another path", answer);
    EXPECT_TRUE(IsMarked(sender, 0));
    EXPECT_FALSE(IsMarked(sender, 1));
    EXPECT_TRUE(dt_path_is_drained(&sender->path[0]));
    EXPECT_FALSE(dt_path_is_drained(&sender->path[1]));
    EXPECT_FALSE(sender->path[0].nic->is_drained) << "other connections stay";
    ASSERT_EQ(DT_OK, dt_net_drain_some(there.net, "soft0", scope, false, answer, sizeof answer)) << answer;
    EXPECT_STREQ("soft0: 1 connections may use it again", answer);
    EXPECT_FALSE(dt_path_is_drained(&sender->path[0]));
    EXPECT_EQ(1u << 0, dt_load_relaxed(&sender->hints));
}

TEST_F(Drain, OfADeviceEndsThoseOfItsConnections)
{
    Listen();
    Establish();
    ASSERT_EQ(DT_OK, dt_net_drain_some(there.net, "soft1", "connection=0", true, answer, sizeof answer));
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft1", false, answer, sizeof answer));
    EXPECT_FALSE(dt_path_is_drained(&sender->path[1]));
}

TEST_F(Drain, OfADeviceOutlastsThatOfAConnection)
{
    Listen();
    Establish();
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft0", true, answer, sizeof answer));
    ASSERT_EQ(DT_OK, dt_net_drain_some(there.net, "soft0", "connection=0", false, answer, sizeof answer));
    EXPECT_STREQ("soft0: 1 connections may use it again once the drain of the device has ended", answer);
    EXPECT_TRUE(dt_path_is_drained(&sender->path[0]));
}

TEST_F(Drain, OfAConnectionThatDoesNotSendIsRefused)
{
    char scope[32];

    Listen();
    Establish();
    snprintf(scope, sizeof scope, "id=%016llx", (unsigned long long)sender->id);
    EXPECT_EQ(DT_NOT_FOUND, dt_net_drain_some(here.net, "soft0", scope, true, answer, sizeof answer));
    EXPECT_EQ("no connection that sends over soft0 matches '" + std::string(scope) + "'", answer);
    EXPECT_EQ(DT_NOT_FOUND, dt_net_drain_some(there.net, "soft9", scope, true, answer, sizeof answer));
    EXPECT_STREQ("no device named 'soft9' is in use; there are soft0 soft1", answer);
    EXPECT_EQ(DT_INVALID, dt_net_drain_some(there.net, "soft0", "device=soft1", true, answer, sizeof answer));
    EXPECT_STREQ("the device is named twice", answer);
    EXPECT_EQ(DT_INVALID, dt_net_drain_some(there.net, "soft0", "latency=1ms", true, answer, sizeof answer));
    EXPECT_FALSE(dt_path_is_drained(&sender->path[0]));
    EXPECT_FALSE(dt_path_is_drained(&receiver->path[0]));
}

TEST_F(Drain, IsListedBehindTheStateOfTheDevice)
{
    const char *list = "soft0 soft up, soft1 soft down";
    char scope[32];

    Listen();
    Establish();
    dt_net_list_drained(there.net, list, answer, sizeof answer);
    EXPECT_STREQ(list, answer);
    snprintf(scope, sizeof scope, "id=%016llx", (unsigned long long)sender->id);
    ASSERT_EQ(DT_OK, dt_net_drain_some(there.net, "soft0", scope, true, answer, sizeof answer)) << answer;
    dt_net_list_drained(there.net, list, answer, sizeof answer);
    EXPECT_STREQ(list, answer) << "other connections use the device";
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft1", true, answer, sizeof answer));
    dt_net_list_drained(there.net, list, answer, sizeof answer);
    EXPECT_STREQ("soft0 soft up, soft1 soft down drained", answer);
    dt_net_list_drained(there.net, "soft10 system, soft1 system", answer, sizeof answer);
    EXPECT_STREQ("soft10 system, soft1 system drained", answer);
    ASSERT_EQ(DT_OK, dt_net_drain(there.net, "soft1", false, answer, sizeof answer));
    dt_net_list_drained(there.net, list, answer, sizeof answer);
    EXPECT_STREQ(list, answer);
}

/* A device is listed by its name, and its further ports are drained by theirs. */
TEST_F(Drain, OfAFurtherPortIsAnEntryOfItsOwn)
{
    snprintf(here.net->nic[1].name, sizeof here.net->nic[1].name, "soft0:2");
    ASSERT_EQ(DT_OK, dt_net_drain(here.net, "soft0:2", true, answer, sizeof answer)) << answer;
    dt_net_list_drained(here.net, "soft0 system, soft1 system", answer, sizeof answer);
    EXPECT_STREQ("soft0 system, soft0:2 system drained, soft1 system", answer);
}

TEST_F(Drain, AListThatDoesNotFitIsCut)
{
    char tiny[16];

    ASSERT_EQ(DT_OK, dt_net_drain(here.net, "soft0", true, answer, sizeof answer));
    dt_net_list_drained(here.net, "soft0 soft up, soft1 soft up", tiny, sizeof tiny);
    EXPECT_STREQ("soft0 soft up d", tiny);
    dt_net_list_drained(here.net, "", tiny, sizeof tiny);
    EXPECT_STREQ("", tiny);
}

TEST_F(Drain, WithoutConnectionsMarksTheDeviceAlone)
{
    EXPECT_EQ(DT_OK, dt_net_drain(here.net, "soft0", true, answer, sizeof answer));
    EXPECT_STREQ("soft0: 0 connections leave it, those that have another path", answer);
    EXPECT_TRUE(here.net->nic[0].is_drained);
    EXPECT_FALSE(here.net->nic[1].is_drained);
}
} // namespace
