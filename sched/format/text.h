/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text that grows, for the writers. An allocation that fails makes the text `failed`; everything added
 * afterwards is dropped, so that a writer checks once, at the end. Numbers are printed from integers: what
 * comes out does not depend on the locale or on floating point.
 */
#ifndef DETOUR_SCHED_FORMAT_TEXT_H
#define DETOUR_SCHED_FORMAT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_text {
    char *data; /* malloc'ed, NUL-terminated once something was added */
    size_t bytes;
    size_t capacity;
    bool failed;
};

void dt_text_init(struct dt_text *text);

/* Frees what was built. The text may be initialized again. */
void dt_text_destroy(struct dt_text *text);

void dt_text_add_bytes(struct dt_text *text, const char *data, size_t bytes);

void dt_text_add(struct dt_text *text, const char *string);

/* `string` `count` times. */
void dt_text_repeat(struct dt_text *text, const char *string, int64_t count);

/* Takes back what is behind the first `bytes`. */
void dt_text_cut(struct dt_text *text, size_t bytes);

void dt_text_printf(struct dt_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * value / 10^decimals without trailing zeros: 12500000 with 6 decimals is "12.5". Any int64; decimals in
 * [0, 9].
 */
void dt_text_add_decimal(struct dt_text *text, int64_t value, int decimals);

/* A time in milliseconds, exact to the nanosecond. */
void dt_text_add_ms(struct dt_text *text, int64_t time_ns);

#ifdef __cplusplus
}
#endif

#endif
