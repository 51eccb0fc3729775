/* SPDX-License-Identifier: Apache-2.0 */
/* The largest messages: cut into several writes, so that their size travels in a record of its own. */
#include <gtest/gtest.h>

#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::Pair;

void Mark(Buffer &buffer, size_t bytes, uint64_t salt)
{
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t word = at * 0x9e3779b97f4a7c15 + salt;
        memcpy(buffer.data() + at, &word, 8);
    }
}

TEST(Large, OneGibibyteAndItsNeighbors)
{
    ASSERT_EQ(ncclSuccess, ncclNetPlugin_v8.init(nullptr));
    const size_t most = (size_t)NCCL_NET_MAX_SIZE_V8;
    Pair pair(&ncclNetPlugin_v8);
    pair.Connect();
    Buffer &from = pair.Register(pair.send, most, 0);
    Buffer &to = pair.Register(pair.recv, most, 0);
    uint64_t salt = 1;
    for (size_t bytes : {most, most - 1, (size_t)(64 << 20), (size_t)(64 << 20) + 1}) {
        Mark(from, bytes, ++salt);
        memset(to.data(), 0xee, to.bytes.size());
        void *receive = pair.Receive(to.data(), (int)most, 0, to.mhandle);
        void *send = pair.Send(from.data(), (int)bytes, 0, from.mhandle);
        int received = 0;
        pair.Wait(receive, &received);
        pair.Wait(send);
        ASSERT_EQ((int)bytes, received);
        ASSERT_EQ(0, memcmp(from.data(), to.data(), bytes));
        ASSERT_TRUE(bytes == most || to.data()[bytes] == 0xee) << "a byte too much";
    }
}
} // namespace
