/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.2 or newer for a connection to a Redis server: a session of OpenSSL's libssl between two memory
 * buffers, so that the socket, its time limits and its signals stay those of redis_link.h. The library is
 * found at run time, so that `detour` starts on machines without it; its headers are needed at build time.
 *
 * The server's certificate must lead to a trusted one, and must be for the host of the URL: a DNS name, which
 * is also sent as server name (SNI), or an IP address. Nothing but the handshake is sent before both are
 * checked, and no connection continues without TLS.
 *
 *   begin, then handshake until it is done   DT_AGAIN: send what give() has, and take() what arrives
 *   write, and send what give() has          any number of bytes
 *   take() what arrives, and read            until *count is 0
 *
 * Owner: one thread. No function waits or reads a clock. Each `reason` takes one line, without any content.
 */
#ifndef DETOUR_CONTROLLER_REDIS_TLS_H
#define DETOUR_CONTROLLER_REDIS_TLS_H

#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Files in PEM format. NULL or "": none. */
struct dt_redis_tls_files {
    const char *ca;          /* trusted certificates; none: the system's (SSL_CERT_FILE and SSL_CERT_DIR) */
    const char *certificate; /* of this client, with its chain, for servers that demand one */
    const char *key;         /* of that certificate, not encrypted */
};

struct dt_redis_tls;

struct dt_redis_tls_ops {
    /* A new session; the one before ends. DT_NO_MEMORY. */
    enum dt_status (*begin)(struct dt_redis_tls *tls);

    /* DT_OK: done. DT_AGAIN: more has to arrive. DT_CLOSED: refused by this end or the server. After each of
     * them give() may have bytes for the server. */
    enum dt_status (*handshake)(struct dt_redis_tls *tls, char *reason, size_t reason_bytes);

    /* DT_NO_MEMORY. */
    enum dt_status (*write)(struct dt_redis_tls *tls, const char *bytes, size_t count);

    /* Content that is complete: *count of at most `room` bytes, 0: more has to arrive. DT_CLOSED: the server
     * has ended the session, or sent bytes that are none of it. */
    enum dt_status (*read)(struct dt_redis_tls *tls, char *bytes, size_t room, size_t *count, char *reason,
                           size_t reason_bytes);

    /* Moves bytes of the connection: to the session, and at most `room` from it. */
    enum dt_status (*take)(struct dt_redis_tls *tls, const char *bytes, size_t count);
    size_t (*give)(struct dt_redis_tls *tls, char *bytes, size_t room);

    void (*destroy)(struct dt_redis_tls *tls);
};

/* The first member of the implementation. */
struct dt_redis_tls {
    const struct dt_redis_tls_ops *ops;
};

/*
 * For connections to `host`, a name or an address without brackets. Reads the files. DT_UNSUPPORTED: this
 * build or this machine has no OpenSSL; DT_INVALID: a file cannot be used; DT_NO_MEMORY.
 */
enum dt_status dt_redis_tls_create(const char *host, const struct dt_redis_tls_files *files,
                                   struct dt_redis_tls **tls, char *reason, size_t reason_bytes);

#ifdef __cplusplus
}
#endif

#endif
