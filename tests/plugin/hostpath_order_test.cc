/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host path switched by order, over the control socket, while messages and their paths come and go: what
 * is sent after an order goes as ordered, and every message arrives whole and in its order.
 */
#include <unistd.h>

#include "base/param.h"
#include "obs/client.h"
#include "obs/command.h"
#include "obs/runtime_dir.h"
#include "tests/plugin/traffic.h"
#include "transport/message/sender.h"

namespace
{
using detour_test::CountLines;
using detour_test::Order;
using detour_test::Until;

class HostpathOrder : public detour_test::FourDevices
{
  protected:
    /* `detour hostpath ARGS` at this process. */
    static std::string Switch(const std::string &args)
    {
        dt_runtime_dir dir;
        char answer[DT_COMMAND_ANSWER_BYTES], reason[256];
        EXPECT_EQ(DT_OK, dt_runtime_dir_open(dt_getenv_process(nullptr, "DETOUR_RUNTIME_DIR"), 0, &dir,
                                             reason, sizeof reason))
            << reason;
        EXPECT_EQ(DT_OK,
                  dt_client_call(&dir, getpid(), ("hostpath " + args).c_str(), 60000, answer, sizeof answer))
            << answer;
        dt_runtime_dir_close(&dir);
        return answer;
    }
    const dt_sender *Sender() const
    {
        return dt_sender_of(static_cast<dt_connection *>(pair.send));
    }
    uint64_t Staged() const
    {
        return dt_load_relaxed(&Sender()->connection.meter.row->staged_count);
    }
    /* The scope of this connection alone. */
    std::string Alone() const
    {
        return " connection=" + std::to_string(Sender()->gate.number);
    }
};

TEST_F(HostpathOrder, HoldsFromTheNextMessageOn)
{
    EXPECT_EQ("on: 1 connections, and those to come", Switch("on"));
    uint64_t staged = Staged();
    traffic->Move(50);
    EXPECT_EQ(staged + 50, Staged());
    EXPECT_EQ("off: 1 connections", Switch("off" + Alone()));
    traffic->Move(50);
    EXPECT_EQ(staged + 50, Staged());
    EXPECT_EQ("on 0 0 1", Switch("list"));
    EXPECT_EQ(1, CountLines("`detour hostpath` by the operator: off: 1 connections"));
}

/* Orders fall between messages that are staged and not delivered, and into both switches of a failover. */
TEST_F(HostpathOrder, ComesAtAnyTimeAlsoDuringAFailover)
{
    const std::string modes[] = {"on", "off", "auto", "on" + Alone(), "off" + Alone()};
    int orders = 0;
    auto switch_often = [&](int sent) {
        if (sent % 7 == 0)
            Switch(modes[orders++ % 5]);
    };
    for (const char *device : {"soft0", "soft2"}) {
        int settled = CountLines("is settled"), back = CountLines("is in use again");
        traffic->Move(100, switch_often);
        Order(device, "down");
        Until([&] {
            traffic->Move(20, switch_often);
            return CountLines("is settled") > settled || HasFailure();
        });
        Order(device, "up");
        Until([&] {
            traffic->Move(20, switch_often);
            return CountLines("is in use again") >= back + 2 || HasFailure();
        });
    }
    Switch("on");
    uint64_t staged = Staged();
    traffic->Move(50);
    EXPECT_EQ(staged + 50, Staged());
}
} // namespace
