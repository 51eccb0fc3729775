/* SPDX-License-Identifier: Apache-2.0 */
#include "softrnic/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define HELLO_MAGIC    0x6c61636f6c2d7464ull /* "dt-local" */
#define PROTOCOL       1u
#define BACKLOG        128
#define SEALS_NEEDED   (F_SEAL_SHRINK | F_SEAL_GROW)
#define DESCRIPTOR_MAX 4 /* a peer may send several; all are closed */

static int close_with(int fd, int error)
{
    close(fd);
    return -error;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static struct dt_local_shared *map_shared(int fd)
{
    void *memory = mmap(NULL, sizeof(struct dt_local_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

int dt_rendezvous_memory(struct dt_local_shared **shared)
{
    int fd = memfd_create("detour-rnic", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, sizeof **shared) || fcntl(fd, F_ADD_SEALS, SEALS_NEEDED | F_SEAL_SEAL))
        return close_with(fd, errno);
    *shared = map_shared(fd);
    return *shared ? fd : close_with(fd, errno);
}

void dt_rendezvous_unmap(struct dt_local_shared *shared)
{
    munmap(shared, sizeof *shared);
}

/* Without the seals the peer could shrink the file, and every access would be a SIGBUS. */
static struct dt_local_shared *map_received(int fd)
{
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & SEALS_NEEDED) != SEALS_NEEDED || fstat(fd, &status) ||
        status.st_size != (off_t)sizeof(struct dt_local_shared))
        return NULL;
    return map_shared(fd);
}

/* ---- sockets ------------------------------------------------------------------------------------------- */

static socklen_t make_address(uint64_t instance, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    /* A leading zero byte makes the name abstract; the rest ends with the string. */
    int length =
        snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "detour-rnic-%016" PRIx64, instance);

    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int make_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}

/* The peer's process; -EPERM when it belongs to another user. */
static int identify(int fd, pid_t *pid)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes))
        return -errno;
    if (peer.uid != geteuid())
        return -EPERM;
    *pid = peer.pid;
    return 0;
}

int dt_rendezvous_listen(uint64_t instance)
{
    struct sockaddr_un address;
    socklen_t bytes = make_address(instance, &address);
    int fd = make_socket();

    if (fd < 0)
        return fd;
    if (bind(fd, (struct sockaddr *)&address, bytes) || listen(fd, BACKLOG))
        return close_with(fd, errno);
    return fd;
}

static int send_hello(int fd, const struct dt_hello *hello, int memory_fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)hello, .iov_len = sizeof *hello};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &memory_fd, sizeof memory_fd);
    return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *hello ? 0 : -errno;
}

int dt_rendezvous_call(uint64_t instance, struct dt_hello *hello, int memory_fd, pid_t *pid)
{
    struct sockaddr_un address;
    socklen_t bytes = make_address(instance, &address);
    int fd = make_socket();

    if (fd < 0)
        return fd;
    if (connect(fd, (struct sockaddr *)&address, bytes))
        return close_with(fd, errno);
    hello->magic = HELLO_MAGIC;
    hello->version = PROTOCOL;
    hello->bytes = sizeof *hello;
    hello->shared_bytes = sizeof(struct dt_local_shared);
    int error = identify(fd, pid);
    if (!error)
        error = send_hello(fd, hello, memory_fd);
    return error ? close_with(fd, -error) : fd;
}

int dt_rendezvous_accept(int listen_fd, pid_t *pid)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return -errno;
    int error = identify(fd, pid);
    return error ? close_with(fd, -error) : fd;
}

/* The descriptors that came with a message; returns how many. */
static int take_descriptors(struct msghdr *message, int fds[DESCRIPTOR_MAX])
{
    int count = 0;

    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        int here = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < here && count < DESCRIPTOR_MAX; i++)
            memcpy(&fds[count++], CMSG_DATA(header) + (size_t)i * sizeof(int), sizeof(int));
    }
    return count;
}

static int is_hello(const struct dt_hello *hello, ssize_t bytes)
{
    return bytes == (ssize_t)sizeof *hello && hello->magic == HELLO_MAGIC && hello->version == PROTOCOL &&
           hello->bytes == sizeof *hello && hello->shared_bytes == sizeof(struct dt_local_shared);
}

int dt_rendezvous_receive(int fd, struct dt_hello *hello, struct dt_local_shared **shared)
{
    union {
        char bytes[CMSG_SPACE(DESCRIPTOR_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = hello, .iov_len = sizeof *hello};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    int fds[DESCRIPTOR_MAX];
    ssize_t bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);

    if (bytes < 0)
        return errno == EAGAIN || errno == EINTR ? -EAGAIN : -ECONNRESET;
    if (bytes == 0)
        return -ECONNRESET;
    int count = take_descriptors(&message, fds);
    *shared = NULL;
    if (count == 1 && is_hello(hello, bytes) && !(message.msg_flags & MSG_TRUNC))
        *shared = map_received(fds[0]);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    return *shared ? 0 : -EPROTO;
}

/* ---- the other's life ---------------------------------------------------------------------------------- */

int dt_process_watch(pid_t pid)
{
#ifdef SYS_pidfd_open
    return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
#else
    (void)pid;
    return -1;
#endif
}

void dt_rendezvous_wake(int fd)
{
    /* A full socket already holds a byte; a dead one has no peer to wake. */
    ssize_t ignored = send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);

    (void)ignored;
}

int dt_rendezvous_is_gone(int fd, int watch_fd)
{
    struct pollfd polled[2] = {{.fd = fd, .events = 0}, {.fd = watch_fd, .events = POLLIN}};

    /* POLLHUP and POLLERR are reported unasked; entries below zero are skipped. */
    return poll(polled, 2, 0) > 0;
}
