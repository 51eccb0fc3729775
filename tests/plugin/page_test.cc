/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin counts, as another process reads it from the counter page. */
#include <gtest/gtest.h>

#include <unistd.h>

#include "obs/page.h"
#include "tests/obs/folder.h"
#include "tests/plugin/pair.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::Pair;
using detour_test::Until;

/* One plugin per process, so one folder for all tests. */
Folder &TheFolder()
{
    static Folder folder;
    return folder;
}

class Page : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        setenv("DETOUR_RUNTIME_DIR", TheFolder().path.c_str(), 1);
        ASSERT_EQ(ncclSuccess, ncclNetPlugin_v8.init(nullptr));
    }

    /* The rows of both ends of the only connection. */
    void Read()
    {
        dt_page_copy copy;
        ASSERT_EQ(DT_OK, dt_page_read(&TheFolder().dir, getpid(), &copy));
        count = 0;
        for (uint32_t row = 0; row < copy.header->connection_count; row++) {
            const dt_page_connection *connection = dt_page_copy_connection(&copy, row);
            if (!connection)
                continue;
            count++;
            (connection->is_send ? sender : receiver) = *connection;
        }
        dt_page_copy_free(&copy);
    }

    void Exchange(Pair &pair, Buffer &from, Buffer &to, int bytes, int tag)
    {
        void *receive = pair.Receive(to.data(), bytes, tag, to.mhandle);
        void *send = pair.Send(from.data(), bytes, tag, from.mhandle);
        pair.Wait(send);
        pair.Wait(receive);
    }

    dt_page_connection sender, receiver;
    int count;
};

TEST_F(Page, CountsMessagesAndTheirTimes)
{
    Pair pair(&ncclNetPlugin_v8);
    pair.Connect(0, 1);
    Buffer &from = pair.Register(pair.send, 100000, 1);
    Buffer &to = pair.Register(pair.recv, 100000, 2);
    for (int i = 0; i < 300; i++) // more than there is room for samples
        Exchange(pair, from, to, 1000 + i, 3);
    Until([&] { // a send over the host path is done before its message is
        Read();
        return sender.message_count >= 300 || ::testing::Test::HasFailure();
    });
    EXPECT_EQ(2, count);
    EXPECT_STREQ("soft0", sender.path[0].own);
    EXPECT_EQ(300u, sender.message_count);
    EXPECT_EQ(300u * 1000 + 299 * 300 / 2, sender.payload_bytes);
    EXPECT_EQ(sender.payload_bytes, receiver.payload_bytes);
    EXPECT_EQ(300u, receiver.message_count);
    uint64_t timed = 0;
    for (uint64_t bucket : sender.service_count)
        timed += bucket;
    EXPECT_EQ(300u, timed);
    EXPECT_GT(sender.service_ns, 0u);
    EXPECT_EQ(0u, receiver.service_ns);
    EXPECT_EQ(sender.id, receiver.id);
    EXPECT_EQ(3, sender.from_rank);
    EXPECT_EQ(3, receiver.from_rank);
    EXPECT_EQ(0u, sender.path_now);
    EXPECT_STREQ("soft0", sender.path[0].own);
    EXPECT_STREQ("soft1", sender.path[0].peer);
    EXPECT_STREQ("soft1", receiver.path[0].own);
    EXPECT_NE(nullptr, strstr(sender.peer, std::to_string(getpid()).c_str())) << sender.peer;
    const char *hostpath = getenv("DETOUR_HOSTPATH");
    bool is_staged = hostpath && !strcmp(hostpath, "on");
    EXPECT_EQ(is_staged ? 300u : 0u, sender.staged_count);
    EXPECT_EQ(is_staged ? sender.payload_bytes : 0u, sender.staged_bytes);
    EXPECT_EQ(0u, sender.error_count + sender.path_down_count + sender.rewound_count);
}

/* Several ranks of a node share a connection; then no single one can be named. */
TEST_F(Page, TagsThatChangeAreSeveralRanks)
{
    Pair pair(&ncclNetPlugin_v8);
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 64, 1);
    Buffer &to = pair.Register(pair.recv, 64, 2);
    Read();
    EXPECT_EQ(DT_PAGE_RANK_UNKNOWN, sender.from_rank);
    Exchange(pair, from, to, 64, 5);
    Exchange(pair, from, to, 64, 6);
    Exchange(pair, from, to, 64, 6);
    Read();
    EXPECT_EQ(DT_PAGE_RANK_SEVERAL, sender.from_rank);
    EXPECT_EQ(DT_PAGE_RANK_SEVERAL, receiver.from_rank);
}

TEST_F(Page, RowsComeAndGoWithConnections)
{
    Read();
    EXPECT_EQ(0, count);
    {
        Pair pair(&ncclNetPlugin_v8);
        pair.Connect();
        Read();
        EXPECT_EQ(2, count);
        EXPECT_EQ(0u, sender.message_count) << "counters of the connection that had the row before";
        Buffer &from = pair.Register(pair.send, 64, 1);
        void *request = nullptr;
        EXPECT_EQ(ncclSuccess, ncclNetPlugin_v8.isend(pair.send, from.data(), 64, 0, from.mhandle, &request));
        EXPECT_EQ(nullptr, request);
        Read();
        EXPECT_EQ(1u, sender.refused_count) << "no clear-to-send";
    }
    Read();
    EXPECT_EQ(0, count);
}
} // namespace
