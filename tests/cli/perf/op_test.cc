/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of all operations, carried out in one process on a network of queues as short as NCCL's. */
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "cli/perf/op.h"
#include "cli/perf/pattern.h"
#include "cli/perf/protocol.h"

namespace
{
using Message = std::vector<char>;

/* (sender, channel, distance) names a connection. */
using Network = std::map<std::tuple<unsigned, unsigned, unsigned>, std::deque<Message>>;

struct Program {
    unsigned rank;
    unsigned channel;
    struct dt_perf_ends ends;
    std::vector<struct dt_perf_action> actions;
    size_t next = 0;
};

class Simulation
{
  public:
    Simulation(const struct dt_perf_op *op, unsigned ranks, unsigned channels, size_t count,
               enum dt_perf_protocol protocol)
        : op_(op), ranks_(ranks)
    {
        for (unsigned rank = 0; rank < ranks; rank++) {
            struct dt_perf_shape shape = {};
            shape.rank = rank;
            shape.ranks = ranks;
            shape.channels = channels;
            shape.count = count;
            shape.type = dt_perf_type_find("float");
            shape.redop = DT_PERF_SUM;
            dt_perf_protocol_set(&shape, op, protocol);
            struct dt_perf_layout layout;
            op->layout(&shape, &layout);
            inputs_.emplace_back(layout.input_bytes);
            outputs_.emplace_back(layout.output_bytes);
            dt_perf_op_fill(op, shape.type, rank, kIteration, 0, layout.input_bytes, inputs_.back().data());
            dt_perf_poison(outputs_.back().data(), layout.output_bytes);
            for (shape.channel = 0; shape.channel < channels; shape.channel++)
                AddPrograms(shape);
            shapes_.push_back(shape);
        }
    }

    /* Carries everything out; fails the test when no program can go on. */
    void Run()
    {
        for (;;) {
            bool moved = false, finished = true;
            for (Program &program : programs_) {
                while (program.next < program.actions.size() && Step(program))
                    moved = true;
                finished = finished && program.next == program.actions.size();
            }
            if (finished)
                break;
            ASSERT_TRUE(moved) << "deadlock";
        }
        for (const auto &connection : network_)
            EXPECT_TRUE(connection.second.empty()) << "an unreceived message";
    }

    void CheckOutputs()
    {
        for (unsigned rank = 0; rank < ranks_; rank++) {
            for (size_t at = 0; at < outputs_[rank].size(); at += 4096) {
                size_t bytes = std::min<size_t>(4096, outputs_[rank].size() - at);
                std::vector<char> expected(bytes);
                op_->expect(&shapes_[rank], kIteration, at, bytes, expected.data());
                ASSERT_EQ(memcmp(expected.data(), outputs_[rank].data() + at, bytes), 0)
                    << op_->name << " rank " << rank << " at " << at;
            }
        }
    }

    /* Per rank, the sizes that went out on a channel. */
    std::vector<size_t> SentSizes(unsigned rank, unsigned channel) const
    {
        std::vector<size_t> sizes;
        for (const Program &program : programs_) {
            for (const struct dt_perf_action &action : program.actions) {
                if (program.rank == rank && program.channel == channel && action.send)
                    sizes.push_back(action.bytes);
            }
        }
        return sizes;
    }

  private:
    static constexpr uint64_t kIteration = 5;

    void AddPrograms(const struct dt_perf_shape &shape)
    {
        for (unsigned index = 0; index < op_->program_count(ranks_); index++) {
            struct dt_perf_actions actions = {};
            op_->plan(&shape, index, &actions);
            Program program{shape.rank, shape.channel, op_->ends(index), {}};
            program.actions.assign(actions.items, actions.items + actions.count);
            dt_perf_actions_free(&actions);
            programs_.push_back(program);
        }
    }

    bool Step(Program &program)
    {
        const struct dt_perf_action &action = program.actions[program.next];
        unsigned from = (program.rank + ranks_ - program.ends.receive_distance) % ranks_;
        auto &incoming = network_[{from, program.channel, program.ends.receive_distance}];
        auto &outgoing = network_[{program.rank, program.channel, program.ends.send_distance}];

        EXPECT_LE(action.bytes, shapes_[program.rank].slice_bytes);
        // A slice lies in the sender's slot or the receiver's: twice the depth fits between two kernels.
        if ((action.receive && incoming.empty()) ||
            (action.send && outgoing.size() >= 2 * dt_perf_slot_count(&shapes_[program.rank])))
            return false;
        Message value(action.bytes);
        if (action.receive) {
            value = incoming.front();
            incoming.pop_front();
            EXPECT_EQ(value.size(), action.bytes) << "sender and receiver disagree";
        }
        Apply(program.rank, action, &value);
        if (action.send)
            outgoing.push_back(value);
        program.next++;
        return true;
    }

    void Apply(unsigned rank, const struct dt_perf_action &action, Message *value)
    {
        const char *source = nullptr;

        if (action.source != DT_PERF_NOWHERE) {
            ASSERT_LE(action.source + action.bytes, inputs_[rank].size());
            source = inputs_[rank].data() + action.source;
        }
        if (action.reduce)
            dt_perf_type_find("float")->reduce[DT_PERF_SUM](value->data(), value->data(), source,
                                                            action.bytes / 4);
        else if (!action.receive)
            value->assign(source, source + action.bytes);
        if (action.target != DT_PERF_NOWHERE) {
            ASSERT_LE(action.target + action.bytes, outputs_[rank].size());
            std::copy(value->begin(), value->end(), outputs_[rank].begin() + action.target);
        }
    }

    const struct dt_perf_op *op_;
    unsigned ranks_;
    std::vector<std::vector<char>> inputs_, outputs_;
    std::vector<struct dt_perf_shape> shapes_;
    std::vector<Program> programs_;
    Network network_;
};

TEST(PerfOp, EveryPlanGivesTheResultForAllRanksAndSizes)
{
    for (size_t i = 0; dt_perf_ops[i]; i++) {
        const struct dt_perf_op *op = dt_perf_ops[i];
        for (unsigned ranks = op->ranks_min; ranks <= 5; ranks++) {
            for (unsigned channels = 1; channels <= (op->channels_max ? op->channels_max : 3); channels++) {
                for (size_t count : {0, 1, 2, 3, 5, 33, 1000, 20001, 32768, 700001}) {
                    if (op->bytes_max && count * 4 > op->bytes_max)
                        continue;
                    for (auto protocol : {DT_PERF_SIMPLE, DT_PERF_LL}) {
                        SCOPED_TRACE(std::string(op->name) + ", " + std::to_string(ranks) + " ranks, " +
                                     std::to_string(channels) + " channels, count " + std::to_string(count));
                        Simulation simulation(op, ranks, channels, count, protocol);
                        simulation.Run();
                        simulation.CheckOutputs();
                        if (HasFatalFailure())
                            return;
                    }
                }
            }
        }
    }
}

TEST(PerfOp, AllReduceSendsSlicesOfOneMebibyteAndEmptyOnes)
{
    /* 4 MiB over 2 ranks and 1 channel: one loop of 2 MiB chunks, 2 slices each, there and back. */
    EXPECT_EQ(Simulation(&dt_perf_op_all_reduce, 2, 1, 1 << 20, DT_PERF_AUTO).SentSizes(0, 0),
              std::vector<size_t>(4, 1024 * 1024));
    /* 8 bytes: one chunk holds them all, the other slices are empty and travel all the same. */
    EXPECT_EQ(Simulation(&dt_perf_op_all_reduce, 2, 1, 2, DT_PERF_SIMPLE).SentSizes(1, 0),
              (std::vector<size_t>{8, 0, 0, 0}));
}

TEST(PerfOp, AllReduceByLlSendsWholeChunks)
{
    EXPECT_EQ(Simulation(&dt_perf_op_all_reduce, 2, 1, 2, DT_PERF_AUTO).SentSizes(1, 0),
              (std::vector<size_t>{8, 0}));
    EXPECT_EQ(Simulation(&dt_perf_op_all_reduce, 2, 2, 65536, DT_PERF_AUTO).SentSizes(0, 0),
              std::vector<size_t>(4, 32 * 1024));
}

TEST(PerfOp, SlicesOfSimpleChunksAreNotShorterThan32KiB)
{
    /* 80 KiB per share on one channel: 40 KiB twice; 40 KiB: 32 and 8 KiB. */
    EXPECT_EQ(Simulation(&dt_perf_op_all_gather, 2, 1, 20480, DT_PERF_SIMPLE).SentSizes(0, 0),
              std::vector<size_t>(2, 40 * 1024));
    EXPECT_EQ(Simulation(&dt_perf_op_all_gather, 2, 1, 10240, DT_PERF_SIMPLE).SentSizes(0, 0),
              (std::vector<size_t>{32 * 1024, 8 * 1024}));
}

TEST(PerfOp, ChunksOfSendrecvGrowWithTheTransfer)
{
    EXPECT_EQ(Simulation(&dt_perf_op_sendrecv, 2, 1, 16384, DT_PERF_AUTO).SentSizes(0, 0),
              std::vector<size_t>(2, 32 * 1024));
    EXPECT_EQ(Simulation(&dt_perf_op_sendrecv, 2, 1, 65536, DT_PERF_AUTO).SentSizes(0, 0),
              std::vector<size_t>(4, 64 * 1024));
    EXPECT_EQ(Simulation(&dt_perf_op_sendrecv, 2, 1, 262144, DT_PERF_AUTO).SentSizes(0, 0),
              std::vector<size_t>(8, 128 * 1024));
}

TEST(PerfOp, SendrecvSendsNothingAsOneEmptyMessage)
{
    EXPECT_EQ(Simulation(&dt_perf_op_sendrecv, 2, 2, 0, DT_PERF_AUTO).SentSizes(0, 0),
              std::vector<size_t>{0});
    EXPECT_TRUE(Simulation(&dt_perf_op_sendrecv, 2, 2, 0, DT_PERF_AUTO).SentSizes(0, 1).empty());
}

TEST(PerfOp, ChannelsShareTheDataWithoutGapsOrOverlap)
{
    struct dt_perf_shape shape = {};
    shape.type = dt_perf_type_find("float");
    shape.channel_bytes_min = 32 * 1024;
    for (shape.channels = 1; shape.channels <= 5; shape.channels++) {
        for (size_t count : {0, 1, 8191, 8192, 16383, 16384, 100000, 262145}) {
            size_t next = 0;
            for (shape.channel = 0; shape.channel < shape.channels; shape.channel++) {
                size_t first = 0;
                size_t part = dt_perf_channel_part(&shape, count, &first);
                EXPECT_EQ(first, next);
                EXPECT_EQ(first * 4 % 128 == 0 || part == 0, true);
                next = first + part;
            }
            EXPECT_EQ(next, count);
        }
    }
}

TEST(PerfOp, BusFactorsAreThoseOfNcclTests)
{
    EXPECT_DOUBLE_EQ(dt_perf_op_all_reduce.bus_factor(2), 1.0);
    EXPECT_DOUBLE_EQ(dt_perf_op_all_reduce.bus_factor(4), 1.5);
    EXPECT_DOUBLE_EQ(dt_perf_op_sendrecv.bus_factor(4), 1.0);
    EXPECT_DOUBLE_EQ(dt_perf_op_all_gather.bus_factor(4), 0.75);
    EXPECT_DOUBLE_EQ(dt_perf_op_reduce_scatter.bus_factor(4), 0.75);
    EXPECT_DOUBLE_EQ(dt_perf_op_alltoall.bus_factor(4), 0.75);
    EXPECT_DOUBLE_EQ(dt_perf_op_broadcast.bus_factor(4), 1.0);
}

TEST(PerfOp, CountIsOneRanksShareWhereNcclTestsDefineItSo)
{
    const struct dt_perf_type *type = dt_perf_type_find("float");
    EXPECT_EQ(dt_perf_op_count(&dt_perf_op_all_reduce, type, 4, 4096), 1024u);
    EXPECT_EQ(dt_perf_op_count(&dt_perf_op_broadcast, type, 4, 4096), 1024u);
    EXPECT_EQ(dt_perf_op_count(&dt_perf_op_all_gather, type, 4, 4096), 256u);
    EXPECT_EQ(dt_perf_op_count(&dt_perf_op_alltoall, type, 3, 4100), 341u);
    EXPECT_EQ(dt_perf_op_count(&dt_perf_op_reduce_scatter, type, 4, 12), 0u);
}
} // namespace
