/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/secret.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/param.h"
#include "base/util.h"

#define VALUE_BYTES_MIN 4 /* a shorter value would strike other text */

/* A command may have a token in it. */
static const char *const names[] = {DT_ENV_REDIS, "DETOUR_EVENT_COMMAND"};
static const char *const parts[] = {"KEY", "TOKEN", "PASS", "PASSWD", "PASSWORD", "SECRET", "AUTH"};

/* A part of a name ends at '_'; NCCL_IB_PKEY is no key. */
static bool has_part(const char *name, const char *part)
{
    size_t bytes = strlen(part);

    while (name) {
        if (strcspn(name, "_") == bytes && strncasecmp(name, part, bytes) == 0)
            return true;
        name = strchr(name, '_');
        name = name ? name + 1 : NULL;
    }
    return false;
}

/* Of a URL, the '@' behind its user and password; NULL: it has none. `host` is behind its "://". */
static char *user_end(const char *host)
{
    size_t bytes = strcspn(host, "/ \t\n\"'");
    char *end = NULL;

    for (size_t i = 0; i < bytes; i++) {
        if (host[i] == '@')
            end = (char *)host + i;
    }
    return end;
}

bool dt_secret_is(const char *name, const char *value)
{
    const char *host = strstr(value, "://");

    if (!*value)
        return false;
    for (size_t i = 0; i < DT_COUNT_OF(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < DT_COUNT_OF(parts); i++) {
        if (has_part(name, parts[i]))
            return true;
    }
    return host && strchr(host, '@');
}

static void mask_urls(char *text)
{
    for (char *at = strstr(text, "://"); at; at = strstr(at + 3, "://")) {
        char *end = user_end(at + 3);

        if (end)
            memset(at + 3, '*', (size_t)(end - (at + 3)));
    }
}

static void mask_value(char *text, const char *value)
{
    size_t bytes = strlen(value);

    for (char *at = strstr(text, value); at; at = strstr(at + bytes, value))
        memset(at, '*', bytes);
}

void dt_secret_mask(char *text, char *const *environment)
{
    for (char *const *entry = environment; entry && *entry; entry++) {
        const char *value = strchr(*entry, '=');
        char name[128];

        if (!value || strlen(value + 1) < VALUE_BYTES_MIN)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(value - *entry), *entry);
        if (dt_secret_is(name, value + 1))
            mask_value(text, value + 1);
    }
    mask_urls(text);
}
