/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to a Redis server that is made again when it is lost. One call at a time, with a time limit
 * over the whole call (DT_REDIS_CALL_MS, as much to connect, and as much for the handshake of TLS; the
 * system's resolver has limits of its own), so a server that stops in the middle, or answers byte by byte,
 * holds its caller no longer. After a failure the next attempts are DT_REDIS_PAUSE_MS apart, twice as long
 * each time up to DT_REDIS_PAUSE_MAX_MS; calls in between fail at once. This is a thin driver: it reads the
 * clock and waits in poll().
 *
 * Owner: one thread. The user's password is sent to the server, and appears nowhere else.
 */
#ifndef DETOUR_CONTROLLER_REDIS_LINK_H
#define DETOUR_CONTROLLER_REDIS_LINK_H

#include <stddef.h>

#include "base/status.h"
#include "controller/redis_library.h"
#include "controller/redis_tls.h"
#include "controller/redis_url.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_REDIS_CALL_MS      2000
#define DT_REDIS_PAUSE_MS     100
#define DT_REDIS_PAUSE_MAX_MS 3200
#define DT_REDIS_ANSWER_BYTES (16u << 20) /* a longer answer ends the connection */

struct dt_redis_link;
struct redisReply;

/*
 * Copies the first two arguments. `tls`, for a URL with TLS, is the link's own from now on; NULL: none.
 * NULL when out of memory: `tls` is then the caller's. Does not connect.
 */
struct dt_redis_link *dt_redis_link_create(const struct dt_redis_url *url,
                                           const struct dt_redis_library *library, struct dt_redis_tls *tls);
void dt_redis_link_destroy(struct dt_redis_link *link);

/*
 * Sends one command and waits for its answer, which may be an error of the server; the library's reply_free()
 * releases it. DT_CLOSED: no server, connection lost, time limit, or the user was refused; DT_NO_MEMORY.
 * `reason` takes one line.
 */
enum dt_status dt_redis_link_call(struct dt_redis_link *link, int argc, const char **argv,
                                  struct redisReply **reply, char *reason, size_t reason_bytes);

#ifdef __cplusplus
}
#endif

#endif
