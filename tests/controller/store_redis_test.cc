// SPDX-License-Identifier: Apache-2.0
/* The store on a real redis-server, which is killed and started again. Skipped where there is none. */
#include "controller/store_redis.h"

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "controller/redis_library.h"
#include "controller/redis_link.h"
#include "tests/controller/certificates.h"
#include "tests/controller/opened_store.h"
#include "tests/controller/redis_server.h"

namespace
{
using detour_test::Records;
using Store = detour_test::OpenedStore;

/* Commands of another client, as of an operator or an attacker. */
class Client
{
  public:
    explicit Client(const std::string &url)
    {
        struct dt_redis_url parsed;
        char reason[256];

        EXPECT_TRUE(dt_redis_url_parse(url.c_str(), &parsed, reason, sizeof reason));
        EXPECT_EQ(dt_redis_library_load(&library, reason, sizeof reason), DT_OK) << reason;
        link = dt_redis_link_create(&parsed, &library, nullptr);
    }
    ~Client()
    {
        dt_redis_link_destroy(link);
    }
    void Do(std::vector<const char *> argv)
    {
        struct redisReply *reply = nullptr;
        char reason[256] = "";
        dt_status status;

        do
            status = dt_redis_link_call(link, static_cast<int>(argv.size()), argv.data(), &reply, reason,
                                        sizeof reason);
        while (status == DT_CLOSED);
        ASSERT_EQ(status, DT_OK) << reason;
        EXPECT_NE(reply->type, REDIS_REPLY_ERROR) << argv[0] << ": " << reply->str;
        library.reply_free(reply);
    }

  private:
    struct dt_redis_library library;
    struct dt_redis_link *link;
};

class StoreRedis : public testing::Test
{
  protected:
    void SetUp() override
    {
        if (!RedisServer::IsUsable())
            GTEST_SKIP() << "redis-server or libhiredis is not installed";
    }
};

TEST_F(StoreRedis, KeepsStreamsFieldsAndJobsApart)
{
    RedisServer server;
    Store one(server.Url()), same(server.Url("", "redis") + "/0"), other(server.Url(), "job-2");
    std::string first;

    ASSERT_EQ(one.Until([&] { return one.Append("a", &first); }), DT_OK);
    ASSERT_EQ(other.Until([&] { return other.Append("x"); }), DT_OK);
    for (int i = 0; i < 200; i++)
        ASSERT_EQ(one.Append("b" + std::to_string(i)), DT_OK);
    ASSERT_EQ(one.Append("c", nullptr, "t"), DT_OK);
    EXPECT_EQ(one.Read().size(), 201u) << "more than one page";
    EXPECT_EQ(same.Read(first).size(), 200u);
    EXPECT_EQ(same.Read(first, 2), (Records{"b0", "b1"}));
    EXPECT_EQ(one.Read("", 0), Records());
    EXPECT_EQ(one.Read("", 10, "none"), Records());
    EXPECT_EQ(other.Read(), Records{"x"});
    EXPECT_EQ(one.Get("f"), "not found");
    ASSERT_EQ(one.store->ops->set(one.store, "f", "1"), DT_OK);
    ASSERT_EQ(one.store->ops->set(one.store, "f", "a longer \"value\" \xc3\xa9"), DT_OK);
    EXPECT_EQ(same.Get("f"), "a longer \"value\" \xc3\xa9");
    EXPECT_EQ(other.Get("f"), "not found");
}

TEST_F(StoreRedis, RefusesWhatIsBeyondTheLimits)
{
    RedisServer server;
    Store store(server.Url());
    const std::string largest(DT_STORE_RECORD_BYTES - 1, 'r'), larger(DT_STORE_RECORD_BYTES, 'r');
    char small[4];

    ASSERT_EQ(store.Until([&] { return store.Append(largest); }), DT_OK);
    EXPECT_EQ(store.Append(larger), DT_INVALID);
    EXPECT_EQ(store.Append("x", nullptr, "a b"), DT_INVALID);
    EXPECT_EQ(store.store->ops->set(store.store, "f", larger.c_str()), DT_INVALID);
    EXPECT_EQ(store.store->ops->set(store.store, "f", "1234"), DT_OK);
    EXPECT_EQ(store.store->ops->get(store.store, "f", small, sizeof small), DT_INVALID);
    EXPECT_EQ(store.store->ops->read(store.store, "s", "not an id", 1, nullptr, nullptr), DT_INVALID);
    EXPECT_EQ(store.Read(), Records{largest});
}

TEST_F(StoreRedis, AStreamKeepsItsNewestRecords)
{
    RedisServer server;
    Store store(server.Url());
    const size_t count = DT_STORE_STREAM_RECORDS * 2;

    ASSERT_EQ(store.Until([&] { return store.Append("0"); }), DT_OK);
    for (size_t i = 1; i < count; i++)
        ASSERT_EQ(store.Append(std::to_string(i)), DT_OK);
    Records kept = store.Read();
    EXPECT_GE(kept.size(), size_t{DT_STORE_STREAM_RECORDS});
    EXPECT_LT(kept.size(), count);
    EXPECT_EQ(kept.back(), std::to_string(count - 1));
}

/* Each decider holds the lease alone, and the numbers ascend from holder to holder. */
TEST_F(StoreRedis, OfTwoDecidersOneHasTheLease)
{
    RedisServer server;
    std::atomic<int> holders{0};
    std::atomic<uint64_t> last{0};
    auto decide = [&](const char *name) {
        Store store(server.Url());

        for (int turns = 0; turns < 50;) {
            uint64_t fence = store.Acquire(name);

            if (!fence)
                continue;
            EXPECT_EQ(holders.fetch_add(1), 0) << "two holders";
            EXPECT_GT(fence, last.exchange(fence));
            EXPECT_EQ(store.Acquire(name), fence) << "a holder keeps its number";
            EXPECT_EQ(store.Renew(name, fence), DT_OK);
            holders--;
            EXPECT_EQ(store.Release(name, fence), DT_OK);
            turns++;
        }
    };
    std::thread a(decide, "a"), b(decide, "b");

    a.join();
    b.join();
}

TEST_F(StoreRedis, ALeaseThatEndedIsAnothersAndItsOldHolderChangesNothing)
{
    RedisServer server;
    Store old(server.Url()), next(server.Url());
    uint64_t first = old.Acquire("old", 20), second;

    ASSERT_GT(first, 0u);
    while (!(second = next.Acquire("next")))
        ;
    EXPECT_GT(second, first);
    EXPECT_EQ(old.Renew("old", first), DT_AGAIN);
    EXPECT_EQ(old.Release("old", first), DT_OK);
    EXPECT_EQ(old.Renew("next", first), DT_AGAIN) << "a number of the past";
    EXPECT_EQ(next.Renew("next", second), DT_OK) << "the release of the old holder had no effect";
    EXPECT_EQ(old.Acquire("old"), 0u);
}

/* A writer appends while the server is killed and started again. */
void KillInTheMiddle(RedisServer &server, bool is_persistent, struct dt_redis_tls_files tls = {})
{
    std::atomic<int> written{0}, lost_calls{0};
    std::atomic<bool> is_over{false};
    Records accepted;
    std::thread writer([&] {
        Store store(server.Url(), "job-1", tls);

        for (int i = 0; !is_over; i++) {
            std::string record = std::to_string(i);

            if (store.Append(record) == DT_OK) {
                accepted.push_back(record);
                written++;
            } else {
                lost_calls++;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1)); /* the stream is to keep all of them */
        }
    });
    Store store(server.Url(), "job-1", tls);
    std::string early;
    uint64_t before = store.Acquire("decider-1");
    auto await = [](std::atomic<int> &count, int target) {
        while (count < target)
            std::this_thread::yield();
    };

    await(written, 200);
    EXPECT_EQ(store.store->ops->set(store.store, "phase", "7"), DT_OK);
    EXPECT_EQ(store.Append("early", &early, "t"), DT_OK);
    server.Kill();
    await(lost_calls, 1);
    EXPECT_EQ(store.Append("x"), DT_CLOSED);
    EXPECT_NE(std::string(store.store->reason).find("127.0.0.1"), std::string::npos) << store.store->reason;
    server.Start();
    int at = written;
    await(written, at + 200);
    is_over = true;
    writer.join();

    uint64_t after = store.Acquire("decider-2");
    Records kept = store.Read();
    std::string late;
    EXPECT_EQ(store.Append("late", &late, "t"), DT_OK);
    EXPECT_GT(late, early) << "ids ascend";
    EXPECT_EQ(store.Read(early, 10, "t"), Records{"late"});
    if (is_persistent) {
        EXPECT_EQ(after, 0u) << "the lease is still decider-1's";
        EXPECT_EQ(store.Renew("decider-1", before), DT_OK);
        EXPECT_EQ(store.Get("phase"), "7");
        for (const std::string &record : accepted) /* a call of unknown effect may have added more */
            EXPECT_EQ(std::count(kept.begin(), kept.end(), record), 1) << record;
    } else {
        EXPECT_GT(after, before) << "a number that was not used, though the counter is lost";
        EXPECT_EQ(store.Renew("decider-1", before), DT_AGAIN);
        EXPECT_EQ(store.Get("phase"), "not found");
        EXPECT_EQ(kept, Records(accepted.end() - static_cast<long>(kept.size()), accepted.end()));
    }
}

TEST_F(StoreRedis, KilledAndStartedAgainWithItsDataItGoesOn)
{
    RedisServer server({"--appendonly", "yes", "--appendfsync", "always"});

    KillInTheMiddle(server, true);
}

TEST_F(StoreRedis, KilledAndStartedAgainWithoutItsDataItGoesOn)
{
    RedisServer server;

    KillInTheMiddle(server, false);
}

#ifdef DETOUR_OPENSSL
TEST_F(StoreRedis, KilledAndStartedAgainWithTlsItGoesOn)
{
    if (!detour_test::Certificates::IsInstalled())
        GTEST_SKIP() << "there is no openssl command";
    detour_test::Certificates certificates;
    const std::string ca = certificates.Path("ca", ".pem");
    RedisServer server(certificates.Server(), true);

    KillInTheMiddle(server, false, {ca.c_str(), nullptr, nullptr});
}
#endif

TEST_F(StoreRedis, WithoutAServerCallsFailAtOnceBetweenAttempts)
{
    Store store("redis://" + detour_test::FreeAddress());

    EXPECT_EQ(store.Append("x"), DT_CLOSED);
    EXPECT_NE(std::string(store.store->reason).find("next attempt in 100 ms"), std::string::npos)
        << store.store->reason;
    for (int i = 0; i < 1000; i++)
        EXPECT_EQ(store.Append("x"), DT_CLOSED);
    EXPECT_EQ(store.Get("f"), "closed");
}

/* Whoever writes to the server can write anything: such entries have no record, and the rest is read. */
TEST_F(StoreRedis, EntriesOfOthersArePassedOver)
{
    RedisServer server;
    Store store(server.Url());
    Client client(server.Url());
    const std::string huge(DT_STORE_RECORD_BYTES, 'h');
    const char *stream = "detour:{job-1}:stream:s";

    ASSERT_EQ(store.Until([&] { return store.Append("first"); }), DT_OK);
    client.Do({"XADD", stream, "*", "other", "field"});
    client.Do({"XADD", stream, "*", "r", huge.c_str()});
    client.Do({"XADD", stream, "*", "r", "", "and", "more"});
    client.Do({"EVAL", "return redis.call('XADD', KEYS[1], '*', 'r', 'a\\0b')", "1", stream});
    ASSERT_EQ(store.Append("last"), DT_OK);
    EXPECT_EQ(store.Read(), (Records{"first", "", "last"}));

    client.Do({"SET", "detour:{job-1}:stream:t", "no stream"});
    EXPECT_EQ(store.store->ops->append(store.store, "t", "x", nullptr), DT_PROTOCOL);
    EXPECT_EQ(store.store->ops->read(store.store, "t", "", 1, nullptr, nullptr), DT_PROTOCOL);
    client.Do({"HSET", "detour:{job-1}:state", "f", huge.c_str()});
    EXPECT_EQ(store.Get("f"), dt_status_text(DT_INVALID));
    client.Do({"EVAL", "return redis.call('HSET', KEYS[1], 'f', 'a\\0b')", "1", "detour:{job-1}:state"});
    EXPECT_EQ(store.Get("f"), dt_status_text(DT_PROTOCOL));
    client.Do({"SET", "detour:{job-1}:lease:decider", "garbage"});
    client.Do({"SET", "detour:{job-1}:fence:decider", "garbage"});
    EXPECT_GT(store.Acquire("decider-1"), 0u) << "garbage holds no lease";
}

TEST_F(StoreRedis, AWrongPasswordIsReportedWithoutIt)
{
    RedisServer server({"--requirepass", "the-right-one"});
    Store right(server.Url(":the-right-one@")), wrong(server.Url(":the-wrong-one@")), none(server.Url());
    Store nobody(server.Url("nobody:the-wrong-one@")), named(server.Url("default:the-right-one@"));

    EXPECT_EQ(right.Until([&] { return right.Append("x"); }), DT_OK);
    EXPECT_EQ(named.Append("x"), DT_OK);
    for (Store *store : {&wrong, &nobody}) {
        EXPECT_EQ(store->Append("x"), DT_CLOSED);
        std::string reason = store->store->reason;
        EXPECT_NE(reason.find("refused the URL's"), std::string::npos) << reason;
        EXPECT_NE(reason.find("WRONGPASS"), std::string::npos) << reason;
        EXPECT_EQ(reason.find("the-wrong-one"), std::string::npos) << reason;
    }
    EXPECT_EQ(none.Append("x"), DT_CLOSED);
    EXPECT_NE(std::string(none.store->reason).find("NOAUTH"), std::string::npos) << none.store->reason;
    EXPECT_EQ(right.Read().size(), 2u);
}

/* A server that is none: each answer, then silence or the end. */
TEST_F(StoreRedis, AServerThatBreaksTheProtocolHoldsACallForItsTimeLimit)
{
    const Records answers = {"",
                             "HTTP/1.1 400 Bad Request\r\n\r\n",
                             "$99999999999999999999\r\n",
                             "*3\r\n:1\r\n",
                             "-\r\n",
                             ":1\r\n",
                             "$-1\r\n",
                             "*0\r\n",
                             "$5\r\nab"};

    for (const std::string &answer : answers) {
        int listener;
        Store store("redis://" + detour_test::FreeAddress(&listener));
        std::thread server([&] {
            char bytes[4096];
            int fd = accept(listener, nullptr, nullptr);

            EXPECT_GT(recv(fd, bytes, sizeof bytes, 0), 0);
            EXPECT_EQ(send(fd, answer.data(), answer.size(), MSG_NOSIGNAL),
                      static_cast<ssize_t>(answer.size()));
            if (answer == answers.back()) { /* stays open: the time limit ends the call */
                EXPECT_EQ(recv(fd, bytes, sizeof bytes, 0), 0);
            }
            close(fd);
        });

        dt_status status = store.Append("x");
        EXPECT_TRUE(status == DT_CLOSED || status == DT_PROTOCOL) << answer << ": " << dt_status_text(status);
        server.join();
        close(listener);
    }
}

} // namespace
