/* SPDX-License-Identifier: Apache-2.0 */
/* The shared library as NCCL handles it: opened, looked up, closed without a word, opened again. */
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <set>

#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"

namespace
{
using detour_test::Buffer;
using detour_test::Pair;

const char kLibrary[] = DETOUR_BINARY_DIR "/lib/libnccl-net-detour.so";

struct Line {
    ncclDebugLogLevel level;
    unsigned long flags;
    std::string file, text;
};
std::mutex lines_mutex;
std::vector<Line> &lines =
    *new std::vector<Line>; // never destroyed: device threads log until the process ends

void Logger(ncclDebugLogLevel level, unsigned long flags, const char *file, int, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    std::lock_guard<std::mutex> lock(lines_mutex);
    lines.push_back({level, flags, file, text});
}

class Load : public ::testing::Test
{
  protected:
    void Open()
    {
        library_ = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(nullptr, library_) << dlerror();
        net_ = static_cast<const ncclNet_v8_t *>(dlsym(library_, NCCL_NET_PLUGIN_V8_SYMBOL));
        ASSERT_NE(nullptr, net_) << dlerror();
    }
    void Shut()
    {
        ASSERT_EQ(0, dlclose(library_));
    }
    void MoveOneMessage()
    {
        Pair pair(net_);
        pair.Connect();
        Buffer &from = pair.Register(pair.send, 1000, 7);
        Buffer &to = pair.Register(pair.recv, 1000, 0);
        void *receive = pair.Receive(to.data(), 1000, 0, to.mhandle);
        void *send = pair.Send(from.data(), 1000, 0, from.mhandle);
        pair.Wait(receive);
        pair.Wait(send);
        EXPECT_EQ(from.bytes, to.bytes);
    }
    void *library_ = nullptr;
    const ncclNet_v8_t *net_ = nullptr;
};

TEST_F(Load, OpenInitTwiceCloseOpenAgain)
{
    for (int round = 0; round < 3; round++) {
        Open();
        EXPECT_STREQ("Detour", net_->name);
        EXPECT_EQ(ncclSuccess, net_->init(Logger));
        EXPECT_EQ(ncclSuccess, net_->init(Logger));
        int count = 0;
        EXPECT_EQ(ncclSuccess, net_->devices(&count));
        EXPECT_EQ(2, count);
        MoveOneMessage();
        Shut();
    }
}

TEST_F(Load, DoesWithoutTheTwoCallsOfGpuDrivenDevices)
{
    Open();
    EXPECT_EQ(nullptr, net_->getDeviceMr);
    EXPECT_EQ(nullptr, net_->irecvConsumed);
    void *const *functions = reinterpret_cast<void *const *>(net_);
    for (int i = 0; i < 17; i++)
        EXPECT_NE(nullptr, functions[i]) << "member " << i;
    Shut();
}

TEST_F(Load, FillsEveryPropertyAndNoTwoDevicesLookAlike)
{
    Open();
    ASSERT_EQ(ncclSuccess, net_->init(Logger));
    int count = 0;
    ASSERT_EQ(ncclSuccess, net_->devices(&count));
    std::set<std::string> names;
    std::set<std::pair<uint64_t, int>> ports;
    std::set<uint64_t> cards;
    for (int i = 0; i < count; i++) {
        ncclNetProperties_v8_t first, second;
        memset(&first, 0xff, sizeof first); // NCCL hands in what is on its stack
        memset(&second, 0x55, sizeof second);
        ASSERT_EQ(ncclSuccess, net_->getProperties(i, &first));
        ASSERT_EQ(ncclSuccess, net_->getProperties(i, &second));
        size_t bytes = offsetof(ncclNetProperties_v8_t, netDeviceVersion) + sizeof first.netDeviceVersion;
        EXPECT_EQ(0, memcmp(&first, &second, bytes)) << "a field is not set";
        EXPECT_TRUE(names.insert(first.name).second) << first.name;
        EXPECT_TRUE(ports.insert({first.guid, first.port}).second) << first.name;
        EXPECT_TRUE(cards.insert(first.guid).second) << first.name << " is a card of its own";
        EXPECT_EQ(nullptr, first.pciPath) << "a software RNIC is on no bus";
        EXPECT_EQ(NCCL_PTR_HOST, first.ptrSupport);
        EXPECT_GT(first.speed, 0);
        EXPECT_EQ(8, first.maxRecvs);
        EXPECT_GT(first.maxComms, 0);
        EXPECT_EQ(NCCL_NET_DEVICE_HOST, first.netDeviceType);
        EXPECT_EQ(NCCL_NET_DEVICE_INVALID_VERSION, first.netDeviceVersion);
    }
    ncclNetProperties_v8_t properties;
    EXPECT_NE(ncclSuccess, net_->getProperties(count, &properties));
    EXPECT_NE(ncclSuccess, net_->getProperties(-1, &properties));
    Shut();
}

TEST_F(Load, LogsThroughNcclByItsCustom)
{
    Open();
    ASSERT_EQ(ncclSuccess, net_->init(Logger));
    {
        std::lock_guard<std::mutex> lock(lines_mutex);
        lines.clear();
    }
    MoveOneMessage();
    ncclNetProperties_v8_t properties;
    net_->getProperties(99, &properties);
    std::lock_guard<std::mutex> lock(lines_mutex);
    bool has_agreement = false, has_warning = false;
    for (const Line &line : lines) {
        EXPECT_EQ(0u, line.text.find("NET/Detour : ")) << line.text;
        EXPECT_EQ(std::string::npos, line.text.find('\n')) << line.text;
        has_agreement |=
            line.level == NCCL_LOG_INFO && line.text.find("queue pairs each") != std::string::npos;
        if (line.level == NCCL_LOG_WARN) {
            has_warning = true;
            EXPECT_EQ(NCCL_ALL, line.flags);
            EXPECT_NE(std::string::npos, line.file.find(".c"));
            EXPECT_NE(std::string::npos, line.text.find("device 99 of 2")) << line.text;
        }
    }
    EXPECT_TRUE(has_agreement);
    EXPECT_TRUE(has_warning);
    Shut();
}

TEST(Exports, ExactlyOneSymbol)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers add symbols of their own";
#endif
    std::string command = std::string("nm -D --defined-only ") + kLibrary;
    FILE *out = popen(command.c_str(), "r");
    ASSERT_NE(nullptr, out);
    std::vector<std::string> names;
    char address[64], type[8], name[256];
    while (fscanf(out, "%63s %7s %255s", address, type, name) == 3)
        names.push_back(name);
    ASSERT_EQ(0, pclose(out)) << command;
    EXPECT_EQ(std::vector<std::string>{NCCL_NET_PLUGIN_V8_SYMBOL}, names);
}
} // namespace
