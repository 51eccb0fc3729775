/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/gemm.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"

#define MATRIX_BYTES    ((size_t)DT_GEMM_SIDE * DT_GEMM_SIDE * sizeof(float))
#define OP_N            0 /* cublasOperation_t: as it is */
#define WITHOUT_LIBRARY "no cuBLAS: the loader finds neither %s nor another version"

/* X(field, exported name, parameters); all return 0 for success. */
#define DRIVER_FUNCTIONS(X)                                                     \
    X(init, "cuInit", (unsigned flags))                                         \
    X(device_get_count, "cuDeviceGetCount", (int *count))                       \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                    \
    X(context_retain, "cuDevicePrimaryCtxRetain", (void **context, int device)) \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))            \
    X(context_push, "cuCtxPushCurrent_v2", (void *context))                     \
    X(context_pop, "cuCtxPopCurrent_v2", (void **context))                      \
    X(synchronize, "cuCtxSynchronize", (void))                                  \
    X(alloc, "cuMemAlloc_v2", (uint64_t * address, size_t bytes))               \
    X(free_memory, "cuMemFree_v2", (uint64_t address))                          \
    X(set, "cuMemsetD32_v2", (uint64_t address, unsigned value, size_t count))

#define LIBRARY_FUNCTIONS(X)                                                                               \
    X(create, "cublasCreate_v2", (void **handle))                                                          \
    X(destroy, "cublasDestroy_v2", (void *handle))                                                         \
    X(sgemm, "cublasSgemm_v2",                                                                             \
      (void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha, const float *a, int lda, \
       const float *b, int ldb, const float *beta, float *c, int ldc))

struct table {
#define FIELD(field, name, parameters) int(*field) parameters;
    DRIVER_FUNCTIONS(FIELD)
    LIBRARY_FUNCTIONS(FIELD)
#undef FIELD
};

struct symbol {
    const char *name;
    size_t offset;
};

#define SYMBOL(field, name, parameters) {name, offsetof(struct table, field)},
static const struct symbol driver_symbols[] = {DRIVER_FUNCTIONS(SYMBOL)};
static const struct symbol library_symbols[] = {LIBRARY_FUNCTIONS(SYMBOL)};
#undef SYMBOL

struct dt_gemm {
    struct table table;
    const char *library;
    int device;
    bool has_context;     /* of this thread */
    void *handle;         /* NULL: none */
    uint64_t matrices[3]; /* in the GPU's address space; 0: none */
};

static enum dt_status find_symbols(void *library, const char *name, const struct symbol *symbols,
                                   size_t count, struct table *table, char reason[DT_GEMM_REASON_BYTES])
{
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(library, symbols[i].name);

        if (!function) {
            snprintf(reason, DT_GEMM_REASON_BYTES, "%.80s has no function %s", name, symbols[i].name);
            return DT_NOT_FOUND;
        }
        memcpy((char *)table + symbols[i].offset, &function, sizeof function);
    }
    return DT_OK;
}

static enum dt_status load(struct dt_gemm *gemm, const char *driver, const char *const *libraries,
                           char reason[DT_GEMM_REASON_BYTES])
{
    void *library = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
    const char *const *name = libraries;
    enum dt_status status;

    if (!library) {
        snprintf(reason, DT_GEMM_REASON_BYTES, "no CUDA driver: %.120s", dlerror());
        return DT_NOT_FOUND;
    }
    status = find_symbols(library, driver, driver_symbols, DT_COUNT_OF(driver_symbols), &gemm->table, reason);
    if (status != DT_OK)
        return status;
    while (*name && !(library = dlopen(*name, RTLD_NOW | RTLD_LOCAL)))
        name++;
    if (!*name) {
        snprintf(reason, DT_GEMM_REASON_BYTES, WITHOUT_LIBRARY, libraries[0]);
        return DT_NOT_FOUND;
    }
    gemm->library = *name;
    return find_symbols(library, *name, library_symbols, DT_COUNT_OF(library_symbols), &gemm->table, reason);
}

static enum dt_status check(const char *function, int result, char reason[DT_GEMM_REASON_BYTES])
{
    if (result == 0)
        return DT_OK;
    snprintf(reason, DT_GEMM_REASON_BYTES, "%s fails with error %d", function, result);
    return DT_SYSTEM;
}

static enum dt_status open_gpu(struct dt_gemm *gemm, unsigned rank, char reason[DT_GEMM_REASON_BYTES])
{
    const struct table *table = &gemm->table;
    enum dt_status status = check("cuInit", table->init(0), reason);
    int count = 0, device;
    void *context;

    if (status == DT_OK)
        status = check("cuDeviceGetCount", table->device_get_count(&count), reason);
    if (status != DT_OK || count <= 0) {
        if (status == DT_OK)
            snprintf(reason, DT_GEMM_REASON_BYTES, "no GPU");
        return DT_NOT_FOUND;
    }
    status = check("cuDeviceGet", table->device_get(&device, (int)(rank % (unsigned)count)), reason);
    if (status == DT_OK)
        status = check("cuDevicePrimaryCtxRetain", table->context_retain(&context, device), reason);
    if (status != DT_OK)
        return status;
    status = check("cuCtxPushCurrent", table->context_push(context), reason);
    gemm->device = device;
    gemm->has_context = status == DT_OK;
    if (status != DT_OK)
        table->context_release(device);
    return status;
}

/* Ones, so that no value is special. */
static enum dt_status make_matrices(struct dt_gemm *gemm, char reason[DT_GEMM_REASON_BYTES])
{
    const float one = 1;
    enum dt_status status = DT_OK;
    unsigned bits;

    memcpy(&bits, &one, sizeof bits);
    for (size_t i = 0; i < DT_COUNT_OF(gemm->matrices) && status == DT_OK; i++) {
        status = check("cuMemAlloc", gemm->table.alloc(&gemm->matrices[i], MATRIX_BYTES), reason);
        if (status != DT_OK)
            gemm->matrices[i] = 0;
        else
            status = check("cuMemsetD32",
                           gemm->table.set(gemm->matrices[i], bits, MATRIX_BYTES / sizeof(float)), reason);
    }
    return status;
}

static enum dt_status multiply(struct dt_gemm *gemm, int64_t *product_ns, char reason[DT_GEMM_REASON_BYTES])
{
    const float alpha = 1, beta = 0;
    const float *a = (const float *)(uintptr_t)gemm->matrices[0];
    const float *b = (const float *)(uintptr_t)gemm->matrices[1];
    uint64_t start_ns = dt_clock_now_ns();
    int result = gemm->table.sgemm(gemm->handle, OP_N, OP_N, DT_GEMM_SIDE, DT_GEMM_SIDE, DT_GEMM_SIDE, &alpha,
                                   a, DT_GEMM_SIDE, b, DT_GEMM_SIDE, &beta,
                                   (float *)(uintptr_t)gemm->matrices[2], DT_GEMM_SIDE);
    enum dt_status status = check("cublasSgemm", result, reason);

    if (status == DT_OK)
        status = check("cuCtxSynchronize", gemm->table.synchronize(), reason);
    *product_ns = (int64_t)dt_max_u64(dt_clock_now_ns() - start_ns, 1);
    return status;
}

enum dt_status dt_gemm_open(const char *driver, const char *const *libraries, unsigned rank,
                            struct dt_gemm **opened, char reason[DT_GEMM_REASON_BYTES])
{
    struct dt_gemm *gemm = calloc(1, sizeof *gemm);
    enum dt_status status;
    int64_t first_ns;

    if (!gemm) {
        snprintf(reason, DT_GEMM_REASON_BYTES, "out of memory");
        return DT_NO_MEMORY;
    }
    status = load(gemm, driver, libraries, reason);
    if (status == DT_OK)
        status = open_gpu(gemm, rank, reason);
    if (status == DT_OK)
        status = check("cublasCreate", gemm->table.create(&gemm->handle), reason);
    if (status == DT_OK)
        status = make_matrices(gemm, reason);
    if (status == DT_OK)
        status = multiply(gemm, &first_ns, reason); /* loads the kernel */
    if (status == DT_OK)
        *opened = gemm;
    else
        dt_gemm_close(gemm);
    return status;
}

const char *dt_gemm_library(const struct dt_gemm *gemm)
{
    return gemm->library;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

enum dt_status dt_gemm_run(struct dt_gemm *gemm, int64_t *median_ns, char reason[DT_GEMM_REASON_BYTES])
{
    int64_t times_ns[DT_GEMM_RUNS];
    enum dt_status status = DT_OK;

    for (size_t i = 0; i < DT_GEMM_RUNS && status == DT_OK; i++)
        status = multiply(gemm, &times_ns[i], reason);
    if (status != DT_OK)
        return status;
    qsort(times_ns, DT_GEMM_RUNS, sizeof *times_ns, compare_ns);
    *median_ns = times_ns[DT_GEMM_RUNS / 2];
    return DT_OK;
}

void dt_gemm_close(struct dt_gemm *gemm)
{
    void *context;

    if (!gemm)
        return;
    if (gemm->handle)
        gemm->table.destroy(gemm->handle);
    for (size_t i = 0; i < DT_COUNT_OF(gemm->matrices); i++) {
        if (gemm->matrices[i])
            gemm->table.free_memory(gemm->matrices[i]);
    }
    if (gemm->has_context) {
        gemm->table.context_pop(&context);
        gemm->table.context_release(gemm->device);
    }
    free(gemm);
}
