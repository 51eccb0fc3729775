/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold for any bytes that the readers of the schedule library are given. Used by libFuzzer
 * (fuzz_main.c) and by the mutation test, which needs no special compiler.
 *
 * Each function returns NULL when all is well, else what was wrong.
 */
#ifndef DETOUR_TESTS_FORMAT_FUZZ_H
#define DETOUR_TESTS_FORMAT_FUZZ_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A refusal is one line that begins with the input's name; what is accepted is written and read back the
 * same. */
const char *dt_fuzz_profile(const char *data, size_t bytes);

/*
 * The same for a schedule, JSON or CSV, under profiles that fit the examples in golden/. What is accepted is
 * also simulated, checked and written in every format.
 */
const char *dt_fuzz_schedule(const char *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
