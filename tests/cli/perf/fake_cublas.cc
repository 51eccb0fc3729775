// SPDX-License-Identifier: Apache-2.0
/*
 * A double of cuBLAS, and of the functions of the CUDA driver that a product needs, without a GPU: it
 * computes nothing and counts what has to be given back. A test directs it by fake_cublas_*(), found by
 * dlsym.
 */
#include <cstddef>
#include <cstdint>
#include <cstring>

#define API __attribute__((visibility("default")))

extern "C" {
static const char *failing = "";
static int gpus = 2, contexts, memories, handles, products, ordinal = -1, current;

/* The function of this name fails with error 7; "": none. */
API void fake_cublas_fail(const char *name)
{
    failing = name;
}
API void fake_cublas_set_gpus(int count)
{
    gpus = count;
}
/* What exists: contexts, memories, handles. */
API int fake_cublas_objects(void)
{
    return contexts + memories + handles + current;
}
API int fake_cublas_products(void)
{
    return products;
}
API int fake_cublas_ordinal(void)
{
    return ordinal;
}

static int answer(const char *name)
{
    return strcmp(name, failing) ? 0 : 7;
}

#define RETURN(effect)                 \
    do {                               \
        int result = answer(__func__); \
        if (!result)                   \
            effect;                    \
        return result;                 \
    } while (0)

API int cuInit(unsigned flags)
{
    return flags ? 1 : answer(__func__);
}
API int cuDeviceGetCount(int *count)
{
    RETURN(*count = gpus);
}
API int cuDeviceGet(int *device, int number)
{
    ordinal = number;
    RETURN(*device = 100 + number); /* a handle, not an index */
}
API int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = &contexts;
    RETURN(contexts += device >= 100);
}
API int cuDevicePrimaryCtxRelease_v2(int device)
{
    RETURN(contexts -= device >= 100);
}
API int cuCtxPushCurrent_v2(void *context)
{
    RETURN(current += context == &contexts);
}
API int cuCtxPopCurrent_v2(void **context)
{
    *context = &contexts;
    RETURN(current--);
}
API int cuCtxSynchronize(void)
{
    return current ? answer(__func__) : 201;
}
API int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    if (!current)
        return 201;
    RETURN((memories++, *address = 4096 + bytes));
}
API int cuMemFree_v2(uint64_t address)
{
    RETURN(memories -= address != 0);
}
API int cuMemsetD32_v2(uint64_t address, unsigned value, size_t count)
{
    return address == 4096 + 4 * count && value ? answer(__func__) : 1;
}
API int cublasCreate_v2(void **handle)
{
    if (!current)
        return 1;
    RETURN((handles++, *handle = &handles));
}
API int cublasDestroy_v2(void *handle)
{
    RETURN(handles -= handle == &handles);
}
API int cublasSgemm_v2(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha,
                       const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    if (handle != &handles || op_a || op_b || m != n || n != k || lda < m || ldb < k || ldc < m || !a || !b ||
        !c || *alpha != 1 || *beta != 0)
        return 7;
    RETURN(products++);
}
}
