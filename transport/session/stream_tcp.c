/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/session/stream_tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"

#define BACKLOG 1024
/* TCP_USER_TIMEOUT: data unacknowledged for this time ends the stream, and the session dials again. The
 * system's own default is about a quarter of an hour. */
#define GIVE_UP_MS 20000

struct tcp_stream {
    struct dt_stream stream;
    int fd;
    bool is_established;
    enum dt_status ended;      /* DT_OK while it goes on */
    enum dt_status send_ended; /* DT_OK, or why nothing can be sent; received bytes may be left to read */
};

struct tcp_port {
    struct dt_stream_port port;
    int fd;
};

static socklen_t to_sockaddr(const struct dt_address *from, struct sockaddr_storage *to)
{
    memset(to, 0, sizeof *to);
    if (from->family == DT_ADDRESS_IPV6) {
        struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)(void *)to;

        ipv6->sin6_family = AF_INET6;
        ipv6->sin6_port = htons(from->port);
        memcpy(&ipv6->sin6_addr, from->ip, 16);
        ipv6->sin6_scope_id = from->scope;
        return sizeof *ipv6;
    }
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)(void *)to;

    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(from->port);
    memcpy(&ipv4->sin_addr, from->ip, 4);
    return sizeof *ipv4;
}

static void from_sockaddr(const struct sockaddr_storage *from, struct dt_address *to)
{
    memset(to, 0, sizeof *to);
    if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)(const void *)from;

        to->family = DT_ADDRESS_IPV6;
        to->port = ntohs(ipv6->sin6_port);
        memcpy(to->ip, &ipv6->sin6_addr, 16);
        to->scope = ipv6->sin6_scope_id;
    } else if (from->ss_family == AF_INET) {
        const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)(const void *)from;

        to->family = DT_ADDRESS_IPV4;
        to->port = ntohs(ipv4->sin_port);
        memcpy(to->ip, &ipv4->sin_addr, 4);
    }
}

/* The status of the other end that an errno implies (stream.h). */
static enum dt_status status_of_errno(int error)
{
    switch (error) {
    case EAGAIN:
    case EINPROGRESS:
    case EINTR:
        return DT_AGAIN;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
        return DT_PEER_ERROR;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
        return DT_TIMED_OUT;
    default:
        return DT_SYSTEM;
    }
}

static enum dt_status end(struct tcp_stream *tcp, enum dt_status status)
{
    if (status != DT_AGAIN)
        tcp->ended = status;
    return status;
}

static struct tcp_stream *tcp_of(struct dt_stream *stream)
{
    return dt_container_of(stream, struct tcp_stream, stream);
}

static enum dt_status tcp_state(struct dt_stream *stream)
{
    struct tcp_stream *tcp = tcp_of(stream);
    struct pollfd poll_fd = {tcp->fd, POLLOUT, 0};
    socklen_t bytes = sizeof(int);
    int error = 0;

    if (tcp->ended != DT_OK || tcp->is_established)
        return tcp->ended;
    if (poll(&poll_fd, 1, 0) == 0)
        return DT_AGAIN;
    if (getsockopt(tcp->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error)
        return end(tcp, status_of_errno(error));
    tcp->is_established = true;
    return DT_OK;
}

static enum dt_status tcp_send(struct dt_stream *stream, const void *from, size_t bytes, size_t *sent)
{
    struct tcp_stream *tcp = tcp_of(stream);
    ssize_t done;

    if (tcp->ended != DT_OK)
        return tcp->ended;
    if (tcp->send_ended != DT_OK)
        return tcp->send_ended;
    done = send(tcp->fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done < 0) {
        enum dt_status status = status_of_errno(errno);

        tcp->send_ended = status == DT_AGAIN ? DT_OK : status;
        return status;
    }
    *sent = (size_t)done;
    return DT_OK;
}

static enum dt_status tcp_receive(struct dt_stream *stream, void *to, size_t bytes, size_t *received)
{
    struct tcp_stream *tcp = tcp_of(stream);
    ssize_t done;

    if (tcp->ended != DT_OK)
        return tcp->ended;
    done = recv(tcp->fd, to, bytes, MSG_DONTWAIT);
    if (done < 0)
        return end(tcp, status_of_errno(errno));
    if (done == 0)
        return end(tcp, tcp->send_ended != DT_OK ? tcp->send_ended : DT_CLOSED);
    *received = (size_t)done;
    return DT_OK;
}

static void tcp_peer(struct dt_stream *stream, struct dt_address *address)
{
    struct sockaddr_storage storage;
    socklen_t bytes = sizeof storage;

    memset(address, 0, sizeof *address);
    if (getpeername(tcp_of(stream)->fd, (struct sockaddr *)&storage, &bytes) == 0)
        from_sockaddr(&storage, address);
}

static int tcp_fd(struct dt_stream *stream)
{
    return tcp_of(stream)->fd;
}

/*
 * Unread bytes would turn the end into a reset, and a reset may overtake what was sent last: read them away,
 * but not for ever if the peer keeps talking.
 */
static void tcp_close(struct dt_stream *stream)
{
    struct tcp_stream *tcp = tcp_of(stream);
    char ignored[512];
    size_t received;

    shutdown(tcp->fd, SHUT_WR);
    for (int i = 0; i < 64 && tcp_receive(stream, ignored, sizeof ignored, &received) == DT_OK; i++)
        continue;
    close(tcp->fd);
    free(tcp);
}

static const struct dt_stream_ops tcp_stream_ops = {
    .state = tcp_state,
    .send = tcp_send,
    .receive = tcp_receive,
    .peer = tcp_peer,
    .fd = tcp_fd,
    .close = tcp_close,
};

/* Takes the descriptor over, also when there is no memory for the stream. */
static struct tcp_stream *stream_create(int fd, bool is_established)
{
    struct tcp_stream *tcp = calloc(1, sizeof *tcp);
    unsigned give_up_ms = GIVE_UP_MS;
    int on = 1;

    if (!tcp) {
        close(fd);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &give_up_ms, sizeof give_up_ms);
    tcp->stream.ops = &tcp_stream_ops;
    tcp->fd = fd;
    tcp->is_established = is_established;
    tcp->ended = DT_OK;
    return tcp;
}

static int socket_for(const struct dt_address *address)
{
    int family = address->family == DT_ADDRESS_IPV6 ? AF_INET6 : AF_INET;

    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static enum dt_status network_listen(struct dt_network *network, struct dt_address *address,
                                     struct dt_stream_port **out)
{
    struct tcp_port *port = calloc(1, sizeof *port);
    struct sockaddr_storage storage;
    socklen_t bytes = to_sockaddr(address, &storage);
    char text[DT_ADDRESS_TEXT_BYTES];

    (void)network;
    if (!port)
        return DT_NO_MEMORY;
    port->fd = socket_for(address);
    if (port->fd < 0 || bind(port->fd, (struct sockaddr *)&storage, bytes) != 0 ||
        listen(port->fd, BACKLOG) != 0)
        goto fail;
    bytes = sizeof storage;
    if (getsockname(port->fd, (struct sockaddr *)&storage, &bytes) != 0)
        goto fail;
    from_sockaddr(&storage, address);
    port->port.ops = dt_network_tcp()->ops;
    *out = &port->port;
    return DT_OK;
fail:
    dt_warn("listen-failed", "cannot listen on %s: %s", dt_address_text(address, text), strerror(errno));
    if (port->fd >= 0)
        close(port->fd);
    free(port);
    return DT_SYSTEM;
}

static struct tcp_port *port_of(struct dt_stream_port *port)
{
    return dt_container_of(port, struct tcp_port, port);
}

static enum dt_status network_accept(struct dt_stream_port *port, struct dt_stream **stream)
{
    int fd = accept4(port_of(port)->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct tcp_stream *tcp;

    if (fd < 0)
        return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? DT_AGAIN : DT_SYSTEM;
    tcp = stream_create(fd, true);
    if (!tcp)
        return DT_SYSTEM;
    *stream = &tcp->stream;
    return DT_OK;
}

static int network_port_fd(struct dt_stream_port *port)
{
    return port_of(port)->fd;
}

static void network_close_port(struct dt_stream_port *port)
{
    close(port_of(port)->fd);
    free(port_of(port));
}

static enum dt_status network_dial(struct dt_network *network, const struct dt_address *address,
                                   struct dt_stream **stream)
{
    struct sockaddr_storage storage;
    socklen_t bytes = to_sockaddr(address, &storage);
    int fd = socket_for(address);
    struct tcp_stream *tcp;
    char text[DT_ADDRESS_TEXT_BYTES];

    (void)network;
    if (fd < 0) {
        dt_warn("dial-failed", "cannot dial %s: %s", dt_address_text(address, text), strerror(errno));
        return DT_SYSTEM;
    }
    tcp = stream_create(fd, false);
    if (!tcp)
        return DT_NO_MEMORY;
    if (connect(fd, (struct sockaddr *)&storage, bytes) != 0)
        end(tcp, status_of_errno(errno));
    *stream = &tcp->stream;
    return DT_OK;
}

static const struct dt_network_ops tcp_network_ops = {
    .listen = network_listen,
    .accept = network_accept,
    .port_fd = network_port_fd,
    .close_port = network_close_port,
    .dial = network_dial,
};

struct dt_network *dt_network_tcp(void)
{
    static struct dt_network network = {&tcp_network_ops};

    return &network;
}
