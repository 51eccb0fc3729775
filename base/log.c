/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdio.h>

#define LINE_BYTES_MAX 1024

static void stderr_sink(void *arg, enum dt_log_level level, const char *file, int line, const char *text)
{
    (void)arg;
    (void)file;
    (void)line;
    fprintf(stderr, "detour: %s%s\n", level == DT_LOG_WARN ? "warning: " : "", text);
}

static dt_log_sink_func *log_sink = stderr_sink;
static void *log_arg;
static enum dt_log_level log_level_max = DT_LOG_WARN;

void dt_log_set_sink(dt_log_sink_func *sink, void *arg, enum dt_log_level level_max)
{
    log_sink = sink ? sink : stderr_sink;
    log_arg = arg;
    log_level_max = level_max;
}

void dt_log_get_sink(dt_log_sink_func **sink, void **arg, enum dt_log_level *level_max)
{
    *sink = log_sink;
    *arg = log_arg;
    *level_max = log_level_max;
}

void dt_log_write(enum dt_log_level level, const char *file, int line, const char *format, ...)
{
    char text[LINE_BYTES_MAX];
    int errno_kept = errno;
    va_list args;

    if (level > log_level_max)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_sink(log_arg, level, file, line, text);
    errno = errno_kept;
}
