/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests that talk to a plugin the way NCCL does: a connection with both ends in this process, buffers
 * that are registered, and requests that are tested until they are done.
 */
#ifndef DETOUR_TESTS_PLUGIN_PAIR_H
#define DETOUR_TESTS_PLUGIN_PAIR_H

#include "plugin/nccl_net_v8.h"

#ifdef __cplusplus
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace detour_test
{
/* Calls `step` until it returns true; fails the test after a time that only a hang reaches, also with a
 * sanitizer on a busy machine. */
inline bool Until(const std::function<bool()> &step, int seconds = 240)
{
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    for (unsigned i = 0; !step(); i++) {
        if (i % 64 == 63)
            std::this_thread::yield();
        if (std::chrono::steady_clock::now() > end) {
            ADD_FAILURE() << "nothing happened for " << seconds << " seconds";
            return false;
        }
    }
    return true;
}

/* Registered memory of one end. */
struct Buffer {
    std::vector<uint8_t> bytes;
    void *mhandle = nullptr;
    uint8_t *data()
    {
        return bytes.data();
    }
};

/* One connection, both ends here. */
class Pair
{
  public:
    const ncclNet_v8_t *net = nullptr;
    void *listen = nullptr;
    void *send = nullptr;
    void *recv = nullptr;
    char handle[NCCL_NET_HANDLE_MAXSIZE] = {};

    explicit Pair(const ncclNet_v8_t *plugin) : net(plugin) {}
    Pair(const Pair &) = delete;
    ~Pair()
    {
        Close();
    }

    /* Connects device `from` to device `to`, calling both ends in turn as two service threads would. */
    void Connect(int from = 0, int to = 0)
    {
        ASSERT_EQ(ncclSuccess, net->listen(to, handle, &listen));
        ASSERT_NE(nullptr, listen);
        ASSERT_TRUE(Until([&] {
            ncclNetDeviceHandle_v8_t *device = reinterpret_cast<ncclNetDeviceHandle_v8_t *>(1);
            if (!send) {
                EXPECT_EQ(ncclSuccess, net->connect(from, handle, &send, &device));
                EXPECT_EQ(nullptr, device);
            }
            if (!recv) {
                EXPECT_EQ(ncclSuccess, net->accept(listen, &recv, nullptr));
            }
            return (send && recv) || ::testing::Test::HasFailure();
        }));
        ASSERT_EQ(ncclSuccess, net->closeListen(listen));
        listen = nullptr;
    }

    /* Registers `bytes` bytes of `value` at one end. */
    Buffer &Register(void *comm, size_t bytes, uint8_t value)
    {
        buffers_.emplace_back(comm, new Buffer);
        Buffer &buffer = *buffers_.back().second;
        buffer.bytes.assign(bytes ? bytes : 1, value);
        EXPECT_EQ(ncclSuccess,
                  net->regMr(comm, buffer.data(), buffer.bytes.size(), NCCL_PTR_HOST, &buffer.mhandle));
        EXPECT_NE(nullptr, buffer.mhandle);
        return buffer;
    }

    void Deregister(Buffer &buffer)
    {
        for (auto it = buffers_.begin(); it != buffers_.end(); ++it) {
            if (it->second != &buffer)
                continue;
            EXPECT_EQ(ncclSuccess, net->deregMr(it->first, buffer.mhandle));
            delete it->second;
            buffers_.erase(it);
            return;
        }
    }

    /* isend as NCCL calls it: *request holds an old pointer, NULL means try again. */
    void *Send(void *data, int size, int tag, void *mhandle)
    {
        void *request = nullptr;
        Until([&] {
            request = reinterpret_cast<void *>(0x57a1e);
            EXPECT_EQ(ncclSuccess, net->isend(send, data, size, tag, mhandle, &request));
            return request || ::testing::Test::HasFailure();
        });
        return request;
    }

    void *Receive(int n, void **data, int *sizes, int *tags, void **mhandles)
    {
        void *request = nullptr;
        Until([&] {
            request = reinterpret_cast<void *>(0x57a1e);
            EXPECT_EQ(ncclSuccess, net->irecv(recv, n, data, sizes, tags, mhandles, &request));
            return request || ::testing::Test::HasFailure();
        });
        return request;
    }

    void *Receive(void *data, int size, int tag, void *mhandle)
    {
        return Receive(1, &data, &size, &tag, &mhandle);
    }

    bool TestOnce(void *request, int *sizes = nullptr)
    {
        int done = 0x57a1e;
        EXPECT_EQ(ncclSuccess, net->test(request, &done, sizes));
        EXPECT_TRUE(done == 0 || done == 1);
        return done == 1;
    }

    void Wait(void *request, int *sizes = nullptr)
    {
        Until([&] { return TestOnce(request, sizes) || ::testing::Test::HasFailure(); });
    }

    void Close()
    {
        for (auto &[comm, buffer] : buffers_) {
            EXPECT_EQ(ncclSuccess, net->deregMr(comm, buffer->mhandle));
            delete buffer;
        }
        buffers_.clear();
        if (send) {
            EXPECT_EQ(ncclSuccess, net->closeSend(send));
        }
        if (recv) {
            EXPECT_EQ(ncclSuccess, net->closeRecv(recv));
        }
        if (listen) {
            EXPECT_EQ(ncclSuccess, net->closeListen(listen));
        }
        send = recv = listen = nullptr;
    }

  private:
    std::vector<std::pair<void *, Buffer *>> buffers_;
};

/* Byte `at` of message `sequence`: different for each of both. */
inline uint8_t Pattern(uint64_t sequence, uint64_t at)
{
    return (uint8_t)(sequence * 131 + at * 7 + (at >> 8) * 13 + (at >> 16) * 29 + 1);
}

inline void Fill(uint8_t *data, size_t bytes, uint64_t sequence)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = Pattern(sequence, i);
}

inline size_t CountWrong(const uint8_t *data, size_t bytes, uint64_t sequence)
{
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++)
        wrong += data[i] != Pattern(sequence, i);
    return wrong;
}
} // namespace detour_test
#endif

#endif
