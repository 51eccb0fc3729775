/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/redis_library.h"

#include <dlfcn.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

/* redisReply has changed between versions: only the one of the headers is right. */
#define TEXT_OF(x)    #x
#define VERSION_OF(x) TEXT_OF(x)
#define VERSION       VERSION_OF(HIREDIS_SONAME)
#define LIBRARY_NAME  "libhiredis.so." VERSION

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    {"redisReaderCreate", offsetof(struct dt_redis_library, reader_create)},
    {"redisReaderFree", offsetof(struct dt_redis_library, reader_free)},
    {"redisReaderFeed", offsetof(struct dt_redis_library, reader_feed)},
    {"redisReaderGetReply", offsetof(struct dt_redis_library, reader_get_reply)},
    {"freeReplyObject", offsetof(struct dt_redis_library, reply_free)},
    {"redisFormatCommandArgv", offsetof(struct dt_redis_library, format_argv)},
    {"redisFreeCommand", offsetof(struct dt_redis_library, command_free)},
};

enum dt_status dt_redis_library_load(struct dt_redis_library *library, char *reason, size_t reason_bytes)
{
    void *handle = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (!handle) {
        snprintf(reason, reason_bytes,
                 "the client library of Redis: cannot load " LIBRARY_NAME
                 "; Debian's package is libhiredis" VERSION);
        return DT_UNSUPPORTED;
    }
    for (size_t i = 0; i < DT_COUNT_OF(symbols); i++) {
        void *function = dlsym(handle, symbols[i].name);

        if (!function) {
            snprintf(reason, reason_bytes, "the client library of Redis: " LIBRARY_NAME " has no function %s",
                     symbols[i].name);
            dlclose(handle);
            return DT_UNSUPPORTED;
        }
        memcpy((char *)library + symbols[i].offset, &function, sizeof function);
    }
    dlclose(handle); /* RTLD_NODELETE: the functions stay */
    return DT_OK;
}
