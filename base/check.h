/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions for broken invariants (our mistakes, never the user's or the peer's). They stay on in
 * release builds: a transport that goes on with a broken invariant delivers wrong bytes.
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

#ifdef __cplusplus
#define DT_STATIC_CHECK(expression, text) static_assert(expression, text)
#else
#define DT_STATIC_CHECK(expression, text) _Static_assert(expression, text)
#endif

#ifdef __cplusplus
}
#endif

#endif
