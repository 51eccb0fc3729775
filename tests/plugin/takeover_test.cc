/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detour's thread takes connections over while NCCL does not call, and gives them back, as often as it can
 * (DETOUR_IDLE_TAKEOVER_US=50 in CMakeLists.txt). Callers pause at random, so that both sides keep meeting at
 * the door; the data must not notice, and ThreadSanitizer must see every hand-over.
 */
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/prng.h"
#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"
#include "transport/message/connection.h"
#include "transport/service.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

/* The linker puts these in front of what Detour's thread calls (CMakeLists.txt). */
extern "C" void __real_dt_owner_claim(dt_owner *owner);
extern "C" void __wrap_dt_owner_claim(dt_owner *owner);
extern "C" uint64_t __real_dt_service_progress(dt_nic *nic, uint64_t now_ns);
extern "C" uint64_t __wrap_dt_service_progress(dt_nic *nic, uint64_t now_ns);

namespace
{
dt_connection *watched;  /* [atomic] */
dt_nic *watched_nic;     /* its device, which outlives it [atomic] */
uint32_t watched_claims; /* to take it over [atomic] */
uint32_t watched_rounds; /* of its device's thread [atomic] */

void watch(dt_connection *c)
{
    dt_store_release(&watched_nic, c ? c->nic : nullptr);
    dt_store_release(&watched, c);
}
} // namespace

void __wrap_dt_owner_claim(dt_owner *owner)
{
    dt_connection *c = dt_load_acquire(&watched);
    if (c && owner == &c->owner && c->service->claims & DT_CLAIM_TAKEOVER)
        dt_fetch_add_acq_rel(&watched_claims, 1u);
    __real_dt_owner_claim(owner);
}

uint64_t __wrap_dt_service_progress(dt_nic *nic, uint64_t now_ns)
{
    dt_nic *awaited = dt_load_acquire(&watched_nic);
    uint64_t deadline_ns = __real_dt_service_progress(nic, now_ns);
    if (nic == awaited)
        dt_fetch_add_acq_rel(&watched_rounds, 1u);
    return deadline_ns;
}

namespace
{
using detour_test::Buffer;
using detour_test::Pair;
using detour_test::Until;

class Takeover : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(ncclSuccess, ncclNetPlugin_v8.init(nullptr));
    }
};

/* Sometimes nothing, sometimes long enough to be taken over. */
void Pause(dt_prng *prng)
{
    if (dt_prng_chance(prng, 1, 4))
        usleep((useconds_t)dt_prng_below(prng, 150));
}

TEST_F(Takeover, HammeredUnderTraffic)
{
    static const int messages = 600, bytes = 2000, connections = 3;
    std::vector<std::unique_ptr<Pair>> pairs;
    std::vector<std::thread> threads;
    for (int c = 0; c < connections; c++) {
        pairs.emplace_back(new Pair(&ncclNetPlugin_v8));
        pairs.back()->Connect();
    }
    for (int c = 0; c < connections; c++) {
        Pair &pair = *pairs[c];
        Buffer &from = pair.Register(pair.send, 8 * bytes, 0);
        Buffer &to = pair.Register(pair.recv, 8 * bytes, 0);
        threads.emplace_back([&pair, &from, c] {
            dt_prng prng;
            dt_prng_init_stream(&prng, 11, c);
            void *open[8] = {};
            for (int i = 0; i < messages; i++) {
                if (open[i % 8])
                    pair.Wait(open[i % 8]);
                detour_test::Fill(from.data() + i % 8 * bytes, bytes, i);
                Pause(&prng);
                open[i % 8] = pair.Send(from.data() + i % 8 * bytes, bytes, 0, from.mhandle);
            }
            for (int i = messages; i < messages + 8; i++)
                pair.Wait(open[i % 8]);
        });
        threads.emplace_back([&pair, &to, c] {
            dt_prng prng;
            dt_prng_init_stream(&prng, 12, c);
            void *open[8] = {};
            auto finish = [&](int i) {
                int received = -1;
                pair.Wait(open[i % 8], &received);
                EXPECT_EQ(bytes, received);
                EXPECT_EQ(0u, detour_test::CountWrong(to.data() + i % 8 * bytes, bytes, i));
            };
            for (int i = 0; i < messages; i++) {
                if (i >= 8)
                    finish(i - 8);
                Pause(&prng);
                open[i % 8] = pair.Receive(to.data() + i % 8 * bytes, bytes, 0, to.mhandle);
            }
            for (int i = messages - 8; i < messages; i++)
                finish(i);
        });
    }
    for (std::thread &thread : threads)
        thread.join();
}

/* Nobody calls test; both requests complete all the same, and the first test says so. */
TEST_F(Takeover, CompletesRequestsThatNcclDoesNotTest)
{
    Pair pair(&ncclNetPlugin_v8);
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 100000, 3);
    Buffer &to = pair.Register(pair.recv, 100000, 0);
    void *receive = pair.Receive(to.data(), 100000, 0, to.mhandle);
    void *send = pair.Send(from.data(), 100000, 0, from.mhandle);
    auto *sender = static_cast<dt_connection *>(pair.send),
         *receiver = static_cast<dt_connection *>(pair.recv);
    Until([&] {
        usleep(100);
        return dt_load_relaxed(&sender->completions) == 1 && dt_load_relaxed(&receiver->completions) == 1;
    });
    Until([&] { return pair.TestOnce(receive); });
    Until([&] { return pair.TestOnce(send); });
    EXPECT_EQ(from.bytes, to.bytes);
}

/*
 * A long call of NCCL's is no reason to take the connection from it: Detour's thread would wait at the door,
 * perhaps on the very processor that NCCL needs to get out.
 */
TEST_F(Takeover, NotWhileNcclIsInside)
{
    Pair pair(&ncclNetPlugin_v8);
    pair.Connect();
    Buffer &to = pair.Register(pair.recv, 64, 0);
    ASSERT_NE(nullptr, pair.Receive(to.data(), 64, 0, to.mhandle));
    auto *receiver = static_cast<dt_connection *>(pair.recv);
    auto rounds = [](uint32_t count) {
        uint32_t from = dt_load_acquire(&watched_rounds);
        Until([&] {
            usleep(100);
            return dt_load_acquire(&watched_rounds) - from >= count;
        });
    };
    ASSERT_TRUE(Until([&] { return dt_owner_enter(&receiver->owner); }));
    watch(receiver);
    rounds(2); /* one may have looked before */
    uint32_t claims = dt_load_acquire(&watched_claims);
    rounds(20);
    EXPECT_EQ(claims, dt_load_acquire(&watched_claims));
    dt_owner_leave(&receiver->owner);
    Until([&] {
        usleep(100);
        return dt_load_acquire(&watched_claims) != claims;
    });
    watch(nullptr);
}

/* Closing beside a takeover: when close returned, Detour's thread is out of the connection. */
TEST_F(Takeover, CloseInTheMiddle)
{
    for (int round = 0; round < 20; round++) {
        Pair pair(&ncclNetPlugin_v8);
        pair.Connect();
        Buffer &to = pair.Register(pair.recv, 64, 0);
        for (int i = 0; i < 4; i++)
            ASSERT_NE(nullptr, pair.Receive(to.data(), 64, 0, to.mhandle));
        usleep(round * 20);
    }
}
} // namespace
