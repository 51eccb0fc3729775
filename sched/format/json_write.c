/* SPDX-License-Identifier: Apache-2.0 */
/* JSON output: jansson makes and prints the values, this file decides where lines end. */
#include <string.h>

#include "sched/format/format.h"

enum { NS_PER_MS = 1000000 };

/* 15 digits represent every time up to DETOUR_SCHEDULE_TIME_MAX_NS exactly, without rounding artifacts. */
static const size_t value_flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(15);

json_t *dt_json_ms(int64_t time_ns)
{
    return time_ns % NS_PER_MS ? json_real((double)time_ns / NS_PER_MS) : json_integer(time_ns / NS_PER_MS);
}

void dt_json_put(json_t **object, const char *key, json_t *value)
{
    if (!*object) {
        json_decref(value);
    } else if (json_object_set_new(*object, key, value)) {
        json_decref(*object);
        *object = NULL;
    }
}

void dt_json_append(json_t **array, json_t *value)
{
    if (!*array) {
        json_decref(value);
    } else if (json_array_append_new(*array, value)) {
        json_decref(*array);
        *array = NULL;
    }
}

static int append(const char *data, size_t bytes, void *text)
{
    dt_text_add_bytes(text, data, bytes);
    return ((struct dt_text *)text)->failed ? -1 : 0;
}

static void add_value(struct dt_text *text, const json_t *value)
{
    if (json_dump_callback(value, append, text, value_flags) != 0)
        text->failed = true;
}

static void add_container(struct dt_text *text, const json_t *value, int levels, int indent);

static void add_element(struct dt_text *text, const json_t *value, int levels, int indent)
{
    if (levels > 0 && (json_object_size(value) || json_array_size(value)))
        add_container(text, value, levels, indent);
    else
        add_value(text, value);
}

/* Member names are constants of this library: no character needs escaping. */
static void add_key(struct dt_text *text, const char *key)
{
    dt_text_printf(text, "\"%s\": ", key);
}

static void add_container(struct dt_text *text, const json_t *value, int levels, int indent)
{
    const char *separator = "\n";
    const char *key;
    json_t *element;
    size_t i;

    dt_text_add(text, json_is_object(value) ? "{" : "[");
    json_object_foreach((json_t *)value, key, element)
    {
        dt_text_add(text, separator);
        dt_text_repeat(text, " ", indent + 1);
        add_key(text, key);
        add_element(text, element, levels - 1, indent + 1);
        separator = ",\n";
    }
    json_array_foreach(value, i, element)
    {
        dt_text_add(text, separator);
        dt_text_repeat(text, " ", indent + 1);
        add_element(text, element, levels - 1, indent + 1);
        separator = ",\n";
    }
    dt_text_add(text, "\n");
    dt_text_repeat(text, " ", indent);
    dt_text_add(text, json_is_object(value) ? "}" : "]");
}

void dt_text_add_json(struct dt_text *text, json_t *value, int levels, int indent)
{
    if (value)
        add_element(text, value, levels, indent);
    else
        text->failed = true;
    json_decref(value);
}

void dt_text_add_json_members(struct dt_text *text, json_t *object, int levels, int indent)
{
    const char *key;
    json_t *element;

    text->failed = text->failed || !object;
    json_object_foreach(object, key, element)
    {
        dt_text_repeat(text, " ", indent);
        add_key(text, key);
        add_element(text, element, levels, indent);
        dt_text_add(text, ",\n");
    }
    json_decref(object);
}

enum detour_status dt_text_finish(struct detour_arena *arena, struct dt_text *text, struct detour_text *out,
                                  struct detour_error *error)
{
    char *data = text->failed ? NULL : dt_arena_alloc_raw(arena, text->bytes + 1, 1);
    size_t bytes = text->bytes;

    if (data) {
        memcpy(data, text->bytes ? text->data : "", bytes + 1);
        *out = (struct detour_text){.bytes = bytes, .data = data};
    }
    dt_text_destroy(text);
    return data ? DETOUR_OK : dt_fail_memory(error);
}
