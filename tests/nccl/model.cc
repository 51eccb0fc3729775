// SPDX-License-Identifier: Apache-2.0
// nccl-model LAUNCH CHANNELS DELAY_NS FROM>TO BYTES:STREAMS:KERNEL[,KERNEL]...
//
// What the mode nccl of pipeline/ says about a program of nccl-rank (client/program.h) on three ranks, every
// message of which has rank 0 at one end: when each kernel ends, if messages FROM>TO take DELAY_NS and all
// others no time. Rank 0 is the middle stage of a pipeline of three, so that the messages are those of the
// executor's four kinds. Prints the lines that nccl-rank prints.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "pipeline/kernels.h"
#include "tests/pipeline/virtual_run.h"

namespace
{
constexpr uint64_t kChunkBytes = 128 << 10; // NCCL_P2P_NET_CHUNKSIZE: of messages from 1 MiB on
constexpr int kRanks = 3;

struct Message {
    int from, to, kernel;
};

[[noreturn]] void Refuse(const char *what)
{
    std::fprintf(stderr, "nccl-model: %s: see model.cc\n", what);
    std::exit(2);
}

Message ParseMessage(const char *text, int *length)
{
    Message m = {};
    *length = 0;
    if (std::sscanf(text, "%d>%d%n", &m.from, &m.to, length) != 2 || m.from < 0 || m.to < 0 ||
        m.from >= kRanks || m.to >= kRanks || (m.from == 0) == (m.to == 0))
        Refuse(text);
    return m;
}

std::vector<Message> Parse(const char *list)
{
    std::vector<Message> messages;
    int kernel = 0, length;

    for (const char *next = list; *next; next += length) {
        messages.push_back(ParseMessage(next, &length));
        messages.back().kernel = kernel;
        kernel += next[length] != '+';
        length += next[length] == '+' || next[length] == ',';
    }
    return messages;
}

// Ranks 1, 0 and 2 are the stages 0, 1 and 2.
int StageOf(int rank)
{
    return rank == 0 ? 1 : rank == 1 ? 0 : 2;
}

struct detour_action ActionOf(const Message &m, int rank, int32_t microbatch)
{
    bool forward = StageOf(m.to) > StageOf(m.from);
    int kind = rank == m.from ? (forward ? DETOUR_ACTION_SEND_F : DETOUR_ACTION_SEND_B)
                              : (forward ? DETOUR_ACTION_RECV_F : DETOUR_ACTION_RECV_B);
    return {microbatch, static_cast<int16_t>(StageOf(rank)), static_cast<uint8_t>(kind), 0};
}

// The actions of all ranks; a W, which takes no time, behind each kernel.
struct Program {
    std::vector<struct detour_action> actions;
    std::vector<int> kernels; // of the text, by action; -1: a W
    std::vector<size_t> first = {0};

    explicit Program(const std::vector<Message> &messages)
    {
        for (int rank = 0; rank < kRanks; rank++) {
            AddRank(messages, rank);
            first.push_back(actions.size());
        }
    }

  private:
    void AddRank(const std::vector<Message> &messages, int rank)
    {
        std::map<std::pair<int, int>, int32_t> sent;
        for (const Message &m : messages) {
            int32_t microbatch = sent[{m.from, m.to}]++;
            if (m.from != rank && m.to != rank)
                continue;
            if (actions.size() > first.back() && kernels.back() != m.kernel)
                Add({0, static_cast<int16_t>(StageOf(rank)), DETOUR_ACTION_W, 0}, -1);
            Add(ActionOf(m, rank, microbatch), m.kernel);
        }
    }

    void Add(struct detour_action action, int kernel)
    {
        actions.push_back(action);
        kernels.push_back(kernel);
    }
};

struct Pipeline {
    struct detour_stage stages[kRanks] = {};
    struct detour_link links[kRanks - 1] = {};
    struct detour_profile profile = {};

    Pipeline(const Message &slow, int64_t delay_ns, int32_t microbatches)
    {
        for (int rank = 0; rank < kRanks; rank++)
            stages[StageOf(rank)].device = rank;
        int from = StageOf(slow.from), to = StageOf(slow.to);
        (to > from ? links[from].forward_ns : links[to].backward_ns) = delay_ns;
        profile.stage_count = profile.device_count = kRanks;
        profile.microbatch_count = microbatches;
        profile.stages = stages;
        profile.links = links;
    }
};

void Print(const pipeline_test::VirtualRun &run, const Program &program)
{
    for (size_t rank = 0; rank < kRanks; rank++) {
        const struct dt_pipeline_kernels *kernels = dt_executor_kernels(run[rank]);
        int last = -1;
        for (size_t i = program.first[rank]; i < program.first[rank + 1]; i++) {
            if (program.kernels[i] < 0 || program.kernels[i] == last)
                continue;
            last = program.kernels[i];
            uint64_t end_ns =
                dt_pipeline_kernels_end_ns(kernels, dt_pipeline_kernels_of(kernels, i - program.first[rank]));
            end_ns -= pipeline_test::VirtualRun::kBeginNs;
            std::printf("rank %zu: kernel %d ended at %" PRIu64 " ns, %.0f us after the launch\n", rank, last,
                        end_ns, static_cast<double>(end_ns) / 1e3);
        }
    }
}
} // namespace

int main(int argc, char **argv)
{
    if (argc != 6)
        Refuse("usage");
    const struct dt_pipeline_launch *launch = dt_pipeline_launch_find(argv[1]);
    uint64_t channels = std::strtoull(argv[2], nullptr, 10);
    int64_t delay_ns = std::strtoll(argv[3], nullptr, 10);
    int length;
    Message slow = ParseMessage(argv[4], &length);
    uint64_t bytes = std::strtoull(argv[5], nullptr, 10);
    const char *list = std::strrchr(argv[5], ':');
    if (!launch || !launch->has_kernels || !channels || delay_ns < 0 || bytes < (1 << 20) || !list)
        Refuse("arguments");
    std::vector<Message> messages = Parse(list + 1);
    Program made(messages);
    struct detour_program program = {kRanks, made.actions.size(), made.first.data(), made.actions.data()};
    Pipeline pipeline(slow, delay_ns, static_cast<int32_t>(messages.size()));
    struct dt_executor_options options = {};
    options.mode = DT_PIPELINE_NCCL;
    options.launch = launch;
    options.message_bytes = bytes / channels;
    options.slice_bytes = kChunkBytes;
    pipeline_test::VirtualRun run(&pipeline.profile, options);
    run.Run(&program);
    Print(run, made);
    return testing::Test::HasFailure() ? 1 : 0;
}
