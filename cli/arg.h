/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values on the command line, for the argp parsers of all commands. Parsing is strict; an error is one line
 * that begins with the command and names the value and what would be right. All return 0 or EINVAL, as an
 * argp parser does; on EINVAL the line has been written to standard error.
 */
#ifndef DETOUR_CLI_ARG_H
#define DETOUR_CLI_ARG_H

#include <stdarg.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The largest number of milliseconds that dt_arg_ms() takes. */
#define DT_ARG_MS_MAX 100000

/* Writes "COMMAND: FORMAT..." to standard error; returns EINVAL. */
int dt_arg_refuse(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A whole number in [low, high]. */
int dt_arg_count(const char *command, const char *option, const char *text, uint64_t low, uint64_t high,
                 uint64_t *value);
int dt_arg_int(const char *command, const char *option, const char *text, int32_t low, int32_t high,
               int32_t *value);
int dt_arg_unsigned(const char *command, const char *option, const char *text, unsigned low, unsigned high,
                    unsigned *value);

/* Bytes in [low, high]: a number, optionally followed by K, M or G. */
int dt_arg_bytes(const char *command, const char *option, const char *text, uint64_t low, uint64_t high,
                 uint64_t *value);

/* A number in [0, high], with decimals. */
int dt_arg_decimal(const char *command, const char *option, const char *text, double high, double *value);

/* Milliseconds, with decimals, to the nearest nanosecond. */
int dt_arg_ms(const char *command, const char *option, const char *text, int64_t *time_ns);

#ifdef __cplusplus
}
#endif

#endif
