/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold for any bytes that the reader of models is given; as in tests/sched/fuzz/format_fuzz.h. */
#ifndef DETOUR_TESTS_PLANNER_MODEL_FUZZ_H
#define DETOUR_TESTS_PLANNER_MODEL_FUZZ_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A refusal is one line that begins with the input's name; an accepted model is written and read back the
 * same, and its first partition has a profile or is refused. NULL when all is well, else what was wrong.
 */
const char *dt_fuzz_model(const char *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
