/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold for any bytes that the reader of models and the search are given; as in
 * tests/sched/fuzz/format_fuzz.h. */
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

/*
 * The bytes are choices: a small model, with or without memory limits, links, slow devices, fixed parts, and
 * the parts that the search may change (optimize_fuzz.c). Every result is a valid pipeline that fits, is not
 * below the bound and not worse than a baseline.
 */
const char *dt_fuzz_optimize(const char *data, size_t bytes);

/*
 * A job, then, behind an empty line, an event; an event alone is one of a job of four nodes
 * (mitigate_fuzz.c). A refusal is as above; for what is accepted there is a plan, in which no step is worse
 * than none, no microbatch is lost and no assignment is below the bound.
 */
const char *dt_fuzz_mitigate(const char *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
