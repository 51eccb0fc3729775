/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both engines on one rank that sends to itself, and the step engine on two ranks with a thread each, through
 * a table of queues that can make mistakes.
 */
#include "cli/perf/engine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/exit.h"

namespace
{
enum Mistake { kNone, kFlipsABit, kWritesLate, kWritesBeyond, kReportsAWrongSize, kFails };
Mistake mistake;

/* Both ends of a channel. */
struct Queue {
    std::deque<std::vector<char>> messages;
    char *last = nullptr; /* the receive buffer that was completed last */
    int flushes = 0;
};

std::mutex queues_lock;

struct Request {
    Queue *queue;
    char *data; /* nullptr: of a send or flush, done at once */
    bool refused_once;
};

ncclResult_t Isend(void *comm, void *data, int size, int, void *, void **request)
{
    Queue *queue = static_cast<Queue *>(comm);
    if (mistake == kFails)
        return ncclRemoteError;
    std::lock_guard<std::mutex> guard(queues_lock);
    queue->messages.emplace_back(static_cast<char *>(data), static_cast<char *>(data) + size);
    *request = new Request{queue, nullptr, false};
    return ncclSuccess;
}

/* Every other call has no room, as plugins may answer. */
ncclResult_t Irecv(void *comm, int, void **data, int *, int *, void **, void **request)
{
    static thread_local bool refuses;
    refuses = !refuses;
    *request =
        refuses ? nullptr : new Request{static_cast<Queue *>(comm), static_cast<char *>(data[0]), false};
    return ncclSuccess;
}

ncclResult_t Iflush(void *comm, int, void **, int *, void **, void **request)
{
    static_cast<Queue *>(comm)->flushes++;
    *request = new Request{static_cast<Queue *>(comm), nullptr, false};
    return ncclSuccess;
}

void Deliver(Queue *queue, char *data, int *size)
{
    std::vector<char> message = queue->messages.front();
    queue->messages.pop_front();
    if (mistake == kFlipsABit && !message.empty())
        message.back() ^= 1;
    if (!message.empty())
        memcpy(data, message.data(), message.size());
    if (mistake == kWritesBeyond)
        data[message.size()] ^= 1;
    if (mistake == kWritesLate && queue->last)
        queue->last[0] ^= 1;
    queue->last = data;
    *size = static_cast<int>(message.size()) - (mistake == kReportsAWrongSize);
}

ncclResult_t TestRequest(void *handle, int *done, int *size)
{
    Request *request = static_cast<Request *>(handle);
    std::lock_guard<std::mutex> guard(queues_lock);
    *done = 0;
    if (request->data && request->queue->messages.empty())
        return ncclSuccess;
    if (request->data)
        Deliver(request->queue, request->data, size);
    *done = 1;
    delete request;
    return ncclSuccess;
}

struct Engine {
    static constexpr unsigned kChannels = 2;
    ncclNet_v8_t table = {};
    struct dt_job_net net = {};
    struct dt_perf_ring ring = {};
    struct dt_perf_options options = {};
    struct dt_perf_tally tally = {};
    struct dt_job_error error = {};
    uint64_t bytes_received = 0;
    Queue queues[kChannels];
    std::vector<std::unique_ptr<char[]>> buffers;
    struct dt_perf_engine *engine = nullptr;

    explicit Engine(std::vector<std::string> words) : Engine("sendrecv", words, 0, 1, queues, queues) {}

    /* One rank of several, with the queues to the next rank and from the previous one. */
    Engine(const char *operation, std::vector<std::string> words, unsigned rank, unsigned ranks, Queue *to,
           Queue *from)
    {
        std::vector<char *> argv;
        words.insert(words.begin(), {"detour perf", operation});
        for (std::string &word : words)
            argv.push_back(&word[0]);
        argv.push_back(nullptr);
        EXPECT_EQ(dt_perf_options_parse(static_cast<int>(words.size()), argv.data(), &options), DT_EXIT_OK);
        mistake = kNone;
        table.name = "Queues";
        table.isend = Isend;
        table.irecv = Irecv;
        table.iflush = Iflush;
        table.test = TestRequest;
        net.plugin.net = &table;
        net.plugin.device_count = 1;
        net.rank = rank;
        net.ranks = ranks;
        Connect(to, from);
        const struct dt_perf_engine base = {nullptr, &ring,  &net.plugin, &options,
                                            &tally,  &error, 0,           &bytes_received};
        engine = options.raw ? dt_perf_raw_engine_create(&base) : dt_perf_step_engine_create(&base);
        EXPECT_NE(engine, nullptr) << error.text;
    }

    ~Engine()
    {
        engine->funcs->destroy(engine);
        dt_perf_ring_free(&ring);
    }

    void Connect(Queue *to, Queue *from)
    {
        size_t bytes = options.raw ? dt_perf_raw_buffer_bytes(&options) : dt_perf_step_buffer_bytes(&options);
        ASSERT_TRUE(dt_perf_ring_init(&ring, &net, kChannels, 1, bytes));
        for (size_t i = 0; i < dt_perf_ring_count(&ring); i++) {
            buffers.emplace_back(new char[bytes]());
            ring.connections[i].buffer = buffers.back().get();
            ring.connections[i].comm = ring.connections[i].sends ? &to[i % kChannels] : &from[i % kChannels];
        }
    }

    /* True when the calls of the plugin all succeeded. */
    bool Run(uint64_t iterations, size_t count, bool checked = true, bool in_place = false)
    {
        struct dt_perf_run run = {iterations, next_iteration, checked, in_place};
        next_iteration += iterations;
        if (!engine->funcs->prepare(engine, count) || !engine->funcs->run(engine, &run))
            return false;
        if (checked)
            engine->funcs->sweep(engine);
        return true;
    }

    uint64_t next_iteration = 0;
};

const std::vector<std::string> kStep = {"-b", "400K"}, kRaw = {"-b", "400K", "--raw", "--window", "4"};

class PerfEngines : public testing::TestWithParam<std::vector<std::string>>
{
};

INSTANTIATE_TEST_SUITE_P(Kind, PerfEngines, testing::Values(kStep, kRaw), [](const auto &each) {
    return each.index ? std::string("Raw") : std::string("Step");
});

TEST_P(PerfEngines, RightDataIsRight)
{
    Engine e(GetParam());
    for (size_t count : {size_t(0), size_t(1), size_t(1000), size_t(102400)}) {
        e.bytes_received = 0;
        ASSERT_TRUE(e.Run(21, count)) << e.error.text;
        EXPECT_EQ(dt_perf_tally_total(&e.tally), 0u) << e.tally.first;
        EXPECT_EQ(e.bytes_received, 21 * count * 4);
    }
    EXPECT_GT(e.net.heartbeat, 0u);
}

TEST_P(PerfEngines, UncheckedRunsCompareNothing)
{
    Engine e(GetParam());
    mistake = kFlipsABit;
    ASSERT_TRUE(e.Run(10, 1000, false)) << e.error.text;
    EXPECT_EQ(dt_perf_tally_total(&e.tally), 0u) << e.tally.first;
}

TEST_P(PerfEngines, EveryMistakeIsCounted)
{
    const struct {
        Mistake mistake;
        enum dt_perf_wrong kind;
        const char *text;
    } rows[] = {{kFlipsABit, DT_PERF_WRONG_RESULT, "wrong"},
                {kWritesLate, DT_PERF_WRONG_LATE, "written into the idle receive buffer"},
                {kWritesBeyond, DT_PERF_WRONG_BEYOND, "beyond its end"},
                {kReportsAWrongSize, DT_PERF_WRONG_SIZE, "test reported"}};
    for (const auto &row : rows) {
        Engine e(GetParam());
        mistake = row.mistake;
        ASSERT_TRUE(e.Run(21, 1000)) << e.error.text;
        EXPECT_GT(e.tally.count[row.kind], 0u) << row.text;
        EXPECT_NE(std::string(e.tally.first).find(row.text), std::string::npos) << e.tally.first;
    }
}

TEST_P(PerfEngines, AFailingCallEndsTheRun)
{
    Engine e(GetParam());
    mistake = kFails;
    EXPECT_FALSE(e.Run(3, 1000));
    EXPECT_STREQ(e.error.text, "rank 0: isend of plugin Queues failed: remote error");
}

TEST_P(PerfEngines, EveryReceiveIsFlushedWithFlush)
{
    std::vector<std::string> words = GetParam();
    words.push_back("--flush");
    Engine e(words);
    ASSERT_TRUE(e.Run(20, 1000)) << e.error.text;
    EXPECT_GE(e.queues[0].flushes + e.queues[1].flushes, 20);
    EXPECT_EQ(dt_perf_tally_total(&e.tally), 0u) << e.tally.first;
}

/* Two ranks of a collective. */
struct Pair {
    Queue queues[2][Engine::kChannels];
    Engine first, second;

    Pair(const char *operation, const std::vector<std::string> &words)
        : first(operation, words, 0, 2, queues[0], queues[1]),
          second(operation, words, 1, 2, queues[1], queues[0])
    {
    }

    void Run(uint64_t iterations, size_t count, bool in_place)
    {
        std::thread other(
            [&] { EXPECT_TRUE(second.Run(iterations, count, true, in_place)) << second.error.text; });
        EXPECT_TRUE(first.Run(iterations, count, true, in_place)) << first.error.text;
        other.join();
    }

    uint64_t Wrong(enum dt_perf_wrong kind) const
    {
        return first.tally.count[kind] + second.tally.count[kind];
    }
};

TEST(PerfPair, CollectivesAreRightByBothProtocolsOutOfPlaceAndInPlace)
{
    for (const char *operation : {"all_reduce", "all_gather", "reduce_scatter", "broadcast"}) {
        for (const char *protocol : {"simple", "ll"}) {
            Pair pair(operation, {"-b", "1M", "--protocol", protocol});
            for (size_t count : {size_t(0), size_t(1), size_t(2000), size_t(100000)}) {
                for (bool in_place : {false, true}) {
                    pair.Run(9, count, in_place);
                    EXPECT_EQ(dt_perf_tally_total(&pair.first.tally), 0u)
                        << operation << pair.first.tally.first;
                    EXPECT_EQ(dt_perf_tally_total(&pair.second.tally), 0u)
                        << operation << pair.second.tally.first;
                }
            }
        }
    }
}

TEST(PerfPair, MistakesAreCountedWithLl)
{
    const struct {
        Mistake mistake;
        enum dt_perf_wrong kind;
    } rows[] = {{kFlipsABit, DT_PERF_WRONG_RESULT}, /* of the last flag */
                {kWritesLate, DT_PERF_WRONG_LATE},
                {kWritesBeyond, DT_PERF_WRONG_BEYOND},
                {kReportsAWrongSize, DT_PERF_WRONG_SIZE}};
    for (const auto &row : rows) {
        Pair pair("all_gather", {"-b", "1M", "--protocol", "ll"});
        mistake = row.mistake;
        pair.Run(21, 1000, false);
        EXPECT_GT(pair.Wrong(row.kind), 0u) << row.mistake;
    }
}
} // namespace
