// SPDX-License-Identifier: Apache-2.0
/* Ranks whose parameters go around a circle, through a plugin that moves bytes inside this process. A send
 * completes when its bytes have been received. */
#include "cli/pipeline/slices.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <vector>

namespace
{
constexpr uint64_t kSlice = DETOUR_MOVE_SLICE_BYTES;

struct Request {
    char *data;
    int size;
    bool is_done;
};

/* A connection; both ends have it as comm. */
struct Wire {
    std::deque<Request *> sends, receives;
};

std::mt19937 rng;
std::deque<Request> requests; /* of the present test */
int received_bytes_less;

ncclResult_t Post(std::deque<Request *> *queue, void *data, int size, void **request)
{
    *request = nullptr;
    if (rng() % 4 == 0)
        return ncclSuccess;
    requests.push_back({static_cast<char *>(data), size, false});
    queue->push_back(&requests.back());
    *request = &requests.back();
    return ncclSuccess;
}

void Deliver(Wire *wire)
{
    while (!wire->sends.empty() && !wire->receives.empty()) {
        Request *from = wire->sends.front(), *to = wire->receives.front();
        EXPECT_EQ(from->size, to->size);
        memcpy(to->data, from->data, static_cast<size_t>(to->size));
        to->size -= received_bytes_less;
        from->is_done = to->is_done = true;
        wire->sends.pop_front();
        wire->receives.pop_front();
    }
}

ncclResult_t Isend(void *comm, void *data, int size, int, void *, void **request)
{
    ncclResult_t result = Post(&static_cast<Wire *>(comm)->sends, data, size, request);
    Deliver(static_cast<Wire *>(comm));
    return result;
}

ncclResult_t Irecv(void *comm, int, void **data, int *sizes, int *, void **, void **request)
{
    ncclResult_t result = Post(&static_cast<Wire *>(comm)->receives, *data, *sizes, request);
    Deliver(static_cast<Wire *>(comm));
    return result;
}

ncclResult_t TestOf(void *request, int *done, int *sizes)
{
    auto *r = static_cast<Request *>(request);
    *done = r->is_done;
    if (*done && sizes)
        *sizes = r->size;
    return ncclSuccess;
}

struct Rank {
    dt_job_plugin plugin = {};
    dt_job_connection connections[DT_SLICES_DIRECTIONS] = {};
    std::vector<char> slots[DT_SLICES_DIRECTIONS];
    std::vector<char> data;
    dt_pipeline_slices slices = {};
};

std::vector<char> DataOf(size_t rank, uint64_t bytes)
{
    std::vector<char> data(bytes);
    for (uint64_t i = 0; i < bytes; i += i + 8 < bytes ? 997 : 1)
        data[i] = static_cast<char>(1 + rank * 31 + i / kSlice * 7 + i);
    return data;
}

class PipelineSlices : public ::testing::Test
{
  protected:
    PipelineSlices()
    {
        requests.clear();
        received_bytes_less = 0;
        net.name = "Memory";
        net.isend = Isend;
        net.irecv = Irecv;
        net.test = TestOf;
    }

    /* Rank r sends to rank r + 1. */
    void Make(size_t count, uint64_t bytes)
    {
        wires = std::vector<Wire>(count);
        ranks = std::vector<Rank>(count);
        for (size_t r = 0; r < count; r++) {
            Rank *rank = &ranks[r];
            rank->plugin.net = &net;
            rank->plugin.rank = static_cast<unsigned>(r);
            for (int d = 0; d < DT_SLICES_DIRECTIONS; d++) {
                rank->slots[d].resize(dt_pipeline_slices_slot_bytes(bytes));
                rank->connections[d].buffer = rank->slots[d].data();
                rank->connections[d].comm = &wires[d == DT_SLICES_SEND ? r : (r + count - 1) % count];
            }
            rank->data = DataOf(r, bytes);
            rank->slices.plugin = &rank->plugin;
            rank->slices.connections = rank->connections;
            rank->slices.data = rank->data.data();
            rank->slices.bytes = bytes;
        }
    }

    /* `favorite`: its turn comes as often as that of all others. False at the first error. */
    bool Run(size_t favorite = 0)
    {
        for (int turn = 0; turn < 100000; turn++) {
            bool is_done = true;
            for (const Rank &rank : ranks)
                is_done &= dt_pipeline_slices_is_done(&rank.slices);
            if (is_done)
                return true;
            size_t next = rng() % 2 ? favorite : rng() % ranks.size();
            if (!dt_pipeline_slices_progress(&ranks[next].slices, &error))
                return false;
        }
        ADD_FAILURE() << "the transfers hang";
        return false;
    }

    ncclNet_v8_t net = {};
    std::vector<Wire> wires; /* [r]: from rank r */
    std::vector<Rank> ranks;
    dt_job_error error = {};
};

TEST_F(PipelineSlices, EveryRankHasTheParametersOfTheOneBefore)
{
    for (uint64_t bytes : {uint64_t{1}, kSlice, 3 * kSlice + 5, 20 * kSlice - 1}) {
        for (unsigned seed = 1; seed <= 6; seed++) {
            const size_t count = 2 + seed % 3;
            rng.seed(seed);
            Make(count, bytes);
            ASSERT_TRUE(Run(seed % count)) << error.text;
            for (size_t r = 0; r < count; r++)
                ASSERT_EQ(ranks[(r + 1) % count].data, DataOf(r, bytes)) << bytes << " bytes, seed " << seed;
        }
    }
}

TEST_F(PipelineSlices, TheirSlotsDoNotGrowWithTheParameters)
{
    EXPECT_EQ(dt_pipeline_slices_slot_bytes(1), 1u);
    EXPECT_EQ(dt_pipeline_slices_slot_bytes(8 * kSlice), 8 * kSlice);
    EXPECT_EQ(dt_pipeline_slices_slot_bytes(44000000000), 8 * kSlice);
}

TEST_F(PipelineSlices, ASliceThatArrivesEarlyWaitsForThePlaceItTakes)
{
    rng.seed(1);
    Make(2, 12 * kSlice);
    /* Rank 1 has sent nothing, so that rank 0 must not overwrite more than it has copied itself. */
    for (int turn = 0; turn < 200; turn++)
        ASSERT_TRUE(dt_pipeline_slices_progress(&ranks[0].slices, &error));
    EXPECT_EQ(ranks[0].slices.copied, 8u);
    EXPECT_EQ(ranks[0].slices.completed[DT_SLICES_RECEIVE], 0u);
    for (int turn = 0; turn < 200; turn++) {
        ASSERT_TRUE(dt_pipeline_slices_progress(&ranks[1].slices, &error));
        ASSERT_LE(ranks[1].slices.completed[DT_SLICES_RECEIVE], ranks[1].slices.copied);
    }
    ASSERT_TRUE(Run());
    EXPECT_EQ(ranks[0].data, DataOf(1, 12 * kSlice));
    EXPECT_EQ(ranks[1].data, DataOf(0, 12 * kSlice));
}

TEST_F(PipelineSlices, AShorterSliceIsAnError)
{
    rng.seed(1);
    Make(2, 2 * kSlice);
    received_bytes_less = 1;
    EXPECT_FALSE(Run());
    EXPECT_STREQ(strchr(error.text, ':'), ": 1048575 bytes of parameters instead of 1048576");
}
} // namespace
