/* SPDX-License-Identifier: Apache-2.0 */
#include "base/name_filter.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* `text` is what follows NAME: PORT, and perhaps :RAIL and :PLANE, which name no port. */
static bool port_matches(const char *text, size_t bytes, unsigned port)
{
    const char *colon = memchr(text, ':', bytes);
    size_t port_bytes = colon ? (size_t)(colon - text) : bytes;
    char *end;
    unsigned long wanted = strtoul(text, &end, 10);

    return port_bytes == 0 || (end == text + port_bytes && wanted == port);
}

/* One item of the list: a name or prefix, and perhaps :PORT, :PORT:RAIL or :PORT:RAIL:PLANE. */
static bool item_matches(const char *item, size_t bytes, bool is_exact, const char *name, unsigned port)
{
    const char *colon = port ? memchr(item, ':', bytes) : NULL;
    size_t name_bytes = colon ? (size_t)(colon - item) : bytes;

    if (strncmp(item, name, name_bytes) != 0 || (is_exact && name[name_bytes] != '\0'))
        return false;
    return !colon || port_matches(colon + 1, bytes - name_bytes - 1, port);
}

bool dt_name_filter_match(const char *filter, const char *name, unsigned port)
{
    bool is_excluding = *filter == '^';
    bool has_items = false;

    filter += is_excluding;
    bool is_exact = *filter == '=';
    filter += is_exact;
    while (*filter) {
        size_t bytes = strcspn(filter, ",");

        has_items |= bytes > 0;
        if (bytes > 0 && item_matches(filter, bytes, is_exact, name, port))
            return !is_excluding;
        filter += bytes + (filter[bytes] == ',');
    }
    return is_excluding || !has_items;
}
