/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/log.h"
#include "doctor/doctor.h"

static struct {
    struct dt_report *report;
    const char *topic;
    enum dt_level level;
    dt_log_sink_func *sink_before;
    void *arg_before;
    enum dt_log_level level_before;
} listener;

/*
 * A WARN names something that the plugin cannot do without, or does differently than requested. INFO lines
 * are mostly normal; those with "left out" name devices that the plugin does not use.
 */
static void capture(void *arg, enum dt_log_level level, const char *file, int line, const char *text)
{
    (void)arg;
    (void)file;
    (void)line;
    if (level == DT_LOG_WARN)
        dt_report_add_finding(listener.report, listener.level, listener.topic,
                              "docs/troubleshooting.md has this line", "%s", text);
    else if (strstr(text, "left out"))
        dt_report_add_finding(listener.report, DT_LEVEL_WARNING, listener.topic,
                              "if it is to be used: docs/troubleshooting.md has this line", "%s", text);
}

void dt_doctor_capture_log(struct dt_report *report, const char *topic, enum dt_level level)
{
    listener.report = report;
    listener.topic = topic;
    listener.level = level;
    dt_log_get_sink(&listener.sink_before, &listener.arg_before, &listener.level_before);
    dt_log_set_sink(capture, NULL, DT_LOG_INFO);
}

void dt_doctor_release_log(void)
{
    dt_log_set_sink(listener.sink_before, listener.arg_before, listener.level_before);
}
