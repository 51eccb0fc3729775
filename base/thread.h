/* SPDX-License-Identifier: Apache-2.0 */
/* Starts Detour's threads inside an application. */
#ifndef DETOUR_BASE_THREAD_H
#define DETOUR_BASE_THREAD_H

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Characters of a thread's name that the kernel keeps. */
#define DT_THREAD_NAME_MAX 15

/*
 * Starts run(arg) under a name that top(1) and debuggers show, cut to DT_THREAD_NAME_MAX characters. The
 * thread blocks all signals, since they belong to the application's threads. Returns 0 or an errno, which the
 * caller logs.
 */
int dt_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
