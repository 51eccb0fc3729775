/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold for any elements in a send queue that are copied to another one. Used by libFuzzer
 * (fuzz_main.c) and by the unit tests, which need no special compiler.
 */
#ifndef DETOUR_TESTS_REWIND_FUZZ_H
#define DETOUR_TESTS_REWIND_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The bytes say how large two send queues on plain memory are and where in them it begins, what is posted on
 * the first, which messages are wanted, and whether the first queue is damaged before. What was copied is
 * decoded and compared with what was posted; of a damaged queue nothing is expected but that only its own
 * memory is read, and that nothing is copied unless all of it is. NULL when all is well, else what was wrong.
 */
const char *dt_fuzz_rewind(const uint8_t *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
