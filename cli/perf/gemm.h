/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The computing test of a GPU: a product of square matrices of floats (SGEMM) through cuBLAS. Driver and
 * library are loaded at run time, so that neither building nor running Detour needs CUDA; the functions are
 * those of their public interfaces. One thread, which may block for seconds: cuBLAS is large.
 */
#ifndef DETOUR_CLI_PERF_GEMM_H
#define DETOUR_CLI_PERF_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_GEMM_SIDE         4096 /* of each matrix: 137 GFLOP, some milliseconds; three of 64 MiB */
#define DT_GEMM_RUNS         7
#define DT_GEMM_REASON_BYTES 160

struct dt_gemm;

/*
 * Of GPU `rank` modulo their number, with one product made. `driver`: for dlopen, e.g. "libcuda.so.1";
 * `libraries`: such names, of which the first that is there is used; NULL ends them. DT_NOT_FOUND: a library,
 * a function or a GPU is missing; DT_SYSTEM: a call failed, as without enough memory; DT_NO_MEMORY. One line
 * in `reason`.
 */
enum dt_status dt_gemm_open(const char *driver, const char *const *libraries, unsigned rank,
                            struct dt_gemm **gemm, char reason[DT_GEMM_REASON_BYTES]);

/* The name of cuBLAS among `libraries`. */
const char *dt_gemm_library(const struct dt_gemm *gemm);

/* The median time of DT_GEMM_RUNS products, at least 1 ns. DT_SYSTEM, with one line in `reason`. */
enum dt_status dt_gemm_run(struct dt_gemm *gemm, int64_t *median_ns, char reason[DT_GEMM_REASON_BYTES]);

/* NULL is allowed. The libraries stay loaded. */
void dt_gemm_close(struct dt_gemm *gemm);

/* The rate of one product, in 10^12 floating-point operations per second. */
static inline double dt_gemm_tflops(int64_t product_ns)
{
    return 2.0 * DT_GEMM_SIDE * DT_GEMM_SIDE * DT_GEMM_SIDE / (double)product_ns / 1e3;
}

#ifdef __cplusplus
}
#endif

#endif
