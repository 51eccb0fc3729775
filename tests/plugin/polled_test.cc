// SPDX-License-Identifier: Apache-2.0
// GPUs that run NCCL's LL and LL128 protocols read the receive buffer while a message arrives: aligned 8-byte
// words must appear whole, and the last word of a 128-byte line not before the rest of it. A thread does the
// same here, with and without the host path (CMakeLists.txt).
#include <gtest/gtest.h>

#include <atomic>

#include "base/atomics.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::Pair;

constexpr size_t kWords = 16; // of a line

// A word of which no two halves could be mixed up.
uint64_t WordOf(int round)
{
    return 0x0101010101010101ull * static_cast<uint64_t>(round % 250 + 1);
}

struct Watch {
    size_t torn = 0;  // words that were neither old nor new
    size_t early = 0; // lines whose last word came before another
};

// Reads until the last word of every line is new.
Watch WatchLines(const uint64_t *words, size_t lines, uint64_t before, uint64_t after)
{
    Watch watch;
    size_t seen = 0;
    std::vector<bool> is_seen(lines);

    while (seen < lines) {
        size_t seen_before = seen;

        for (size_t line = 0; line < lines; line++) {
            const uint64_t *at = words + line * kWords;
            uint64_t last = is_seen[line] ? before : dt_load_acquire(&at[kWords - 1]);

            if (last == before)
                continue;
            watch.torn += last != after;
            for (size_t i = 0; i + 1 < kWords; i++) {
                uint64_t word = dt_load_relaxed(&at[i]);

                watch.torn += word != before && word != after;
                watch.early += word == before;
            }
            is_seen[line] = true;
            seen++;
        }
        if (seen == seen_before)
            std::this_thread::yield();
    }
    return watch;
}

TEST(Polled, NoLineIsSeenInParts)
{
    ASSERT_EQ(ncclSuccess, ncclNetPlugin_v8.init(nullptr));
    Pair pair(&ncclNetPlugin_v8);
    pair.Connect();
    // LL's and LL128's largest messages, and a single line
    for (size_t bytes : {size_t{65536}, size_t{614400}, size_t{128}}) {
        Buffer &from = pair.Register(pair.send, bytes, 0), &to = pair.Register(pair.recv, bytes + 128, 0);
        auto *words =
            reinterpret_cast<uint64_t *>((reinterpret_cast<uintptr_t>(to.data()) + 127) / 128 * 128);
        auto *source = reinterpret_cast<uint64_t *>(from.data());

        for (int round = 1; round <= 15; round++) {
            Watch watch;
            std::atomic<bool> is_watching{false};

            std::fill_n(words, bytes / 8, WordOf(round - 1));
            std::fill_n(source, bytes / 8, WordOf(round));
            std::thread watcher([&] {
                is_watching = true;
                watch = WatchLines(words, bytes / 128, WordOf(round - 1), WordOf(round));
            });
            while (!is_watching)
                std::this_thread::yield();
            void *receive = pair.Receive(words, static_cast<int>(bytes), 0, to.mhandle);
            void *send = pair.Send(source, static_cast<int>(bytes), 0, from.mhandle);
            pair.Wait(send);
            pair.Wait(receive);
            watcher.join();
            EXPECT_EQ(0u, watch.torn) << bytes;
            EXPECT_EQ(0u, watch.early) << bytes;
        }
    }
}
} // namespace
