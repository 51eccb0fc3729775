/* SPDX-License-Identifier: Apache-2.0 */
/* How the messages of a connection go over its queue pairs, as the sender is set to. */
#include "tests/transport/two_nets.h"

namespace
{
class Spread : public detour_test::TwoNets
{
  protected:
    explicit Spread(uint32_t qps = 4, uint32_t paths = 2)
        : TwoNets([=](dt_params &params, dt_net_options &) {
              params.qps_per_path = qps;
              params.paths = params.soft_devices = paths;
          }),
          qps_(qps)
    {
    }

    void Establish(bool splits_there, bool splits_here)
    {
        there.net->environment.params.split_data = splits_there;
        here.net->environment.params.split_data = splits_here;
        TwoNets::Establish();
    }
    void ExpectShares(uint32_t shares)
    {
        for (const dt_connection *c : {sender, receiver}) {
            ASSERT_NE(nullptr, c);
            EXPECT_EQ(qps_, c->qps);
            EXPECT_EQ(shares, c->shares) << (c->is_sender ? "sender" : "receiver");
            for (uint32_t p = 0; p < c->path_count; p++)
                EXPECT_EQ(shares, c->path[p].share_count);
        }
    }
    uint32_t qps_;
};

class SpreadWide : public Spread
{
  protected:
    SpreadWide() : Spread(DT_QPS_MAX) {}
    void MoveMessages()
    {
        const uint32_t kBytes = 300 * (2 * DT_QPS_MAX + 1);
        std::vector<uint8_t> from(kBytes), to(kBytes);
        Register(from.data(), to.data(), kBytes);
        for (uint32_t i = 0; i < 2 * DT_QPS_MAX + 1; i++) {
            uint32_t bytes = 300 * i + 1;
            for (uint32_t b = 0; b < bytes; b++)
                from[b] = (uint8_t)(b * 5 + i);
            dt_request *receive = Irecv(to.data(), bytes, 0), *send = nullptr;
            ASSERT_TRUE(StepUntil([&] { return (send = Isend(from.data(), bytes, 0)) != nullptr; }));
            ASSERT_TRUE(StepUntil([&] { return IsDone(&receive); }));
            ASSERT_TRUE(StepUntil([&] { return IsDone(&send); }));
            ASSERT_EQ(0, memcmp(from.data(), to.data(), bytes)) << "message " << i;
        }
    }
};

TEST_F(SpreadWide, MessagesTakeTurnsOverAsManyQueuePairsAsThereMayBe)
{
    Listen();
    Establish(false, false);
    ExpectShares(1);
    MoveMessages();
}

TEST_F(SpreadWide, AMessageIsSplitOverEightOfThem)
{
    Listen();
    Establish(true, false);
    ExpectShares(DT_SHARES_MAX);
    MoveMessages();
}

/* The lists of both ends' paths are longer than the window of a stream. */
class SpreadWidest : public Spread
{
  protected:
    SpreadWidest() : Spread(DT_QPS_MAX, DT_PATHS_MAX) {}
};

TEST_F(SpreadWidest, AConnectionIsSetUpWithAllPathsAndQueuePairsThatThereMayBe)
{
    Listen();
    Establish(false, false);
    ExpectShares(1);
    EXPECT_EQ(uint32_t{DT_PATHS_MAX}, sender->path_count);
}

/* It would refuse a HELLO with more, as one that no connection can have. */
TEST_F(SpreadWide, AListenerOfAnEarlierVersionIsAskedForNoMoreQueuePairsThanItKnows)
{
    Listen();
    dt_handle content;
    ASSERT_EQ(DT_OK, dt_handle_decode(handle, &content));
    content.version_max = DT_PROTOCOL_VERSION_QPS - 1;
    dt_handle_encode(&content, handle);
    qps_ = DT_QPS_IN_BAND_MAX;
    Establish(false, false);
    ExpectShares(1);
}

TEST_F(Spread, MessagesTakeTurnsIfTheSenderIsSetTo)
{
    Listen();
    Establish(false, true);
    ExpectShares(1);
}

TEST_F(Spread, MessagesAreSplitIfTheSenderIsSetTo)
{
    Listen();
    Establish(true, false);
    ExpectShares(qps_);
}
} // namespace
