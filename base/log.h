/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines. One sink per process: NCCL's logger inside the plugin, standard error in the command line
 * tool, a recorder in the tests (where an unexpected WARN fails the test).
 *
 * Each line names what failed, where, and what would be right. WARN: a decision taken here that costs the
 * user something. INFO: set-up and failover. TRACE: state transitions. The data path logs only when an error
 * is first decided. errno is preserved.
 */
#ifndef DETOUR_BASE_LOG_H
#define DETOUR_BASE_LOG_H

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dt_log_level { DT_LOG_WARN = 1, DT_LOG_INFO = 2, DT_LOG_TRACE = 3 };

/* Receives complete lines without a newline. May be called from any thread, also at the same time. */
typedef void dt_log_sink_func(void *arg, enum dt_log_level level, const char *file, int line,
                              const char *text);

/*
 * Sets the sink and the most verbose level that reaches it; NULL restores the default (standard error).
 * Call before other threads log. `arg` must stay valid until the sink is replaced.
 */
void dt_log_set_sink(dt_log_sink_func *sink, void *arg, enum dt_log_level level_max);

/* The current sink, for a caller that replaces it temporarily. */
void dt_log_get_sink(dt_log_sink_func **sink, void **arg, enum dt_log_level *level_max);

void dt_log_write(enum dt_log_level level, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * Each WARN and INFO line begins with a stable id, for operators' filters: it survives every change of the
 * wording.
 *
 *   dt_warn("no-device", "no usable RDMA device (%s)", reason);      [no-device] no usable RDMA device (...)
 *
 * An id is lower-case words joined by hyphens. It occurs once in the sources and has a row in
 * docs/troubleshooting.md (tests/tools/check_messages.py).
 */
#define dt_log(level, id, ...) dt_log_write(level, __FILE__, __LINE__, DT_LOG_ID(id) __VA_ARGS__)
#define dt_warn(id, ...)       dt_log(DT_LOG_WARN, id, __VA_ARGS__)
#define dt_info(id, ...)       dt_log(DT_LOG_INFO, id, __VA_ARGS__)
#define dt_trace(...)          dt_log_write(DT_LOG_TRACE, __FILE__, __LINE__, __VA_ARGS__)

/* The id at the start of a line whose text is composed before it is logged. */
#define DT_LOG_ID(id) "[" id "] "

#ifdef __cplusplus
}
#endif

#endif
