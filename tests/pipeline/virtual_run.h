/* SPDX-License-Identifier: Apache-2.0 */
/* One iteration of a program on executors in virtual time, with links as the schedule library models them. */
#ifndef DETOUR_TESTS_PIPELINE_VIRTUAL_RUN_H
#define DETOUR_TESTS_PIPELINE_VIRTUAL_RUN_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/executor.h"

namespace pipeline_test
{
struct ExecutorDeleter {
    void operator()(struct dt_executor *executor) const
    {
        dt_executor_destroy(executor);
    }
};
using Executor = std::unique_ptr<struct dt_executor, ExecutorDeleter>;

/*
 * Transfers leave when both ends have posted them, each direction of each pipeline link on its own, and
 * complete at both ends at the same time: serial (per message, divided among its slices) and then latency
 * later.
 */
class VirtualRun
{
  public:
    VirtualRun(const struct detour_profile *profile, struct dt_executor_options options) : profile_(profile)
    {
        for (int32_t d = 0; d < profile->device_count; d++) {
            options.device = d;
            executors_.emplace_back(dt_executor_create(&options, profile));
        }
    }

    struct dt_executor *operator[](size_t device) const
    {
        return executors_[device].get();
    }

    static constexpr uint64_t kBeginNs = 1000; /* of the first iteration */

    std::vector<uint32_t> permille; /* per device; empty: 1000 */

    /* Returns the time that the iteration took. */
    uint64_t Run(const struct detour_program *program, uint32_t iteration = 0)
    {
        uint64_t begin_ns = now_ns_;
        for (size_t d = 0; d < executors_.size(); d++) {
            struct dt_executor_work work = {profile_, program, iteration,
                                            permille.empty() ? 1000 : permille[d]};
            EXPECT_TRUE(dt_executor_begin(executors_[d].get(), &work, now_ns_));
        }
        links_ns_.clear();
        while (!Done()) {
            Pump();
            uint64_t next_ns = NextNs();
            if (next_ns == UINT64_MAX) {
                EXPECT_TRUE(Done()) << "the run hangs";
                break;
            }
            now_ns_ = std::max(now_ns_, next_ns);
            Deliver();
        }
        uint64_t end_ns = begin_ns;
        for (const Executor &executor : executors_)
            end_ns = std::max(end_ns, dt_executor_get_account(executor.get()).end_ns);
        return end_ns - begin_ns;
    }

  private:
    using Key = std::pair<int32_t, bool>; // link, backward

    struct Flow {
        size_t sender = 0, receiver = 0; // devices
        size_t send_flow = 0, receive_flow = 0;
        std::deque<struct dt_executor_order> sends, receives; // posted, waiting for the other end
        std::deque<std::pair<uint64_t, struct dt_pipeline_identity>> travelling; // arrival
    };

    bool Done() const
    {
        return std::all_of(executors_.begin(), executors_.end(),
                           [](const Executor &e) { return dt_executor_is_done(e.get()); });
    }

    void Pump()
    {
        for (size_t d = 0; d < executors_.size(); d++) {
            struct dt_executor_order order;
            while (dt_executor_next(executors_[d].get(), now_ns_, &order)) {
                const struct dt_executor_flow *end = dt_executor_get_flow(executors_[d].get(), order.flow);
                Flow &flow = flows_[{end->link, end->backward}];
                (end->sends ? flow.sends : flow.receives).push_back(order);
                (end->sends ? flow.sender : flow.receiver) = d;
                (end->sends ? flow.send_flow : flow.receive_flow) = order.flow;
            }
        }
        for (auto &entry : flows_)
            Match(entry.second);
    }

    void Match(Flow &flow)
    {
        while (!flow.sends.empty() && !flow.receives.empty()) {
            struct dt_executor_order send = flow.sends.front();
            EXPECT_TRUE(dt_pipeline_identity_equal(&send.identity, &flow.receives.front().identity));
            EXPECT_EQ(send.bytes, flow.receives.front().bytes);
            flow.sends.pop_front();
            flow.receives.pop_front();
            flow.travelling.emplace_back(Travel(send), send.identity);
        }
    }

    uint64_t Travel(const struct dt_executor_order &send)
    {
        bool back = send.identity.backward;
        int32_t link = back ? send.identity.stage - 1 : send.identity.stage;
        const struct detour_link &l = profile_->links[link];
        uint64_t slices = dt_executor_slices(executors_[0].get());
        auto serial = static_cast<uint64_t>(back ? l.backward_serial_ns : l.forward_serial_ns) / slices;
        uint64_t &busy_ns = links_ns_[{link, back}];
        busy_ns = std::max(busy_ns, now_ns_) + serial;
        return busy_ns + static_cast<uint64_t>(back ? l.backward_ns : l.forward_ns);
    }

    uint64_t NextNs() const
    {
        uint64_t next_ns = UINT64_MAX;
        for (const Executor &executor : executors_)
            next_ns = std::min(next_ns, dt_executor_due_ns(executor.get()));
        for (const auto &entry : flows_)
            if (!entry.second.travelling.empty())
                next_ns = std::min(next_ns, entry.second.travelling.front().first);
        return next_ns;
    }

    void Deliver()
    {
        for (auto &entry : flows_) {
            Flow &flow = entry.second;
            while (!flow.travelling.empty() && flow.travelling.front().first <= now_ns_) {
                struct dt_pipeline_identity identity = flow.travelling.front().second;
                flow.travelling.pop_front();
                dt_executor_sent(executors_[flow.sender].get(), flow.send_flow, now_ns_);
                EXPECT_TRUE(dt_executor_received(executors_[flow.receiver].get(), flow.receive_flow,
                                                 &identity, now_ns_));
            }
        }
    }

    const struct detour_profile *profile_;
    std::vector<Executor> executors_;
    std::map<Key, Flow> flows_;
    std::map<Key, uint64_t> links_ns_; // busy until
    uint64_t now_ns_ = kBeginNs;
};
} // namespace pipeline_test

#endif
