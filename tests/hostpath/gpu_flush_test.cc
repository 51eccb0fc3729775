// SPDX-License-Identifier: Apache-2.0
// CUDA's flush, on the double of the driver.
#include "hostpath/gpu_flush.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/hostpath/fake_cuda.h"

namespace
{
class GpuFlush : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        fake_cuda_reset();
        memory = fake_cuda_alloc(1, 4096);
        dt_gpu_flusher_open(&flusher, FAKE_CUDA_LIBRARY);
    }

    void TearDown() override
    {
        dt_gpu_flusher_close(&flusher);
        EXPECT_EQ(0u, fake_cuda_objects()) << "the context is given back";
        EXPECT_EQ(0u, fake_cuda_count_faults().unsafe_calls);
        fake_cuda_reset();
    }

    enum dt_status Flush(const void *address)
    {
        return dt_gpu_flush(&flusher, address, reason, sizeof reason);
    }

    dt_gpu_flusher flusher = {};
    void *memory = nullptr;
    char reason[200] = "";
};

TEST_F(GpuFlush, CudaIsLoadedByTheFirstFlushAndKept)
{
    EXPECT_EQ(0u, fake_cuda_calls("cuInit"));
    EXPECT_EQ(DT_OK, Flush(memory)) << reason;
    EXPECT_EQ(DT_OK, Flush(static_cast<char *>(memory) + 4095)) << reason;
    EXPECT_EQ(1u, fake_cuda_calls("cuInit"));
    EXPECT_EQ(2u, fake_cuda_calls("cuFlushGPUDirectRDMAWrites"));
}

TEST_F(GpuFlush, WhereTheGpuKeepsTheOrderNothingIsCalled)
{
    fake_cuda_set_rdma(DT_CUDA_RDMA_FLUSH_BY_HOST, DT_CUDA_RDMA_ORDERED_FOR_OWNER);
    EXPECT_EQ(DT_OK, Flush(memory)) << reason;
    EXPECT_EQ(0u, fake_cuda_calls("cuFlushGPUDirectRDMAWrites"));
}

TEST_F(GpuFlush, EachReasonIsOneLine)
{
    int host = 0;
    EXPECT_EQ(DT_INVALID, Flush(&host));
    EXPECT_NE(std::string::npos, std::string(reason).find("CUDA does not know the memory at 0x")) << reason;
    fake_cuda_set_rdma(0, 0);
    EXPECT_EQ(DT_UNSUPPORTED, Flush(memory));
    EXPECT_STREQ("GPU 1 does not offer cuFlushGPUDirectRDMAWrites", reason);
    fake_cuda_set_rdma(DT_CUDA_RDMA_FLUSH_BY_HOST, 0);
    fake_cuda_fail("cuFlushGPUDirectRDMAWrites", 0, DT_CUDA_OUT_OF_MEMORY);
    EXPECT_EQ(DT_SYSTEM, Flush(memory));
    EXPECT_EQ(0u, std::string(reason).find("cuFlushGPUDirectRDMAWrites of GPU 1: ")) << reason;
    fake_cuda_mend();
    EXPECT_EQ(DT_OK, Flush(memory)) << reason;
}

TEST_F(GpuFlush, WithoutALibraryThereIsNoCudaEachTime)
{
    dt_gpu_flusher none;
    dt_gpu_flusher_open(&none, "");
    EXPECT_EQ(DT_NOT_FOUND, dt_gpu_flush(&none, memory, reason, sizeof reason));
    EXPECT_STREQ("DETOUR_CUDA_LIB names no CUDA driver", reason);
    dt_gpu_flusher_close(&none);
    dt_gpu_flusher_open(&none, "libcuda-that-is-not-there.so.1");
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(DT_NOT_FOUND, dt_gpu_flush(&none, memory, reason, sizeof reason));
        EXPECT_NE(std::string::npos, std::string(reason).find("libcuda-that-is-not-there.so.1")) << reason;
    }
    dt_gpu_flusher_close(&none);
    dt_gpu_flusher_close(&none);
}
} // namespace
