// SPDX-License-Identifier: Apache-2.0
/* The computing test of a GPU, with a double of driver and cuBLAS. */
#include "cli/perf/gemm.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace
{
class Gemm : public ::testing::Test
{
  protected:
    Gemm() : library(dlopen(FAKE_CUBLAS, RTLD_NOW))
    {
        Call<void(const char *)>("fake_cublas_fail")("");
        Call<void(int)>("fake_cublas_set_gpus")(2);
    }
    ~Gemm() override
    {
        dt_gemm_close(gemm);
        EXPECT_EQ(Call<int()>("fake_cublas_objects")(), 0);
    }
    template <typename Function>
    Function *Call(const char *name)
    {
        return reinterpret_cast<Function *>(dlsym(library, name));
    }
    dt_status Open(unsigned rank = 3)
    {
        return dt_gemm_open(FAKE_CUBLAS, libraries, rank, &gemm, reason);
    }

    void *library;
    const char *libraries[3] = {"libno-cublas.so.99", FAKE_CUBLAS, nullptr};
    dt_gemm *gemm = nullptr;
    char reason[DT_GEMM_REASON_BYTES] = "";
};

TEST_F(Gemm, TheMedianOfSomeProductsIsTaken)
{
    int64_t median_ns = 0;
    int before = Call<int()>("fake_cublas_products")();

    ASSERT_EQ(Open(), DT_OK) << reason;
    EXPECT_STREQ(dt_gemm_library(gemm), FAKE_CUBLAS);
    EXPECT_EQ(Call<int()>("fake_cublas_ordinal")(), 1) << "rank 3 with two GPUs";
    EXPECT_EQ(dt_gemm_run(gemm, &median_ns, reason), DT_OK) << reason;
    EXPECT_GT(median_ns, 0);
    EXPECT_EQ(Call<int()>("fake_cublas_products")() - before, 1 + DT_GEMM_RUNS);
    EXPECT_NEAR(dt_gemm_tflops(2748779), 50, 0.01);
}

TEST_F(Gemm, WhatIsMissingIsNamed)
{
    EXPECT_EQ(dt_gemm_open("libno-cuda.so.1", libraries, 0, &gemm, reason), DT_NOT_FOUND);
    EXPECT_NE(std::string(reason).find("no CUDA driver: libno-cuda.so.1: "), std::string::npos) << reason;
    libraries[1] = nullptr;
    EXPECT_EQ(Open(), DT_NOT_FOUND);
    EXPECT_STREQ(reason, "no cuBLAS: the loader finds neither libno-cublas.so.99 nor another version");
    libraries[0] = "libc.so.6";
    EXPECT_EQ(Open(), DT_NOT_FOUND);
    EXPECT_STREQ(reason, "libc.so.6 has no function cublasCreate_v2");
    EXPECT_EQ(dt_gemm_open("libc.so.6", libraries, 0, &gemm, reason), DT_NOT_FOUND);
    EXPECT_STREQ(reason, "libc.so.6 has no function cuInit");
    libraries[0] = FAKE_CUBLAS;
    Call<void(int)>("fake_cublas_set_gpus")(0);
    EXPECT_EQ(Open(), DT_NOT_FOUND);
    EXPECT_STREQ(reason, "no GPU");
}

TEST_F(Gemm, AFailedCallGivesEverythingBack)
{
    for (const char *name :
         {"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2",
          "cublasCreate_v2", "cuMemAlloc_v2", "cuMemsetD32_v2", "cublasSgemm_v2", "cuCtxSynchronize"}) {
        Call<void(const char *)>("fake_cublas_fail")(name);
        EXPECT_NE(Open(), DT_OK) << name;
        EXPECT_NE(std::string(reason).find(" fails with error 7"), std::string::npos) << reason;
        EXPECT_EQ(Call<int()>("fake_cublas_objects")(), 0) << name;
    }
    int64_t median_ns;
    Call<void(const char *)>("fake_cublas_fail")("");
    ASSERT_EQ(Open(), DT_OK) << reason;
    Call<void(const char *)>("fake_cublas_fail")("cublasSgemm_v2");
    EXPECT_EQ(dt_gemm_run(gemm, &median_ns, reason), DT_SYSTEM);
    EXPECT_STREQ(reason, "cublasSgemm fails with error 7");
    Call<void(const char *)>("fake_cublas_fail")("");
}
} // namespace
