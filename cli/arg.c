/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/arg.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/param.h"

int dt_arg_refuse(const char *command, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s: ", command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return EINVAL;
}

int dt_arg_count(const char *command, const char *option, const char *text, uint64_t low, uint64_t high,
                 uint64_t *value)
{
    if (dt_parse_number(text, false, value) == DT_OK && *value >= low && *value <= high)
        return 0;
    return dt_arg_refuse(command, "%s %s: expected a whole number from %" PRIu64 " to %" PRIu64, option, text,
                         low, high);
}

int dt_arg_int(const char *command, const char *option, const char *text, int32_t low, int32_t high,
               int32_t *value)
{
    uint64_t wide;
    int error = dt_arg_count(command, option, text, (uint64_t)low, (uint64_t)high, &wide);

    if (!error)
        *value = (int32_t)wide;
    return error;
}

int dt_arg_unsigned(const char *command, const char *option, const char *text, unsigned low, unsigned high,
                    unsigned *value)
{
    uint64_t wide;
    int error = dt_arg_count(command, option, text, low, high, &wide);

    if (!error)
        *value = (unsigned)wide;
    return error;
}

int dt_arg_bytes(const char *command, const char *option, const char *text, uint64_t low, uint64_t high,
                 uint64_t *value)
{
    if (dt_parse_number(text, true, value) == DT_OK && *value >= low && *value <= high)
        return 0;
    return dt_arg_refuse(command, "%s %s: expected a size in bytes such as 8, 64K, 4M or 1G%s", option, text,
                         low ? ", at least 1" : "");
}

int dt_arg_decimal(const char *command, const char *option, const char *text, double high, double *value)
{
    char *end;

    *value = strtod(text, &end);
    if (end != text && !*end && *value >= 0 && *value <= high)
        return 0;
    return dt_arg_refuse(command, "%s %s: expected a number from 0 to %.0f", option, text, high);
}

int dt_arg_ms(const char *command, const char *option, const char *text, int64_t *time_ns)
{
    double time_ms;
    int error = dt_arg_decimal(command, option, text, DT_ARG_MS_MAX, &time_ms);

    if (!error)
        *time_ns = (int64_t)(time_ms * DT_NS_PER_MS + 0.5);
    return error;
}
