/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The URL of a Redis server: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], and rediss:// for TLS. USER may
 * be empty (the server's default user); USER and PASSWORD may be percent-encoded, which '@', ':', '/' and '%'
 * must be. An IPv6 address is in brackets. Pure.
 */
#ifndef DETOUR_CONTROLLER_REDIS_URL_H
#define DETOUR_CONTROLLER_REDIS_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_REDIS_PORT_DEFAULT "6379"

struct dt_redis_url {
    bool is_tls;
    char host[256];
    char port[8];       /* decimal, 1 to 65535 */
    char user[128];     /* "": the default user */
    char password[512]; /* "": none. A secret: never in a log or a reason */
    char database[8];   /* decimal; "": 0, without a command */
};

/* False: not of that form; `reason` takes one line, without any part of the URL that may be a secret. */
bool dt_redis_url_parse(const char *url, struct dt_redis_url *parsed, char *reason, size_t reason_bytes);

#ifdef __cplusplus
}
#endif

#endif
