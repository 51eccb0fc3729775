/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings that end in what the library is asked to do: the attributes of queue pairs, and the work requests
 * that are posted. Set by NCCL's names, as a user does. Nets without threads, as in setup_test.cc.
 */
#include <map>
#include <mutex>
#include <vector>

#include "softrnic/softrnic.h"
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"
#include "transport/path/queues.h"

namespace
{
using Environment = std::map<std::string, std::string>;

struct Posted {
    ibv_wr_opcode opcode;
    uint32_t bytes;
    bool operator==(const Posted &other) const
    {
        return opcode == other.opcode && bytes == other.bytes;
    }
};

/* What the library was asked for, by the numbers of queue pairs. */
std::mutex asked_mutex;
std::map<uint32_t, uint8_t> class_of;
std::map<uint32_t, std::vector<int>> link_of; // service level, time-out, retries
std::map<uint32_t, std::vector<Posted>> posted_on;
int relaxed_regions; // registered so far
int rtr_refusals, rtr_error, rtr_tries;
uint8_t link_layer;

ibv_context *(*open_device)(ibv_device *);
int (*query_port)(ibv_context *, uint8_t, ibv_port_attr *, size_t);
int (*post_send)(ibv_qp *, ibv_send_wr *, ibv_send_wr **);

int QueryPort(ibv_context *context, uint8_t port, ibv_port_attr *attr, size_t bytes)
{
    int error = query_port(context, port, attr, bytes);
    attr->link_layer = link_layer;
    return error;
}

int PostSend(ibv_qp *qp, ibv_send_wr *list, ibv_send_wr **bad)
{
    std::lock_guard<std::mutex> lock(asked_mutex);
    for (const ibv_send_wr *wr = list; wr; wr = wr->next) {
        uint32_t bytes = 0;
        for (int i = 0; i < wr->num_sge; i++)
            bytes += wr->sg_list[i].length;
        posted_on[qp->qp_num].push_back({wr->opcode, bytes});
    }
    return post_send(qp, list, bad);
}

ibv_context *OpenDevice(ibv_device *device)
{
    ibv_context *context = open_device(device);
    verbs_context *whole = verbs_get_ctx(context);
    if (whole->query_port != QueryPort) {
        query_port = whole->query_port;
        post_send = context->ops.post_send;
    }
    whole->query_port = QueryPort;
    context->ops.post_send = PostSend;
    return context;
}

int ModifyQp(ibv_qp *qp, ibv_qp_attr *attr, int mask)
{
    std::lock_guard<std::mutex> lock(asked_mutex);
    if (mask & IBV_QP_AV)
        class_of[qp->qp_num] = attr->ah_attr.grh.traffic_class;
    if (mask & IBV_QP_AV)
        link_of[qp->qp_num] = {attr->ah_attr.sl};
    if (mask & IBV_QP_TIMEOUT)
        link_of[qp->qp_num].insert(link_of[qp->qp_num].end(), {attr->timeout, attr->retry_cnt});
    if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR) {
        rtr_tries++;
        if (rtr_refusals > 0) {
            rtr_refusals--;
            return rtr_error;
        }
    }
    return dt_soft_modify_qp(qp, attr, mask);
}

ibv_mr *RegMrIova2(ibv_pd *pd, void *addr, size_t bytes, uint64_t iova, unsigned access)
{
    std::lock_guard<std::mutex> lock(asked_mutex);
    relaxed_regions += (access & IBV_ACCESS_RELAXED_ORDERING) != 0;
    return dt_soft_reg_mr_iova2(pd, addr, bytes, iova, access);
}

const char *Get(void *arg, const char *name)
{
    auto *environment = static_cast<const Environment *>(arg);
    auto found = environment->find(name);
    return found == environment->end() ? nullptr : found->second.c_str();
}

/* One path with these settings, whose devices are of this link layer. */
class Settings : private detour_test::TappedVerbs, public detour_test::TwoNets
{
  protected:
    explicit Settings(Environment environment = {}, uint8_t layer = IBV_LINK_LAYER_ETHERNET)
        : TappedVerbs([=](dt_verbs_table &table) {
              class_of.clear();
              link_of.clear();
              posted_on.clear();
              rtr_refusals = rtr_tries = relaxed_regions = 0;
              link_layer = layer;
              open_device = table.open_device;
              table.open_device = OpenDevice;
              table.modify_qp = ModifyQp;
              table.reg_mr_iova2 = RegMrIova2;
          }),
          TwoNets([this, environment](dt_params &params, dt_net_options &options) {
              char error[256];
              Environment all = environment;
              all.insert({{"DETOUR_PATHS", "1"}, {"DETOUR_POSTING", "std"}});
              EXPECT_EQ(DT_OK, dt_params_load(&params, Get, &all, error, sizeof error)) << error;
              options.verbs = verbs;
          })
    {
    }
    void Connected()
    {
        Listen();
        Establish();
    }
    /* A message of this size; what the sender has posted for it. */
    std::vector<Posted> PostedFor(uint32_t bytes)
    {
        std::vector<uint8_t> from(bytes, 0x5a), to(bytes);
        Forget();
        Register(from.data(), to.data(), bytes);
        dt_request *receive = Irecv(to.data(), bytes), *send = nullptr;
        EXPECT_TRUE(StepUntil([&] { return (send = Isend(from.data(), bytes)) != nullptr; }));
        EXPECT_TRUE(StepUntil([&] {
            bool is_received = IsDone(&receive), is_sent = IsDone(&send);
            return is_received && is_sent;
        }));
        EXPECT_EQ(from, to);
        dt_net_deregister(sender, from_memory);
        dt_net_deregister(receiver, to_memory);
        from_memory = to_memory = nullptr;
        return PostedOn(sender);
    }
    void Forget()
    {
        std::lock_guard<std::mutex> lock(asked_mutex);
        posted_on.clear();
    }
    std::vector<Posted> PostedOn(const dt_connection *c)
    {
        std::lock_guard<std::mutex> lock(asked_mutex);
        return posted_on[dt_qp_number(c->path[0].qp[0])];
    }
    int ClassOf(const dt_qp *qp)
    {
        std::lock_guard<std::mutex> lock(asked_mutex);
        auto found = class_of.find(dt_qp_number(qp));
        return found == class_of.end() ? -1 : found->second;
    }
};

/* ---- NCCL_IB_TC, NCCL_IB_FIFO_TC */
class TrafficClass : public Settings
{
  protected:
    explicit TrafficClass(Environment environment = {{"NCCL_IB_TC", "32"}}) : Settings(environment) {}
};

class FifoTrafficClass : public TrafficClass
{
  protected:
    FifoTrafficClass() : TrafficClass({{"NCCL_IB_TC", "32"}, {"NCCL_IB_FIFO_TC", "96"}}) {}
};

TEST_F(TrafficClass, IsThatOfEveryQueuePair)
{
    Connected();
    for (const dt_connection *c : {sender, receiver}) {
        EXPECT_EQ(32, ClassOf(c->path[0].qp[0]));
        EXPECT_EQ(32, ClassOf(c->path[0].probe));
    }
}

TEST_F(FifoTrafficClass, IsThatOfTheQueuePairThatCarriesTheOffersOfTheReceiver)
{
    Connected();
    EXPECT_EQ(96, ClassOf(receiver->path[0].qp[0]));
    EXPECT_EQ(32, ClassOf(sender->path[0].qp[0])) << "the payload's";
    EXPECT_EQ(32, ClassOf(sender->path[0].probe));
    EXPECT_EQ(32, ClassOf(receiver->path[0].probe));
    PostedFor(1000);
    EXPECT_EQ(1u, PostedOn(receiver).size()) << "the clear-to-send of the message";
}

/* ---- NCCL_IB_SL, NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT */
class LinkOptions : public Settings
{
  protected:
    LinkOptions() : Settings({{"NCCL_IB_SL", "3"}, {"NCCL_IB_TIMEOUT", "18"}, {"NCCL_IB_RETRY_CNT", "5"}}) {}
};

TEST_F(LinkOptions, AreThoseOfEveryQueuePairAndProbesHaveTimesOfTheirOwn)
{
    Connected();
    std::lock_guard<std::mutex> lock(asked_mutex);
    for (const dt_connection *c : {sender, receiver}) {
        EXPECT_EQ((std::vector<int>{3, 18, 5}), link_of[dt_qp_number(c->path[0].qp[0])]);
        EXPECT_EQ((std::vector<int>{3, DT_PROBE_TIMEOUT_EXPONENT, DT_PROBE_RETRY_COUNT}),
                  link_of[dt_qp_number(c->path[0].probe)]);
    }
}

/* ---- NCCL_IB_PCI_RELAXED_ORDERING */
class RelaxedOrdering : public Settings
{
  protected:
    explicit RelaxedOrdering(Environment environment = {}) : Settings(environment) {}
    /* Of the two that a message of this size needs. */
    int RelaxedRegionsOfAMessage()
    {
        Connected();
        EXPECT_EQ(0, relaxed_regions) << "control memory";
        PostedFor(9000);
        return relaxed_regions;
    }
};

class StrictOrdering : public RelaxedOrdering
{
  protected:
    StrictOrdering() : RelaxedOrdering({{"NCCL_IB_PCI_RELAXED_ORDERING", "0"}}) {}
};

TEST_F(RelaxedOrdering, IsTheDefaultForPayload)
{
    EXPECT_EQ(2, RelaxedRegionsOfAMessage());
}

TEST_F(StrictOrdering, IsThatOfAllMemoryIfItIsSet)
{
    EXPECT_EQ(0, RelaxedRegionsOfAMessage());
}

/* ---- DETOUR_WRITE_BYTES */
class WriteBytes : public Settings
{
  protected:
    explicit WriteBytes() : Settings({{"DETOUR_WRITE_BYTES", "8K"}}) {}
};

TEST_F(WriteBytes, NoWriteIsLonger)
{
    Connected();
    EXPECT_EQ((std::vector<Posted>{{IBV_WR_RDMA_WRITE_WITH_IMM, 8192}}), PostedFor(8192));
    EXPECT_EQ((std::vector<Posted>{{IBV_WR_RDMA_WRITE, 8192},
                                   {IBV_WR_RDMA_WRITE, 8192},
                                   {IBV_WR_RDMA_WRITE, 8},
                                   {IBV_WR_RDMA_WRITE_WITH_IMM, 1}}),
              PostedFor(2 * 8192 + 1))
        << "the 8 bytes are the record of the size";
}

/* ---- NCCL_IB_ADAPTIVE_ROUTING, NCCL_IB_AR_THRESHOLD */
const std::vector<Posted> kWithImmediate9000 = {{IBV_WR_RDMA_WRITE_WITH_IMM, 9000}};
const std::vector<Posted> kAdaptive9000 = {
    {IBV_WR_RDMA_WRITE, 9000}, {IBV_WR_RDMA_WRITE, 8}, {IBV_WR_RDMA_WRITE_WITH_IMM, 0}};

class AdaptiveOnInfiniBand : public Settings
{
  protected:
    explicit AdaptiveOnInfiniBand(Environment environment = {})
        : Settings(environment, IBV_LINK_LAYER_INFINIBAND)
    {
    }
};

TEST_F(AdaptiveOnInfiniBand, IsTheDefaultAbove8KiB)
{
    Connected();
    EXPECT_EQ((std::vector<Posted>{{IBV_WR_RDMA_WRITE_WITH_IMM, 8192}}), PostedFor(8192));
    EXPECT_EQ((std::vector<Posted>{
                  {IBV_WR_RDMA_WRITE, 8193}, {IBV_WR_RDMA_WRITE, 8}, {IBV_WR_RDMA_WRITE_WITH_IMM, 0}}),
              PostedFor(8193));
}

class AdaptiveOff : public AdaptiveOnInfiniBand
{
  protected:
    AdaptiveOff() : AdaptiveOnInfiniBand({{"NCCL_IB_ADAPTIVE_ROUTING", "0"}}) {}
};

TEST_F(AdaptiveOff, TheImmediateGoesWithThePayload)
{
    Connected();
    EXPECT_EQ(kWithImmediate9000, PostedFor(9000));
}

class AdaptiveThreshold : public AdaptiveOnInfiniBand
{
  protected:
    AdaptiveThreshold() : AdaptiveOnInfiniBand({{"NCCL_IB_AR_THRESHOLD", "9000"}}) {}
};

TEST_F(AdaptiveThreshold, IsTheLargestPayloadWithItsImmediate)
{
    Connected();
    EXPECT_EQ(kWithImmediate9000, PostedFor(9000));
    EXPECT_EQ((std::vector<Posted>{
                  {IBV_WR_RDMA_WRITE, 9001}, {IBV_WR_RDMA_WRITE, 8}, {IBV_WR_RDMA_WRITE_WITH_IMM, 0}}),
              PostedFor(9001));
}

class AdaptiveOnRoce : public Settings
{
};

TEST_F(AdaptiveOnRoce, IsOffByDefault)
{
    Connected();
    EXPECT_EQ(kWithImmediate9000, PostedFor(9000));
}

class AdaptiveOn : public Settings
{
  protected:
    AdaptiveOn() : Settings({{"NCCL_IB_ADAPTIVE_ROUTING", "1"}}) {}
};

TEST_F(AdaptiveOn, AlsoRoceHasPayloadWithoutTheImmediate)
{
    Connected();
    EXPECT_EQ(kAdaptive9000, PostedFor(9000));
}

/* ---- NCCL_IB_MQP_RETRY_ALL, _CNT, _SLEEP_MSEC: four queue pairs go to RTR, the two probes among them */
class RefusedLinks : public Settings
{
  protected:
    explicit RefusedLinks(Environment environment = {{"NCCL_IB_MQP_RETRY_CNT", "2"},
                                                     {"NCCL_IB_MQP_RETRY_SLEEP_MSEC", "70"}})
        : Settings(environment)
    {
    }
};

class RefusedLinksOfAnyKind : public RefusedLinks
{
  protected:
    RefusedLinksOfAnyKind()
        : RefusedLinks({{"NCCL_IB_MQP_RETRY_ALL", "1"},
                        {"NCCL_IB_MQP_RETRY_CNT", "2"},
                        {"NCCL_IB_MQP_RETRY_SLEEP_MSEC", "70"}})
    {
    }
};

TEST_F(RefusedLinks, ThatTimeOutAreRepeatedAfterThePause)
{
    rtr_refusals = 1;
    rtr_error = ETIMEDOUT;
    uint64_t begun_ns = now_ns;
    Connected();
    EXPECT_EQ(4 + 1, rtr_tries);
    EXPECT_LE(begun_ns + 70 * DT_NS_PER_MS, now_ns);
}

TEST_F(RefusedLinks, ThatTimeOutAreRepeatedAsOftenAsIsSet)
{
    rtr_refusals = 1000000;
    rtr_error = ETIMEDOUT;
    detour_test::ExpectWarning("3 times, 70 ms apart; the connection is set up without this path");
    ExpectNoPath();
    EXPECT_EQ(2 * 3, rtr_tries) << "the probe of each end comes first, and is repeated";
}

TEST_F(RefusedLinks, OfAnyOtherKindAreNotRepeated)
{
    rtr_refusals = 1000000;
    rtr_error = EINVAL;
    detour_test::ExpectWarning("RTR");
    ExpectNoPath();
    EXPECT_EQ(2, rtr_tries) << "the probe of each end";
}

TEST_F(RefusedLinksOfAnyKind, AreRepeatedIfThatIsSet)
{
    rtr_refusals = 1;
    rtr_error = EINVAL;
    Connected();
    EXPECT_EQ(4 + 1, rtr_tries);
}
} // namespace
