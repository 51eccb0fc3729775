/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold for any bytes that the schedule library is given: the readers of files here, the rest in
 * plan_fuzz.c. Used by libFuzzer (fuzz_main.c) and, the readers, by the mutation test, which needs no special
 * compiler.
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
 * The same for a schedule under profiles that fit the examples in golden/, native JSON or PyTorch's CSV. What
 * is accepted is also simulated, checked and written in every format.
 */
const char *dt_fuzz_json(const char *data, size_t bytes);
const char *dt_fuzz_csv(const char *data, size_t bytes);

/* The same for measured delays; what is accepted makes no link faster. */
const char *dt_fuzz_delays(const char *data, size_t bytes);

/*
 * The bytes are choices: a small profile, a schedule by one of the generators, damage to it, new delays, a
 * moment. All generators run on the profile; what they make is valid, no makespan is below any lower bound,
 * and whatever validate() accepts can be simulated, sent, adapted and replanned.
 */
const char *dt_fuzz_plan(const char *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
