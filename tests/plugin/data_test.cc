/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::CountWrong;
using detour_test::Fill;
using detour_test::Pair;

class Data : public ::testing::Test
{
  protected:
    void SetUp() override { ASSERT_EQ(ncclSuccess, ncclNetPlugin_v8.init(nullptr)); }
    Pair pair{&ncclNetPlugin_v8};
};

TEST_F(Data, OneMessage)
{
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 8, 0);
    Buffer &to = pair.Register(pair.recv, 8, 0xee);
    Fill(from.data(), 8, 1);
    void *receive = pair.Receive(to.data(), 8, 5, to.mhandle);
    void *send = pair.Send(from.data(), 8, 5, from.mhandle);
    int bytes = -1;
    pair.Wait(receive, &bytes);
    EXPECT_EQ(8, bytes);
    EXPECT_EQ(0u, CountWrong(to.data(), 8, 1));
    pair.Wait(send);
}
} // namespace
