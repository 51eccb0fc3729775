/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>
#include <stdio.h>

int dt_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
    char kept[DT_THREAD_NAME_MAX + 1];
    sigset_t all, old;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error)
        return error;
    snprintf(kept, sizeof kept, "%s", name);
    pthread_setname_np(*thread, kept);
    return 0;
}
