/* SPDX-License-Identifier: Apache-2.0 */
/* A round: when the next is due, what it tidies, and who owns a connection afterwards. */
#include "transport/service.h"

#include <sys/socket.h>

#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/session/session.h"

namespace
{
class Service : public detour_test::TwoNets
{
};

TEST_F(Service, WithoutConnectionsNoRoundIsDue)
{
    EXPECT_EQ(DT_NEVER_NS, dt_service_progress(&here.net->nic[1], now_ns));
}

TEST_F(Service, RoundsOverAQuietConnectionBecomeRarerUpToAHundredMilliseconds)
{
    Listen();
    Establish();
    uint64_t period_ns = here.params.idle_takeover_us * DT_NS_PER_US;
    receiver->nic->service->quiet_since_ns = now_ns;
    uint64_t first_ns = dt_service_progress(receiver->nic, now_ns) - now_ns;
    EXPECT_LE(first_ns, period_ns);
    uint64_t later_ns = now_ns + 10 * DT_NS_PER_S;
    uint64_t last_ns = dt_service_progress(receiver->nic, later_ns) - later_ns;
    EXPECT_LE(last_ns, 100 * DT_NS_PER_MS);
}

TEST_F(Service, AConnectionIsOnItsDefaultDevicesListFromTheSetUpToTheClose)
{
    Listen();
    Establish();
    dt_nic *nic = receiver->nic;
    EXPECT_EQ(&receiver->node, nic->service->connections.next);
    EXPECT_TRUE(dt_list_is_empty(&here.net->nic[1].service->connections));
    dt_net_close(receiver);
    receiver = nullptr;
    EXPECT_TRUE(dt_list_is_empty(&nic->service->connections));
}

TEST_F(Service, GivesAConnectionBackThatItHasTakenOver)
{
    Listen();
    Establish();
    receiver->open_requests++; // as if an irecv were open
    for (int i = 0; i < 20; i++)
        Step();
    EXPECT_GE(receiver->meter.row->takeover_count, 1u);
    EXPECT_EQ(DT_HOLDER_NCCL, (dt_holder)receiver->owner.holder);
    EXPECT_EQ(0u, receiver->service->claims);
    EXPECT_TRUE(dt_owner_enter(&receiver->owner));
    dt_owner_leave(&receiver->owner);
    receiver->open_requests--;
}

TEST_F(Service, DropsLatePendingPeersWithoutACallOfAccept)
{
    Listen();
    detour_test::RawClient silent(handle);
    StepUntil([&] { return Stats().pending_peers == 1; });
    now_ns += DT_PENDING_PEER_NS;
    StepUntil([&] { return Stats().pending_peers == 0; });
    EXPECT_EQ(1u, Stats().dropped_silent);
}

TEST_F(Service, DestroysASessionThatIsOver)
{
    Listen();
    Establish();
    dt_nic *nic = sender->nic;
    dt_net_close(sender);
    sender = nullptr;
    EXPECT_FALSE(dt_list_is_empty(&nic->service->sessions));
    StepUntil([&] { return dt_list_is_empty(&nic->service->sessions); });
}
} // namespace
