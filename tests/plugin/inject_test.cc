/* SPDX-License-Identifier: Apache-2.0 */
/* Delay rules under the plugin's own entry points. Times are only ever compared from below. */
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"
#include "transport/message/connection.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::Pair;
using std::chrono::steady_clock;

constexpr int kBytes = 5000;

class Inject : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(ncclSuccess, ncclNetPlugin_v8.init(nullptr));
        pair.Connect();
        from = &pair.Register(pair.send, 64 * kBytes, 0);
        to = &pair.Register(pair.recv, 64 * kBytes, 0);
    }
    void TearDown() override
    {
        Order("clear");
    }

    /* An order over the control socket's command; the status and the answer. */
    dt_status Order(const std::string &order, std::string *answer = nullptr)
    {
        char text[8192];
        dt_status status = dt_net_inject_command(dt_plugin_current()->net, order.c_str(), text, sizeof text);
        if (answer)
            *answer = text;
        return status;
    }
    std::string Answer(const std::string &order, dt_status expected = DT_OK)
    {
        std::string answer;
        EXPECT_EQ(expected, Order(order, &answer)) << answer;
        return answer;
    }

    void *Receive(int i)
    {
        return pair.Receive(to->data() + i % 64 * kBytes, kBytes, 0, to->mhandle);
    }
    void *Send(int i)
    {
        detour_test::Fill(from->data() + i % 64 * kBytes, kBytes, i);
        return pair.Send(from->data() + i % 64 * kBytes, kBytes, 0, from->mhandle);
    }
    void ExpectData(int i)
    {
        EXPECT_EQ(0u, detour_test::CountWrong(to->data() + i % 64 * kBytes, kBytes, i)) << "message " << i;
    }
    static double Since(steady_clock::time_point start)
    {
        return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
    }

    Pair pair{&ncclNetPlugin_v8};
    Buffer *from = nullptr;
    Buffer *to = nullptr;
};

TEST_F(Inject, AMessageIsLateByItsLatency)
{
    Answer("add latency=40ms");
    void *receive = Receive(0);
    auto start = steady_clock::now();
    void *send = Send(0);
    pair.Wait(send);
    EXPECT_GE(Since(start), 40);
    pair.Wait(receive);
    ExpectData(0);
}

TEST_F(Inject, TheDeviceThreadPostsDueMessagesWhileNcclDoesNotCall)
{
    Answer("add latency=40ms");
    void *receive = Receive(0);
    auto start = steady_clock::now();
    void *send = Send(0);
    pair.Wait(receive); // the sender is left alone
    EXPECT_GE(Since(start), 40);
    ExpectData(0);
    pair.Wait(send);
}

TEST_F(Inject, SerialMessagesFollowEachOther)
{
    Answer("add serial=10ms");
    void *receive[8], *send[8];
    for (int i = 0; i < 8; i++)
        receive[i] = Receive(i);
    auto start = steady_clock::now();
    for (int i = 0; i < 8; i++)
        send[i] = Send(i);
    for (int i = 0; i < 8; i++) {
        pair.Wait(send[i]);
        EXPECT_GE(Since(start), 10 * (i + 1));
    }
    for (int i = 0; i < 8; i++) {
        pair.Wait(receive[i]);
        ExpectData(i);
    }
}

TEST_F(Inject, NothingIsLostOrOvertakenWhileRulesComeAndGo)
{
    static const char *const orders[] = {"add latency=uniform(0ms,3ms)",
                                         "add serial=exponential(300us)",
                                         "clear",
                                         "add latency=1ms size=..4999",
                                         "add rate=100Mbit",
                                         "add latency=normal(1ms,1ms) every=2ms",
                                         "clear"};
    void *receive[8] = {}, *send[8] = {};
    auto finish = [&](int i) {
        pair.Wait(send[i % 8]);
        pair.Wait(receive[i % 8]);
        ExpectData(i);
    };
    for (int i = 0; i < 300; i++) {
        if (i >= 8)
            finish(i - 8);
        if (i % 10 == 0)
            Answer(orders[i / 10 % 7]);
        receive[i % 8] = Receive(i);
        send[i % 8] = Send(i);
    }
    for (int i = 292; i < 300; i++)
        finish(i);
}

TEST_F(Inject, RemovingARuleReleasesTheMessagesThatItHolds)
{
    std::string number = Answer("add latency=1h");
    number = number.substr(0, number.find(' '));
    void *receive[3], *send[3];
    for (int i = 0; i < 3; i++)
        receive[i] = Receive(i);
    for (int i = 0; i < 3; i++)
        send[i] = Send(i);
    for (int i = 0; i < 100; i++)
        EXPECT_FALSE(pair.TestOnce(send[0]));
    EXPECT_EQ("removed rule " + number, Answer("remove " + number));
    for (int i = 0; i < 3; i++) {
        pair.Wait(receive[i]); // Detour's thread notices, not only NCCL's
        ExpectData(i);
    }
    for (int i = 0; i < 3; i++)
        pair.Wait(send[i]);
    EXPECT_EQ("no rule " + number, Answer("remove " + number, DT_NOT_FOUND));
}

TEST_F(Inject, AConnectionClosesWhileItHoldsMessages)
{
    Answer("add latency=1h");
    Receive(0);
    Send(0);
    pair.Close();
}

TEST_F(Inject, GroupedReceivesAreHeldAsOne)
{
    Answer("add latency=20ms");
    void *data[2] = {to->data(), to->data() + kBytes};
    int sizes[2] = {kBytes, kBytes}, tags[2] = {5, 6}, got[2] = {};
    void *mhandles[2] = {to->mhandle, to->mhandle};
    void *receive = pair.Receive(2, data, sizes, tags, mhandles);
    detour_test::Fill(from->data(), kBytes, 0);
    detour_test::Fill(from->data() + kBytes, kBytes, 1);
    auto start = steady_clock::now();
    void *second = pair.Send(from->data() + kBytes, kBytes, 6, from->mhandle);
    void *first = pair.Send(from->data(), kBytes, 5, from->mhandle);
    pair.Wait(first);
    pair.Wait(second);
    EXPECT_GE(Since(start), 20);
    pair.Wait(receive, got);
    EXPECT_EQ(kBytes, got[1]);
    ExpectData(0);
    ExpectData(1);
}

TEST_F(Inject, InjectedDelaysAreRecorded)
{
    Answer("add serial=2ms");
    for (int i = 0; i < 3; i++) {
        void *receive = Receive(i), *send = Send(i);
        pair.Wait(send);
        pair.Wait(receive);
    }
    std::string all;
    uint64_t first = 0;
    for (std::string part;; first++) {
        part = Answer("record " + std::to_string(first));
        if (part.find(';') == std::string::npos)
            break;
        first = std::stoull(part);
        all = part.substr(part.find(';') + 1);
        part = all.substr(0, all.find(';'));
        EXPECT_EQ(8, std::count(part.begin(), part.end(), ',')) << part;
    }
    EXPECT_GE(first, 3u);
    EXPECT_NE(std::string::npos, all.find("soft0")) << all;
    std::string list = Answer("list");
    std::string shown = Answer("show " + list);
    EXPECT_NE(std::string::npos, shown.find(" 3 6000000 serial=2ms")) << shown;
    EXPECT_EQ(3, std::count_if(shown.begin(), shown.end(), [](char c) { return c == ' '; })) << shown;
}

TEST_F(Inject, TracesAreReadInEachForm)
{
    const std::string base = testing::TempDir() + "detour-inject." + std::to_string(getpid());
    const std::string csv = base + ".csv", json = base + ".json";
    std::ofstream(csv) << "time,link,latency\n0,a,30ms\n0,b,1h\n";
    std::ofstream(json)
        << R"([{"time": 0, "link": "a", "latency": 0.03}, {"time": 1000, "link": "b", "latency": "inf"}])";
    for (const std::string &file : {csv, json}) {
        Answer("add trace=" + file + " link=a");
        void *receive = Receive(0);
        auto start = steady_clock::now();
        void *send = Send(0);
        pair.Wait(send);
        EXPECT_GE(Since(start), 30) << file;
        pair.Wait(receive);
        Answer("clear");
        EXPECT_EQ(file + (file == csv
                              ? ": line 3, column 1: the trace has several links; choose one with link=NAME"
                              : ": $[1]: the trace has several links; choose one with link=NAME"),
                  Answer("add trace=" + file, DT_INVALID));
        EXPECT_EQ(file + ": the trace has no entry for link c",
                  Answer("add link=c trace=" + file, DT_INVALID));
    }
    std::ofstream(json) << "[{";
    EXPECT_EQ(0u, Answer("add trace=" + json, DT_INVALID).find(json + ": line 1, column 2: "));
    std::ofstream(json) << "[{\"time\": -1, \"link\": \"a\", \"latency\": 1}]";
    EXPECT_EQ(json + ": $[0]: expected \"time\", a number of seconds up to 1000000",
              Answer("add trace=" + json, DT_INVALID));
}

TEST_F(Inject, ALinkGoesDownAndComesUp)
{
    auto has_logged = [](const char *part) {
        for (const std::string &line : detour_test::LoggedLines())
            if (line.find(part) != std::string::npos)
                return true;
        return false;
    };
    /* Detour's thread brings it about, which on a busy machine may look when the window is over: then again.
     */
    EXPECT_TRUE(detour_test::Until([&] {
        Answer("clear");
        Answer("add device=soft1 down to=30ms"); // the backup
        auto start = steady_clock::now();
        while (!has_logged("soft1: PORT_ERROR") && Since(start) < 1000)
            usleep(1000);
        return has_logged("soft1: PORT_ERROR") || HasFailure();
    }));
    void *receive = Receive(0), *send = Send(0);
    pair.Wait(send);
    pair.Wait(receive);
    EXPECT_TRUE(detour_test::Until([&] { return has_logged("down: over"); })); // by itself
    /* The devices are the process's: the next test needs this one. */
    EXPECT_TRUE(detour_test::Until([&] { return has_logged("soft1: PORT_ACTIVE"); }));
}

TEST_F(Inject, OrdersThatMakeNoSenseAreRefused)
{
    EXPECT_EQ("expected add, remove, clear, list, show, timer or record", Answer("", DT_INVALID));
    EXPECT_EQ("expected a rule", Answer("add", DT_INVALID));
    EXPECT_EQ("line 1, column 1: the rule has no effect; expected one of latency=, serial=, rate=, trace=, "
              "replay=, "
              "down, flap=, fail=, hang=, status=, silent, event= or personality=",
              Answer("add size=1..", DT_INVALID));
    EXPECT_EQ("line 1, column 13: a rule has no 'direction': it concerns the messages that its process "
              "sends; for one "
              "direction of a link give it to the process that sends, with device= and peer=, or name a "
              "connection with id=",
              Answer("add latency=1ms direction=receive", DT_INVALID));
    EXPECT_EQ("no device is named 'soft9'; there is soft0, soft1",
              Answer("add device=soft9 rate=1Gbit", DT_NOT_FOUND));
    EXPECT_EQ("/nonexistent: No such file or directory", Answer("add trace=/nonexistent", DT_NOT_FOUND));
    EXPECT_EQ("/dev/null: expected a regular file of at most 256 MiB",
              Answer("add replay=/dev/null", DT_INVALID));
    EXPECT_EQ("expected the number of a rule", Answer("remove all", DT_INVALID));
    EXPECT_EQ("no rule 77", Answer("show 77", DT_NOT_FOUND));
    EXPECT_EQ("expected the number of an entry", Answer("record -1", DT_INVALID));
    EXPECT_EQ("", Answer("list"));
    for (int i = 0; i < 16; i++)
        Answer("add size=1.. latency=1ms");
    EXPECT_EQ("there are 16 rules already; remove one first", Answer("add latency=1ms", DT_FULL));
    EXPECT_EQ("removed 16 rules", Answer("clear"));
}
} // namespace
