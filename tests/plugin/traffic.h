/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traffic over a connection of the plugin while something is done to its devices: orders to software RNICs,
 * rules of injection, and what the log says of it.
 */
#ifndef DETOUR_TESTS_PLUGIN_TRAFFIC_H
#define DETOUR_TESTS_PLUGIN_TRAFFIC_H

#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"

#ifdef __cplusplus

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace detour_test
{
inline const ncclNet_v8_t *const net = &ncclNetPlugin_v8;

inline void Order(const char *device, const char *action)
{
    char answer[256];
    if (!strcmp(action, "fatal")) // a device whose event has not been read yet refuses the fence
        AllowWarning("cannot go to ERR: Input/output error");
    ASSERT_EQ(DT_OK,
              dt_verbs_device_control(dt_plugin_current()->verbs, device, action, answer, sizeof answer))
        << answer;
}

/* An order to the rules of injection. */
inline std::string Inject(const std::string &order)
{
    char answer[1024];
    EXPECT_EQ(DT_OK, dt_net_inject_command(dt_plugin_current()->net, order.c_str(), answer, sizeof answer))
        << answer;
    return answer;
}

/* "add RULE"; the rule's number. */
inline std::string AddRule(const std::string &rule)
{
    std::string answer = Inject("add " + rule);
    return answer.substr(0, answer.find(' '));
}

/* How often the rule has acted: what `detour inject list` shows. */
inline uint64_t Fired(const std::string &number)
{
    unsigned long long age_ns = 0, fired = 0;
    EXPECT_EQ(2, sscanf(Inject("show " + number).c_str(), "%llu %llu", &age_ns, &fired));
    return fired;
}

inline void MoveOne(Pair &pair, Buffer &from, Buffer &to)
{
    void *receive = pair.Receive(to.data(), 1000, 0, to.mhandle);
    void *send = pair.Send(from.data(), 1000, 0, from.mhandle);
    pair.Wait(receive);
    pair.Wait(send);
}

inline int CountLines(const char *text)
{
    int count = 0;
    for (const std::string &line : LoggedLines())
        count += line.find(text) != std::string::npos;
    return count;
}

/* Messages of both ends of a connection, several at a time, each with its own content and place. */
class Traffic
{
  public:
    static const int kOpen = 8, kBytes = 30000;

    explicit Traffic(Pair &pair)
        : pair_(pair), from_(pair.Register(pair.send, kOpen * kBytes, 0)),
          to_(pair.Register(pair.recv, kOpen * kBytes, 0))
    {
    }

    /* Keeps receives and sends posted until `count` more messages are through; `at` is called in between. */
    void Move(
        int count, const std::function<void(int)> &at = [](int) {})
    {
        int end = posted_ + count;
        Until([&] {
            at(sent_);
            PostReceives(end);
            PostSends(end);
            Reap();
            return received_ == end && sent_ == end;
        });
    }

    void PostReceives(int end)
    {
        while (posted_ < end && posted_ < received_ + kOpen) {
            void *data = to_.data() + posted_ % kOpen * kBytes;
            int size = kBytes, tag = posted_ % 3;
            void *request = nullptr;
            ASSERT_EQ(ncclSuccess,
                      pair_.net->irecv(pair_.recv, 1, &data, &size, &tag, &to_.mhandle, &request));
            if (!request)
                return;
            receives_[posted_++ % kOpen] = request;
        }
    }

    void PostSends(int end)
    {
        while (begun_ < end && begun_ < sent_ + kOpen) {
            uint8_t *data = from_.data() + begun_ % kOpen * kBytes;
            void *request = nullptr;
            Fill(data, Size(begun_), begun_);
            ASSERT_EQ(ncclSuccess,
                      pair_.net->isend(pair_.send, data, Size(begun_), begun_ % 3, from_.mhandle, &request));
            if (!request)
                return;
            sends_[begun_++ % kOpen] = request;
        }
    }

    int Received() const
    {
        return received_;
    }

    bool HasBegun(int end) const
    {
        return begun_ == end;
    }

    void Reap()
    {
        while (received_ < posted_) {
            int bytes = -1;
            if (!pair_.TestOnce(receives_[received_ % kOpen], &bytes))
                break;
            ASSERT_EQ(Size(received_), bytes) << "message " << received_;
            ASSERT_EQ(0u, CountWrong(to_.data() + received_ % kOpen * kBytes, bytes, received_))
                << "message " << received_;
            received_++;
        }
        while (sent_ < begun_ && pair_.TestOnce(sends_[sent_ % kOpen]))
            sent_++;
    }

    static int Size(int message)
    {
        return message % 5 == 0 ? message % 50 : kBytes - message % 1000;
    }

  private:
    Pair &pair_;
    Buffer &from_, &to_;
    void *receives_[kOpen] = {}, *sends_[kOpen] = {};
    int posted_ = 0, received_ = 0, begun_ = 0, sent_ = 0;
};

/* Four devices: the sender's are soft0 and soft1, the receiver's soft2 and soft3. Something has gone already.
 */
class FourDevices : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(ncclSuccess, net->init(nullptr));
        pair.Connect(0, 2);
        traffic.reset(new Traffic(pair));
        traffic->Move(50);
    }
    Pair pair{net};
    std::unique_ptr<Traffic> traffic;
};
} // namespace detour_test

#endif

#endif
