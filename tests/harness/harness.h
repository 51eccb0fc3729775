/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common to every test program: a main() that fails a test when Detour logs a WARN the test did not
 * announce, and allocations that fail on demand.
 */
#ifndef DETOUR_TESTS_HARNESS_H
#define DETOUR_TESTS_HARNESS_H

#ifdef __cplusplus
#include <string>
#include <vector>

namespace detour_test
{
/*
 * Announces a warning: the running test must log at least one WARN that contains `part`, and such lines do
 * not fail it. Any thread may log it.
 */
void ExpectWarning(const std::string &part);

/* As ExpectWarning(), for a warning that another thread's progress decides about: it may be absent. */
void AllowWarning(const std::string &part);

/* All lines logged so far in the running test, at any level, oldest first. */
std::vector<std::string> LoggedLines();

/* How many of them were warnings. */
size_t WarningCount();
} // namespace detour_test

extern "C" {
#endif

/*
 * Lets allocation number `index` (0 is the next one) of the code under test return NULL, once, on the
 * calling thread; a negative index disarms. Disarmed between tests.
 */
void detour_test_fail_alloc(int index);

/* True if the armed failure has been delivered since it was armed. */
int detour_test_alloc_failed(void);

#ifdef __cplusplus
}
#endif

#endif
