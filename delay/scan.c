/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/scan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

#define BILLION 1000000000ull

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

void dt_scan_skip_blanks(struct dt_scan *scan)
{
    while (dt_scan_peek(scan) == ' ' || dt_scan_peek(scan) == '\t' || dt_scan_peek(scan) == '\r')
        scan->at++;
}

void dt_scan_skip_line(struct dt_scan *scan)
{
    while (!dt_scan_is_end(scan) && dt_scan_peek(scan) != '\n')
        scan->at++;
}

bool dt_scan_take(struct dt_scan *scan, char c)
{
    if (dt_scan_is_end(scan) || dt_scan_peek(scan) != c)
        return false;
    scan->at++;
    return true;
}

size_t dt_scan_word(struct dt_scan *scan)
{
    size_t start = scan->at;

    while (is_word(dt_scan_peek(scan)))
        scan->at++;
    return scan->at - start;
}

/* ------------------------------------------------------------------------------------------------------------
 * Errors
 */
static void locate(const struct dt_scan *scan, size_t at, struct dt_delay_error *error)
{
    error->line = 1;
    error->column = 1;
    for (size_t i = 0; i < at && i < scan->bytes; i++) {
        error->column++;
        if (scan->text[i] == '\n') {
            error->line++;
            error->column = 1;
        }
    }
}

bool dt_scan_fail(struct dt_scan *scan, size_t at, const char *format, ...)
{
    struct dt_delay_error *error = scan->error;
    va_list args;
    int used;

    locate(scan, at, error);
    used = snprintf(error->text, sizeof error->text, "line %u, column %u: ", error->line, error->column);
    va_start(args, format);
    vsnprintf(error->text + used, sizeof error->text - (size_t)used, format, args);
    va_end(args);
    scan->at = at;
    return false;
}

/* The text for the message: up to the next blank, without unprintable bytes. */
static void quote_here(const struct dt_scan *scan, char *to, size_t bytes)
{
    size_t used = 0;

    for (size_t i = scan->at; i < scan->bytes && used + 1 < bytes; i++) {
        char c = scan->text[i];

        if (c == ' ' || c == '\n' || c == ';' || c == '\t' || c == '\r')
            break;
        to[used++] = c > ' ' && c <= '~' ? c : '?';
    }
    to[used] = '\0';
}

bool dt_scan_expected(struct dt_scan *scan, const char *what)
{
    char got[40];

    quote_here(scan, got, sizeof got);
    if (got[0])
        return dt_scan_fail(scan, scan->at, "expected %s, got '%s'", what, got);
    return dt_scan_fail(scan, scan->at, "expected %s", what);
}

/* ------------------------------------------------------------------------------------------------------------
 * Numbers
 */

/* Digits; false when there are none or the number exceeds 64 bits. */
static bool take_digits(struct dt_scan *scan, uint64_t *value)
{
    size_t start = scan->at;

    for (*value = 0; is_digit(dt_scan_peek(scan)); scan->at++) {
        uint64_t digit = (uint64_t)(dt_scan_peek(scan) - '0');

        if (*value > (UINT64_MAX - digit) / 10)
            return false;
        *value = *value * 10 + digit;
    }
    return scan->at > start;
}

/* ".375" as billionths; 0 without one. False: a point without digits. */
static bool take_fraction(struct dt_scan *scan, uint64_t *billionths)
{
    uint64_t worth = BILLION / 10;
    size_t start;

    *billionths = 0;
    if (!dt_scan_take(scan, '.'))
        return true;
    for (start = scan->at; is_digit(dt_scan_peek(scan)); scan->at++) {
        *billionths += worth * (uint64_t)(dt_scan_peek(scan) - '0');
        worth /= 10;
    }
    return scan->at > start;
}

bool dt_scan_number(struct dt_scan *scan, uint64_t max, const char *what, uint64_t *value)
{
    size_t start = scan->at;

    if (take_digits(scan, value) && *value <= max)
        return true;
    scan->at = start;
    return dt_scan_expected(scan, what);
}

bool dt_scan_decimal(struct dt_scan *scan, uint64_t max, const char *what, uint64_t *billionths)
{
    size_t start = scan->at;
    uint64_t whole, fraction;

    if (take_digits(scan, &whole) && take_fraction(scan, &fraction) && whole <= max / BILLION) {
        *billionths = whole * BILLION + fraction;
        if (*billionths <= max)
            return true;
    }
    scan->at = start;
    return dt_scan_expected(scan, what);
}

/* (whole + fraction / 10^9) * worth, or more than `max`. */
static uint64_t weigh(uint64_t whole, uint64_t fraction, uint64_t worth, uint64_t max)
{
    uint64_t part;

    if (whole > max / worth)
        return DT_NEVER_NS;
    /* worth and fraction are far below 2^64 each, their product may not be */
    part = (uint64_t)((unsigned __int128)fraction * worth / BILLION);
    return whole * worth + part;
}

bool dt_scan_quantity(struct dt_scan *scan, const struct dt_scan_unit *units, size_t count, uint64_t max,
                      const char *what, uint64_t *value)
{
    size_t start = scan->at;
    uint64_t whole, fraction;
    const char *unit;
    size_t length;

    if (take_digits(scan, &whole) && take_fraction(scan, &fraction)) {
        unit = scan->text + scan->at;
        length = dt_scan_word(scan);
        for (size_t i = 0; i < count; i++) {
            if (strlen(units[i].text) != length || memcmp(unit, units[i].text, length) != 0)
                continue;
            *value = weigh(whole, fraction, units[i].worth, max);
            if (*value <= max)
                return true;
        }
    }
    scan->at = start;
    return dt_scan_expected(scan, what);
}

bool dt_scan_time(struct dt_scan *scan, uint64_t *ns)
{
    static const struct dt_scan_unit units[] = {
        {"ns", 1},          {"us", DT_NS_PER_US},      {"ms", DT_NS_PER_MS},
        {"s", DT_NS_PER_S}, {"min", 60 * DT_NS_PER_S}, {"h", 3600 * DT_NS_PER_S},
    };

    return dt_scan_quantity(scan, units, DT_COUNT_OF(units), DT_DELAY_TIME_NS_MAX,
                            "a time with a unit (ns, us, ms, s, min, h) of at most 1000000s, like 30ms", ns);
}

bool dt_scan_bytes(struct dt_scan *scan, uint64_t *bytes)
{
    static const struct dt_scan_unit units[] = {
        {"", 1},           {"K", 1ull << 10}, {"M", 1ull << 20}, {"G", 1ull << 30},
        {"k", 1ull << 10}, {"m", 1ull << 20}, {"g", 1ull << 30},
    };

    return dt_scan_quantity(scan, units, DT_COUNT_OF(units), 1ull << 50, "a size like 4096, 64K or 1M",
                            bytes);
}

bool dt_scan_rate(struct dt_scan *scan, uint64_t *bits_per_s)
{
    static const struct dt_scan_unit units[] = {
        {"bit", 1}, {"Kbit", 1000},   {"Mbit", 1000 * 1000},   {"Gbit", 1000ull * 1000 * 1000},
        {"B", 8},   {"KB", 8 * 1000}, {"MB", 8 * 1000 * 1000}, {"GB", 8ull * 1000 * 1000 * 1000},
    };
    static const char what[] = "a rate like 10Gbit or 1.25GB (per second), above 0 and at most 100000Gbit";
    size_t start = scan->at;

    if (!dt_scan_quantity(scan, units, DT_COUNT_OF(units), 100ull * 1000 * 1000 * 1000 * 1000, what,
                          bits_per_s))
        return false;
    scan->at = *bits_per_s > 0 ? scan->at : start;
    return *bits_per_s > 0 || dt_scan_expected(scan, what);
}

bool dt_scan_u32(struct dt_scan *scan, const char *what, uint32_t *value)
{
    uint64_t number;

    if (!dt_scan_number(scan, UINT32_MAX, what, &number))
        return false;
    *value = (uint32_t)number;
    return true;
}

/* ------------------------------------------------------------------------------------------------------------
 * Names
 */
bool dt_scan_name(struct dt_scan *scan, const char *what, char *to, size_t bytes)
{
    size_t start = scan->at;
    bool is_quoted = dt_scan_take(scan, '"');
    const char *ends = is_quoted ? "\"\n" : " \t\r\n;\"";
    size_t used = 0;

    while (!dt_scan_is_end(scan) && !dt_scan_is_at_any(scan, ends)) {
        if ((unsigned char)dt_scan_peek(scan) < ' ' || dt_scan_peek(scan) == 0x7f)
            return dt_scan_fail(scan, scan->at, "%s must not have control characters in it", what);
        if (used + 1 == bytes)
            return dt_scan_fail(scan, start, "%s is longer than %zu bytes", what, bytes - 1);
        to[used++] = scan->text[scan->at++];
    }
    to[used] = '\0';
    if (is_quoted && !dt_scan_take(scan, '"'))
        return dt_scan_fail(scan, start, "%s has an opening quote and no closing one", what);
    if (used == 0) {
        scan->at = start;
        return dt_scan_expected(scan, what);
    }
    return true;
}
