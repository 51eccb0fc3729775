/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a run ends early: one line for the user and the exit code. The first error stands; what follows from it
 * is not reported.
 */
#ifndef DETOUR_CLI_PERF_ERROR_H
#define DETOUR_CLI_PERF_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_perf_error {
    int exit_code; /* 0: none (cli/command.h) */
    uint64_t
        when_ns; /* dt_clock_now_ns(): of several ranks' errors on one machine the earliest is the cause */
    char text[496];
};

/* Records the error if it is the first. Always returns false, for `return dt_perf_fail(...)`. */
bool dt_perf_fail(struct dt_perf_error *error, int exit_code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif
