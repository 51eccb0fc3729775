/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that were posted on a path and never left it are rewound to another one, by the engine that the
 * queue pairs allow: every kind of message at once, each compared byte for byte.
 */
#include <gtest/gtest.h>

#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"
#include "transport/net_state.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::Pair;
using detour_test::Until;

const ncclNet_v8_t *const net = &ncclNetPlugin_v8;

constexpr int kPart = 40000;
constexpr int kParts = 3;

void Order(const char *device, const char *action)
{
    char answer[256];
    ASSERT_EQ(DT_OK,
              dt_verbs_device_control(dt_plugin_current()->verbs, device, action, answer, sizeof answer))
        << answer;
}

int CountLines(const std::string &text)
{
    int count = 0;
    for (const std::string &line : detour_test::LoggedLines())
        count += line.find(text) != std::string::npos;
    return count;
}

/* The sizes of the parts of each message: empty, inline, one write, several with a size record, grouped. */
const std::vector<std::vector<int>> kMessages = {{1000},  {0},     {50},   {30000},  {100, 20000, 0},
                                                 {40000}, {12345}, {4097}, {7, 8, 9}};

class Messages
{
  public:
    explicit Messages(Pair &pair)
        : pair_(pair), from_(pair.Register(pair.send, kMessages.size() * kParts * kPart, 0)),
          to_(pair.Register(pair.recv, kMessages.size() * kParts * kPart, 0))
    {
    }
    void Receive()
    {
        for (size_t m = 0; m < kMessages.size(); m++) {
            void *data[kParts], *mhandles[kParts];
            int sizes[kParts], tags[kParts], parts = static_cast<int>(kMessages[m].size());
            for (int i = 0; i < parts; i++) {
                data[i] = to_.data() + Offset(m, i);
                sizes[i] = kPart;
                tags[i] = i;
                mhandles[i] = to_.mhandle;
            }
            receives_.push_back(pair_.Receive(parts, data, sizes, tags, mhandles));
        }
    }
    void Send(uint64_t salt)
    {
        for (size_t m = 0; m < kMessages.size(); m++) {
            for (size_t i = 0; i < kMessages[m].size(); i++) {
                uint8_t *data = from_.data() + Offset(m, i);
                detour_test::Fill(data, kMessages[m][i], salt + m * kParts + i);
                sends_.push_back(pair_.Send(data, kMessages[m][i], static_cast<int>(i), from_.mhandle));
            }
        }
    }
    bool AnySendIsDone()
    {
        for (void *send : sends_) {
            if (pair_.TestOnce(send))
                return true;
        }
        return false;
    }
    void Finish(uint64_t salt)
    {
        for (size_t m = 0; m < kMessages.size(); m++) {
            int sizes[kParts] = {-1, -1, -1};
            pair_.Wait(receives_[m], sizes);
            for (size_t i = 0; i < kMessages[m].size(); i++) {
                ASSERT_EQ(kMessages[m][i], sizes[i]) << "message " << m;
                ASSERT_EQ(0u,
                          detour_test::CountWrong(to_.data() + Offset(m, i), sizes[i], salt + m * kParts + i))
                    << "message " << m << ", part " << i;
            }
        }
        for (void *send : sends_)
            pair_.Wait(send);
        receives_.clear();
        sends_.clear();
    }

  private:
    static size_t Offset(size_t m, size_t i)
    {
        return (m * kParts + i) * kPart;
    }
    Pair &pair_;
    Buffer &from_, &to_;
    std::vector<void *> receives_, sends_;
};

/* Lets what is under way arrive. */
void Settle(Messages &messages)
{
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
    while (std::chrono::steady_clock::now() < end)
        EXPECT_FALSE(messages.AnySendIsDone());
}

/* Four devices: the sender's are soft0 and soft1, the receiver's soft2 and soft3. */
TEST(Rewind, EveryKindOfMessageArrivesByTheOtherPath)
{
    const std::string engine = std::string(getenv("DETOUR_POSTING")) == "dv" ? "wqe" : "repost";

    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    dt_plugin_current()->net->environment.chunk_bytes = 4096; // several writes and a size record
    Pair pair(net);
    pair.Connect(0, 2);
    Messages messages(pair);
    for (uint64_t round = 0; round < 30; round++) { // the queue's end comes to lie somewhere
        messages.Receive();
        messages.Send(round);
        messages.Finish(round);
    }
    messages.Receive();
    Settle(messages);
    Order("soft0", "drop 100%");
    messages.Send(1000);
    Settle(messages);
    Order("soft0", "down");
    messages.Finish(1000);
    const std::string line =
        std::to_string(kMessages.size()) + " messages again over soft1 (" + engine + "), 0 had";
    EXPECT_TRUE(Until([&] { return CountLines(line) > 0; })); /* it is written when the switch is over */
    EXPECT_EQ(1, CountLines(line));
    for (uint64_t round = 0; round < 3; round++) {
        messages.Receive();
        messages.Send(round);
        messages.Finish(round);
    }
}
} // namespace
