/* SPDX-License-Identifier: Apache-2.0 */
/* The checks on a plugin's calls, with a table of this test's own; process.perf has whole faulty plugins. */
#include "job/plugin.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/exit.h"

namespace
{
/* What the plugin does in the next call. */
struct Behavior {
    ncclResult_t result = ncclSuccess;
    bool writes = true;
    int device_count = 2;
    ncclNetProperties_v8_t properties[2] = {};
};
Behavior behavior;

ncclResult_t Init(ncclDebugLogger_t)
{
    return behavior.result;
}

ncclResult_t Devices(int *count)
{
    if (behavior.writes)
        *count = behavior.device_count;
    return behavior.result;
}

ncclResult_t GetProperties(int dev, ncclNetProperties_v8_t *properties)
{
    if (behavior.writes)
        *properties = behavior.properties[dev % 2];
    return ncclSuccess;
}

int request_value;

ncclResult_t Isend(void *, void *, int, int, void *, void **request)
{
    if (behavior.writes)
        *request = &request_value;
    return behavior.result;
}

ncclResult_t Irecv(void *, int, void **, int *, int *, void **, void **request)
{
    return Isend(nullptr, nullptr, 0, 0, nullptr, request);
}

ncclResult_t Iflush(void *, int, void **, int *, void **, void **request)
{
    return Isend(nullptr, nullptr, 0, 0, nullptr, request);
}

ncclResult_t TestRequest(void *, int *done, int *sizes)
{
    if (behavior.writes)
        *done = 1;
    if (behavior.writes && sizes)
        sizes[0] = 77;
    return behavior.result;
}

class JobPlugin : public testing::Test
{
  protected:
    JobPlugin()
    {
        static char names[2][8] = {"one", "two"};
        behavior = {};
        for (int dev = 0; dev < 2; dev++) {
            ncclNetProperties_v8_t &properties = behavior.properties[dev];
            properties.name = names[dev];
            properties.guid = dev;
            properties.ptrSupport = NCCL_PTR_HOST;
            properties.speed = 1000;
            properties.port = 1;
            properties.maxComms = 8;
            properties.maxRecvs = 1;
            properties.netDeviceType = NCCL_NET_DEVICE_HOST;
        }
        table_.name = "Table";
        table_.init = Init;
        table_.devices = Devices;
        table_.getProperties = GetProperties;
        table_.isend = Isend;
        table_.irecv = Irecv;
        table_.iflush = Iflush;
        table_.test = TestRequest;
        plugin_.net = &table_;
        plugin_.rank = 4;
    }

    void ExpectInitFails(const char *text)
    {
        error_ = {};
        EXPECT_FALSE(dt_job_plugin_init(&plugin_, &error_));
        EXPECT_EQ(std::string(error_.text).find(text) == std::string::npos, false) << error_.text;
    }

    ncclNet_v8_t table_ = {};
    struct dt_job_plugin plugin_ = {};
    struct dt_job_error error_ = {};
};

TEST_F(JobPlugin, DevicesAreTaken)
{
    ASSERT_TRUE(dt_job_plugin_init(&plugin_, &error_)) << error_.text;
    EXPECT_EQ(plugin_.device_count, 2);
    EXPECT_STREQ(plugin_.devices[1].name, "two");
}

TEST_F(JobPlugin, MoreDevicesThanTheTableHoldsAreLeftOut)
{
    behavior.device_count = DT_JOB_DEVICES_MAX + 1;
    ExpectInitFails("devices 0 and 2 of plugin Table are both called one"); // all of the table's were read
    EXPECT_EQ(plugin_.device_count, DT_JOB_DEVICES_MAX);
}

TEST_F(JobPlugin, AnInitThatFailsIsNamed)
{
    behavior.result = ncclSystemError;
    ExpectInitFails("rank 4: init of plugin Table failed: system error");
}

TEST_F(JobPlugin, AnUnwrittenDeviceCountIsNoDevice)
{
    behavior.writes = false;
    ExpectInitFails("rank 4: plugin Table has no device here");
}

TEST_F(JobPlugin, EveryPropertyThatNcclReliesOnIsChecked)
{
    ncclNetProperties_v8_t good = behavior.properties[1], &bad = behavior.properties[1];
    bad.netDeviceType = static_cast<ncclNetDeviceType>(7);
    ExpectInitFails("rank 4: device 1 of plugin Table has netDeviceType 7");
    bad = good;
    bad.ptrSupport = NCCL_PTR_CUDA;
    ExpectInitFails("ptrSupport 0x2");
    bad = good;
    bad.maxComms = 0;
    ExpectInitFails("maxComms 0");
    bad = good;
    bad.maxRecvs = 0;
    ExpectInitFails("maxRecvs 0");
    bad = good;
    bad.speed = -1;
    ExpectInitFails("speed -1");
    bad = good;
    bad.guid = 0;
    ExpectInitFails("devices one and two of plugin Table have the same guid and port");
}

TEST_F(JobPlugin, AResultIsNamedByItsCall)
{
    void *request;
    bool done;
    behavior.result = ncclRemoteError;
    EXPECT_FALSE(dt_job_isend(&plugin_, nullptr, nullptr, 1, nullptr, &request, &error_));
    EXPECT_STREQ(error_.text, "rank 4: isend of plugin Table failed: remote error");
    error_ = {};
    EXPECT_FALSE(dt_job_irecv(&plugin_, nullptr, nullptr, 1, 0, nullptr, &request, &error_));
    EXPECT_STREQ(error_.text, "rank 4: irecv of plugin Table failed: remote error");
    error_ = {};
    EXPECT_FALSE(dt_job_iflush(&plugin_, nullptr, nullptr, 1, nullptr, &request, &error_));
    EXPECT_STREQ(error_.text, "rank 4: iflush of plugin Table failed: remote error");
    error_ = {};
    EXPECT_FALSE(dt_job_test(&plugin_, nullptr, &done, nullptr, &error_));
    EXPECT_STREQ(error_.text, "rank 4: test of plugin Table failed: remote error");
}

TEST_F(JobPlugin, AnOutputThatIsLeftUnwrittenIsAnError)
{
    void *request;
    bool done;
    size_t bytes;
    behavior.writes = false;
    EXPECT_FALSE(dt_job_isend(&plugin_, nullptr, nullptr, 1, nullptr, &request, &error_));
    EXPECT_STREQ(error_.text, "rank 4: isend of plugin Table succeeded without writing *request");
    error_ = {};
    EXPECT_FALSE(dt_job_irecv(&plugin_, nullptr, nullptr, 1, 0, nullptr, &request, &error_));
    error_ = {};
    EXPECT_FALSE(dt_job_test(&plugin_, nullptr, &done, &bytes, &error_));
    EXPECT_STREQ(error_.text, "rank 4: test of plugin Table succeeded without writing *done");
    error_ = {};
    EXPECT_TRUE(
        dt_job_iflush(&plugin_, nullptr, nullptr, 1, nullptr, &request, &error_)); // nothing to wait for
    EXPECT_EQ(request, nullptr);
}

TEST_F(JobPlugin, ATestReturnsTheSize)
{
    bool done = false;
    size_t bytes = 0;
    EXPECT_TRUE(dt_job_test(&plugin_, nullptr, &done, &bytes, &error_));
    EXPECT_TRUE(done);
    EXPECT_EQ(bytes, 77u);
}

TEST_F(JobPlugin, AFileThatIsNoPluginIsBadInput)
{
    EXPECT_FALSE(dt_job_plugin_load(&plugin_, "libm.so.6", 0, nullptr, &error_));
    EXPECT_EQ(error_.exit_code, DT_EXIT_USAGE);
    EXPECT_STREQ(error_.text, "libm.so.6 is no ncclNet v8 plugin: it has no symbol ncclNetPlugin_v8");
    EXPECT_STREQ(dt_job_result_text(static_cast<ncclResult_t>(99)), "unknown error");
}

/* The level is NCCL_DEBUG's word; by default warnings only. */
TEST_F(JobPlugin, DetoursPluginIsLoadedAndLogsAsAsked)
{
    for (const char *level : {static_cast<const char *>(nullptr), "INFO"}) {
        EXPECT_EXIT(
            {
                struct dt_job_plugin plugin;
                bool ok = dt_job_plugin_load(&plugin, DETOUR_PLUGIN, 3, level, &error_) &&
                          dt_job_plugin_init(&plugin, &error_);
                fprintf(stderr, "%s\n", ok ? "loaded" : error_.text);
                exit(ok ? 0 : 1);
            },
            testing::ExitedWithCode(0), level ? "# rank 3 INFO: (.|\n)*loaded" : "^loaded");
    }
}
} // namespace
