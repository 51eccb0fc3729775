// SPDX-License-Identifier: Apache-2.0
#include "tests/sched/slow_simulator.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace sched_test
{
namespace
{
using Key = std::tuple<char, int, int>; /* 'F', 'B' or 'W', stage, microbatch */

class Slow
{
  public:
    Slow(Profile &profile, const struct detour_schedule *schedule) : profile_(profile), s_(schedule)
    {
        for (size_t i = 0; i < s_->op_count; i++)
            at_[{Letter(s_->ops[i]), s_->ops[i].stage, s_->ops[i].microbatch}] = i;
    }

    SlowResult Run()
    {
        /* A cycle of operations that take no time settles, but nobody could run it: longer ones tell. */
        longer_ns_ = 1;
        bool finished = Settle();
        longer_ns_ = 0;
        Settle();
        SlowResult result = {finished, 0, start_, {}, {}};
        int64_t first = INT64_MAX, last = 0;
        for (size_t i = 0; i < s_->op_count; i++) {
            first = std::min(first, start_[i]);
            last = std::max(last, Finish(i));
        }
        result.makespan_ns = last - first;
        Memory(&result);
        return result;
    }

  private:
    /* Longest paths in an acyclic graph settle within as many sweeps as there are operations. */
    bool Settle()
    {
        bool changed = true;
        start_.assign(s_->op_count, 0);
        for (size_t sweep = 0; changed && sweep <= s_->op_count + 1; sweep++)
            changed = Sweep();
        return !changed;
    }

    static char Letter(const struct detour_op &op)
    {
        return op.kind == DETOUR_OP_F ? 'F' : op.kind == DETOUR_OP_W ? 'W' : 'B';
    }

    int64_t Finish(size_t i) const
    {
        const struct detour_op &op = s_->ops[i];
        const struct detour_stage &stage = profile_.stages[op.stage];
        int64_t fused = stage.bw_ns ? stage.bw_ns : stage.b_ns + stage.w_ns;
        int64_t duration = op.kind == DETOUR_OP_F   ? stage.f_ns
                           : op.kind == DETOUR_OP_B ? stage.b_ns
                           : op.kind == DETOUR_OP_W ? stage.w_ns
                                                    : fused;
        return start_[i] + duration + longer_ns_;
    }

    /* Arrivals of all messages of one direction of one link, by microbatch. */
    std::map<int, int64_t> Arrivals(int from, int to)
    {
        bool forward = to > from;
        const struct detour_link &link = profile_.links[std::min(from, to)];
        int64_t latency = forward ? link.forward_ns : link.backward_ns;
        int64_t serial = forward ? link.forward_serial_ns : link.backward_serial_ns;
        std::map<int, int64_t> arrivals;
        int64_t occupied = 0;
        if (profile_.stages[from].device == profile_.stages[to].device)
            latency = serial = 0;
        for (size_t i = 0; i < s_->op_count; i++) {
            const struct detour_op &op = s_->ops[i];
            if (op.stage != from || Letter(op) != (forward ? 'F' : 'B'))
                continue;
            occupied = std::max(occupied, Finish(i)) + serial;
            arrivals[op.microbatch] = occupied + latency;
        }
        return arrivals;
    }

    bool Raise(size_t i, int64_t to)
    {
        if (start_[i] >= to)
            return false;
        start_[i] = to;
        return true;
    }

    bool Sweep()
    {
        bool changed = false;
        int stages = static_cast<int>(profile_.stages.size());
        for (int32_t d = 0; d < s_->device_count; d++)
            for (size_t i = s_->first[d] + 1; i < s_->first[d + 1]; i++)
                changed |= Raise(i, Finish(i - 1));
        for (int stage = 0; stage + 1 < stages; stage++) {
            for (auto [microbatch, ns] : Arrivals(stage, stage + 1))
                changed |= Raise(at_.at({'F', stage + 1, microbatch}), ns);
            for (auto [microbatch, ns] : Arrivals(stage + 1, stage))
                changed |= Raise(at_.at({'B', stage, microbatch}), ns);
        }
        for (const auto &[key, i] : at_) {
            auto [letter, stage, microbatch] = key;
            if (letter == 'B')
                changed |= Raise(i, Finish(at_.at({'F', stage, microbatch})));
            if (letter == 'W')
                changed |= Raise(i, Finish(at_.at({'B', stage, microbatch})));
        }
        return changed;
    }

    void Memory(SlowResult *result)
    {
        result->peak_bytes.assign(static_cast<size_t>(s_->device_count), 0);
        result->peak_inflight.assign(profile_.stages.size(), 0);
        for (int32_t d = 0; d < s_->device_count; d++) {
            int64_t bytes = 0;
            std::map<int, int32_t> inflight;
            for (size_t i = s_->first[d]; i < s_->first[d + 1]; i++) {
                const struct detour_op &op = s_->ops[i];
                const struct detour_stage &stage = profile_.stages[op.stage];
                int64_t before = bytes;
                if (op.kind == DETOUR_OP_F) {
                    bytes += stage.bytes_f;
                    inflight[op.stage]++;
                } else {
                    bytes += op.kind == DETOUR_OP_B   ? stage.bytes_w - stage.bytes_f
                             : op.kind == DETOUR_OP_W ? -stage.bytes_w
                                                      : -stage.bytes_f;
                    char last = profile_.release == DETOUR_RELEASE_B ? 'B' : 'W';
                    inflight[op.stage] -= op.kind == DETOUR_OP_BW || Letter(op) == last;
                }
                result->peak_bytes[d] = std::max({result->peak_bytes[d], before, bytes});
                result->peak_inflight[op.stage] =
                    std::max(result->peak_inflight[op.stage], inflight[op.stage]);
            }
        }
    }

    Profile &profile_;
    const struct detour_schedule *s_;
    std::map<Key, size_t> at_;
    std::vector<int64_t> start_;
    int64_t longer_ns_ = 0;
};
} // namespace

SlowResult SlowSimulate(Profile &profile, const struct detour_schedule *schedule)
{
    return Slow(profile, schedule).Run();
}
} // namespace sched_test
