/* SPDX-License-Identifier: Apache-2.0 */
#include "softrnic/local_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "softrnic/gid.h"
#include "softrnic/local_link.h"

/* Somebody who has called and not said hello. */
struct stranger {
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
 * Nobody holds an event of it: epoll is asked again before the next source runs (driver.c). Its descriptor
 * may be somebody else's by now.
 */
static void forget_stranger(struct stranger *stranger)
{
    dt_list_remove(&stranger->node);
    stranger->host->stranger_count--;
    free(stranger);
}

static void drop_stranger(struct stranger *stranger)
{
    dt_local_host_unwatch(stranger->host, stranger->fd);
    close(stranger->fd);
    forget_stranger(stranger);
}

/* Gives a caller to the wire that it asks for; drops it when there is none. */
static void introduce(struct stranger *stranger, const struct dt_hello *hello, struct dt_local_shared *shared)
{
    struct dt_local_host *host = stranger->host;
    uint64_t instance;
    uint32_t device;
    bool is_taken = false;

    pthread_mutex_lock(&host->lock);
    if (dt_gid_parse(hello->dst_gid, &instance, &device) && instance == host->instance &&
        device < DT_LOCAL_WIRES_MAX && host->wires[device]) {
        dt_local_host_unwatch(host, stranger->fd);
        dt_local_wire_take_caller(host->wires[device], hello, stranger->fd, stranger->pid, shared);
        is_taken = true;
    }
    pthread_mutex_unlock(&host->lock);
    if (is_taken) {
        forget_stranger(stranger);
    } else {
        dt_rendezvous_unmap(shared);
        drop_stranger(stranger);
    }
}

static void stranger_ready(struct dt_source *source, uint32_t events, uint64_t now_ns)
{
    struct stranger *stranger = dt_container_of(source, struct stranger, source);
    struct dt_local_shared *shared;
    struct dt_hello hello;
    int error = dt_rendezvous_hear(stranger->fd, &hello, &shared);

    (void)events;
    (void)now_ns;
    if (!error) {
        introduce(stranger, &hello, shared);
    } else if (error != -EAGAIN) {
        if (error == -EPROTO)
            dt_info("soft-hello", "software RNIC: process %d connected and sent no valid HELLO; dropped",
                    (int)stranger->pid);
        drop_stranger(stranger);
    }
}

static void admit(struct dt_local_host *host, int fd, pid_t pid, uint64_t now_ns)
{
    struct stranger *stranger = calloc(1, sizeof *stranger);

    if (!stranger) {
        close(fd);
        return;
    }
    stranger->host = host;
    stranger->fd = fd;
    stranger->pid = pid;
    stranger->source.ready = stranger_ready;
    stranger->deadline_ns = dt_deadline_ns(now_ns, DT_LOCAL_STRANGER_NS);
    dt_list_push_back(&host->strangers, &stranger->node);
    host->stranger_count++;
    if (dt_local_host_watch(host, fd, EPOLLIN, &stranger->source))
        drop_stranger(stranger);
}

static struct stranger *oldest_stranger(const struct dt_local_host *host)
{
    return dt_list_is_empty(&host->strangers) ? NULL
                                              : dt_container_of(host->strangers.next, struct stranger, node);
}

/* The caller still waits, and the descriptor would fire for him without end. */
static void pause_listening(struct dt_local_host *host, int error, uint64_t now_ns)
{
    dt_local_host_unwatch(host, host->listen_fd);
    host->listen_again_ns = dt_deadline_ns(now_ns, DT_LOCAL_LISTEN_NS);
    if (!host->said_full)
        dt_warn("soft-accept", "software RNIC: a connection cannot be accepted: %s", strerror(error));
    host->said_full = true;
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
        if (host->stranger_count >= DT_LOCAL_STRANGERS_MAX)
            drop_stranger(oldest_stranger(host));
        admit(host, fd, pid, now_ns);
    }
    if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS)
        pause_listening(host, -fd, now_ns);
}

void dt_local_host_progress(struct dt_local_host *host, uint64_t now_ns)
{
    struct stranger *stranger;

    if (host->listen_again_ns <= now_ns)
        listen_again(host, now_ns);
    while ((stranger = oldest_stranger(host)) && stranger->deadline_ns <= now_ns) {
        dt_info("soft-silent", "software RNIC: process %d connected and sent nothing; dropped",
                (int)stranger->pid);
        drop_stranger(stranger);
    }
}

uint64_t dt_local_host_deadline_ns(const struct dt_local_host *host)
{
    const struct stranger *stranger = oldest_stranger(host);

    return dt_earlier_ns(host->listen_again_ns, stranger ? stranger->deadline_ns : DT_NEVER_NS);
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
    dt_list_init(&host->strangers);
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
    struct stranger *stranger;

    while ((stranger = oldest_stranger(host)))
        drop_stranger(stranger);
    dt_local_host_unwatch(host, host->listen_fd);
    /* Shared with any child that was forked meanwhile: callers shall not wait for it. */
    shutdown(host->listen_fd, SHUT_RDWR);
    close(host->listen_fd);
    pthread_mutex_destroy(&host->lock);
    free(host);
}

void dt_local_host_abandon(struct dt_local_host *host)
{
    dt_list_for_each(node, &host->strangers) close(dt_container_of(node, struct stranger, node)->fd);
    close(host->listen_fd);
}
