// SPDX-License-Identifier: Apache-2.0
// The fence: when a move to ERR, or a deregistration, has returned, no byte of the memory changes any more,
// though a peer is in the middle of writing it.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "base/prng.h"
#include "tests/softrnic/soft_end.h"

using namespace detour_test;

namespace
{
const uint64_t kBytes = 64ull << 20;

// A value that every byte of the buffer holds or not; the writer of round r writes r everywhere.
bool holds_only(const uint8_t *buffer, uint8_t value)
{
    return buffer[0] == value && memcmp(buffer, buffer + 1, kBytes - 1) == 0;
}

enum class Fence { kModifyToError, kDeregister, kDestroy };

// The writer: one 64 MiB write per round, with a QP of its own, tried again until the owner reports that it
// has seen enough; its outcome does not matter.
void write_rounds(const Rank &rank)
{
    bool goes_on = true;

    for (int round = 1; goes_on; round++) {
        EndOptions options;
        options.buffer_bytes = kBytes;
        End end(options);
        memset(end.buffer, round, kBytes);
        EndAddress peer = ConnectTo(rank, 1, end);
        ibv_wc wc;
        Require(end.Post(IBV_WR_RDMA_WRITE, 0, static_cast<uint32_t>(kBytes), peer, 0, 1) == 0, "post");
        while (!rank.HasMessage(1))
            end.Poll(&wc);
        rank.Receive(1, &goes_on, sizeof goes_on);
    }
}

// Waits until the write has begun and some more, so that the fence meets every part of it.
void let_some_in(End &end, uint64_t bytes, uint8_t value)
{
    const volatile uint8_t *there = end.buffer + bytes;
    double limit = Seconds() + 10;
    ibv_wc wc;

    while (*there != value && Seconds() < limit)
        end.Poll(&wc);
    Require(*there == value, "the write does not arrive");
}

void fence(End &end, Fence kind)
{
    switch (kind) {
    case Fence::kModifyToError:
        Require(end.ToError() == 0, "to ERR");
        break;
    case Fence::kDeregister:
        Require(dt_soft_dereg_mr(end.mr) == 0, "deregister");
        end.mr = nullptr;
        break;
    case Fence::kDestroy:
        Require(dt_soft_destroy_qp(end.qp) == 0, "destroy");
        end.qp = nullptr;
        break;
    }
}

// The owner of the memory: fences it while the write runs, claims it, and looks whether it stays as it is.
// Until enough fences have met a running write.
void fence_rounds(const Rank &rank, Fence kind, bool use_helper)
{
    const int kRoundsMax = 100, kMetWanted = 4;
    dt_prng prng;
    int in_the_middle = 0;
    bool goes_on = true;

    dt_prng_init(&prng, 20261120 + static_cast<uint64_t>(kind));
    for (int round = 1; goes_on; round++) {
        EndOptions options;
        options.buffer_bytes = kBytes;
        End end(options);
        uint64_t before = dt_prng_below(&prng, kBytes * 9 / 10);
        ConnectTo(rank, 0, end, {});
        if (use_helper) {
            const volatile uint8_t *there = end.buffer + before;
            double limit = Seconds() + 10;
            while (*there != round)
                Require(Seconds() < limit, "the helper thread does not land the write");
        } else {
            let_some_in(end, before, static_cast<uint8_t>(round));
        }
        fence(end, kind);
        in_the_middle += !holds_only(end.buffer, static_cast<uint8_t>(round));
        memset(end.buffer, 0xcc, kBytes);
        // Serves the RNIC for longer than the writer's timer, so that what is under way, and sent again,
        // arrives.
        double until = Seconds() + 0.1;
        ibv_wc wc;
        while (Seconds() < until)
            end.Poll(&wc);
        Require(holds_only(end.buffer, 0xcc), "round %d: a byte changed behind the fence", round);
        goes_on = in_the_middle < kMetWanted && round < kRoundsMax;
        rank.Send(0, &goes_on, sizeof goes_on);
    }
    Require(in_the_middle == kMetWanted, "only %d fences met a running write", in_the_middle);
}

struct Case {
    const char *name;
    Fence kind;
    bool no_process_vm, use_helper;
};

class LocalFence : public ::testing::TestWithParam<Case>
{
};

TEST_P(LocalFence, NothingChangesBehindIt)
{
    const Case &fence_case = GetParam();

    printf("seed 20261120\n");
    RunRanks(2, [&](const Rank &rank) {
        dt_soft_options options = {};
        options.device_count = 1;
        options.no_process_vm = fence_case.no_process_vm;
        options.always_fetch = !fence_case.no_process_vm;
        // So that a write takes a while even when this process is not scheduled at once.
        options.rate_bytes_per_s = 4ull << 30;
        Require(dt_soft_configure(&options) == 0, "configure");
        if (rank.number() == 0)
            write_rounds(rank);
        else
            fence_rounds(rank, fence_case.kind, fence_case.use_helper);
    });
}

std::string name_of(const ::testing::TestParamInfo<Case> &tested)
{
    return tested.param.name;
}

INSTANTIATE_TEST_SUITE_P(, LocalFence,
                         ::testing::Values(Case{"ModifyToErrorByPoller", Fence::kModifyToError, false, false},
                                           Case{"ModifyToErrorByHelper", Fence::kModifyToError, false, true},
                                           Case{"ModifyToErrorByCopy", Fence::kModifyToError, true, false},
                                           Case{"DeregisterByPoller", Fence::kDeregister, false, false},
                                           Case{"DeregisterByHelper", Fence::kDeregister, false, true},
                                           Case{"DestroyByHelper", Fence::kDestroy, false, true}),
                         name_of);
} // namespace
