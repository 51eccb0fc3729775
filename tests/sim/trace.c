/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/trace.h"

#include <stdio.h>
#include <string.h>

#include "tests/sim/driver_sim.h"

static struct {
    enum dt_trace_level level;
    uint64_t origin_ns;
    uint32_t warnings;
    uint32_t switches;
    uint32_t stops_unanswered;
} trace;

static void print_time(void)
{
    struct dt_sim *network = dt_driver_sim_network();

    if (network)
        printf("%13.6f ms  ", ((double)dt_sim_now_ns(network) - (double)trace.origin_ns) / 1e6);
}

static void take_log(void *arg, enum dt_log_level level, const char *file, int line, const char *text)
{
    (void)arg;
    (void)file;
    (void)line;
    trace.warnings += level == DT_LOG_WARN;
    trace.switches += strstr(text, " is fenced: ") || strstr(text, " is settled: ");
    trace.stops_unanswered += strstr(text, "[stop-unanswered]") != NULL;
    if (trace.level < DT_TRACE_EVENTS)
        return;
    print_time();
    printf("  | %s%s\n", level == DT_LOG_WARN ? "WARN " : "", text);
}

void dt_trace_start(enum dt_trace_level level)
{
    trace.level = level;
    trace.warnings = 0;
    dt_log_set_sink(take_log, NULL, level >= DT_TRACE_EVENTS ? DT_LOG_TRACE : DT_LOG_WARN);
}

void dt_trace_count(bool counts)
{
    trace.switches = trace.stops_unanswered = 0;
    if (trace.level < DT_TRACE_EVENTS)
        dt_log_set_sink(take_log, NULL, counts ? DT_LOG_INFO : DT_LOG_WARN);
}

uint32_t dt_trace_switches(void)
{
    return trace.switches;
}

uint32_t dt_trace_stops_unanswered(void)
{
    return trace.stops_unanswered;
}

void dt_trace_set_origin(uint64_t now_ns)
{
    trace.origin_ns = now_ns;
}

enum dt_trace_level dt_trace_level(void)
{
    return trace.level;
}

uint32_t dt_trace_take_warnings(void)
{
    uint32_t warnings = trace.warnings;

    trace.warnings = 0;
    return warnings;
}

void dt_trace_line(const char *format, ...)
{
    va_list args;

    print_time();
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}
