/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/rule.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

/* The keys of a rule, separated by blanks. */
struct words {
    char *text;
    size_t used;
};

static void add(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct words *words, const char *format, ...)
{
    va_list args;
    int length;

    if (words->used > 0)
        words->text[words->used++] = ' ';
    va_start(args, format);
    length = vsnprintf(words->text + words->used, DT_DELAY_TEXT_BYTES - words->used, format, args);
    va_end(args);
    words->used += (size_t)length;
    DT_CHECK(words->used < DT_DELAY_TEXT_BYTES - 1);
}

static void add_ns(struct words *words, const char *key, uint64_t ns)
{
    char text[32];

    dt_delay_ns_print(ns, text, sizeof text);
    add(words, "%s=%s", key, text);
}

static void add_value(struct words *words, const char *key, const struct dt_delay_value *value)
{
    char text[96];

    dt_delay_value_print(value, text, sizeof text);
    add(words, "%s=%s", key, text);
}

static void add_scope(struct words *words, const struct dt_delay_scope *scope)
{
    if (scope->device[0])
        add(words, "device=\"%s\"", scope->device);
    if (scope->peer[0])
        add(words, "peer=\"%s\"", scope->peer);
    if (scope->has_connection)
        add(words, "connection=%" PRIu32, scope->connection);
    if (scope->has_id)
        add(words, "id=%016" PRIx64, scope->id);
    if (scope->bytes_min > 0 && scope->bytes_max < UINT64_MAX)
        add(words, "size=%" PRIu64 "..%" PRIu64, scope->bytes_min, scope->bytes_max);
    else if (scope->bytes_min > 0)
        add(words, "size=%" PRIu64 "..", scope->bytes_min);
    else if (scope->bytes_max < UINT64_MAX)
        add(words, "size=..%" PRIu64, scope->bytes_max);
}

static void add_effect(struct words *words, const struct dt_delay_rule *rule)
{
    char down[32];
    char up[32];

    switch (rule->effect) {
    case DT_DELAY_LATENCY:
        add_value(words, "latency", &rule->value);
        break;
    case DT_DELAY_SERIAL:
        add_value(words, "serial", &rule->value);
        if (rule->per_bytes > 0)
            add(words, "per=%" PRIu64, rule->per_bytes);
        break;
    case DT_DELAY_RATE:
        add(words, "rate=%" PRIu64 "bit", rule->bits_per_s);
        break;
    case DT_DELAY_TRACE:
        add(words, "trace=\"%s\"", rule->file);
        if (rule->link[0])
            add(words, "link=\"%s\"", rule->link);
        if (rule->iteration_ns > 0)
            add_ns(words, "iteration", rule->iteration_ns);
        break;
    case DT_DELAY_REPLAY:
        add(words, "replay=\"%s\" process=%" PRIu32, rule->file, rule->process);
        break;
    case DT_DELAY_HOLD:
        add_ns(words, "for", rule->to_ns);
        break;
    case DT_DELAY_DOWN:
        add(words, "down");
        break;
    case DT_DELAY_FLAP:
        dt_delay_ns_print(rule->down_ns, down, sizeof down);
        dt_delay_ns_print(rule->up_ns, up, sizeof up);
        add(words, "flap=%s/%s", down, up);
        break;
    case DT_DELAY_FAIL:
        add(words, "fail=%s error=%s", dt_delay_keyword_text(&dt_delay_calls, (int)rule->call),
            dt_delay_keyword_text(&dt_delay_errors, rule->error));
        break;
    case DT_DELAY_HANG:
        add(words, "hang=%s", dt_delay_keyword_text(&dt_delay_calls, (int)rule->call));
        break;
    case DT_DELAY_STATUS:
        add(words, "status=%s", dt_delay_keyword_text(&dt_delay_statuses, (int)rule->status));
        break;
    case DT_DELAY_SILENT:
        add(words, "silent");
        break;
    case DT_DELAY_EVENT:
        add(words, "event=%s", dt_delay_keyword_text(&dt_delay_events, (int)rule->event));
        break;
    case DT_DELAY_PERSONALITY:
        add(words, "personality=%s", dt_delay_keyword_text(&dt_delay_personalities, (int)rule->personality));
        break;
    case DT_DELAY_NOTHING:
    case DT_DELAY_EFFECT_COUNT:
        break;
    }
    if (rule->count > 0)
        add(words, "count=%" PRIu64, rule->count);
    if (rule->has_every)
        add_value(words, "every", &rule->every);
}

void dt_delay_rule_print(const struct dt_delay_rule *rule, char text[DT_DELAY_TEXT_BYTES])
{
    struct words words = {text, 0};

    text[0] = '\0';
    add_scope(&words, &rule->scope);
    if (rule->from_ns > 0)
        add_ns(&words, "from", rule->from_ns);
    if (rule->to_ns != DT_NEVER_NS && rule->effect != DT_DELAY_HOLD)
        add_ns(&words, "to", rule->to_ns);
    add_effect(&words, rule);
    if (rule->has_seed)
        add(&words, "seed=%" PRIu64, rule->seed);
}

bool dt_delay_scope_is_equal(const struct dt_delay_scope *a, const struct dt_delay_scope *b)
{
    return !strcmp(a->device, b->device) && !strcmp(a->peer, b->peer) &&
           a->has_connection == b->has_connection && (!a->has_connection || a->connection == b->connection) &&
           a->has_id == b->has_id && (!a->has_id || a->id == b->id) && a->bytes_min == b->bytes_min &&
           a->bytes_max == b->bytes_max;
}
