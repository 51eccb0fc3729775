/* SPDX-License-Identifier: Apache-2.0 */
/* Set-up on devices that refuse or change: transport/setup.h. Nets without threads, as in setup_test.cc. */
#include "softrnic/softrnic.h"
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"

namespace
{
/* ---- devices that refuse for a while: RoCE, whose neighbour's hardware address is not resolved in time */
int rtr_refusals, rtr_tries;

int RefuseRtr(ibv_qp *qp, ibv_qp_attr *attr, int mask)
{
    if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR) {
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
    detour_test::ExpectWarning("6 times, 10 ms apart; the connection does without this path");
    detour_test::AllowWarning("no device could set up its queue pairs");
    detour_test::AllowWarning("the peer refused");
    detour_test::AllowWarning("no path works at both ends");
    detour_test::AllowWarning("the peer ended the control channel");
    Listen();
    dt_status at_sender = DT_OK, at_receiver = DT_OK;
    EXPECT_TRUE(StepUntil([&] {
        at_sender = at_sender == DT_OK ? Connect() : at_sender;
        at_receiver = at_receiver == DT_OK ? Accept() : at_receiver;
        return at_sender != DT_OK || at_receiver != DT_OK;
    }));
    EXPECT_LT(now_ns, 20 * DT_NS_PER_S) << "long before the time-out of connect";
    EXPECT_GE(rtr_tries, 6);
}

/* ---- addresses that change while the process runs */
bool has_small_mtu;
int (*query_port)(ibv_context *, uint8_t, ibv_port_attr *, size_t);
ibv_context *(*open_device)(ibv_device *);

int QueryMovingPort(ibv_context *context, uint8_t port, ibv_port_attr *attr, size_t bytes)
{
    int error = query_port(context, port, attr, bytes);
    if (has_small_mtu)
        attr->active_mtu = IBV_MTU_1024;
    return error;
}

ibv_context *OpenMovingDevice(ibv_device *device)
{
    ibv_context *context = open_device(device);
    verbs_context *whole = verbs_get_ctx(context);
    if (whole->query_port != QueryMovingPort)
        query_port = whole->query_port;
    whole->query_port = QueryMovingPort;
    return context;
}

class MovingPort : private detour_test::TappedVerbs, public detour_test::TwoNets
{
  protected:
    MovingPort()
        : TappedVerbs([](dt_verbs_table &table) {
              has_small_mtu = false;
              open_device = table.open_device;
              table.open_device = OpenMovingDevice;
          }),
          TwoNets([this](dt_params &, dt_net_options &options) { options.verbs = verbs; })
    {
    }
    uint32_t Mtu()
    {
        dt_qp_address address;
        dt_qp_local_address(sender->path[0].qp[0], &address);
        return address.mtu_bytes;
    }
};

TEST_F(MovingPort, IsLookedUpForEachConnection)
{
    Listen();
    Establish();
    EXPECT_EQ(4096u, Mtu());
    dt_net_close(sender);
    dt_net_close(receiver);
    dt_net_close_listen(listen);
    sender = receiver = nullptr;
    has_small_mtu = true;
    Listen();
    Establish();
    EXPECT_EQ(1024u, Mtu()) << "not that of when the device was opened";
}
} // namespace
