/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/store.h"

#include <stdio.h>
#include <string.h>

#include "controller/store_memory.h"
#include "controller/store_redis.h"

typedef enum dt_status open_func(const struct dt_store_options *options, struct dt_store **store,
                                 char reason[DT_STORE_REASON_BYTES]);

static enum dt_status open_memory(const struct dt_store_options *options, struct dt_store **store,
                                  char reason[DT_STORE_REASON_BYTES])
{
    *store = dt_store_memory_create(options->time_ms);
    if (*store)
        return DT_OK;
    snprintf(reason, DT_STORE_REASON_BYTES, "out of memory");
    return DT_NO_MEMORY;
}

#ifdef DETOUR_HIREDIS
#define open_redis dt_store_redis_open
#else
static enum dt_status open_redis(const struct dt_store_options *options, struct dt_store **store,
                                 char reason[DT_STORE_REASON_BYTES])
{
    (void)options;
    (void)store;
    snprintf(
        reason, DT_STORE_REASON_BYTES,
        "this build of Detour has no client for Redis: build it where Debian's libhiredis-dev is installed");
    return DT_UNSUPPORTED;
}
#endif

/* By the beginning of the URL; ends with NULL. */
static const struct {
    const char *scheme;
    open_func *open;
} schemes[] = {
    {"memory:", open_memory},
    {"redis://", open_redis},
    {"rediss://", open_redis},
    {NULL, NULL},
};

bool dt_store_is_name(const char *name)
{
    size_t length = strlen(name);

    return length > 0 && length < DT_STORE_NAME_BYTES &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") == length;
}

enum dt_status dt_store_open(const struct dt_store_options *options, struct dt_store **store,
                             char reason[DT_STORE_REASON_BYTES])
{
    if (!dt_store_is_name(options->job) || strchr(options->job, ':')) {
        snprintf(reason, DT_STORE_REASON_BYTES,
                 "the name of the job: expected letters, digits, '-', '_' and '.', at most %d",
                 DT_STORE_NAME_BYTES - 1);
        return DT_INVALID;
    }
    for (size_t i = 0; schemes[i].scheme; i++) {
        if (!strncmp(options->url, schemes[i].scheme, strlen(schemes[i].scheme)))
            return schemes[i].open(options, store, reason);
    }
    snprintf(reason, DT_STORE_REASON_BYTES,
             "the URL of the store: expected redis[s]://[USER:PASSWORD@]HOST[:PORT][/DB]");
    return DT_INVALID;
}
