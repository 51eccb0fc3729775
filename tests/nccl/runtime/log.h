/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of the host runtime on stderr, for the person who debugs a test. Level 0 is always printed (a call
 * that is not implemented, an unknown kernel); DETOUR_NCCL_HOST_LOG=1 adds allocations, launches and
 * attributes.
 */
#ifndef DETOUR_TESTS_NCCL_RUNTIME_LOG_H
#define DETOUR_TESTS_NCCL_RUNTIME_LOG_H

void nh_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the line and ends the process: the test cannot give a meaningful answer. */
void nh_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
