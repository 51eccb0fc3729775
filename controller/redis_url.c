/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/redis_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATABASE_MAX 65535

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Copies a part of the URL, percent-decoded. False: too long, a bad escape, or a control character. */
static bool decode(const char *text, size_t bytes, char *to, size_t to_bytes)
{
    size_t used = 0;

    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '%') {
            int high = i + 2 < bytes ? hex_digit(text[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text[i + 2]) : -1;

            if (low < 0)
                return false;
            c = (unsigned char)(high * 16 + low);
            i += 2;
        }
        if (c < ' ' || c == 0x7f || used + 1 >= to_bytes)
            return false;
        to[used++] = (char)c;
    }
    to[used] = '\0';
    return true;
}

/* A decimal number from `min` to `max`, copied as text. */
static bool take_number(const char *text, size_t bytes, unsigned long min, unsigned long max, char to[8])
{
    unsigned long value;

    if (bytes == 0 || bytes > 5 || strspn(text, "0123456789") < bytes)
        return false;
    value = strtoul(text, NULL, 10);
    if (value < min || value > max)
        return false;
    snprintf(to, 8, "%u", (unsigned)value % 100000);
    return true;
}

static bool take_credentials(const char *text, size_t bytes, struct dt_redis_url *url)
{
    const char *colon = memchr(text, ':', bytes);
    size_t user_bytes = colon ? (size_t)(colon - text) : 0;

    return colon && decode(text, user_bytes, url->user, sizeof url->user) &&
           decode(colon + 1, bytes - user_bytes - 1, url->password, sizeof url->password) &&
           url->password[0] != '\0';
}

/* "HOST", "HOST:PORT", "[ADDRESS]" or "[ADDRESS]:PORT". */
static bool take_address(const char *text, size_t bytes, struct dt_redis_url *url)
{
    bool is_bracketed = bytes > 0 && text[0] == '[';
    const char *end = memchr(text, is_bracketed ? ']' : ':', bytes);
    size_t host_bytes = end ? (size_t)(end - text) : bytes, rest = bytes - host_bytes;

    if (is_bracketed) {
        if (!end)
            return false;
        text++, host_bytes--;
        end++, rest--;
    }
    memcpy(url->port, DT_REDIS_PORT_DEFAULT, sizeof DT_REDIS_PORT_DEFAULT);
    if (rest > 0 && (*end != ':' || !take_number(end + 1, rest - 1, 1, 65535, url->port)))
        return false;
    return host_bytes > 0 && decode(text, host_bytes, url->host, sizeof url->host) &&
           !strpbrk(url->host, " /@");
}

bool dt_redis_url_parse(const char *url, struct dt_redis_url *parsed, char *reason, size_t reason_bytes)
{
    const char *rest = strstr(url, "://");
    size_t scheme_bytes = rest ? (size_t)(rest - url) : 0;
    bool is_tls = scheme_bytes == 6 && !memcmp(url, "rediss", 6), is_good = false;

    memset(parsed, 0, sizeof *parsed);
    parsed->is_tls = is_tls;
    if (is_tls || (scheme_bytes == 5 && !memcmp(url, "redis", 5))) {
        const char *authority = rest + 3, *slash = strchr(authority, '/'), *at;
        size_t bytes = slash ? (size_t)(slash - authority) : strlen(authority);

        at = memchr(authority, '@', bytes);
        is_good = !at || take_credentials(authority, (size_t)(at - authority), parsed);
        if (at)
            bytes -= (size_t)(at + 1 - authority), authority = at + 1;
        is_good = is_good && take_address(authority, bytes, parsed);
        if (is_good && slash && slash[1])
            is_good = take_number(slash + 1, strlen(slash + 1), 0, DATABASE_MAX, parsed->database);
    }
    if (!is_good)
        snprintf(reason, reason_bytes,
                 "the URL of the store: expected redis[s]://[USER:PASSWORD@]HOST[:PORT][/DATABASE], "
                 "with '@', ':', '/' and '%%' in USER and PASSWORD as %%40, %%3A, %%2F and %%25");
    return is_good;
}
