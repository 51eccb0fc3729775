/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdio.h>

#include "base/atomics.h"

#define LINE_BYTES_MAX 1024

static void stderr_sink(void *arg, enum dt_log_level level, const char *file, int line, const char *text)
{
    (void)arg;
    (void)file;
    (void)line;
    fprintf(stderr, "detour: %s%s\n", level == DT_LOG_WARN ? "warning: " : "", text);
}

static dt_log_sink_func *log_sink = stderr_sink;      /* atomic: after its argument */
static void *log_arg;                                 /* atomic */
static enum dt_log_level log_level_max = DT_LOG_WARN; /* atomic */

void dt_log_set_sink(dt_log_sink_func *sink, void *arg, enum dt_log_level level_max)
{
    dt_store_relaxed(&log_arg, arg);
    dt_store_release(&log_sink, sink ? sink : stderr_sink);
    dt_store_relaxed(&log_level_max, level_max);
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
    dt_log_sink_func *sink = dt_load_acquire(&log_sink);
    va_list args;

    if (level > dt_load_relaxed(&log_level_max))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sink(dt_load_relaxed(&log_arg), level, file, line, text);
    errno = errno_kept;
}
