/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a job ends early: one line for the user and the exit code. The first error is kept; errors that
 * follow from it are not reported.
 */
#ifndef DETOUR_JOB_ERROR_H
#define DETOUR_JOB_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_job_error {
    int exit_code; /* 0: none (base/exit.h) */
    uint64_t
        when_ns; /* dt_clock_now_ns(): of several ranks' errors on one machine the earliest is the cause */
    char text[496];
};

/* Records the error if it is the first. Always returns false, for `return dt_job_fail(...)`. */
bool dt_job_fail(struct dt_job_error *error, int exit_code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif
