/* SPDX-License-Identifier: Apache-2.0 */
/* Set-up on devices that refuse or change: transport/setup.h. Nets without threads, as in setup_test.cc. */
#include <map>
#include <mutex>

#include "failover/switchover/actions.h"
#include "failover/switchover/state.h"
#include "softrnic/softrnic.h"
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"
#include "transport/path/queues.h"

namespace
{
/* ---- addresses that change while the process runs */
bool has_small_mtu;
int port_queries;
int (*query_port)(ibv_context *, uint8_t, ibv_port_attr *, size_t);
ibv_context *(*open_device)(ibv_device *);

int QueryMovingPort(ibv_context *context, uint8_t port, ibv_port_attr *attr, size_t bytes)
{
    int error = query_port(context, port, attr, bytes);
    port_queries++;
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

TEST_F(MovingPort, IsLookedUpForTheQueuePairsOfTheNextEpoch)
{
    Listen();
    Establish();
    has_small_mtu = true;
    dt_switchover_step(&sender->path[0], DT_PATH_FAULT, now_ns);
    sender->switchover->is_switching = true;
    StepUntil([&] { return sender->path[0].epoch == 1 && sender->path[0].state == DT_PATH_UP; },
              DT_NS_PER_MS);
    EXPECT_EQ(1024u, Mtu());
}

/* Its queue pairs connect the device to itself. */
TEST_F(MovingPort, IsLookedUpForAFlush)
{
    Listen();
    Establish();
    dt_path *path = &receiver->path[0];
    ASSERT_EQ(nullptr, dt_load_acquire(&path->flush));
    port_queries = 0;
    dt_path_submit_flush(path);
    EXPECT_TRUE(StepUntil([&] { return dt_load_acquire(&path->flush) != nullptr; }));
    EXPECT_LE(1, port_queries);
}

/*
 * ---- devices with options of their vendor (ECE): the receiver's, which is connected first, has others than
 * the sender's. A new queue pair shows what its device has. One that was connected shows what was made of
 * those that were set.
 */
constexpr uint32_t kVendor = 0x15b3, kSenders = 0x17, kReceivers = 0x2d;

struct EceOfQp {
    uint32_t set = 0;        /* by ibv_set_ece(), before RTR */
    uint32_t connected = 0;  /* what RTR has made of it */
    bool is_offered = false; /* ibv_query_ece() was called before RTR: a sender's */
    bool is_rtr = false;
};
std::map<ibv_qp *, EceOfQp> ece_of;
std::mutex ece_mutex;
bool refuses_ece;
int nets_with_ece; /* made so far: the listening one first */

int QueryEce(ibv_qp *qp, ibv_ece *ece)
{
    std::lock_guard<std::mutex> lock(ece_mutex);
    EceOfQp &own = ece_of[qp];
    own.is_offered |= !own.is_rtr;
    *ece = {kVendor, own.is_rtr ? own.connected : kSenders, 0};
    return 0;
}

int SetEce(ibv_qp *qp, ibv_ece *ece)
{
    std::lock_guard<std::mutex> lock(ece_mutex);
    if (refuses_ece || ece->vendor_id != kVendor)
        return EOPNOTSUPP;
    EXPECT_FALSE(ece_of[qp].is_rtr) << "too late for the device";
    ece_of[qp].set = ece->options;
    return 0;
}

int ModifyWithEce(ibv_qp *qp, ibv_qp_attr *attr, int mask)
{
    if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR) {
        std::lock_guard<std::mutex> lock(ece_mutex);
        ece_of[qp].is_rtr = true;
        ece_of[qp].connected = ece_of[qp].set & (ece_of[qp].is_offered ? kSenders : kReceivers);
    }
    return dt_soft_modify_qp(qp, attr, mask);
}

int DestroyWithEce(ibv_qp *qp)
{
    std::lock_guard<std::mutex> lock(ece_mutex);
    ece_of.erase(qp);
    return dt_soft_destroy_qp(qp);
}

class VendorOptions : private detour_test::TappedVerbs, public detour_test::TwoNets
{
  protected:
    explicit VendorOptions(bool is_on_here = true, bool is_on_there = true)
        : TappedVerbs([](dt_verbs_table &table) {
              table.query_ece = QueryEce;
              table.set_ece = SetEce;
              table.modify_qp = ModifyWithEce;
              table.destroy_qp = DestroyWithEce;
              refuses_ece = false;
              nets_with_ece = 0;
          }),
          TwoNets([this, is_on_here, is_on_there](dt_params &params, dt_net_options &options) {
              params.qps_per_path = 2;
              params.ece = nets_with_ece++ == 0 ? is_on_here : is_on_there;
              options.verbs = verbs;
          })
    {
    }
    /* What RTR has made of the options, by the number of queue pairs. */
    std::map<uint32_t, int> Connected()
    {
        std::lock_guard<std::mutex> lock(ece_mutex);
        std::map<uint32_t, int> counts;
        for (auto &[qp, own] : ece_of)
            counts[own.connected] += own.is_rtr;
        return counts;
    }
    void ExpectOptions(uint32_t options)
    {
        for (dt_connection *c : {sender, receiver})
            for (uint32_t p = 0; p < c->path_count; p++)
                EXPECT_EQ(options, c->path[p].ece.options) << p;
    }
};

TEST_F(VendorOptions, AreReducedByTheReceiversDeviceBeforeTheSenderConnects)
{
    Listen();
    Establish();
    ExpectOptions(kSenders & kReceivers);
    EXPECT_EQ((std::map<uint32_t, int>{{0, 4}, {kSenders & kReceivers, 8}}), Connected())
        << "two paths of two queue pairs at each end, and probes without";
    bool is_logged = false;
    for (const std::string &line : detour_test::LoggedLines())
        is_logged |= line.find("soft0-soft0 (ECE 0x5), soft1-soft1 (") != std::string::npos;
    EXPECT_TRUE(is_logged);
}

TEST_F(VendorOptions, AreAgreedOnAgainForTheQueuePairsOfTheNextEpoch)
{
    Listen();
    Establish();
    dt_path *path = &sender->path[0];
    dt_switchover_step(path, DT_PATH_FAULT, now_ns);
    sender->switchover->is_switching = true;
    EXPECT_TRUE(StepUntil([&] { return path->epoch > 0 && path->state == DT_PATH_UP; }, DT_NS_PER_MS));
    EXPECT_EQ(kSenders & kReceivers, path->ece.options);
    EXPECT_EQ(kSenders & kReceivers, receiver->path[0].ece.options);
}

TEST_F(VendorOptions, ThatADeviceRefusesAreUsedAtNeitherEnd)
{
    refuses_ece = true;
    Listen();
    Establish();
    ExpectOptions(0);
    EXPECT_EQ((std::map<uint32_t, int>{{0, 12}}), Connected());
}

/* Version 4: the listening end sends its paths without those of the other end, and offers no options. */
TEST_F(VendorOptions, AreNotSentToAPeerThatDoesNotKnowThem)
{
    Listen();
    dt_hello hello = detour_test::HelloTo(handle);
    hello.version_min = hello.version_max = DT_PROTOCOL_VERSION_ECE - 1;
    detour_test::RawClient older(handle);
    older.SendHello(hello);
    EXPECT_TRUE(StepUntil([&] {
        EXPECT_EQ(DT_OK, Accept());
        return older.HasData();
    }));
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(DT_OK, Accept());
        Step();
    }
    dt_net_close_listen(listen);
    listen = nullptr;
    std::string reply = older.Receive();
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(reply.data());
    dt_frame_header header;
    ASSERT_EQ(DT_OK, dt_frame_header_decode(bytes, &header));
    ASSERT_EQ(DT_FRAME_ANSWER, header.type);
    ASSERT_LT(DT_FRAME_HEADER_BYTES + header.body_bytes + DT_FRAME_HEADER_BYTES, reply.size());
    bytes += DT_FRAME_HEADER_BYTES + header.body_bytes;
    ASSERT_EQ(DT_OK, dt_frame_header_decode(bytes, &header));
    EXPECT_EQ(DT_FRAME_PATHS, header.type);
    EXPECT_EQ(1, bytes[DT_FRAME_HEADER_BYTES]) << "usable, without options";
}

class NoVendorOptions : public VendorOptions
{
  protected:
    explicit NoVendorOptions(bool is_on_here = false, bool is_on_there = false)
        : VendorOptions(is_on_here, is_on_there)
    {
    }
    void ExpectNone()
    {
        Listen();
        Establish();
        ExpectOptions(0);
        EXPECT_EQ((std::map<uint32_t, int>{{0, 12}}), Connected());
    }
};

TEST_F(NoVendorOptions, AreUsedIfTheSettingIsOff)
{
    ExpectNone();
}

class ReceiversVendorOptions : public NoVendorOptions
{
  protected:
    ReceiversVendorOptions() : NoVendorOptions(true, false) {}
};

TEST_F(ReceiversVendorOptions, AreNotUsedIfTheSendersSettingIsOff)
{
    ExpectNone();
}

class SendersVendorOptions : public NoVendorOptions
{
  protected:
    SendersVendorOptions() : NoVendorOptions(false, true) {}
};

TEST_F(SendersVendorOptions, AreNotUsedIfTheReceiversSettingIsOff)
{
    ExpectNone();
}
} // namespace
