/* SPDX-License-Identifier: Apache-2.0 */
// Settings, limits, GPUs and NCCL, each on a tree of its own.
#include <filesystem>
#include <fstream>

#include "tests/doctor/examination.h"
#include "tests/harness/harness.h"

namespace
{
namespace fs = std::filesystem;
using detour_test::Examination;

class DoctorOf : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = (fs::temp_directory_path() / "detour-doctor-XXXXXX").string();
        ASSERT_NE(nullptr, mkdtemp(pattern.data()));
        root = pattern;
    }
    void TearDown() override
    {
        fs::remove_all(root);
    }
    void Write(const std::string &path, const std::string &text)
    {
        fs::create_directories(fs::path(root + path).parent_path());
        std::ofstream(root + path) << text << "\n";
    }
    std::string Limits(uint64_t memlock_bytes, bool is_soft)
    {
        Examination exam;
        exam.options.root = root.c_str();
        exam.options.memlock_bytes = memlock_bytes;
        dt_doctor_limits(&exam.options, &exam.report, is_soft);
        return exam.Findings();
    }
    std::string Gpu(uint32_t capabilities)
    {
        Examination exam;
        exam.options.root = root.c_str();
        dt_doctor_gpu(&exam.options, &exam.report, capabilities);
        return exam.Findings();
    }

    std::string root;
};

bool Contains(const std::string &text, const std::string &part)
{
    return text.find(part) != std::string::npos;
}

TEST_F(DoctorOf, LockedMemoryIsJudgedByItsUse)
{
    EXPECT_TRUE(Contains(Limits(DT_MEMLOCK_UNLIMITED, false), "ok memlock: locked memory is unlimited"));
    EXPECT_TRUE(Contains(Limits(64 << 10, false), "problem memlock: locked memory is limited to 64 KiB"));
    EXPECT_TRUE(Contains(Limits(8ull << 30, false), "warning memlock: locked memory is limited to 8192 MiB"));
    EXPECT_TRUE(Contains(Limits(64 << 10, true), "ok memlock: "));
    Write("/proc/self/status", "Name:\tx\nCapEff:\t0000000000004000");
    EXPECT_TRUE(Contains(Limits(64 << 10, false), "(CAP_IPC_LOCK)"));
    Write("/proc/self/status", "Name:\tx\nCapEff:\tffffffffffffbfff");
    EXPECT_TRUE(Contains(Limits(64 << 10, false), "problem memlock: "));
}

TEST_F(DoctorOf, PtraceMattersToSoftwareRnicsAlone)
{
    EXPECT_TRUE(Contains(Limits(0, true), "ok ptrace: processes of one user may read"));
    Write("/proc/sys/kernel/yama/ptrace_scope", "1");
    EXPECT_TRUE(Contains(Limits(0, true), "ok ptrace: kernel.yama.ptrace_scope is 1"));
    Write("/proc/sys/kernel/yama/ptrace_scope", "3");
    EXPECT_TRUE(Contains(Limits(0, true), "warning ptrace: kernel.yama.ptrace_scope is 3"));
    EXPECT_TRUE(
        Contains(Limits(0, false), "ok ptrace: kernel.yama.ptrace_scope is 3; real RNICs need no ptrace"));
}

TEST_F(DoctorOf, GpuMemoryNeedsDriverAndRnicToAgree)
{
    const uint32_t host = DT_MEMORY_HOST, cuda = host | DT_MEMORY_CUDA, dmabuf = host | DT_MEMORY_DMABUF;

    EXPECT_TRUE(Contains(Gpu(dmabuf), "ok gpu: no NVIDIA driver is loaded"));
    Write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15");
    EXPECT_TRUE(Contains(Gpu(host), "warning gpu: no RNIC that is used reaches GPU memory"));
    EXPECT_TRUE(Contains(Gpu(dmabuf), "warning gpu: the RNICs take dma-buf memory, but NVIDIA's closed"));
    EXPECT_TRUE(Contains(Gpu(cuda), "warning gpu: an old nv_peer_mem module is loaded"));
    Write("/sys/module/nvidia_peermem/version", "550.54.15");
    EXPECT_EQ("ok gpu: the RNICs reach GPU memory by nvidia-peermem\n", Gpu(cuda));
    Write("/proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15");
    EXPECT_EQ("ok gpu: the RNICs reach GPU memory by dma-buf\n", Gpu(dmabuf));
}

/* ---- settings */

TEST(DoctorSettings, EachHasItsValueAndWhereItComesFrom)
{
    Examination exam;
    dt_params params;
    exam.environment = {{"NCCL_IB_TC", "106"}, {"DETOUR_HCA", "mlx5"}};
    EXPECT_TRUE(dt_doctor_settings(&exam.options, &exam.report, &params));
    size_t count, seen = 0;
    dt_param_table(&count);
    for (size_t i = 0; i < count; i++) {
        const json_t *setting = exam.Fact("settings", i);
        std::string name = exam.Text(setting, "name"), source = exam.Text(setting, "source");
        if (name == "DETOUR_TC") {
            EXPECT_EQ("NCCL_IB_TC", source);
            EXPECT_EQ(106, exam.Number(setting, "value"));
        } else if (name == "DETOUR_HCA") {
            EXPECT_EQ("DETOUR_HCA", source);
            EXPECT_EQ("mlx5", exam.Text(setting, "value"));
        } else {
            EXPECT_EQ("default", source) << name;
        }
        seen += !name.empty();
    }
    EXPECT_EQ(count, seen);
    EXPECT_EQ("ok settings: all are in their ranges\n", exam.Findings());
}

TEST(DoctorSettings, AWrongOneIsAProblemAndTheRestIsStillLookedAt)
{
    for (const auto &wrong :
         {std::pair<const char *, const char *>{"DETOUR_PATHS", "9"}, {"DETOUR_VERBS", "hard"}}) {
        Examination exam;
        dt_params params;
        exam.environment = {{wrong.first, wrong.second}};
        EXPECT_FALSE(dt_doctor_settings(&exam.options, &exam.report, &params));
        EXPECT_TRUE(
            exam.Has("problem settings: " + std::string(wrong.first) + "=" + wrong.second + ": expected "))
            << exam.Findings();
        EXPECT_EQ(2u, params.paths);
        EXPECT_STREQ("auto", params.verbs);
    }
}

TEST(DoctorSettings, NamesThatMeanNothingAndCountsThatAreCutAreWarnedOf)
{
    Examination exam;
    dt_params params;
    char mistyped[] = "DETOUR_STAL_MS=5", right[] = "DETOUR_STALL_MS=5", other[] = "PATH=/bin",
         redis[] = "DETOUR_REDIS=redis://h", ca[] = "DETOUR_REDIS_CA=/ca.pem", hca[] = "NCCL_IB_HCAS=mlx5",
         far[] = "NCCL_SOCKET_COLOUR=1", ours[] = "NCCL_IB_TIMEOUT=18", debug[] = "NCCL_DEBUG=INFO",
         level[] = "NCCL_NET_GDR_LEVEL=PHB";
    char *const environment[] = {mistyped, right, other, redis, ca, hca, far, ours, debug, level, nullptr};
    exam.options.environment = environment;
    exam.environment = {{"NCCL_IB_QPS_PER_CONNECTION", "200"}};
    EXPECT_TRUE(dt_doctor_settings(&exam.options, &exam.report, &params));
    EXPECT_EQ("warning settings: [setting-max] NCCL_IB_QPS_PER_CONNECTION=200: the maximum of Detour is 128; "
              "using 128\n"
              "ok settings: all are in their ranges\n"
              "warning settings: DETOUR_STAL_MS is no setting of Detour: it has no effect\n"
              "warning settings: NCCL_IB_HCAS is no setting of NCCL 2.20 to 2.32: it has no effect\n"
              "warning settings: NCCL_SOCKET_COLOUR is no setting of NCCL 2.20 to 2.32: it has no effect\n",
              exam.Findings());
    const char *const advice[] = {"DETOUR_STALL_MS, if that is meant; or unset it",
                                  "NCCL_IB_HCA, if that is meant; or unset it",
                                  "correct or unset it; docs/environment.md lists the names"};
    for (size_t i = 0; i < std::size(advice); i++)
        EXPECT_EQ(advice[i], exam.Text(exam.Fact("findings", 2 + i), "advice"));
}

TEST(DoctorInterface, NoneIsAProblemAndLoopbackIsAWarning)
{
    Examination exam, other;
    exam.environment = {{"DETOUR_SOCKET_IFNAME", "=lo"}};
    dt_params params = exam.Params();
    dt_doctor_interface(&exam.options, &exam.report, &params);
    EXPECT_TRUE(exam.Has("warning set-up: the control channel listens on lo")) << exam.Findings();
    other.environment = {{"NCCL_SOCKET_IFNAME", "=nosuch"}};
    params = other.Params();
    dt_doctor_interface(&other.options, &other.report, &params);
    EXPECT_TRUE(other.Has("problem set-up: [no-interface] no network interface for set-up: "
                          "DETOUR_SOCKET_IFNAME or NCCL_SOCKET_IFNAME=\"=nosuch\""))
        << other.Findings();
}

TEST_F(DoctorOf, TheControlChannelIsBestOnACableOfItsOwn)
{
    fs::create_directories(root + "/sys/class/net/eth2/device/infiniband/mlx5_0");
    fs::create_directories(root + "/sys/class/net/eth3/device/infiniband/mlx5_1");
    Examination exam;
    exam.options.root = root.c_str();
    dt_report_add_fact(&exam.report, "devices", json_pack("{s:s, s:s}", "name", "mlx5_0", "use", "used"));
    dt_report_add_fact(&exam.report, "devices", json_pack("{s:s, s:s}", "name", "mlx5_1", "use", "no link"));
    dt_doctor_control(&exam.options, &exam.report, "eth0");
    dt_doctor_control(&exam.options, &exam.report, "eth3");
    EXPECT_EQ("", exam.Findings());
    dt_doctor_control(&exam.options, &exam.report, "eth2");
    EXPECT_TRUE(exam.Has("warning set-up: the control channel listens on eth2, a port of mlx5_0"))
        << exam.Findings();
}

/* ---- NCCL */

TEST(DoctorNccl, TheKnownProblemsOfEachVersion)
{
    const struct {
        int version;
        const char *finding;
    } rows[] = {
        {21803, "problem nccl: NCCL 2.18.3: it does not know ncclNet v8"},
        {21904, "problem nccl: NCCL 2.19.4: it does not know ncclNet v8"},
        {22003, "ok nccl: NCCL 2.20.3: NCCL_NET_PLUGIN=detour finds the plugin, a path does not"},
        {22105, "ok nccl: NCCL 2.21.5: loads ncclNet v8 plugins and reports their errors"},
        {22501, "ok nccl: NCCL 2.25.1: loads"},
        {22602, "warning nccl: NCCL 2.26.2: it discards errors of a plugin"},
        {22703, "warning nccl: NCCL 2.27.3: it does not take a path in NCCL_NET_PLUGIN"},
        {22703, "warning nccl: NCCL 2.27.3: it discards errors of a plugin"},
        {22707, "warning nccl: NCCL 2.27.7: it discards errors of a plugin"},
        {22803, "warning nccl: NCCL 2.28.3: it forgets the plugin's name"},
        {22907, "warning nccl: NCCL 2.29.7: it forgets the plugin's name"},
        {23003, "ok nccl: NCCL 2.30.3: loads"},
        {23007, "ok nccl: NCCL 2.30.7: loads"},
        {23203, "ok nccl: NCCL 2.32.3: it is newer than what Detour has been compared with"},
    };

    for (const auto &row : rows) {
        Examination exam;
        dt_doctor_nccl_version(&exam.report, row.version);
        EXPECT_TRUE(exam.Has(row.finding)) << row.version << "\n" << exam.Findings();
    }
    Examination exam;
    dt_doctor_nccl_version(&exam.report, 22705);
    EXPECT_FALSE(exam.Has("take a path")) << "2.27.5 takes it again";
}

TEST(DoctorNccl, TheLibraryIsAskedForItsVersion)
{
    Examination exam;
    exam.options.nccl_library = FAKE_NCCL;
    dt_doctor_nccl(&exam.options, &exam.report);
    EXPECT_TRUE(exam.Has("ok nccl: the library is " FAKE_NCCL)) << exam.Findings();
    EXPECT_TRUE(exam.Has("warning nccl: NCCL 2.27.5: it discards errors of a plugin"));
}

TEST(DoctorNccl, AFileThatIsNotNcclIsAProblem)
{
    for (const char *file : {"libm.so.6", "/nonexistent/libnccl.so.2"}) {
        Examination exam;
        exam.options.nccl_library = file;
        dt_doctor_nccl(&exam.options, &exam.report);
        EXPECT_TRUE(exam.Has("problem nccl: ")) << exam.Findings();
    }
}

TEST(DoctorNccl, WhetherNcclWillLookForDetour)
{
    const struct {
        std::map<std::string, std::string> environment;
        const char *finding;
    } rows[] = {
        {{}, "warning plugin: NCCL_NET_PLUGIN is not set: NCCL does not look for Detour"},
        {{{"NCCL_NET_PLUGIN", "ofi"}}, "warning plugin: NCCL_NET_PLUGIN=ofi: NCCL uses another plugin"},
        {{{"NCCL_NET_PLUGIN", "detour"}}, "ok plugin: NCCL_NET_PLUGIN=detour"},
        {{{"NCCL_NET_PLUGIN", "detour"}, {"NCCL_NET", "IB"}}, "warning plugin: NCCL_NET=IB"},
    };

    for (const auto &row : rows) {
        Examination exam;
        exam.environment = row.environment;
        dt_doctor_nccl(&exam.options, &exam.report);
        EXPECT_TRUE(exam.Has(row.finding)) << exam.Findings();
    }
    Examination exam;
    exam.environment = {{"NCCL_NET_PLUGIN", "detour"}, {"NCCL_NET", "detour"}};
    dt_doctor_nccl(&exam.options, &exam.report);
    EXPECT_FALSE(exam.Has("NCCL_NET=")) << "names are compared without case";
}
} // namespace
