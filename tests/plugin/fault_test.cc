/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that fail, while only the first path carries data: the connection ends with one line that names
 * what failed, every call says so, and closing works. A program run per fault, since a dead device stays
 * dead.
 */
#include <gtest/gtest.h>
#include <unistd.h>

#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::Pair;
using detour_test::Until;

const ncclNet_v8_t *const net = &ncclNetPlugin_v8;

void Order(const char *device, const char *action)
{
    char answer[256];
    ASSERT_EQ(DT_OK,
              dt_verbs_device_control(dt_plugin_current()->verbs, device, action, answer, sizeof answer))
        << answer;
}

ncclResult_t ErrorOf(void *request)
{
    ncclResult_t result = ncclSuccess;
    Until([&] {
        int done = -1;
        result = net->test(request, &done, nullptr);
        EXPECT_EQ(0, done);
        return result != ncclSuccess || ::testing::Test::HasFailure();
    });
    return result;
}

void MoveOne(Pair &pair, Buffer &from, Buffer &to)
{
    void *receive = pair.Receive(to.data(), 1000, 0, to.mhandle);
    void *send = pair.Send(from.data(), 1000, 0, from.mhandle);
    pair.Wait(receive);
    pair.Wait(send);
}

TEST(Fault, LinkDownUnderASend)
{
    detour_test::ExpectWarning("path 0, soft0 to soft1, queue pair");
    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    Pair pair(net);
    pair.Connect(0, 1);
    Buffer &from = pair.Register(pair.send, 1000, 1), &to = pair.Register(pair.recv, 1000, 0);
    MoveOne(pair, from, to);
    void *receive = pair.Receive(to.data(), 1000, 0, to.mhandle);
    ASSERT_NE(nullptr, receive);
    usleep(20000); // the clear-to-send is through
    Order("soft0", "down");
    void *send = pair.Send(from.data(), 1000, 0, from.mhandle);
    EXPECT_EQ(ncclRemoteError, ErrorOf(send));
    bool is_named = false;
    for (const std::string &line : detour_test::LoggedLines())
        is_named |=
            line.find("transport retry count exceeded (status 12, vendor_err 0x") != std::string::npos &&
            line.find("requests open, nothing completed for") != std::string::npos;
    EXPECT_TRUE(is_named);
    void *request = nullptr;
    EXPECT_EQ(ncclRemoteError, net->isend(pair.send, from.data(), 1000, 0, from.mhandle, &request));
    EXPECT_EQ(nullptr, request);
    Order("soft0", "up");
}

TEST(Fault, DeviceFatalUnderAReceive)
{
    detour_test::ExpectWarning("soft1");
    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    Pair pair(net);
    pair.Connect(0, 1);
    Buffer &from = pair.Register(pair.send, 1000, 1), &to = pair.Register(pair.recv, 1000, 0);
    MoveOne(pair, from, to);
    void *receive = pair.Receive(to.data(), 1000, 0, to.mhandle);
    Order("soft1", "fatal");
    EXPECT_NE(ncclSuccess, ErrorOf(receive));
}

/* The default device does not work: the connection comes up on its second path, and works. */
TEST(Fault, ADeadDefaultDeviceIsNoReasonNotToConnect)
{
    detour_test::ExpectWarning("soft0");
    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    {
        Pair opener(net); // devices are opened by the first connection
        opener.Connect(1, 1);
    }
    Order("soft0", "fatal");
    Pair pair(net);
    pair.Connect(0, 0); // its second path is soft1 at both ends
    ASSERT_FALSE(HasFailure());
    Buffer &from = pair.Register(pair.send, 1000, 1), &to = pair.Register(pair.recv, 1000, 0);
    for (int i = 0; i < 100; i++)
        MoveOne(pair, from, to);
    EXPECT_EQ(from.bytes, to.bytes);
}
} // namespace
