/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lexer of rules and traces: words and numbers from a text with a position. A function that finds
 * anything else writes the first error of the text and returns false, with the position at the error. Private
 * to delay/.
 */
#ifndef DETOUR_DELAY_SCAN_H
#define DETOUR_DELAY_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "delay/rule.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_scan {
    const char *text;
    size_t bytes;
    size_t at;
    struct dt_delay_error *error;
};

/* The byte at the position; 0 at the end (and for a zero byte, which no parser accepts). */
static inline char dt_scan_peek(const struct dt_scan *scan)
{
    return scan->at < scan->bytes ? scan->text[scan->at] : '\0';
}

static inline bool dt_scan_is_end(const struct dt_scan *scan)
{
    return scan->at >= scan->bytes;
}

/* True if the byte at the position is one of these; false at the end. */
static inline bool dt_scan_is_at_any(const struct dt_scan *scan, const char *bytes)
{
    char at = dt_scan_peek(scan);

    return at != '\0' && strchr(bytes, at);
}

/* Blanks and tabs. */
void dt_scan_skip_blanks(struct dt_scan *scan);

/* To the end of the line; the newline stays. */
void dt_scan_skip_line(struct dt_scan *scan);

/* Consumes the character if it is next. */
bool dt_scan_take(struct dt_scan *scan, char c);

/* Writes an error at position `at`. Always false. */
bool dt_scan_fail(struct dt_scan *scan, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* An error about the text at the position: "expected WHAT, got 'TEXT'". */
bool dt_scan_expected(struct dt_scan *scan, const char *what);

/* Letters, digits, '-' and '_'; returns the length, 0 if there are none. */
size_t dt_scan_word(struct dt_scan *scan);

/* A whole number. */
bool dt_scan_number(struct dt_scan *scan, uint64_t max, const char *what, uint64_t *value);

/* A number with a fraction, times 10^9 ("1.5" is 1500000000); more digits are cut. */
bool dt_scan_decimal(struct dt_scan *scan, uint64_t max, const char *what, uint64_t *billionths);

/* A number with one of `units`; the product is at most `max`. */
struct dt_scan_unit {
    const char *text;
    uint64_t worth;
};
bool dt_scan_quantity(struct dt_scan *scan, const struct dt_scan_unit *units, size_t count, uint64_t max,
                      const char *what, uint64_t *value);

/* A duration; DT_DELAY_TIME_NS_MAX at most. */
#define DT_DELAY_TIME_NS_MAX (1000000 * DT_NS_PER_S)
bool dt_scan_time(struct dt_scan *scan, uint64_t *ns);

/* A size with nothing, K, M or G; powers of 1024. */
bool dt_scan_bytes(struct dt_scan *scan, uint64_t *bytes);

/* A rate with bit, Kbit, Mbit, Gbit, B, KB, MB or GB; above 0. */
bool dt_scan_rate(struct dt_scan *scan, uint64_t *bits_per_s);

/* A whole number of 32 bits. */
bool dt_scan_u32(struct dt_scan *scan, const char *what, uint32_t *value);

/* A name or file: up to a blank, a semicolon or the end of the line, or between double quotes. */
bool dt_scan_name(struct dt_scan *scan, const char *what, char *to, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
