/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libhiredis that the Redis store uses, found at run time, so that `detour` starts on
 * machines without the library: the parser and the writer of Redis' protocol. Its connections are not used,
 * since they have a time limit per read() and not per call, and raise SIGPIPE.
 */
#ifndef DETOUR_CONTROLLER_REDIS_LIBRARY_H
#define DETOUR_CONTROLLER_REDIS_LIBRARY_H

#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct redisReader;

struct dt_redis_library {
    struct redisReader *(*reader_create)(void); /* NULL when out of memory */
    void (*reader_free)(struct redisReader *reader);
    int (*reader_feed)(struct redisReader *reader, const char *bytes, size_t count);
    int (*reader_get_reply)(struct redisReader *reader, void **reply); /* NULL in *reply: incomplete */
    void (*reply_free)(void *reply);
    /* The bytes of a command, or -1. command_free() releases them. */
    int (*format_argv)(char **command, int argc, const char **argv, const size_t *argv_bytes);
    void (*command_free)(char *command);
};

/*
 * Loads the version that this build has the headers of, once per process; it stays loaded. DT_UNSUPPORTED:
 * the library is missing or lacks a function; `reason` takes one line that names Debian's package.
 */
enum dt_status dt_redis_library_load(struct dt_redis_library *library, char *reason, size_t reason_bytes);

#ifdef __cplusplus
}
#endif

#endif
