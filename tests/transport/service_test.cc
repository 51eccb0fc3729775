/* SPDX-License-Identifier: Apache-2.0 */
/* A round: when the next is due, what it tidies, and who owns a connection afterwards. */
#include "transport/service.h"

#include <sys/socket.h>

#include <algorithm>

#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/session/session.h"
#include "transport/takeover.h"

/* The linker puts these in front of what a round calls (CMakeLists.txt). */
extern "C" void __real_dt_takeover_run(dt_connection *c, uint64_t now_ns);
extern "C" void __wrap_dt_takeover_run(dt_connection *c, uint64_t now_ns);
extern "C" uint64_t __real_dt_device_thread_later_ns(const dt_nic *nic, uint64_t now_ns);
extern "C" uint64_t __wrap_dt_device_thread_later_ns(const dt_nic *nic, uint64_t now_ns);

namespace
{
uint64_t takeover_lasts_ns; /* and NCCL's call is refused meanwhile; 0: as always */
uint64_t clock_ns;
} // namespace

void __wrap_dt_takeover_run(dt_connection *c, uint64_t now_ns)
{
    __real_dt_takeover_run(c, now_ns);
    if (takeover_lasts_ns == 0)
        return;
    clock_ns = now_ns + takeover_lasts_ns;
    EXPECT_FALSE(dt_owner_enter(&c->owner));
}

uint64_t __wrap_dt_device_thread_later_ns(const dt_nic *nic, uint64_t now_ns)
{
    return std::max(clock_ns, __real_dt_device_thread_later_ns(nic, now_ns));
}

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

/* On a busy machine a takeover lasts as long as its thread waits for a processor. The connection is not taken
 * again at once, as NCCL has called meanwhile: NCCL's calls would be refused for ever. */
TEST_F(Service, AfterATakeoverThatLastsNcclHasTheWholeIntervalAgain)
{
    Listen();
    Establish();
    dt_nic *nic = receiver->nic;
    const uint64_t &count = receiver->meter.row->takeover_count;
    uint64_t interval_ns = here.params.idle_takeover_us * DT_NS_PER_US;
    receiver->open_requests++; // as if an irecv were open
    dt_service_progress(nic, now_ns);
    uint64_t before = count;

    takeover_lasts_ns = 5 * interval_ns;
    dt_service_progress(nic, now_ns += interval_ns);
    takeover_lasts_ns = 0;
    ASSERT_EQ(before + 1, count);
    now_ns = clock_ns;
    dt_service_progress(nic, now_ns);
    dt_service_progress(nic, now_ns + interval_ns - 1);
    EXPECT_EQ(before + 1, count);
    dt_service_progress(nic, now_ns += interval_ns);
    EXPECT_EQ(before + 2, count);
    clock_ns = 0;
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
