/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch that loses what is large: small messages and small probes pass, so that only a probe of a full
 * path MTU tells that the path is none. Four devices: the sender's are soft0 and soft1, the receiver's soft2
 * and soft3.
 */
#include <gtest/gtest.h>

#include "softrnic/driver.h"
#include "tests/plugin/traffic.h"

namespace
{
using detour_test::CountLines;
using detour_test::net;
using detour_test::Order;
using detour_test::Pair;
using detour_test::Traffic;
using detour_test::Until;

class Mtu : public detour_test::FourDevices
{
};

/* A switch on the way of what soft0 sends whose MTU is too small: what fills a packet is lost. */
class LargePacketsLost
{
  public:
    LargePacketsLost()
    {
        dt_fault_rule rule = {};
        rule.bytes_min = 4096;
        With([&](dt_faults *faults) { rule_ = dt_faults_add(faults, &rule); });
    }
    uint64_t Count() const
    {
        uint64_t count = 0;
        With([&](dt_faults *faults) { count = dt_faults_hits(faults, rule_); });
        return count;
    }
    void End() const
    {
        With([&](dt_faults *faults) { dt_faults_remove(faults, rule_); });
    }

  private:
    template <typename Do>
    static void With(const Do &what)
    {
        uint64_t now_ns;
        dt_soft_device *device = dt_driver_find("soft0", &now_ns);
        ASSERT_NE(nullptr, device);
        what(device->faults);
        dt_driver_unlock(device);
    }
    uint32_t rule_ = 0;
};

/* Small probes pass and the last one does not: the path stays out of use until it does. */
TEST_F(Mtu, APathThatLosesLargePacketsIsNotTakenBack)
{
    Order("soft0", "down");
    Until([&] {
        traffic->Move(10);
        return CountLines("is settled") >= 1 || HasFailure();
    });
    LargePacketsLost lost; // nothing but probes goes over soft0 now
    Order("soft0", "up");
    Until([&] {
        traffic->Move(20);
        return lost.Count() >= 8 || HasFailure(); // two attempts or more, with the hardware's repetitions
    });
    EXPECT_EQ(0, CountLines("is in use again"));
    lost.End();
    Until([&] {
        traffic->Move(20);
        return CountLines("is in use again") >= 2 || HasFailure();
    });
    traffic->Move(50);
}

/* The same when a connection is set up: it begins on its other path. */
TEST_F(Mtu, APathThatLosesLargePacketsIsNotUsedFromTheBeginning)
{
    detour_test::ExpectWarning("path 0 is not used until it answers: soft0 (GID ");
    LargePacketsLost lost;
    Pair late(net);
    late.Connect(0, 2);
    ASSERT_FALSE(HasFailure());
    EXPECT_LE(1u, lost.Count());
    EXPECT_EQ(1, CountLines("paths soft0-soft2 (down), soft1-soft3 ("));
    Traffic more(late);
    more.Move(50);
    lost.End();
    Until([&] {
        more.Move(20);
        return CountLines("path 0, soft0 to soft2, is in use again") >= 1 || HasFailure();
    });
    more.Move(50);
}

} // namespace
