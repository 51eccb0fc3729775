/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/redis_link.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/param.h"
#include "base/util.h"

#define BUFFER_BYTES 16384

struct dt_redis_link {
    struct dt_redis_url url;
    struct dt_redis_library library;
    struct dt_redis_tls *tls; /* NULL: the URL is one without TLS */
    bool is_unanswered;       /* nothing has arrived since the handshake of TLS */
    int fd;                   /* -1: not connected */
    struct redisReader *reader;
    uint64_t next_attempt_ns; /* 0: at once */
    uint64_t pause_ms;
    char last[160]; /* why the last attempt failed */
};

struct dt_redis_link *dt_redis_link_create(const struct dt_redis_url *url,
                                           const struct dt_redis_library *library, struct dt_redis_tls *tls)
{
    struct dt_redis_link *link = calloc(1, sizeof *link);

    if (!link)
        return NULL;
    link->url = *url;
    link->library = *library;
    link->tls = tls;
    link->fd = -1;
    return link;
}

static void disconnect(struct dt_redis_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    if (link->reader)
        link->library.reader_free(link->reader);
    link->fd = -1;
    link->reader = NULL;
    link->is_unanswered = false;
}

void dt_redis_link_destroy(struct dt_redis_link *link)
{
    disconnect(link);
    if (link->tls)
        link->tls->ops->destroy(link->tls);
    explicit_bzero(&link->url, sizeof link->url);
    free(link);
}

/* ---- Bytes, up to a deadline. ---- */

static bool fail_memory(struct dt_redis_link *link)
{
    snprintf(link->last, sizeof link->last, "out of memory");
    return false;
}

static bool wait_for(struct dt_redis_link *link, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd entry = {.fd = link->fd, .events = events};
        uint64_t now_ns = dt_clock_now_ns();
        int ready;

        if (now_ns >= deadline_ns) {
            snprintf(link->last, sizeof link->last, "no answer within %d ms", DT_REDIS_CALL_MS);
            return false;
        }
        ready = poll(&entry, 1, (int)((deadline_ns - now_ns) / DT_NS_PER_MS) + 1);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR) {
            snprintf(link->last, sizeof link->last, "poll: %s", strerror(errno));
            return false;
        }
    }
}

/*
 * In TLS 1.3 a client finishes its handshake before the server looks at the certificate of the client, and
 * the end of the connection may overtake the reason.
 */
static bool fail_lost(struct dt_redis_link *link, const char *why)
{
    snprintf(link->last, sizeof link->last, "connection lost: %s%s", why,
             link->is_unanswered ? ", after the handshake: does the server demand " DT_ENV_REDIS_CERT "?"
                                 : "");
    return false;
}

static bool is_later(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static bool send_bytes(struct dt_redis_link *link, const char *bytes, size_t count, uint64_t deadline_ns)
{
    while (count > 0) {
        ssize_t sent = send(link->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0) {
            bytes += sent;
            count -= (size_t)sent;
        } else if (sent < 0 && !is_later(errno)) {
            return fail_lost(link, strerror(errno));
        } else if (!wait_for(link, POLLOUT, deadline_ns)) {
            return false;
        }
    }
    return true;
}

/* What the session of TLS has for the server. */
static bool send_sealed(struct dt_redis_link *link, uint64_t deadline_ns)
{
    char bytes[BUFFER_BYTES];
    size_t count;

    while ((count = link->tls->ops->give(link->tls, bytes, sizeof bytes)) > 0) {
        if (!send_bytes(link, bytes, count, deadline_ns))
            return false;
    }
    return true;
}

static bool send_all(struct dt_redis_link *link, const char *bytes, size_t count, uint64_t deadline_ns)
{
    if (!link->tls)
        return send_bytes(link, bytes, count, deadline_ns);
    if (link->tls->ops->write(link->tls, bytes, count) != DT_OK)
        return fail_memory(link);
    return send_sealed(link, deadline_ns);
}

/* What has arrived: at least one byte. */
static bool receive_bytes(struct dt_redis_link *link, char bytes[BUFFER_BYTES], size_t *count,
                          uint64_t deadline_ns)
{
    ssize_t got;

    do {
        if (!wait_for(link, POLLIN, deadline_ns))
            return false;
        got = recv(link->fd, bytes, BUFFER_BYTES, MSG_DONTWAIT);
    } while (got < 0 && is_later(errno));
    if (got <= 0)
        return fail_lost(link, got ? strerror(errno) : "the server closed it");
    *count = (size_t)got;
    return true;
}

/* To the parser. */
static bool feed(struct dt_redis_link *link, const char *bytes, size_t count)
{
    if (link->library.reader_feed(link->reader, bytes, count) == REDIS_OK)
        return true;
    snprintf(link->last, sizeof link->last, "an answer that is too long");
    return false;
}

/* What has arrived, through the session of TLS. */
static bool feed_sealed(struct dt_redis_link *link, char bytes[BUFFER_BYTES], size_t count)
{
    const struct dt_redis_tls_ops *ops = link->tls->ops;

    if (ops->take(link->tls, bytes, count) != DT_OK)
        return fail_memory(link);
    do {
        if (ops->read(link->tls, bytes, BUFFER_BYTES, &count, link->last, sizeof link->last) != DT_OK ||
            (count > 0 && !feed(link, bytes, count)))
            return false;
        link->is_unanswered = link->is_unanswered && count == 0;
    } while (count > 0);
    return true;
}

/* Feeds what has arrived to the parser. */
static bool receive_some(struct dt_redis_link *link, size_t *total, uint64_t deadline_ns)
{
    char bytes[BUFFER_BYTES];
    size_t count = 0;

    if (!receive_bytes(link, bytes, &count, deadline_ns))
        return false;
    *total += count;
    if (*total > DT_REDIS_ANSWER_BYTES) {
        snprintf(link->last, sizeof link->last, "an answer that is too long");
        return false;
    }
    return link->tls ? feed_sealed(link, bytes, count) : feed(link, bytes, count);
}

static bool receive(struct dt_redis_link *link, struct redisReply **reply, uint64_t deadline_ns)
{
    size_t total = 0;
    void *found = NULL;

    for (;;) {
        if (link->library.reader_get_reply(link->reader, &found) != REDIS_OK) {
            snprintf(link->last, sizeof link->last, "the answer is not Redis' protocol");
            return false;
        }
        if (found)
            break;
        if (!receive_some(link, &total, deadline_ns))
            return false;
    }
    *reply = found;
    return true;
}

static bool exchange(struct dt_redis_link *link, int argc, const char **argv, struct redisReply **reply)
{
    uint64_t deadline_ns = dt_clock_now_ns() + DT_REDIS_CALL_MS * DT_NS_PER_MS;
    char *command = NULL;
    int bytes = link->library.format_argv(&command, argc, argv, NULL);
    bool is_done = bytes >= 0;

    if (!is_done)
        snprintf(link->last, sizeof link->last, "out of memory");
    is_done =
        is_done && send_all(link, command, (size_t)bytes, deadline_ns) && receive(link, reply, deadline_ns);
    if (bytes >= 0) {
        explicit_bzero(command, (size_t)bytes); /* AUTH has the password */
        link->library.command_free(command);
    }
    return is_done;
}

/* ---- The connection. ---- */

static bool connect_to(struct dt_redis_link *link, const struct addrinfo *address, uint64_t deadline_ns)
{
    int error = 0;
    socklen_t bytes = sizeof error;

    link->fd =
        socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol);
    /* A command may take several writes, none of which is to wait for the acknowledgement of the one before.
     */
    if (link->fd >= 0)
        (void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (link->fd < 0 || (connect(link->fd, address->ai_addr, address->ai_addrlen) && errno != EINPROGRESS)) {
        error = errno;
    } else if (!wait_for(link, POLLOUT, deadline_ns)) {
        disconnect(link);
        return false;
    } else if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &bytes)) {
        error = errno;
    }
    if (error) {
        snprintf(link->last, sizeof link->last, "%s", strerror(error));
        disconnect(link);
    }
    return !error;
}

static bool connect_any(struct dt_redis_link *link)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int failed = getaddrinfo(link->url.host, link->url.port, &hints, &found);

    if (failed) {
        snprintf(link->last, sizeof link->last, "no address: %s", gai_strerror(failed));
        return false;
    }
    for (const struct addrinfo *at = found; at && link->fd < 0; at = at->ai_next)
        (void)connect_to(link, at, dt_clock_now_ns() + DT_REDIS_CALL_MS * DT_NS_PER_MS);
    freeaddrinfo(found);
    return link->fd >= 0;
}

/* Until the session of TLS is there. A refusal by this end is also sent to the server, for its log. */
static bool start_tls(struct dt_redis_link *link)
{
    const struct dt_redis_tls_ops *ops = link->tls->ops;
    uint64_t deadline_ns = dt_clock_now_ns() + DT_REDIS_CALL_MS * DT_NS_PER_MS;
    char bytes[BUFFER_BYTES], reason[sizeof link->last] = "out of memory";
    enum dt_status status = ops->begin(link->tls);
    bool is_connected = status == DT_OK;
    size_t count;

    while (is_connected) {
        status = ops->handshake(link->tls, reason, sizeof reason);
        is_connected = send_sealed(link, deadline_ns);
        if (status != DT_AGAIN || !is_connected)
            break;
        is_connected = receive_bytes(link, bytes, &count, deadline_ns);
        if (is_connected && ops->take(link->tls, bytes, count) != DT_OK)
            return fail_memory(link);
    }
    link->is_unanswered = status == DT_OK && is_connected;
    if (link->is_unanswered)
        return true;
    if (status == DT_OK || status == DT_AGAIN)
        snprintf(reason, sizeof reason, "%.80s, in the handshake of TLS: is this the server's TLS port?",
                 link->last);
    memcpy(link->last, reason, sizeof link->last);
    return false;
}

/* One command of the set-up. The text of a refusal may repeat the arguments: only its first word is kept. */
static bool set_up(struct dt_redis_link *link, const char *what, int argc, const char **argv)
{
    struct redisReply *reply = NULL;
    bool is_good = exchange(link, argc, argv, &reply);

    if (is_good && reply->type == REDIS_REPLY_ERROR) {
        snprintf(link->last, sizeof link->last, "the server refused the URL's %s (%.*s)", what,
                 (int)dt_min_u64(strcspn(reply->str, " "), 20), reply->str);
        is_good = false;
    }
    if (reply)
        link->library.reply_free(reply);
    return is_good;
}

static bool open_connection(struct dt_redis_link *link)
{
    const struct dt_redis_url *url = &link->url;
    const char *password_only[] = {"AUTH", url->password}, *both[] = {"AUTH", url->user, url->password};
    const char *select[] = {"SELECT", url->database};
    bool is_good = connect_any(link) && (!link->tls || start_tls(link));

    if (is_good) {
        link->reader = link->library.reader_create();
        is_good = link->reader != NULL;
        if (!is_good)
            snprintf(link->last, sizeof link->last, "out of memory");
    }
    if (is_good && url->password[0])
        is_good = url->user[0] ? set_up(link, "user or password", 3, both)
                               : set_up(link, "password", 2, password_only);
    return is_good && (!url->database[0] || set_up(link, "database", 2, select));
}

/* Closed by the server since the last call, for example by a restart: nothing was sent yet. */
static bool is_stale(const struct dt_redis_link *link)
{
    char byte;

    return recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || !is_later(errno);
}

static enum dt_status fail(struct dt_redis_link *link, char *reason, size_t reason_bytes)
{
    disconnect(link);
    link->pause_ms =
        link->pause_ms ? dt_min_u64(2 * link->pause_ms, DT_REDIS_PAUSE_MAX_MS) : DT_REDIS_PAUSE_MS;
    link->next_attempt_ns = dt_clock_now_ns() + link->pause_ms * DT_NS_PER_MS;
    snprintf(reason, reason_bytes, "Redis at %.100s:%s: %s; next attempt in %" PRIu64 " ms", link->url.host,
             link->url.port, link->last, link->pause_ms);
    return DT_CLOSED;
}

enum dt_status dt_redis_link_call(struct dt_redis_link *link, int argc, const char **argv,
                                  struct redisReply **reply, char *reason, size_t reason_bytes)
{
    *reply = NULL;
    if (link->fd >= 0 && is_stale(link))
        disconnect(link);
    if (link->fd < 0 && dt_clock_now_ns() < link->next_attempt_ns) {
        snprintf(reason, reason_bytes, "Redis at %.100s:%s: %s; waiting before the next attempt",
                 link->url.host, link->url.port, link->last);
        return DT_CLOSED;
    }
    if ((link->fd < 0 && !open_connection(link)) || !exchange(link, argc, argv, reply))
        return fail(link, reason, reason_bytes);
    link->pause_ms = 0;
    link->next_attempt_ns = 0;
    return DT_OK;
}
