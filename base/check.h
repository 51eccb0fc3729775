/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions of invariants: they detect mistakes of Detour itself, never of a user, a peer or a device.
 *
 *   DT_CHECK          on in every build: a transport that continues with a broken invariant delivers wrong
 * bytes DT_CHECK_HOT      for the per-message path: on in debug and sanitizer builds and in
 * detour-sim-planted (DETOUR_HOT_CHECKS); elsewhere compiled, never evaluated DT_STATIC_CHECK   at compile
 * time
 *
 * An assertion names an invariant of a table, a list or a count. Null pointers are left to the processor.
 */
#ifndef DETOUR_BASE_CHECK_H
#define DETOUR_BASE_CHECK_H

#ifdef __cplusplus
extern "C" {
#endif

/* Prints one line to standard error and aborts. */
__attribute__((noreturn, cold)) void dt_check_failed(const char *expression, const char *file, int line);

#define DT_CHECK(expression)                                  \
    do {                                                      \
        if (__builtin_expect(!(expression), 0))               \
            dt_check_failed(#expression, __FILE__, __LINE__); \
    } while (0)

#ifdef DETOUR_HOT_CHECKS
#define DT_CHECK_HOT(expression) DT_CHECK(expression)
#else
#define DT_CHECK_HOT(expression) ((void)sizeof((expression) ? 1 : 0))
#endif

#ifdef __cplusplus
#define DT_STATIC_CHECK(expression, text) static_assert(expression, text)
#else
#define DT_STATIC_CHECK(expression, text) _Static_assert(expression, text)
#endif

#ifdef __cplusplus
}
#endif

#endif
