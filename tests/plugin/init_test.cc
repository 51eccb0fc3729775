/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init() with settings that cannot work: one line, an error, and the next plugin has its turn. A process
 * each, since a plugin that is up stays up; the program runs itself again.
 */
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "plugin/plugin.h"
#include "tests/harness/harness.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

/* Software RNICs have no ports among the interfaces; here lo is a port of the one that this names. */
static const char *port_of_lo;

extern "C" bool __wrap_dt_netdev_is_of(const char *, const char *interface, const char *device)
{
    return port_of_lo && !strcmp(interface, "lo") && !strcmp(device, port_of_lo);
}

namespace
{
std::vector<std::string> *warnings;
std::mutex warnings_mutex; // control threads of several devices log at once
const char *also_wanted;   // INFO lines with this text count, too

void Logger(ncclDebugLogLevel level, unsigned long, const char *, int, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    std::lock_guard<std::mutex> lock(warnings_mutex);
    if (level == NCCL_LOG_WARN || (also_wanted && strstr(text, also_wanted)))
        warnings->push_back(text);
}

/* The result of init, or of `then` after it, and the warnings, in a child with these settings. */
std::pair<int, std::vector<std::string>> InitWith(std::vector<std::pair<const char *, const char *>> settings,
                                                  int (*then)() = nullptr)
{
    int fds[2];
    if (pipe(fds) != 0)
        return {-1, {}};
    pid_t pid = fork(); // before anything of the plugin ran in this process
    if (pid == 0) {
        for (auto [name, value] : settings)
            setenv(name, value, 1);
        warnings = new std::vector<std::string>;
        int result = ncclNetPlugin_v8.init(Logger);
        if (result == ncclSuccess && then)
            result = then();
        std::lock_guard<std::mutex> lock(warnings_mutex);
        for (const std::string &text : *warnings)
            dprintf(fds[1], "%s\n", text.c_str());
        _exit(result);
    }
    close(fds[1]);
    std::string all;
    char part[4096];
    for (ssize_t n; (n = read(fds[0], part, sizeof part)) > 0;)
        all.append(part, n);
    close(fds[0]);
    int status;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "the child ended by signal " << WTERMSIG(status);
    std::vector<std::string> lines;
    for (size_t at = 0, end; (end = all.find('\n', at)) != std::string::npos; at = end + 1)
        lines.push_back(all.substr(at, end - at));
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, lines};
}

TEST(Init, WithoutRealDevicesOneLineNamesTheSoftwareRnic)
{
    // A library that is no libibverbs: the same on hosts with RDMA devices and without.
    for (const char *kind : {"auto", "system"}) {
        auto [result, lines] =
            InitWith({{"DETOUR_VERBS", kind}, {"DETOUR_IBV_LIB", "/nonexistent/libibverbs.so"}});
        EXPECT_EQ(ncclSystemError, result);
        ASSERT_EQ(1u, lines.size());
        EXPECT_NE(std::string::npos, lines[0].find("DETOUR_VERBS=soft")) << lines[0];
        EXPECT_NE(std::string::npos, lines[0].find("/nonexistent/libibverbs.so")) << lines[0];
    }
}

TEST(Init, AFilterThatLetsNoDeviceThroughIsNamed)
{
    for (const char *name : {"DETOUR_HCA", "NCCL_IB_HCA"}) {
        auto [result, lines] = InitWith({{"DETOUR_VERBS", "soft"}, {name, "mlx5"}});
        EXPECT_NE(ncclSuccess, result);
        ASSERT_EQ(1u, lines.size());
        EXPECT_NE(std::string::npos,
                  lines[0].find("DETOUR_HCA or NCCL_IB_HCA=mlx5 lets none through that has "
                                "a link; there is soft0, soft1)"))
            << lines[0];
    }
}

TEST(Init, BadSettingsAreNamedWithTheRightForm)
{
    const struct {
        const char *name, *value, *text;
    } cases[] = {{"DETOUR_VERBS", "mlx5", "expected system, soft or auto"},
                 {"DETOUR_PATHS", "0", "DETOUR_PATHS=0: expected a number from 1 to"},
                 {"DETOUR_EVENT_KINDS", "path,slow", "'slow' is none of process, device"},
                 {"DETOUR_SOCKET_IFNAME", "nosuch", "lets none through"}};
    for (auto &c : cases) {
        auto [result, lines] = c.name == std::string("DETOUR_VERBS")
                                   ? InitWith({{c.name, c.value}})
                                   : InitWith({{"DETOUR_VERBS", "soft"}, {c.name, c.value}});
        EXPECT_NE(ncclSuccess, result) << c.name;
        ASSERT_EQ(1u, lines.size()) << c.name;
        EXPECT_NE(std::string::npos, lines[0].find(c.text)) << lines[0];
    }
}

/* Where the control channel and an RNIC share a cable, one line states what that costs. */
TEST(Init, AControlChannelOnAPortOfAnRnicIsOneWarning)
{
    for (const char *device : {"soft1", "soft2"}) { // of soft0 and soft1
        port_of_lo = device;
        auto [result, lines] = InitWith({{"DETOUR_VERBS", "soft"}, {"DETOUR_SOCKET_IFNAME", "=lo"}});
        EXPECT_EQ(ncclSuccess, result);
        ASSERT_EQ(device == std::string("soft1") ? 1u : 0u, lines.size()) << device;
        for (const std::string &line : lines)
            EXPECT_NE(std::string::npos, line.find("the control channel uses lo, a port of soft1: ")) << line;
    }
    port_of_lo = nullptr;
}

/* It is often set, against NCCL's own InfiniBand transport; Detour runs, and one line states that. */
TEST(Init, ThatInfiniBandIsDisabledForNcclItselfIsOneLine)
{
    const struct {
        const char *value;
        size_t lines;
    } cases[] = {{"1", 1}, {"0", 0}, {"", 0}};
    also_wanted = "IB_DISABLE";
    for (auto &c : cases) {
        auto [result, lines] = InitWith(
            {{"DETOUR_VERBS", "soft"}, {"DETOUR_SOCKET_IFNAME", "=lo"}, {"NCCL_IB_DISABLE", c.value}});
        EXPECT_EQ(ncclSuccess, result);
        ASSERT_EQ(c.lines, lines.size()) << c.value;
        for (const std::string &line : lines)
            EXPECT_NE(std::string::npos, line.find("NCCL_IB_DISABLE=1 does not concern this plugin"));
    }
    also_wanted = nullptr;
}

int ConnectToItself()
{
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    void *listener = nullptr, *send = nullptr, *recv = nullptr;
    ncclNetDeviceHandle_v8_t *device;
    int result = ncclNetPlugin_v8.listen(0, handle, &listener);

    while (result == ncclSuccess && !(send && recv)) {
        if (!send)
            result = ncclNetPlugin_v8.connect(0, handle, &send, &device);
        if (!recv && result == ncclSuccess)
            result = ncclNetPlugin_v8.accept(listener, &recv, &device);
    }
    return result;
}

TEST(Init, APartitionKeyIsFoundByItsValueAndOneThatNoPortHasEndsConnections)
{
    for (bool has_key : {true, false}) {
        auto [result, lines] = InitWith({{"DETOUR_VERBS", "soft"},
                                         {"DETOUR_SOCKET_IFNAME", "=lo"},
                                         {"NCCL_IB_PKEY", "3"}, // which is no entry: the value comes first
                                         {"NCCL_IB_PKEY_VALUE", has_key ? "0x7fff" : "0x8111"}},
                                        ConnectToItself);
        EXPECT_EQ(has_key, result == ncclSuccess);
        if (has_key)
            continue;
        ASSERT_FALSE(lines.empty());
        EXPECT_NE(std::string::npos,
                  lines[0].find(" port 1: partition key 0x8111 is not in its table, which has 0xffff"))
            << lines[0];
    }
}

/* Frameworks fork workers after NCCL was initialised: the threads of the parent's plugin are not in the
 * child. */
TEST(Init, InAForkedChildItMakesAPluginOfItsOwn)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("DETOUR_VERBS", "soft", 1);
        setenv("DETOUR_SOCKET_IFNAME", "=lo", 1);
        if (ncclNetPlugin_v8.init(nullptr) != ncclSuccess)
            _exit(1);
        const struct dt_plugin *of_parent = dt_plugin_current();
        pid_t child = fork();
        if (child == 0) {
            int count = 0;
            if (ncclNetPlugin_v8.init(nullptr) != ncclSuccess)
                _exit(2);
            if (dt_plugin_current() == of_parent)
                _exit(3);
            _exit(ncclNetPlugin_v8.devices(&count) == ncclSuccess && count == 2 ? 0 : 4);
        }
        int status = -1;
        waitpid(child, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 5);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(0, WEXITSTATUS(status));
}

TEST(Init, BeforeItEverythingIsAnError)
{
    detour_test::ExpectWarning("before init");
    int count;
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    void *comm;
    EXPECT_NE(ncclSuccess, ncclNetPlugin_v8.devices(&count));
    EXPECT_NE(ncclSuccess, ncclNetPlugin_v8.listen(0, handle, &comm));
}
} // namespace
