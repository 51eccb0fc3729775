/* SPDX-License-Identifier: Apache-2.0 */
/* The command `hostpath`: which senders an order reaches, and what it answers. */
#include "tests/transport/two_nets.h"

#include "hostpath/staged/stage.h"
#include "transport/message/connection.h"

namespace
{
void SetHostpath(dt_params &params, const char *mode)
{
    snprintf(params.hostpath, sizeof params.hostpath, "%s", mode);
    params.hostpath_bytes = 1 << 20;
}

class HostpathOrder : public detour_test::TwoNets
{
  protected:
    HostpathOrder() : TwoNets([](dt_params &params, dt_net_options &) { SetHostpath(params, "auto"); }) {}

    /* The status; its line is in `answer`. */
    dt_status Order(const std::string &args)
    {
        return dt_net_hostpath_command(there.net, args.c_str(), answer, sizeof answer);
    }
    dt_hostpath_mode Mode() const
    {
        return dt_stage_mode(dt_sender_of(sender));
    }

    char answer[512] = "";
};

TEST_F(HostpathOrder, WithoutAScopeReachesAllAndThoseToCome)
{
    EXPECT_EQ(DT_OK, Order("off"));
    EXPECT_STREQ("off: 0 connections, and those to come", answer);
    Listen();
    Establish();
    EXPECT_EQ(DT_HOSTPATH_OFF, Mode());
    EXPECT_EQ(DT_OK, Order("on"));
    EXPECT_STREQ("on: 1 connections, and those to come", answer);
    EXPECT_EQ(DT_HOSTPATH_ON, Mode());
    EXPECT_EQ(DT_OK, Order("list"));
    EXPECT_STREQ("on 1 0 0", answer);
}

TEST_F(HostpathOrder, WithAScopeReachesTheSendersThatMatch)
{
    char id[32];
    Listen();
    Establish();
    snprintf(id, sizeof id, "%016llx", (unsigned long long)sender->id);
    const struct {
        std::string scope;
        bool matches;
    } rows[] = {{"connection=0", true},
                {"connection=1", false},
                {"device=soft1", true},
                {"device=soft9", false},
                {"peer=" + std::string(sender->peer).substr(0, std::string(sender->peer).find(':')), true},
                {"peer=nobody:1", false},
                {std::string("id=") + id, true},
                {"id=0000000000000001", false}};
    for (const auto &row : rows) {
        ASSERT_EQ(DT_OK, Order("auto"));
        EXPECT_EQ(row.matches ? DT_OK : DT_NOT_FOUND, Order("off " + row.scope)) << row.scope;
        EXPECT_EQ(row.matches ? DT_HOSTPATH_OFF : DT_HOSTPATH_AUTO, Mode()) << row.scope;
        EXPECT_EQ(row.matches ? "off: 1 connections" : "no connection that sends matches '" + row.scope + "'",
                  answer);
    }
    ASSERT_EQ(DT_OK, Order("off connection=0"));
    EXPECT_EQ(DT_OK, Order("list"));
    EXPECT_STREQ("auto 0 0 1", answer);
    EXPECT_EQ(DT_OK, Order("auto")); /* an order for all ends the others */
    EXPECT_EQ(DT_HOSTPATH_AUTO, Mode());
}

TEST_F(HostpathOrder, OtherWordsAreRefusedAndChangeNothing)
{
    Listen();
    Establish();
    for (const char *args : {"", "o", "onn", "none", "On", "list all"}) {
        EXPECT_EQ(DT_INVALID, Order(args)) << args;
        EXPECT_STREQ("expected on, off, auto or list", answer);
    }
    EXPECT_EQ(DT_INVALID, Order("on latency=3ms"));
    EXPECT_STREQ("line 1, column 1: expected device=, peer=, connection= or id=, got 'latency=3ms'", answer);
    EXPECT_EQ(DT_HOSTPATH_AUTO, Mode());
}

class HostpathOrderOff : public detour_test::TwoNets
{
};

TEST_F(HostpathOrderOff, AProcessWithoutMemoryForItRefuses)
{
    char answer[512];
    Listen();
    Establish();
    for (const char *args : {"on", "auto", "off", "on connection=0"}) {
        EXPECT_EQ(DT_UNSUPPORTED, dt_net_hostpath_command(there.net, args, answer, sizeof answer));
        EXPECT_STREQ("the process was started with DETOUR_HOSTPATH=off and has no memory to stage messages "
                     "in; start it with DETOUR_HOSTPATH=auto",
                     answer);
    }
    EXPECT_EQ(DT_OK, dt_net_hostpath_command(there.net, "list", answer, sizeof answer));
    EXPECT_STREQ("none 0 0 0", answer);
}
} // namespace
