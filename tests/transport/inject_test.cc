/* SPDX-License-Identifier: Apache-2.0 */
/* Injection of a process: commands, files of rules, faults on a device, and held messages. */
#include "transport/inject.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/inject_files.h"
#include "transport/message/connection.h"

namespace
{
uint64_t clock_ns;

class Inject : public detour_test::TwoNets
{
  protected:
    Inject()
        : TwoNets(
              [](dt_params &, dt_net_options &options) { options.now_ns = [](void *) { return clock_ns; }; })
    {
        clock_ns = now_ns;
    }
    std::string Run(const std::string &args, dt_status expected = DT_OK)
    {
        char answer[512] = "";
        EXPECT_EQ(expected, dt_net_inject_command(there.net, args.c_str(), answer, sizeof answer)) << answer;
        return answer;
    }
};

TEST_F(Inject, CommandsAddListAndRemoveRules)
{
    EXPECT_EQ("", Run("list"));
    std::string added = Run("add device=soft0 latency=30ms");
    EXPECT_EQ(0u, added.find("1 "));
    EXPECT_NE(std::string::npos, added.find("latency=30ms"));
    EXPECT_EQ("1", Run("list"));
    EXPECT_NE(std::string::npos, Run("show 1").find("latency=30ms"));
    Run("remove 1");
    EXPECT_EQ("", Run("list"));
    EXPECT_NE(std::string::npos, Run("show 1", DT_NOT_FOUND).find("no rule 1"));
}

TEST_F(Inject, CommandsRefuseUnknownArgumentsWithTheRightForm)
{
    EXPECT_EQ("expected add, remove, clear, list, show, timer or record", Run("delete 1", DT_INVALID));
    EXPECT_EQ("expected the number of an entry", Run("record x", DT_INVALID));
    EXPECT_NE(std::string::npos, Run("add device=soft9 latency=1ms", DT_NOT_FOUND).find("soft9"));
    EXPECT_EQ("", Run("list")) << "all or none";
}

TEST_F(Inject, ARecordWithoutEntriesNamesTheNextOne)
{
    EXPECT_EQ("0", Run("record 0"));
    const std::string timer = Run("timer");
    EXPECT_EQ(3, std::count(timer.begin(), timer.end(), ' '));
}

TEST_F(Inject, WithoutRulesNoMessageIsHeld)
{
    Listen();
    Establish();
    EXPECT_EQ(DT_NEVER_NS, dt_inject_release(sender->nic, now_ns));
}

TEST_F(Inject, AHeldMessageIsReleasedByTheDeviceThreadWhenItIsDue)
{
    uint8_t from[64] = {7}, to[64] = {};
    dt_request *send = nullptr;
    Listen();
    Establish();
    Register(from, to, sizeof from);
    Run("add latency=30ms");
    dt_request *receive = Irecv(to, sizeof to);
    ASSERT_NE(nullptr, receive);
    StepUntil([&] {
        clock_ns = now_ns;
        return (send = Isend(from, sizeof from)) != nullptr;
    });
    uint64_t sent_ns = now_ns;
    StepUntil([&] {
        clock_ns = now_ns;
        return IsDone(&receive);
    });
    EXPECT_GE(now_ns - sent_ns, 30 * DT_NS_PER_MS);
    EXPECT_LT(now_ns - sent_ns, 60 * DT_NS_PER_MS);
    EXPECT_EQ(7, to[0]);
    StepUntil([&] { return IsDone(&send); });
    dt_net_deregister(sender, from_memory);
    dt_net_deregister(receiver, to_memory);
    from_memory = to_memory = nullptr;
}

TEST_F(Inject, AFaultIsSetOnItsDeviceAndEndsWithItsRule)
{
    Listen();
    Establish();
    dt_nic *nic = sender->path[1].nic;
    ASSERT_STREQ("soft1", nic->name);
    dt_inject_faults(nic, now_ns);
    EXPECT_EQ(0u, nic->service->inject.fault_count);
    Run("add device=soft1 down");
    dt_inject_faults(nic, now_ns);
    EXPECT_EQ(1u, nic->service->inject.fault_count);
    dt_inject_faults(&there.net->nic[0], now_ns);
    EXPECT_EQ(0u, there.net->nic[0].service->inject.fault_count);
    Run("clear");
    dt_inject_faults(nic, now_ns);
    EXPECT_EQ(0u, nic->service->inject.fault_count);
}

TEST_F(Inject, ARuleIsInForceBeforeTheFirstCallOfADevice)
{
    Run("add device=soft1 fail=create_cq");
    detour_test::ExpectWarning("CQ");
    Listen();
    Establish();
    const dt_inject_nic &soft1 = there.net->nic[1].service->inject;
    ASSERT_EQ(1u, soft1.fault_count);
    EXPECT_EQ(1u, soft1.fault[0]->messages) << "the first CQ of the device";
    EXPECT_EQ(nullptr, sender->path[1].recv_cq);
}

class InjectFiles : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        char pattern[] = "/tmp/detour-inject-XXXXXX";
        ASSERT_NE(nullptr, mkdtemp(pattern));
        folder = pattern;
    }
    void TearDown() override
    {
        unlink(Name().c_str());
        rmdir(folder.c_str());
    }
    std::string Name() const
    {
        return folder + "/rules";
    }

    std::string folder;
    char error[256] = "", *text = nullptr;
    size_t bytes = 0;
};

TEST_F(InjectFiles, AFileIsReadWholeAndEndsWithAZero)
{
    FILE *file = fopen(Name().c_str(), "w");
    ASSERT_NE(nullptr, file);
    fputs("latency=1ms\n", file);
    fclose(file);
    ASSERT_EQ(DT_OK, dt_inject_read_file(Name().c_str(), &text, &bytes, error, sizeof error));
    EXPECT_EQ(12u, bytes);
    EXPECT_STREQ("latency=1ms\n", text);
    free(text);
}

TEST_F(InjectFiles, AMissingFileAndAFifoAreNamed)
{
    EXPECT_EQ(DT_NOT_FOUND, dt_inject_read_file(Name().c_str(), &text, &bytes, error, sizeof error));
    EXPECT_EQ(Name() + ": No such file or directory", error);
    ASSERT_EQ(0, mkfifo(Name().c_str(), 0600));
    EXPECT_EQ(DT_INVALID, dt_inject_read_file(Name().c_str(), &text, &bytes, error, sizeof error));
    EXPECT_NE(std::string::npos, std::string(error).find("expected a regular file"));
}
} // namespace
