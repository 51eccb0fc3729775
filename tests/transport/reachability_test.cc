/* SPDX-License-Identifier: Apache-2.0 */
/* Set-up over paths that do not reach the peer: which are used, and what is logged at both ends. */
#include "transport/reachability.h"

#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"

namespace
{
/* soft0 and soft1 with their cables pulled, and plugged in again. */
class Cable : public detour_test::TwoNets
{
  protected:
    /* A device has a cable only while it is open. */
    void SetUp() override
    {
        for (size_t i = 0; i < 2; i++)
            ASSERT_EQ(DT_OK, dt_device_open(here.verbs, dt_net_device_info(here.net, i), &open_device[i]));
    }
    void Do(const char *device, const char *action)
    {
        char answer[200];
        ASSERT_EQ(DT_OK, dt_verbs_device_control(here.verbs, device, action, answer, sizeof answer))
            << answer;
    }
    void TearDown() override
    {
        TwoNets::TearDown();
        Do("soft0", "up");
        Do("soft1", "up");
        for (dt_device *opened : open_device)
            dt_device_close(opened);
    }
    dt_device *open_device[2];
    /* Set-up with a clock that runs so fast that the hardware's own verdict is seconds away;
     * a path that works has more than a second of real time for its answer. */
    void Hurry(dt_status *connect, dt_status *accept)
    {
        *connect = *accept = DT_OK;
        for (int i = 0; i < 1000000 && !(receiver && sender) && *connect == DT_OK && *accept == DT_OK; i++) {
            *connect = Connect();
            *accept = Accept();
            Step();
            now_ns += DT_NS_PER_MS;
        }
    }
    /* On a busy machine the real queue pairs may run out of retries before the time of these tests passes. */
    static int Unanswered()
    {
        return Lines(": no answer within ") + Lines(": transport retry count exceeded");
    }
    static int Lines(const std::string &part)
    {
        int count = 0;
        for (const std::string &line : detour_test::LoggedLines())
            count += line.find(part) != std::string::npos;
        return count;
    }
};

TEST_F(Cable, APathWithoutAnAnswerIsNamedWithBothAddressesAndTheConnectionGoesOnWithoutIt)
{
    dt_status connect, accept;
    detour_test::ExpectWarning("path 1 is not used until it answers: soft1 (GID ");
    Do("soft1", "down");
    Listen();
    Hurry(&connect, &accept);
    ASSERT_TRUE(sender && receiver);
    EXPECT_EQ(2, Lines("paths soft0-soft0, soft1-soft1 (same rail, down); ")) << "at both ends";
    EXPECT_EQ(2, Lines(") to soft1 (GID "));
    EXPECT_EQ(2, Unanswered());
}

TEST_F(Cable, ADefaultDeviceWithoutAnAnswerIsNoReasonNotToConnect)
{
    dt_status connect, accept;
    detour_test::ExpectWarning("path 0 is not used until it answers: soft0 (GID ");
    Do("soft0", "down");
    Listen();
    Hurry(&connect, &accept);
    ASSERT_TRUE(sender && receiver);
    EXPECT_EQ(2, Lines("paths soft0-soft0 (down), soft1-soft1 (same rail); "));
}

TEST_F(Cable, TheSecondConnectionOverTheSameTwoDevicesDoesNotWarnAgain)
{
    dt_status connect, accept;
    detour_test::ExpectWarning("path 1 is not used until it answers: soft1 (GID ");
    Do("soft1", "down");
    for (int round = 0; round < 2; round++) {
        Listen();
        Hurry(&connect, &accept);
        ASSERT_TRUE(sender && receiver);
        dt_net_close(sender);
        dt_net_close(receiver);
        dt_net_close_listen(listen);
        sender = receiver = nullptr;
        listen = nullptr;
        memset(handle, 0, sizeof handle);
    }
    EXPECT_EQ(4, Lines("path 1 is not used until it answers"));
    EXPECT_EQ(2u, detour_test::WarningCount());
}

TEST_F(Cable, WhenNoPathAnswersBothAddressesOfEachAreInTheError)
{
    dt_status connect, accept;
    detour_test::ExpectWarning("connect from soft0 to 127.0.0.1:");
    detour_test::ExpectWarning("accept on soft0 from ");
    Do("soft0", "down");
    Do("soft1", "down");
    Listen();
    Hurry(&connect, &accept);
    for (int i = 0; i < 1000000 && connect == DT_OK; i++, Step())
        connect = Connect();
    for (int i = 0; i < 1000000 && accept == DT_OK; i++, Step())
        accept = Accept();
    EXPECT_EQ(DT_PEER_ERROR, connect);
    EXPECT_EQ(DT_PEER_ERROR, accept);
    EXPECT_LE(1, Lines("no path reaches the peer: soft0 (GID "));
    EXPECT_LE(1, Lines("; soft1 (GID "));
    EXPECT_LE(1, Unanswered());
}
} // namespace
