/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *level_word(enum dt_level level)
{
    static const char *const words[] = {
#define DT_LEVEL_WORD(name, word) word,
        DT_LEVELS(DT_LEVEL_WORD)
#undef DT_LEVEL_WORD
    };

    return words[level];
}

void dt_report_init(struct dt_report *report)
{
    memset(report, 0, sizeof *report);
    report->document = json_pack("{s:[], s:[], s:[]}", "findings", "devices", "settings");
}

void dt_report_free(struct dt_report *report)
{
    json_decref(report->document);
    memset(report, 0, sizeof *report);
}

void dt_report_add_finding(struct dt_report *report, enum dt_level level, const char *topic,
                           const char *advice, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    report->counts[level]++;
    dt_report_add_fact(report, "findings",
                       json_pack("{s:s, s:s, s:s, s:s*}", "topic", topic, "level", level_word(level), "text",
                                 text, "advice", advice));
}

void dt_report_add_fact(struct dt_report *report, const char *list, json_t *fact)
{
    json_t *array = json_object_get(report->document, list);

    if (array && fact)
        json_array_append_new(array, fact);
    else
        json_decref(fact);
}
