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
    Slow(Profile &profile, const struct detour_schedule *schedule, const std::vector<size_t> &started,
         int64_t now_ns, const LateMessage &late)
        : profile_(profile), late_(late), s_(schedule), now_ns_(now_ns), fixed_(schedule->op_count, false)
    {
        for (size_t d = 0; d < started.size(); d++)
            for (size_t k = 0; k < started[d]; k++)
                fixed_[s_->first[d] + k] = true;

        for (size_t i = 0; i < s_->op_count; i++)
            at_[{Letter(s_->ops[i]), s_->ops[i].stage, s_->ops[i].microbatch}] = i;
    }

    SlowResult Run()
    {
        /* A cycle of operations that take no time settles, but it cannot be executed: longer ones show that.
         */
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
        start_.assign(s_->op_count, now_ns_);
        for (size_t i = 0; i < s_->op_count; i++)
            if (fixed_[i])
                start_[i] = s_->ops[i].start_ns;
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
        if (fixed_[i])
            return op.finish_ns;
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
            bool is_late = late_.from == from && late_.to == to && late_.microbatch == op.microbatch;
            arrivals[op.microbatch] = occupied + latency + (is_late ? late_.late_ns : 0);
        }
        return arrivals;
    }

    bool Raise(size_t i, int64_t to)
    {
        if (fixed_[i] || start_[i] >= to)
            return false;
        start_[i] = to;
        return true;
    }

    bool Sweep()
    {
        bool changed = false;
        int stages = static_cast<int>(profile_.stages.size());
        for (int32_t d = 0; d < s_->device_count; d++)
            changed |= SweepCopies(d);
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

    /* Copies of one device: out in the order of the F's, in to end with the operation ahead of B. */
    bool SweepCopies(int32_t device)
    {
        bool changed = false;
        int64_t out = 0, in = 0;
        for (size_t i = s_->first[device]; i < s_->first[device + 1]; i++) {
            const struct detour_op &op = s_->ops[i];
            Key cell = {'F', op.stage, op.microbatch};
            int64_t copy = profile_.stages[op.stage].offload_ns;
            if (op.flags & DETOUR_OP_OFFLOADED) {
                out = std::max(out, Finish(i)) + copy;
                gone_[cell] = out;
            } else if (Letter(op) == 'B' && gone_.count(cell)) {
                back_[cell] = std::max({gone_[cell], start_[i - 1], Finish(i - 1) - copy, in});
                in = back_[cell] + copy;
                changed |= Raise(i, in);
            }
        }
        return changed;
    }

    /* Something held from one time to another; what ends when another begins makes room for it. */
    struct Hold {
        int64_t from, to, bytes;
        int stage;
        bool counts; /* as a microbatch in flight */
    };

    std::vector<Hold> HoldsOf(int stage, int microbatch) const
    {
        size_t f = at_.at({'F', stage, microbatch}), b = at_.at({'B', stage, microbatch});
        const struct detour_stage &s = profile_.stages[stage];
        bool fused = s_->ops[b].kind == DETOUR_OP_BW;
        int64_t b_end = Finish(b), w_end = fused ? b_end : Finish(at_.at({'W', stage, microbatch}));
        auto gone = gone_.find({'F', stage, microbatch});
        int64_t taken = start_[f];
        std::vector<Hold> holds;
        if (gone != gone_.end()) {
            holds.push_back({taken, gone->second, s.bytes_f, stage, true});
            taken = back_.at({'F', stage, microbatch});
        }
        holds.push_back({taken, b_end, s.bytes_f, stage, true});
        if (!fused) {
            holds.push_back({start_[b], b_end, std::max<int64_t>(0, s.bytes_w - s.bytes_f), stage, false});
            holds.push_back({b_end, w_end, s.bytes_w, stage, profile_.release == DETOUR_RELEASE_W});
        }
        return holds;
    }

    void Memory(SlowResult *result)
    {
        result->peak_bytes.assign(static_cast<size_t>(s_->device_count), 0);
        result->peak_inflight.assign(profile_.stages.size(), 0);
        gone_.empty() ? MemoryInOrder(result) : MemoryInTime(result);
    }

    /* Nothing offloaded: operation by operation, which is right also for those that take no time. */
    void MemoryInOrder(SlowResult *result)
    {
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

    void MemoryInTime(SlowResult *result)
    {
        std::vector<Hold> holds;
        for (int stage = 0; stage < static_cast<int>(profile_.stages.size()); stage++)
            for (int microbatch = 0; microbatch < profile_.microbatches; microbatch++)
                for (const Hold &hold : HoldsOf(stage, microbatch))
                    holds.push_back(hold);
        for (const Hold &at : holds) {
            std::vector<int64_t> bytes(result->peak_bytes.size(), 0);
            std::vector<int32_t> inflight(result->peak_inflight.size(), 0);
            for (const Hold &hold : holds) {
                if (hold.from > at.from || hold.to <= at.from)
                    continue;
                bytes[profile_.stages[hold.stage].device] += hold.bytes;
                inflight[hold.stage] += hold.counts;
            }
            for (size_t d = 0; d < bytes.size(); d++)
                result->peak_bytes[d] = std::max(result->peak_bytes[d], bytes[d]);
            for (size_t i = 0; i < inflight.size(); i++)
                result->peak_inflight[i] = std::max(result->peak_inflight[i], inflight[i]);
        }
    }

    Profile &profile_;
    LateMessage late_;
    const struct detour_schedule *s_;
    std::map<Key, size_t> at_;
    std::vector<int64_t> start_;
    int64_t longer_ns_ = 0;
    int64_t now_ns_;
    std::vector<bool> fixed_;
    std::map<Key, int64_t> gone_; /* 'F' of the cell: has left the device */
    std::map<Key, int64_t> back_; /* begins to come back */
};
} // namespace

SlowResult SlowSimulate(Profile &profile, const struct detour_schedule *schedule,
                        const std::vector<size_t> &started, int64_t now_ns, const LateMessage &late)
{
    return Slow(profile, schedule, started, now_ns, late).Run();
}
} // namespace sched_test
