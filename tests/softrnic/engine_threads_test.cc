// SPDX-License-Identifier: Apache-2.0
// What the engine promises to callers without the RNIC's lock: post_recv against a move to ERR, and polling
// and arming against completions. One thread holds the lock as a driver would; the other does not.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/softrnic/engine_fixture.h"

using namespace softrnic_test;

namespace
{
class EngineThreads : public Pair
{
};

TEST_F(EngineThreads, EveryReceivePostedAroundAMoveToErrIsFlushed)
{
    ibv_qp_attr attr = {};
    std::mutex lock;
    for (int round = 0; round < 300; round++) {
        attr.port_num = 1;
        attr.qp_state = IBV_QPS_RESET;
        ASSERT_EQ(0, a->Modify(attr, IBV_QP_STATE));
        attr.qp_state = IBV_QPS_INIT;
        ASSERT_EQ(0, a->Modify(attr, kInitMask));
        std::atomic<bool> go{false};
        std::thread poster([&] {
            while (!go)
                std::this_thread::yield();
            for (uint64_t i = 0; i < 32; i++) {
                bool must_kick;
                ASSERT_EQ(0, dt_rnic_qp_post_recv(a->qp, i, nullptr, 0, &must_kick));
                if (must_kick) {
                    std::lock_guard<std::mutex> held(lock);
                    dt_rnic_doorbell(a->qp, 0);
                }
            }
        });
        go = true;
        for (volatile int spin = round * 10; spin > 0; spin = spin - 1) {
        }
        {
            std::lock_guard<std::mutex> held(lock);
            ASSERT_EQ(0, a->MoveTo(IBV_QPS_ERR));
        }
        poster.join();
        std::vector<dt_cqe> cqes = a->PollRecv();
        ASSERT_EQ(32u, cqes.size()) << "round " << round;
        for (uint64_t i = 0; i < 32; i++)
            ASSERT_EQ(i, cqes[i].wr_id);
    }
}

struct Bell {
    std::mutex mutex;
    std::condition_variable changed;
    bool has_rung = false;
};

TEST_F(EngineThreads, AConsumerThatArmsBeforeItSleepsMissesNothing)
{
    constexpr int kCompletions = 20000;
    Bell bell;
    dt_rnic_options options = {};
    options.wire = ha->port;
    options.context = &bell;
    options.notify = [](void *context, dt_rnic_cq *) {
        Bell *rung = static_cast<Bell *>(context);
        std::lock_guard<std::mutex> held(rung->mutex);
        rung->has_rung = true;
        rung->changed.notify_one();
    };
    dt_rnic *rnic = dt_rnic_create(&options);
    dt_rnic_cq *cq = dt_rnic_cq_create(rnic, 4096, true, nullptr);
    dt_rnic_qp_options qp_options = {};
    qp_options.send_cq = qp_options.recv_cq = cq;
    qp_options.rq_entries = 16;
    dt_rnic_qp *qp = dt_rnic_qp_create(rnic, &qp_options);
    ibv_qp_attr attr = {};
    attr.port_num = 1;
    attr.qp_state = IBV_QPS_INIT;
    ASSERT_EQ(0, dt_rnic_qp_modify(qp, &attr, kInitMask, 0));
    attr.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(0, dt_rnic_qp_modify(qp, &attr, IBV_QP_STATE, 0));

    std::atomic<int> taken{0};
    std::thread consumer([&] {
        uint64_t next = 0;
        while (next < kCompletions) {
            dt_cqe cqe;
            if (!dt_rnic_cq_poll(cq, &cqe, 1)) {
                dt_rnic_cq_arm(cq, next % 2);
                if (!dt_rnic_cq_poll(cq, &cqe, 1)) {
                    std::unique_lock<std::mutex> held(bell.mutex);
                    ASSERT_TRUE(
                        bell.changed.wait_for(held, std::chrono::seconds(20), [&] { return bell.has_rung; }))
                        << "asleep with " << next << " taken";
                    bell.has_rung = false;
                    continue;
                }
            }
            ASSERT_EQ(next, cqe.wr_id);
            next++;
            taken = static_cast<int>(next);
        }
    });
    for (int i = 0; i < kCompletions; i++) {
        bool must_kick;
        while (i - taken > 4000)
            std::this_thread::yield();
        ASSERT_EQ(0, dt_rnic_qp_post_recv(qp, static_cast<uint64_t>(i), nullptr, 0, &must_kick));
        ASSERT_TRUE(must_kick);
        dt_rnic_doorbell(qp, 0); // flushes it: a completion
        if (i % 7 == 0)
            std::this_thread::yield();
    }
    consumer.join();
    dt_rnic_destroy(rnic);
}
} // namespace
