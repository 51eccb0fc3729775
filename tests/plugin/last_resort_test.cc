/* SPDX-License-Identifier: Apache-2.0 */
/* Drained devices are the last resort, whatever happened before: links, rules and drains in any mix. */
#include <random>

#include "tests/plugin/fault_fixture.h"

namespace
{
using namespace detour_test;

const char *const kDevices[] = {"soft0", "soft1", "soft2", "soft3"};

void Drain(const char *device, bool is_drained)
{
    char answer[256];
    ASSERT_EQ(DT_OK, dt_net_drain(dt_plugin_current()->net, device, is_drained, answer, sizeof answer))
        << answer;
}

class LastResort : public Fault
{
  protected:
    /* Traffic that need not get anywhere, since no path may be up. */
    void Offer(int milliseconds)
    {
        auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
        while (std::chrono::steady_clock::now() < end && !HasFailure()) {
            traffic->PostReceives(posted);
            traffic->PostSends(posted);
            traffic->Reap();
        }
    }
    void Disturb(std::mt19937 &random)
    {
        const char *device = kDevices[random() % 4];
        switch (random() % 6) {
        case 0:
        case 1:
            Order(device, "down");
            break;
        case 2:
            Order(device, "up");
            break;
        case 3:
            Drain(device, random() % 2);
            break;
        case 4:
            AddRule("device=" + std::string(device) + " down to=" + std::to_string(1 + random() % 30) + "ms");
            break;
        default:
            AddRule("device=" + std::string(device) + " latency=uniform(0ms,3ms) to=50ms");
        }
    }
    /* Nothing fails any more; what is drained stays drained. */
    void Heal()
    {
        Inject("clear");
        for (const char *device : kDevices)
            Order(device, "up");
    }

    int posted = 1 << 20; /* more than is ever sent */
};

/* All devices of one host are drained, and then each link fails and comes back. */
TEST_F(LastResort, DevicesThatAreAllDrainedAreUsedAgainAfterTheirLinksFlapped)
{
    for (int first : {0, 2}) {
        Drain(kDevices[first], true);
        Drain(kDevices[first + 1], true);
        for (int i : {first, first + 1})
            Order(kDevices[i], "down");
        Offer(30);
        for (int i : {first, first + 1})
            Order(kDevices[i], "up");
        traffic->Move(100);
        Drain(kDevices[first], false);
        Drain(kDevices[first + 1], false);
    }
}

/* The other device fails for good: the drained one is well. */
TEST_F(LastResort, ADrainedDeviceIsUsedWhenTheOtherFails)
{
    Drain("soft0", true);
    AwaitReports(1);
    Order("soft1", "down");
    traffic->Move(100);
    Order("soft1", "up");
}

TEST_F(LastResort, AnyMixOfFaultsAndDrainsEndsWithTraffic)
{
    for (unsigned seed = 1; seed <= 6 && !HasFailure(); seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        for (int i = 0; i < 25 && !HasFailure(); i++) {
            Disturb(random);
            Offer(static_cast<int>(random() % 12));
        }
        if (seed % 2) {
            for (const char *device : kDevices)
                Drain(device, true);
            for (const char *device : kDevices)
                Order(device, "down");
            Offer(20);
        }
        Heal();
        int received = traffic->Received();
        Until([&] {
            Offer(5);
            return traffic->Received() >= received + 100 || HasFailure();
        });
    }
}
} // namespace
