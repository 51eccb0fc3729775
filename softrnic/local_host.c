/* SPDX-License-Identifier: Apache-2.0 */
#include "softrnic/local_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "softrnic/gid.h"
#include "softrnic/local_link.h"

/* A peer that has connected and not sent HELLO yet. */
struct pending_peer {
    struct dt_list node;
    struct dt_source source;
    struct dt_local_host *host;
    uint64_t deadline_ns;
    int fd;
    pid_t pid;
};

int dt_local_host_watch(struct dt_local_host *host, int fd, uint32_t events, struct dt_source *source)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    return epoll_ctl(host->options.epoll_fd, EPOLL_CTL_ADD, fd, &event) ? errno : 0;
}

void dt_local_host_unwatch(struct dt_local_host *host, int fd)
{
    epoll_ctl(host->options.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- callers --------------------------------------------------------------------------------------------
 */

/*
 * Frees a peer. No event of it is outstanding: the driver calls epoll again before it runs the next source.
 * The peer's descriptor may have a new owner by now.
 */
static void forget_pending(struct pending_peer *peer)
{
    DT_CHECK(peer->host->pending_count > 0 && !dt_list_is_empty(&peer->node));
    dt_list_remove(&peer->node);
    peer->host->pending_count--;
    free(peer);
}

static void drop_pending(struct pending_peer *peer)
{
    dt_local_host_unwatch(peer->host, peer->fd);
    close(peer->fd);
    forget_pending(peer);
}

/* Hands a peer to the wire that its HELLO names; drops it when there is none. */
static void assign(struct pending_peer *peer, const struct dt_hello *hello, struct dt_local_shared *shared)
{
    struct dt_local_host *host = peer->host;
    uint64_t instance;
    uint32_t device;
    bool is_taken = false;

    pthread_mutex_lock(&host->lock);
    if (dt_gid_parse(hello->dst_gid, &instance, &device) && instance == host->instance &&
        device < DT_LOCAL_WIRES_MAX && host->wires[device]) {
        dt_local_host_unwatch(host, peer->fd);
        dt_local_wire_accept(host->wires[device], hello, peer->fd, peer->pid, shared);
        is_taken = true;
    }
    pthread_mutex_unlock(&host->lock);
    if (is_taken) {
        forget_pending(peer);
    } else {
        dt_rendezvous_unmap(shared);
        drop_pending(peer);
    }
}

static void pending_ready(struct dt_source *source, uint32_t events, uint64_t now_ns)
{
    struct pending_peer *peer = dt_container_of(source, struct pending_peer, source);
    struct dt_local_shared *shared;
    struct dt_hello hello;
    int error = dt_rendezvous_receive(peer->fd, &hello, &shared);

    (void)events;
    (void)now_ns;
    if (!error) {
        assign(peer, &hello, shared);
    } else if (error != -EAGAIN) {
        if (error == -EPROTO)
            dt_info("soft-hello", "software RNIC: process %d connected and sent no valid HELLO; dropped",
                    (int)peer->pid);
        drop_pending(peer);
    }
}

static void admit(struct dt_local_host *host, int fd, pid_t pid, uint64_t now_ns)
{
    struct pending_peer *peer = calloc(1, sizeof *peer);

    if (!peer) {
        close(fd);
        return;
    }
    peer->host = host;
    peer->fd = fd;
    peer->pid = pid;
    peer->source.ready = pending_ready;
    peer->deadline_ns = dt_deadline_ns(now_ns, DT_LOCAL_PENDING_NS);
    dt_list_push_back(&host->pending, &peer->node);
    host->pending_count++;
    DT_CHECK(host->pending_count <= DT_LOCAL_PENDING_MAX);
    if (dt_local_host_watch(host, fd, EPOLLIN, &peer->source))
        drop_pending(peer);
}

static struct pending_peer *oldest_pending(const struct dt_local_host *host)
{
    return dt_list_is_empty(&host->pending) ? NULL
                                            : dt_container_of(host->pending.next, struct pending_peer, node);
}

/* The connection stays in the backlog and the descriptor would fire without end, so listening pauses. */
static void pause_listening(struct dt_local_host *host, int error, uint64_t now_ns)
{
    dt_local_host_unwatch(host, host->listen_fd);
    host->listen_again_ns = dt_deadline_ns(now_ns, DT_LOCAL_LISTEN_NS);
    if (!host->warned_full)
        dt_warn("soft-accept", "software RNIC: a connection cannot be accepted: %s", strerror(error));
    host->warned_full = true;
}

static void listen_again(struct dt_local_host *host, uint64_t now_ns)
{
    if (dt_local_host_watch(host, host->listen_fd, EPOLLIN, &host->listener))
        host->listen_again_ns = dt_deadline_ns(now_ns, DT_LOCAL_LISTEN_NS);
    else
        host->listen_again_ns = DT_NEVER_NS;
}

static void listener_ready(struct dt_source *source, uint32_t events, uint64_t now_ns)
{
    struct dt_local_host *host = dt_container_of(source, struct dt_local_host, listener);
    pid_t pid;
    int fd;

    (void)events;
    while ((fd = dt_rendezvous_accept(host->listen_fd, &pid)) >= 0 || fd == -EPERM) {
        if (fd < 0)
            continue;
        if (host->pending_count >= DT_LOCAL_PENDING_MAX)
            drop_pending(oldest_pending(host));
        admit(host, fd, pid, now_ns);
    }
    if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS)
        pause_listening(host, -fd, now_ns);
}

void dt_local_host_progress(struct dt_local_host *host, uint64_t now_ns)
{
    struct pending_peer *peer;

    if (host->listen_again_ns <= now_ns)
        listen_again(host, now_ns);
    while ((peer = oldest_pending(host)) && peer->deadline_ns <= now_ns) {
        dt_info("soft-silent", "software RNIC: process %d connected and sent nothing; dropped",
                (int)peer->pid);
        drop_pending(peer);
    }
}

uint64_t dt_local_host_deadline_ns(const struct dt_local_host *host)
{
    const struct pending_peer *peer = oldest_pending(host);

    return dt_earlier_ns(host->listen_again_ns, peer ? peer->deadline_ns : DT_NEVER_NS);
}

/* ---- life -----------------------------------------------------------------------------------------------
 */

int dt_local_host_create(const struct dt_local_host_options *options, struct dt_local_host **out)
{
    struct dt_local_host *host = calloc(1, sizeof *host);
    int error;

    if (!host)
        return ENOMEM;
    host->options = *options;
    host->pid = getpid();
    host->listener.ready = listener_ready;
    host->listen_again_ns = DT_NEVER_NS;
    dt_list_init(&host->pending);
    pthread_mutex_init(&host->lock, NULL);
    host->instance = options->instance;
    host->listen_fd = dt_rendezvous_listen(host->instance);
    if (host->listen_fd < 0) {
        error = -host->listen_fd;
        goto err_free;
    }
    error = dt_local_host_watch(host, host->listen_fd, EPOLLIN, &host->listener);
    if (error)
        goto err_close;
    *out = host;
    return 0;

err_close:
    close(host->listen_fd);
err_free:
    pthread_mutex_destroy(&host->lock);
    free(host);
    return error;
}

void dt_local_host_destroy(struct dt_local_host *host)
{
    struct pending_peer *peer;

    while ((peer = oldest_pending(host)))
        drop_pending(peer);
    DT_CHECK(host->pending_count == 0);
    for (uint32_t i = 0; i < DT_LOCAL_WIRES_MAX; i++)
        DT_CHECK(!host->wires[i]);
    dt_local_host_unwatch(host, host->listen_fd);
    /* A child forked meanwhile shares the socket: peers must not wait for that child. */
    shutdown(host->listen_fd, SHUT_RDWR);
    close(host->listen_fd);
    pthread_mutex_destroy(&host->lock);
    free(host);
}

void dt_local_host_abandon(struct dt_local_host *host)
{
    dt_list_for_each(node, &host->pending) close(dt_container_of(node, struct pending_peer, node)->fd);
    close(host->listen_fd);
}
