/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include "obs/command_session.h"

#define SILENCE_NS (DT_SERVER_SILENCE_MS * DT_NS_PER_MS)
#define BACKLOG    64
#define PAUSE_NS   (100 * DT_NS_PER_MS) /* before accepting again after running out of descriptors */

struct client {
    int fd;             /* -1: free */
    uint64_t active_ns; /* time of the last progress */
    struct dt_command_session session;
};

struct dt_server {
    struct dt_command_table *table;
    char path[DT_RUNTIME_PATH_BYTES + 32];
    pid_t owner;
    int listen_fd;
    int stop_fd; /* eventfd */
    pthread_t thread;
    uint64_t accept_after_ns;
    struct client clients[DT_SERVER_CLIENTS_MAX];
};

/* ------------------------------------------------------------------------------------------------------------
 * Clients
 */
static void drop(struct client *client)
{
    close(client->fd);
    client->fd = -1;
}

static bool is_same_user_or_root(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) &&
           (peer.uid == geteuid() || peer.uid == 0);
}

/* A free slot, or that of the client idle longest. */
static struct client *free_slot(struct dt_server *server)
{
    struct client *oldest = &server->clients[0];

    for (size_t i = 0; i < DT_SERVER_CLIENTS_MAX; i++) {
        struct client *client = &server->clients[i];

        if (client->fd < 0)
            return client;
        if (client->active_ns < oldest->active_ns)
            oldest = client;
    }
    drop(oldest);
    DT_CHECK(oldest->fd < 0);
    return oldest;
}

static void accept_one(struct dt_server *server, uint64_t now_ns)
{
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct client *client;

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            server->accept_after_ns = now_ns + PAUSE_NS;
        return;
    }
    if (!is_same_user_or_root(fd)) {
        close(fd);
        return;
    }
    client = free_slot(server);
    client->fd = fd;
    client->active_ns = now_ns;
    dt_command_session_init(&client->session);
}

/* False: the client has closed, or is dropped. */
static bool read_some(struct client *client, struct dt_command_table *table)
{
    char bytes[DT_COMMAND_LINE_BYTES];
    ssize_t got = recv(client->fd, bytes, dt_command_session_room(&client->session), 0);

    if (got > 0)
        dt_command_session_feed(&client->session, bytes, (size_t)got, table);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool write_some(struct client *client, struct dt_command_table *table)
{
    size_t bytes;
    const char *from = dt_command_session_output(&client->session, &bytes);
    ssize_t sent = send(client->fd, from, bytes, MSG_NOSIGNAL);

    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    dt_command_session_sent(&client->session, (size_t)sent, table);
    dt_command_session_output(&client->session, &bytes);
    return bytes || !client->session.is_over;
}

/* One step per round, so that a client with much input does not delay the others. */
static void serve(struct dt_server *server, struct client *client, short events, uint64_t now_ns)
{
    bool stays = true;

    if (events & POLLOUT)
        stays = write_some(client, server->table);
    else if (events & POLLIN)
        stays = read_some(client, server->table);
    else if (events & (POLLERR | POLLHUP | POLLNVAL))
        stays = false;
    if (events)
        client->active_ns = now_ns;
    if (!stays || now_ns - client->active_ns > SILENCE_NS)
        drop(client);
}

/* ------------------------------------------------------------------------------------------------------------
 * The thread
 */
enum { POLL_STOP, POLL_LISTEN, POLL_CLIENTS, POLL_COUNT = POLL_CLIENTS + DT_SERVER_CLIENTS_MAX };

static short wanted_events(const struct client *client)
{
    size_t bytes;

    dt_command_session_output(&client->session, &bytes);
    return bytes ? POLLOUT : POLLIN;
}

/* Fills the poll set; returns the timeout in milliseconds, -1: none. */
static int prepare(const struct dt_server *server, struct pollfd *fds, uint64_t now_ns)
{
    int timeout_ms = -1;
    bool may_accept = now_ns >= server->accept_after_ns;

    fds[POLL_STOP] = (struct pollfd){.fd = server->stop_fd, .events = POLLIN};
    fds[POLL_LISTEN] = (struct pollfd){.fd = may_accept ? server->listen_fd : -1, .events = POLLIN};
    if (!may_accept)
        timeout_ms = (int)((server->accept_after_ns - now_ns) / DT_NS_PER_MS) + 1;
    for (size_t i = 0; i < DT_SERVER_CLIENTS_MAX; i++) {
        const struct client *client = &server->clients[i];

        fds[POLL_CLIENTS + i] = (struct pollfd){.fd = client->fd, .events = wanted_events(client)};
        if (client->fd >= 0 && timeout_ms < 0)
            timeout_ms = DT_SERVER_SILENCE_MS / 10;
    }
    return timeout_ms;
}

/* poll() fails if memory is short or the descriptor limit is below the number of entries: retry slowly. */
static void wait_for_events(struct pollfd *fds, int timeout_ms)
{
    if (poll(fds, POLL_COUNT, timeout_ms) >= 0)
        return;
    for (size_t i = 0; i < POLL_COUNT; i++)
        fds[i].revents = 0;
    poll(fds, 1, (int)(PAUSE_NS / DT_NS_PER_MS)); /* POLL_STOP */
}

static void *run(void *arg)
{
    struct dt_server *server = (struct dt_server *)arg;
    struct pollfd fds[POLL_COUNT];

    for (;;) {
        int timeout_ms = prepare(server, fds, dt_clock_now_ns());
        uint64_t now_ns;

        wait_for_events(fds, timeout_ms);
        if (fds[POLL_STOP].revents)
            return NULL;
        now_ns = dt_clock_now_ns();
        for (size_t i = 0; i < DT_SERVER_CLIENTS_MAX; i++) {
            if (server->clients[i].fd >= 0)
                serve(server, &server->clients[i], fds[POLL_CLIENTS + i].revents, now_ns);
        }
        if (fds[POLL_LISTEN].revents)
            accept_one(server, now_ns);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Start and stop
 */

/*
 * Listens before the rename, so that a sweep never finds a socket that does not listen. Until its mode is
 * set, the directory denies access. 0 or an errno.
 */
static int open_socket(struct dt_server *server, const struct dt_runtime_dir *dir, int pid)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error = 0;

    if (snprintf(address.sun_path, sizeof address.sun_path, "%s.new", server->path) >=
        (int)sizeof address.sun_path)
        return ENAMETOOLONG;
    if (dt_runtime_dir_is_taken(dir, DT_RUNTIME_SOCKET, pid))
        return EEXIST;
    server->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->listen_fd < 0)
        return errno;
    unlink(address.sun_path); /* left by a dead process with the same number */
    if (bind(server->listen_fd, (struct sockaddr *)&address, sizeof address) ||
        chmod(address.sun_path, 0600) || listen(server->listen_fd, BACKLOG) ||
        rename(address.sun_path, server->path))
        error = errno;
    if (error) {
        unlink(address.sun_path);
        close(server->listen_fd);
    }
    return error;
}

static int open_all(struct dt_server *server, const struct dt_runtime_dir *dir, int pid)
{
    int error = open_socket(server, dir, pid);

    if (error)
        return error;
    server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->stop_fd < 0) {
        error = errno;
        goto close_socket;
    }
    error = dt_thread_start(&server->thread, "detour-socket", run, server);
    if (!error)
        return 0;
    close(server->stop_fd);
close_socket:
    unlink(server->path);
    close(server->listen_fd);
    return error;
}

enum dt_status dt_server_start(const struct dt_runtime_dir *dir, int pid, struct dt_command_table *table,
                               struct dt_server **server, char *reason, size_t reason_bytes)
{
    struct dt_server *started = calloc(1, sizeof *started);
    char name[32];
    int error;

    if (!started) {
        snprintf(reason, reason_bytes, "no control socket: out of memory");
        return DT_NO_MEMORY;
    }
    dt_runtime_file_name(DT_RUNTIME_SOCKET, pid, name, sizeof name);
    snprintf(started->path, sizeof started->path, "%s/%s", dir->path, name);
    started->table = table;
    started->owner = getpid();
    for (size_t i = 0; i < DT_SERVER_CLIENTS_MAX; i++)
        started->clients[i].fd = -1;
    error = open_all(started, dir, pid);
    if (!error) {
        *server = started;
        return DT_OK;
    }
    snprintf(reason, reason_bytes, "no control socket %s: %s", started->path, strerror(error));
    free(started);
    return DT_SYSTEM;
}

void dt_server_stop(struct dt_server *server)
{
    uint64_t one = 1;

    if (server->owner == getpid()) {
        /* Cannot fail: the counter is 0. */
        if (write(server->stop_fd, &one, sizeof one) == (ssize_t)sizeof one)
            pthread_join(server->thread, NULL);
        unlink(server->path);
    }
    for (size_t i = 0; i < DT_SERVER_CLIENTS_MAX; i++) {
        if (server->clients[i].fd >= 0)
            close(server->clients[i].fd);
    }
    close(server->listen_fd);
    close(server->stop_fd);
    free(server);
}
