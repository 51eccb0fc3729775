/* SPDX-License-Identifier: Apache-2.0 */
#include "softrnic/local_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "softrnic/gid.h"
#include "softrnic/local_copy.h"

/* ---- memory ---------------------------------------------------------------------------------------------
 */

static struct dt_local_memory *make_memory(struct dt_local_shared *shared, uint32_t refs)
{
    struct dt_local_memory *memory = calloc(1, sizeof *memory);

    if (!memory)
        return NULL;
    memory->shared = shared;
    memory->refs = refs;
    return memory;
}

/* For two RNICs of one process. */
static struct dt_local_memory *make_private_memory(void)
{
    void *shared = mmap(NULL, sizeof(struct dt_local_shared), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (shared == MAP_FAILED)
        return NULL;
    struct dt_local_memory *memory = make_memory(shared, 2);
    if (!memory)
        dt_rendezvous_unmap(shared);
    return memory;
}

static void drop_memory(struct dt_local_memory *memory)
{
    uint32_t refs = memory ? dt_fetch_sub_acq_rel(&memory->refs, 1) : 0;

    DT_CHECK(!memory || (refs >= 1 && refs <= 2)); /* one for each end in this process */
    if (refs == 1) {
        dt_rendezvous_unmap(memory->shared);
        free(memory);
    }
}

/* ---- sockets --------------------------------------------------------------------------------------------
 */

/* On the helper thread. A byte only wakes it; anything else is the end of the connection. */
static void socket_ready(struct dt_source *source, uint32_t events, uint64_t now_ns)
{
    struct dt_local_socket *sock = dt_container_of(source, struct dt_local_socket, source);
    char bytes[64];
    ssize_t got;

    (void)events;
    (void)now_ns;
    do
        got = recv(sock->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    while (got > 0);
    if ((got < 0 && errno == EAGAIN) && !dt_rendezvous_is_gone(sock->fd, sock->watch_fd))
        return;
    dt_local_host_unwatch(sock->host, sock->fd);
    if (sock->watch_fd >= 0)
        dt_local_host_unwatch(sock->host, sock->watch_fd);
    dt_store_release(&sock->hung_up, 1);
}

static void init_socket(struct dt_local_socket *sock, struct dt_local_host *host)
{
    sock->source.ready = socket_ready;
    sock->host = host;
    sock->fd = -1;
    sock->watch_fd = -1;
    dt_store_relaxed(&sock->hung_up, 0);
}

/* Takes over `fd`. 0 or an errno; then it is closed. */
static int open_socket(struct dt_local_socket *sock, int fd, pid_t pid)
{
    DT_CHECK(sock->fd < 0 && sock->watch_fd < 0);
    sock->fd = fd;
    sock->watch_fd = dt_process_watch(pid);
    int error = dt_local_host_watch(sock->host, fd, EPOLLIN, &sock->source);
    if (!error && sock->watch_fd >= 0)
        error = dt_local_host_watch(sock->host, sock->watch_fd, EPOLLIN, &sock->source);
    return error;
}

static void close_socket(struct dt_local_socket *sock)
{
    if (sock->fd < 0)
        return;
    dt_local_host_unwatch(sock->host, sock->fd);
    /* A child forked meanwhile holds a copy of the descriptor: shutdown ends the connection all the same. */
    shutdown(sock->fd, SHUT_RDWR);
    close(sock->fd);
    if (sock->watch_fd >= 0) {
        dt_local_host_unwatch(sock->host, sock->watch_fd);
        close(sock->watch_fd);
    }
    sock->fd = -1;
    sock->watch_fd = -1;
}

void dt_local_socket_abandon(struct dt_local_socket *sock)
{
    if (sock->fd >= 0)
        close(sock->fd);
    if (sock->watch_fd >= 0)
        close(sock->watch_fd);
    sock->fd = -1;
    sock->watch_fd = -1;
}

/* ---- the receiving end ----------------------------------------------------------------------------------
 */

/* Takes over a reference to `memory`; `fd` may be -1. NULL, with nothing taken, when memory is short. */
static struct dt_inbound *create_inbound(struct dt_local_wire *wire, struct dt_local_memory *memory, int fd,
                                         pid_t pid)
{
    struct dt_inbound *inbound = calloc(1, sizeof *inbound);

    if (!inbound)
        return NULL;
    inbound->wire = wire;
    inbound->memory = memory;
    inbound->pid = pid;
    dt_list_init(&inbound->node);
    dt_local_ring_init(&inbound->ring, memory->shared, false);
    init_socket(&inbound->socket, wire->host);
    if (fd >= 0 && open_socket(&inbound->socket, fd, pid)) {
        dt_local_host_unwatch(wire->host, fd);
        if (inbound->socket.watch_fd >= 0)
            close(inbound->socket.watch_fd);
        free(inbound);
        return NULL;
    }
    /* Within one process the kernel always permits it, unless a seccomp filter forbids the call. */
    if (fd < 0) {
        uint64_t word = wire->host->instance, copy;
        struct iovec probe = {.iov_base = &word, .iov_len = sizeof word};

        dt_store_relaxed(&memory->shared->can_fetch,
                         !wire->host->options.no_process_vm &&
                             dt_fetch(pid, &probe, 1, 0, &copy, sizeof copy) == 0);
    }
    return inbound;
}

void dt_inbound_destroy(struct dt_inbound *inbound)
{
    DT_CHECK(dt_list_is_empty(&inbound->node));
    close_socket(&inbound->socket);
    dt_store_release(&inbound->memory->consumer_gone, 1);
    drop_memory(inbound->memory);
    free(inbound);
}

/* Hands an inbound to its wire. host->lock is held. */
static void announce(struct dt_inbound *inbound)
{
    DT_CHECK(dt_list_is_empty(&inbound->node));
    dt_list_push_back(&inbound->wire->new_inbounds, &inbound->node);
    dt_store_relaxed(&inbound->wire->has_new_inbounds, 1);
}

/* ---- the sending end ------------------------------------------------------------------------------------
 */

static void start_ring(struct dt_wire_link *link, struct dt_local_memory *memory)
{
    const struct dt_local_host_options *options = &link->wire->host->options;

    DT_CHECK(!link->memory);
    link->memory = memory;
    dt_local_ring_init(&link->ring, memory->shared, !options->no_process_vm && !options->prefers_copy);
}

/* To an RNIC of this process. */
static void open_here(struct dt_wire_link *link, uint32_t device)
{
    struct dt_local_host *host = link->wire->host;

    pthread_mutex_lock(&host->lock);
    struct dt_local_wire *peer = device < DT_LOCAL_WIRES_MAX ? host->wires[device] : NULL;
    struct dt_local_memory *memory = peer ? make_private_memory() : NULL;
    struct dt_inbound *inbound = memory ? create_inbound(peer, memory, -1, host->pid) : NULL;
    if (inbound) {
        start_ring(link, memory);
        announce(inbound);
    } else if (memory) {
        drop_memory(memory);
        drop_memory(memory);
    }
    pthread_mutex_unlock(&host->lock);
    if (inbound)
        host->options.kick(host->options.kick_arg);
}

/* To another process. */
static void open_there(struct dt_wire_link *link, uint64_t instance)
{
    struct dt_hello hello = {.probe_addr = (uintptr_t)&link->probe, .probe_value = link->probe};
    struct dt_local_shared *shared;
    pid_t pid;
    int memory_fd = dt_rendezvous_memory(&shared);

    if (memory_fd < 0)
        return;
    memcpy(hello.src_gid, link->wire->gid, sizeof hello.src_gid);
    memcpy(hello.dst_gid, link->gid, sizeof hello.dst_gid);
    struct dt_local_memory *memory = make_memory(shared, 1);
    int fd = memory ? dt_rendezvous_call(instance, &hello, memory_fd, &pid) : -ENOMEM;
    close(memory_fd);
    if (fd < 0 || open_socket(&link->socket, fd, pid)) {
        close_socket(&link->socket);
        if (memory)
            drop_memory(memory);
        else
            dt_rendezvous_unmap(shared);
        return;
    }
    start_ring(link, memory);
}

static void open_link(struct dt_wire_link *link)
{
    struct dt_local_host *host = link->wire->host;
    uint64_t instance;
    uint32_t device;

    init_socket(&link->socket, host);
    if (!dt_gid_parse(link->gid, &instance, &device))
        return; /* no RNIC has this address: packets to it are lost */
    if (instance == host->instance)
        open_here(link, device);
    else
        open_there(link, instance);
}

static void close_link(struct dt_wire_link *link)
{
    close_socket(&link->socket);
    if (link->memory) {
        dt_store_release(&link->memory->producer_gone, 1);
        drop_memory(link->memory);
    }
    link->memory = NULL;
}

struct dt_wire_link *dt_link_create(struct dt_local_wire *wire, const uint8_t gid[16])
{
    struct dt_wire_link *link = calloc(1, sizeof *link);

    if (!link)
        return NULL;
    link->wire = wire;
    memcpy(link->gid, gid, sizeof link->gid);
    if (getrandom(&link->probe, sizeof link->probe, GRND_NONBLOCK) != (ssize_t)sizeof link->probe)
        link->probe = (uintptr_t)link ^ wire->host->instance;
    open_link(link);
    dt_list_push_back(&wire->links, &link->node);
    return link;
}

void dt_link_destroy(struct dt_wire_link *link)
{
    DT_CHECK(dt_list_is_empty(&link->node));
    if (link->wire->faults)
        dt_faults_forget_link(link->wire->faults, link);
    close_link(link);
    free(link);
}

void dt_link_reopen(struct dt_wire_link *link, uint64_t now_ns)
{
    if (now_ns < link->retry_ns)
        return;
    /* The helper thread owns the descriptor until it has recorded its end, soon after the peer sets its flag.
     */
    if (link->socket.fd >= 0 && !dt_load_acquire(&link->socket.hung_up))
        return;
    link->retry_ns = dt_deadline_ns(now_ns, DT_LOCAL_RETRY_NS);
    close_link(link);
    open_link(link);
}

void dt_link_release(struct dt_wire_link *link)
{
    DT_CHECK(dt_link_is_gone(link));
    close_link(link);
    link->is_blocked = false;
}

void dt_link_hang_up(struct dt_wire_link *link)
{
    /* Not closed, as above. */
    if (link->socket.fd >= 0)
        shutdown(link->socket.fd, SHUT_RDWR);
}

void dt_link_wake(struct dt_wire_link *link)
{
    struct dt_local_host *host = link->wire->host;

    if (link->socket.fd >= 0)
        dt_rendezvous_wake(link->socket.fd);
    else
        host->options.kick(host->options.kick_arg);
}

/* ---- peers in other processes, and their payload ---- */

void dt_local_wire_accept(struct dt_local_wire *wire, const struct dt_hello *hello, int fd, pid_t pid,
                          struct dt_local_shared *shared)
{
    struct dt_local_memory *memory = make_memory(shared, 1);
    struct dt_inbound *inbound = memory ? create_inbound(wire, memory, fd, pid) : NULL;

    if (!inbound) {
        free(memory);
        dt_rendezvous_unmap(shared);
        close(fd);
        return;
    }
    struct iovec probe = {.iov_base = (void *)(uintptr_t)hello->probe_addr, .iov_len = sizeof(uint64_t)};
    uint64_t value;
    /* The expected value at this address proves that it is that process and that the kernel permits reading
     * it. */
    if (!wire->host->options.no_process_vm && pid > 0 &&
        dt_fetch(pid, &probe, 1, 0, &value, sizeof value) == 0 && value == hello->probe_value)
        dt_store_relaxed(&shared->can_fetch, 1);
    announce(inbound);
}

/* Reads one piece and verifies that the payload was still valid afterwards. 0 or an errno. */
static int fetch_piece(struct dt_inbound *inbound, const struct dt_local_payload *payload, uint64_t offset,
                       uint64_t bytes)
{
    int error = dt_inbound_is_gone(inbound) ? ESRCH
                                            : dt_fetch(inbound->pid, payload->iov, payload->iov_count, offset,
                                                       inbound->wire->piece, bytes);

    /* If the process had ended and its number been reused, these would be another process's bytes. */
    if (!error && inbound->socket.fd >= 0 &&
        dt_rendezvous_is_gone(inbound->socket.fd, inbound->socket.watch_fd))
        error = ESRCH;
    if (!error && dt_local_ring_is_revoked(&inbound->ring, payload))
        error = ESTALE;
    return error;
}

int dt_inbound_fetch(struct dt_inbound *inbound, const struct dt_local_payload *payload, uint64_t offset,
                     void *dst, uint64_t bytes)
{
    struct dt_local_counters *counters = &inbound->wire->counters;
    int error = inbound->wire->host->options.no_process_vm ? EPERM : 0;

    counters->fetches++;
    for (uint64_t done = 0; done < bytes && !error;) {
        uint64_t piece_bytes = dt_min_u64(bytes - done, DT_FETCH_PIECE_BYTES);

        error = fetch_piece(inbound, payload, offset + done, piece_bytes);
        if (!error)
            dt_copy_ascending((uint8_t *)dst + done, inbound->wire->piece, piece_bytes);
        done += piece_bytes;
    }
    if (error == EPERM || error == ENOSYS)
        dt_store_relaxed(&inbound->memory->shared->can_fetch, 0);
    if (error)
        counters->fetch_errors++;
    return error;
}

void dt_inbound_made_room(struct dt_inbound *inbound)
{
    struct dt_local_host *host = inbound->wire->host;

    if (!dt_local_ring_is_waited_for(&inbound->ring))
        return;
    if (inbound->socket.fd >= 0)
        dt_rendezvous_wake(inbound->socket.fd);
    else
        host->options.kick(host->options.kick_arg);
}
