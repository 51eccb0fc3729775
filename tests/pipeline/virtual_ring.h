/* SPDX-License-Identifier: Apache-2.0 */
/* One all-reduce of gradients.h between replicas in virtual time. */
#ifndef DETOUR_TESTS_PIPELINE_VIRTUAL_RING_H
#define DETOUR_TESTS_PIPELINE_VIRTUAL_RING_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "pipeline/gradients.h"
#include "pipeline/ring_model.h"

namespace pipeline_test
{
struct GradientsDeleter {
    void operator()(struct dt_gradients *gradients) const
    {
        dt_gradients_destroy(gradients);
    }
};
using Gradients = std::unique_ptr<struct dt_gradients, GradientsDeleter>;

/*
 * A transfer leaves when both ends have posted it, and completes at both at the same time: serial and then
 * latency later.
 */
class VirtualRing
{
  public:
    VirtualRing(struct dt_gradients_options options, std::vector<struct dt_ring_link> links)
        : links_(std::move(links)), lanes_(links_.size())
    {
        options.replicas = static_cast<int32_t>(links_.size());
        options.first_flow = 7;
        for (options.replica = 0; options.replica < options.replicas; options.replica++)
            ends.emplace_back(dt_gradients_create(&options));
    }

    std::vector<Gradients> ends;
    uint64_t spoiled = UINT64_MAX; /* the first word of this transfer, counted over all replicas, is wrong */
    size_t in_flight_max = 0;
    std::vector<struct dt_pipeline_share> shares; /* of each replica; empty: four microbatches */

    /* Returns when the last replica has everything; ended_ns: of each replica. */
    int64_t Run(uint32_t iteration, const std::vector<int64_t> &ended_ns)
    {
        now_ns_ = 0;
        for (Lane &lane : lanes_)
            lane.free_ns = 0;
        const auto total = static_cast<int32_t>(4 * ends.size());
        for (size_t r = 0; r < ends.size(); r++)
            dt_gradients_begin(ends[r].get(), iteration,
                               shares.empty() ? dt_pipeline_share{static_cast<int32_t>(4 * r), 4, total}
                                              : shares[r]);
        for (;;) {
            for (size_t r = 0; r < ends.size(); r++)
                Pump(r, now_ns_ >= ended_ns[r]);
            Match();
            int64_t next_ns = INT64_MAX;
            for (size_t r = 0; r < ends.size(); r++) {
                if (now_ns_ < ended_ns[r])
                    next_ns = std::min(next_ns, ended_ns[r]);
                if (!lanes_[r].travelling.empty())
                    next_ns = std::min(next_ns, lanes_[r].travelling.front().arrives_ns);
            }
            if (next_ns == INT64_MAX)
                break;
            now_ns_ = std::max(now_ns_, next_ns);
            Deliver();
        }
        uint64_t end_ns = 0;
        for (Gradients &end : ends) {
            EXPECT_TRUE(dt_gradients_is_done(end.get())) << "the ring hangs";
            end_ns = std::max(end_ns, dt_gradients_end_ns(end.get()));
        }
        return static_cast<int64_t>(end_ns);
    }

  private:
    struct Transfer {
        struct dt_executor_order send, receive;
        std::vector<char> data;
        int64_t arrives_ns;
    };
    struct Lane { /* from replica r to the next one */
        std::deque<Transfer> sends;
        std::deque<struct dt_executor_order> receives;
        std::deque<Transfer> travelling;
        int64_t free_ns = 0;
    };

    void Pump(size_t r, bool has_ended)
    {
        struct dt_executor_order order;
        while (dt_gradients_next(ends[r].get(), has_ended, &order)) {
            bool sends = order.flow == 7;
            size_t before = (r + ends.size() - 1) % ends.size();
            EXPECT_EQ(static_cast<size_t>(dt_gradients_peer(ends[r].get(), sends)),
                      sends ? (r + 1) % ends.size() : before);
            if (!sends) {
                EXPECT_EQ(order.flow, 8u);
                lanes_[before].receives.push_back(order);
                continue;
            }
            std::vector<char> data(order.bytes);
            dt_gradients_pack(ends[r].get(), &order, data.data());
            data[0] ^= static_cast<char>(count_++ == spoiled);
            lanes_[r].sends.push_back({order, {}, std::move(data), 0});
        }
    }

    void Match()
    {
        for (size_t r = 0; r < lanes_.size(); r++) {
            Lane &lane = lanes_[r];
            while (!lane.sends.empty() && !lane.receives.empty()) {
                Transfer transfer = std::move(lane.sends.front());
                transfer.receive = lane.receives.front();
                EXPECT_EQ(transfer.send.bytes, transfer.receive.bytes);
                EXPECT_EQ(transfer.send.offset_bytes, transfer.receive.offset_bytes);
                lane.sends.pop_front();
                lane.receives.pop_front();
                lane.free_ns = std::max(now_ns_, lane.free_ns) + links_[r].serial_ns;
                transfer.arrives_ns = lane.free_ns + links_[r].latency_ns;
                lane.travelling.push_back(std::move(transfer));
                in_flight_max = std::max(in_flight_max, lane.travelling.size());
            }
        }
    }

    void Deliver()
    {
        for (size_t r = 0; r < lanes_.size(); r++) {
            std::deque<Transfer> &travelling = lanes_[r].travelling;
            while (!travelling.empty() && travelling.front().arrives_ns <= now_ns_) {
                auto now_ns = static_cast<uint64_t>(now_ns_);
                dt_gradients_received(ends[(r + 1) % ends.size()].get(), &travelling.front().receive,
                                      travelling.front().data.data(), now_ns);
                dt_gradients_sent(ends[r].get(), now_ns);
                travelling.pop_front();
            }
        }
    }

    std::vector<struct dt_ring_link> links_;
    std::vector<Lane> lanes_;
    int64_t now_ns_ = 0;
    uint64_t count_ = 0;
};
} // namespace pipeline_test

#endif
