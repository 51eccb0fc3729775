/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold for any bytes that the readers of delay/ are given. */
#ifndef DETOUR_TESTS_DELAY_TEXT_FUZZ_H
#define DETOUR_TESTS_DELAY_TEXT_FUZZ_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each returns NULL, or what is wrong. */
const char *dt_fuzz_rules(const char *text, size_t bytes);
const char *dt_fuzz_trace(const char *text, size_t bytes);
const char *dt_fuzz_record(const char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
