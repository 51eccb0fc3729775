/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/format/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"

enum { CAPACITY_MIN = 4096, DECIMALS_MAX = 9, DECIMALS_MS = 6 };

void dt_text_init(struct dt_text *text)
{
    *text = (struct dt_text){0};
}

void dt_text_destroy(struct dt_text *text)
{
    free(text->data);
    dt_text_init(text);
}

/* Room for `bytes` more and a NUL. */
static bool make_room(struct dt_text *text, size_t bytes)
{
    if (text->failed)
        return false;
    if (bytes < text->capacity - text->bytes)
        return true;
    size_t needed = text->bytes + bytes + 1;
    size_t capacity = dt_round_up_power_of_two(dt_max_u64(needed, CAPACITY_MIN));
    char *data = needed > bytes ? realloc(text->data, capacity) : NULL;

    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void dt_text_add_bytes(struct dt_text *text, const char *data, size_t bytes)
{
    if (!make_room(text, bytes))
        return;
    memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
    text->data[text->bytes] = '\0';
}

void dt_text_add(struct dt_text *text, const char *string)
{
    dt_text_add_bytes(text, string, strlen(string));
}

void dt_text_repeat(struct dt_text *text, const char *string, int64_t count)
{
    size_t bytes = strlen(string);

    for (int64_t i = 0; i < count && !text->failed; i++)
        dt_text_add_bytes(text, string, bytes);
}

void dt_text_cut(struct dt_text *text, size_t bytes)
{
    if (text->failed || bytes >= text->bytes)
        return;
    text->bytes = bytes;
    text->data[bytes] = '\0';
}

void dt_text_printf(struct dt_text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int bytes = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    DT_CHECK(bytes >= 0);
    if (!make_room(text, (size_t)bytes))
        return;
    va_start(arguments, format);
    vsnprintf(text->data + text->bytes, (size_t)bytes + 1, format, arguments);
    va_end(arguments);
    text->bytes += (size_t)bytes;
}

void dt_text_add_decimal(struct dt_text *text, int64_t value, int decimals)
{
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint64_t scale = 1;

    DT_CHECK(decimals >= 0 && decimals <= DECIMALS_MAX);
    for (int i = 0; i < decimals; i++)
        scale *= 10;
    uint64_t fraction = magnitude % scale;

    while (decimals > 0 && fraction % 10 == 0) {
        fraction /= 10;
        decimals--;
    }
    dt_text_printf(text, "%s%" PRIu64, value < 0 ? "-" : "", magnitude / scale);
    if (decimals > 0)
        dt_text_printf(text, ".%0*" PRIu64, decimals, fraction);
}

void dt_text_add_ms(struct dt_text *text, int64_t time_ns)
{
    dt_text_add_decimal(text, time_ns, DECIMALS_MS);
}
