/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/runtime/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int level_max;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_level(void)
{
    const char *text = getenv("DETOUR_NCCL_HOST_LOG");

    level_max = text ? atoi(text) : 0;
}

static void print(const char *format, va_list list)
{
    char line[512];

    vsnprintf(line, sizeof line, format, list);
    fprintf(stderr, "nccl-host %d: %s\n", (int)getpid(), line);
}

void nh_log(int level, const char *format, ...)
{
    va_list list;

    pthread_once(&once, read_level);
    if (level > level_max)
        return;
    va_start(list, format);
    print(format, list);
    va_end(list);
}

void nh_die(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    print(format, list);
    va_end(list);
    abort();
}
