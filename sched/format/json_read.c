/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/format/json_read.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sched/call.h"

enum { PATH_BYTES = 160, MESSAGE_BYTES = 300, SHOWN_BYTES = 48, NS_PER_MS = 1000000 };

/* Names and texts from the document go into one line of an error: other characters than printable ones do
 * not. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

/* Appends the path of `at` to `path` and returns its new length; a path that is too long is cut. */
static size_t spell_path(const struct dt_json_at *at, char *path, size_t length)
{
    if (!at->parent)
        return length;
    length = spell_path(at->parent, path, length);
    int added = at->key ? snprintf(path + length, PATH_BYTES - length, "%s%s", length ? "." : "", at->key)
                        : snprintf(path + length, PATH_BYTES - length, "[%zu]", at->index);

    length += added > 0 ? (size_t)added : 0;
    return length < PATH_BYTES ? length : PATH_BYTES - 1;
}

bool dt_json_fail(const struct dt_json_at *at, enum detour_status status, const char *format, ...)
{
    struct dt_json_reader *reader = at->reader;
    char path[PATH_BYTES] = "";
    char message[MESSAGE_BYTES];
    va_list arguments;

    if (reader->status != DETOUR_OK)
        return false;
    spell_path(at, path, 0);
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    make_printable(path);
    make_printable(message);
    reader->status = dt_error_set(reader->error, status, "%s: %s %s", reader->name,
                                  path[0] ? path : "the document", message);
    return false;
}

/* The value at the place, for an error line; `shown` is the storage. */
static const char *show(const struct dt_json_at *at, char shown[SHOWN_BYTES])
{
    int length;

    switch (json_typeof(at->value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_NULL:
        return "null";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_STRING:
        snprintf(shown, SHOWN_BYTES, "\"%.40s\"", json_string_value(at->value));
        return shown;
    case JSON_INTEGER:
        snprintf(shown, SHOWN_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(at->value));
        return shown;
    case JSON_REAL:
        length = snprintf(shown, SHOWN_BYTES, "%.12g", json_real_value(at->value));
        if (!strpbrk(shown, ".e")) /* "is 4; it must be a whole number" would be no help */
            snprintf(shown + length, (size_t)(SHOWN_BYTES - length), ".0");
        return shown;
    }
    return "?";
}

bool dt_json_parse(struct dt_json_reader *reader, const char *text, size_t bytes, struct dt_json_at *root)
{
    json_error_t error;

    *root = (struct dt_json_at){.reader = reader};
    reader->status = DETOUR_OK;
    if (bytes > DETOUR_INPUT_BYTES_MAX)
        return dt_json_fail(root, DETOUR_LIMIT, "has %zu bytes; the limit is %d", bytes,
                            DETOUR_INPUT_BYTES_MAX);
    root->value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (root->value)
        return true;
    enum json_error_code code = json_error_code(&error);

    if (code == json_error_out_of_memory)
        reader->status = dt_fail_memory(reader->error);
    else
        reader->status =
            dt_error_set(reader->error, code == json_error_numeric_overflow ? DETOUR_LIMIT : DETOUR_SYNTAX,
                         "%s: line %d, column %d: %s", reader->name, error.line, error.column, error.text);
    if (reader->error)
        make_printable(reader->error->text);
    return false;
}

static bool is_known(const char *key, const char *const *keys)
{
    for (; *keys; keys++)
        if (!strcmp(key, *keys))
            return true;
    return false;
}

/* "a, b or c" of a NULL-terminated list, cut if it is longer than an error line. */
static void list_names(const char *const *names, char *list, size_t list_bytes)
{
    size_t length = 0;

    list[0] = '\0';
    for (size_t i = 0; names[i] && length < list_bytes; i++) {
        const char *separator = i == 0 ? "" : names[i + 1] ? ", " : " or ";
        int added = snprintf(list + length, list_bytes - length, "%s%s", separator, names[i]);
        length += added > 0 ? (size_t)added : 0;
    }
}

bool dt_json_object(const struct dt_json_at *at, const char *const *keys)
{
    const char *key;
    json_t *value;
    char list[DETOUR_ERROR_TEXT_BYTES];
    char shown[SHOWN_BYTES];

    if (!json_is_object(at->value))
        return dt_json_fail(at, DETOUR_SYNTAX, "is %s; it must be an object", show(at, shown));
    json_object_foreach((json_t *)at->value, key, value)
    {
        if (is_known(key, keys))
            continue;
        list_names(keys, list, sizeof(list));
        struct dt_json_at member = {.reader = at->reader, .parent = at, .key = key, .value = value};
        return dt_json_fail(&member, DETOUR_SYNTAX, "is not a known field; there are %s", list);
    }
    return true;
}

struct dt_json_at dt_json_optional(const struct dt_json_at *at, const char *key)
{
    return (struct dt_json_at){
        .reader = at->reader, .parent = at, .key = key, .value = json_object_get(at->value, key)};
}

bool dt_json_member(const struct dt_json_at *at, const char *key, struct dt_json_at *member)
{
    *member = dt_json_optional(at, key);
    return member->value || dt_json_fail(member, DETOUR_SYNTAX, "is missing");
}

bool dt_json_version(const struct dt_json_at *at)
{
    struct dt_json_at version;
    char shown[SHOWN_BYTES];

    if (!dt_json_member(at, "version", &version))
        return false;
    if (!json_is_integer(version.value) || json_integer_value(version.value) != 1)
        return dt_json_fail(&version, DETOUR_INVALID, "is %s; this library reads version 1",
                            show(&version, shown));
    return true;
}

bool dt_json_array(const struct dt_json_at *at, size_t count_max, size_t *count)
{
    char shown[SHOWN_BYTES];

    if (!json_is_array(at->value))
        return dt_json_fail(at, DETOUR_SYNTAX, "is %s; it must be an array", show(at, shown));
    if (json_array_size(at->value) > count_max)
        return dt_json_fail(at, DETOUR_LIMIT, "has %zu entries; at most %zu are possible",
                            json_array_size(at->value), count_max);
    *count = json_array_size(at->value);
    return true;
}

bool dt_json_array_of(const struct dt_json_at *at, size_t count, const char *why)
{
    size_t found = 0;

    if (!dt_json_array(at, SIZE_MAX, &found))
        return false;
    if (found != count)
        return dt_json_fail(at, DETOUR_INVALID, "has %zu entries; it must have %zu, %s", found, count, why);
    return true;
}

struct dt_json_at dt_json_element(const struct dt_json_at *at, size_t index)
{
    return (struct dt_json_at){
        .reader = at->reader, .parent = at, .index = index, .value = json_array_get(at->value, index)};
}

bool dt_json_int(const struct dt_json_at *at, const char *what, int64_t min, int64_t max, int64_t *value)
{
    char shown[SHOWN_BYTES];
    int64_t found = json_integer_value(at->value);

    if (!json_is_integer(at->value) || found < min || found > max)
        return dt_json_fail(at, json_is_integer(at->value) && found > max ? DETOUR_LIMIT : DETOUR_INVALID,
                            "is %s; it must be %s, a whole number from %" PRId64 " to %" PRId64,
                            show(at, shown), what, min, max);
    *value = found;
    return true;
}

bool dt_json_time(const struct dt_json_at *at, int64_t max_ns, int64_t *time_ns)
{
    char shown[SHOWN_BYTES];
    bool is_number = json_is_number(at->value);
    double time_ms = json_number_value(at->value);
    double max_ms = (double)max_ns / NS_PER_MS;

    if (!is_number || time_ms < 0 || time_ms > max_ms)
        return dt_json_fail(at, is_number && time_ms > max_ms ? DETOUR_LIMIT : DETOUR_INVALID,
                            "is %s; it must be a number of milliseconds from 0 to %" PRId64, show(at, shown),
                            max_ns / NS_PER_MS);
    *time_ns = (int64_t)(time_ms * NS_PER_MS + 0.5);
    return true;
}

bool dt_json_time_optional(const struct dt_json_at *at, const char *key, int64_t max_ns, int64_t *time_ns)
{
    struct dt_json_at member = dt_json_optional(at, key);

    return !member.value || dt_json_time(&member, max_ns, time_ns);
}

bool dt_json_bool(const struct dt_json_at *at, bool *value)
{
    char shown[SHOWN_BYTES];

    if (!json_is_boolean(at->value))
        return dt_json_fail(at, DETOUR_SYNTAX, "is %s; it must be true or false", show(at, shown));
    *value = json_is_true(at->value);
    return true;
}

bool dt_json_choice(const struct dt_json_at *at, const char *const *names, size_t *index)
{
    char list[DETOUR_ERROR_TEXT_BYTES];
    char shown[SHOWN_BYTES];

    for (size_t i = 0; names[i] && json_is_string(at->value); i++) {
        if (!strcmp(names[i], json_string_value(at->value))) {
            *index = i;
            return true;
        }
    }
    list_names(names, list, sizeof(list));
    return dt_json_fail(at, DETOUR_INVALID, "is %s; it must be one of %s", show(at, shown), list);
}
