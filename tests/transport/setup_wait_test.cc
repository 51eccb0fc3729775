/* SPDX-License-Identifier: Apache-2.0 */
/* How long a set-up waits for devices: transport/setup_wait.h. Nets without threads, as in setup_test.cc. */
#include <string>
#include <utility>
#include <vector>

#include "softrnic/softrnic.h"
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"

namespace
{
/* ---- devices that refuse for a while: RoCE, whose neighbour's hardware address is not resolved in time */
int rtr_refusals, rtr_tries;
const char *rtr_device; /* the one that refuses; NULL: all */

int RefuseRtr(ibv_qp *qp, ibv_qp_attr *attr, int mask)
{
    if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR &&
        (!rtr_device || qp->context->device->name == std::string(rtr_device))) {
        rtr_tries++;
        if (rtr_refusals > 0) {
            rtr_refusals--;
            return ETIMEDOUT;
        }
    }
    return dt_soft_modify_qp(qp, attr, mask);
}

/* One path, so that nothing else carries the connection. */
class SlowNeighbour : private detour_test::TappedVerbs, public detour_test::TwoNets
{
  protected:
    SlowNeighbour()
        : TappedVerbs([](dt_verbs_table &table) { table.modify_qp = RefuseRtr; }),
          TwoNets([this](dt_params &params, dt_net_options &options) {
              params.paths = 1;
              params.link_retry_count = 5;
              params.link_retry_ms = 10;
              options.verbs = verbs;
          })
    {
        rtr_refusals = rtr_tries = 0;
        rtr_device = nullptr;
    }
};

TEST_F(SlowNeighbour, IsAskedAgainAfterAPause)
{
    rtr_refusals = 3;
    Listen();
    uint64_t begun_ns = now_ns;
    Establish();
    EXPECT_EQ(0, rtr_refusals);
    EXPECT_EQ(3 + 2 * 2, rtr_tries) << "two queue pairs at each end, and what was repeated";
    EXPECT_LE(begun_ns + 10 * DT_NS_PER_MS, now_ns) << "one pause at least";
    EXPECT_EQ(DT_PATH_UP, (int)sender->path[0].state);
    EXPECT_EQ(DT_PATH_UP, (int)receiver->path[0].state);
}

TEST_F(SlowNeighbour, ThatNeverAnswersEndsTheAttemptAfterTheRepeats)
{
    rtr_refusals = 1000000;
    detour_test::ExpectWarning("6 times, 10 ms apart; the connection is set up without this path");
    ExpectNoPath();
    EXPECT_LT(now_ns, 20 * DT_NS_PER_S) << "long before the time-out of connect";
    EXPECT_GE(rtr_tries, 6);
}

/* The neighbour of the backup's device alone does not resolve. */
class SlowNeighbourOfTheBackup : private detour_test::TappedVerbs, public detour_test::TwoNets
{
  protected:
    SlowNeighbourOfTheBackup()
        : TappedVerbs([](dt_verbs_table &table) { table.modify_qp = RefuseRtr; }),
          TwoNets([this](dt_params &params, dt_net_options &options) {
              params.paths = 2;
              params.link_retry_count = 1000;
              params.link_retry_ms = 10;
              options.verbs = verbs;
          })
    {
        rtr_refusals = rtr_tries = 0;
        rtr_device = "soft1";
    }
};

TEST_F(SlowNeighbourOfTheBackup, DelaysTheConnectionByASecondAtMost)
{
    rtr_refusals = 1000000;
    detour_test::ExpectWarning("10 ms apart; the connection is set up without this path");
    detour_test::AllowWarning("10 ms apart; the connection is set up without this path"); /* the other end */
    Listen();
    uint64_t begun_ns = now_ns;
    Establish();
    EXPECT_LE(now_ns - begun_ns, 2500 * DT_NS_PER_MS) << "a second at each end";
    EXPECT_EQ(DT_PATH_UP, (int)sender->path[0].state);
    EXPECT_EQ(DT_PATH_UP, (int)receiver->path[0].state);
    EXPECT_NE(DT_PATH_UP, (int)sender->path[1].state);
}

TEST_F(SlowNeighbourOfTheBackup, IsUsedIfItResolvesWithinTheSecond)
{
    rtr_refusals = 20;
    Listen();
    Establish();
    EXPECT_EQ(0, rtr_refusals);
    EXPECT_EQ(DT_PATH_UP, (int)sender->path[1].state);
    EXPECT_EQ(DT_PATH_UP, (int)receiver->path[1].state);
}

/* The control thread of a device at each end takes no task: a verb of an earlier one hangs. */
class HangingDevices : public detour_test::TwoNets
{
  protected:
    /* The set-ups wait for these devices for `wait_ns`; then the devices answer, or the set-ups go on. */
    void Connected(dt_nic *at_receiver, dt_nic *at_sender, uint64_t wait_ns, bool do_answer)
    {
        uint64_t end_ns = now_ns + wait_ns;
        Listen();
        for (int i = 0; i < 1000000 && !(receiver && sender); i++) {
            ASSERT_EQ(DT_OK, Connect());
            ASSERT_EQ(DT_OK, Accept());
            if (now_ns < end_ns || !do_answer)
                WithholdNew({at_receiver, at_sender});
            else
                Answer();
            if (withheld.size() >= 2 && now_ns < end_ns)
                now_ns += 10 * DT_NS_PER_MS; /* nothing but the tasks of the two ends is missing */
            Step();
        }
        ASSERT_TRUE(receiver && sender);
    }
    void Answer()
    {
        for (auto &[executor, task] : withheld)
            EXPECT_EQ(DT_OK, dt_executor_submit(executor, task, false));
        withheld.clear();
    }
    void TearDown() override
    {
        Answer();
        Step();
        TwoNets::TearDown();
    }

  private:
    void WithholdNew(std::initializer_list<dt_nic *> nics)
    {
        for (dt_nic *nic : nics) {
            while (dt_task *task = dt_executor_pop(&nic->executor))
                withheld.emplace_back(&nic->executor, task);
        }
    }
    std::vector<std::pair<dt_executor *, dt_task *>> withheld;
};

TEST_F(HangingDevices, ThatAreBackupsDelayTheFirstConnectionByASecondAtEachEnd)
{
    detour_test::ExpectWarning("soft1 has not answered for");
    uint64_t begun_ns = now_ns;
    Connected(&here.net->nic[1], &there.net->nic[1], DT_NS_PER_S, false);
    EXPECT_LE(DT_NS_PER_S, now_ns - begun_ns) << "a device that creates many queue pairs is no hanging one";
    EXPECT_GE(2 * DT_NS_PER_S, now_ns - begun_ns);
    EXPECT_EQ(DT_PATH_UP, (int)sender->path[0].state);
    EXPECT_NE(DT_PATH_UP, (int)sender->path[1].state);
}

/* Neither end can go on without its late device: each has the path that the other one has not. */
TEST_F(HangingDevices, ThatAreOthersAtEachEndLeaveTheDefaultPath)
{
    detour_test::ExpectWarning("soft1 has not answered for");
    uint64_t begun_ns = now_ns;
    Connected(&here.net->nic[1], &there.net->nic[0], 4 * DT_NS_PER_S, true);
    EXPECT_LE(4 * DT_NS_PER_S, now_ns - begun_ns);
    EXPECT_EQ(DT_PATH_UP, (int)sender->path[0].state);
    EXPECT_EQ(DT_PATH_UP, (int)receiver->path[0].state);
}

TEST_F(HangingDevices, AreNotWaitedForWithoutEndWhereOneIsTheDefault)
{
    detour_test::ExpectWarning("soft0 has not answered for");
    uint64_t begun_ns = now_ns;
    Connected(&here.net->nic[0], &there.net->nic[0], 5 * DT_NS_PER_S, false);
    EXPECT_LE(5 * DT_NS_PER_S, now_ns - begun_ns);
    EXPECT_GE(6 * DT_NS_PER_S, now_ns - begun_ns);
    EXPECT_EQ(DT_PATH_UP, (int)sender->path[1].state);
    EXPECT_NE(DT_PATH_UP, (int)sender->path[0].state);
}
} // namespace
