/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnccl-net-benchtcp.so: ncclNet v8 over TCP on the loopback interface. It is what Detour is compared with
 * and what `detour perf` is tested with; it is never installed. One non-blocking socket per connection; a
 * message is its size and then its bytes; progress is made inside isend, irecv and test. A send is done when
 * the kernel has taken all bytes. Two devices, so that callers see more than one.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "plugin/nccl_net_v8.h"

#define DEVICE_COUNT 2
#define MAGIC        0x62656e6368746370ull

struct handle {
    uint64_t magic;
    struct sockaddr_in address;
};

/* One message under way: first the 8 bytes of its size, then its bytes. */
struct request {
    struct comm *comm;
    char *data;
    size_t capacity; /* receiving: what fits */
    uint64_t bytes;  /* of the message */
    size_t moved;    /* of size and data together */
    int busy;
    int done;
};

struct comm {
    int fd;
    int sends;
    uint64_t posted;
    uint64_t finished; /* requests [finished, posted) are under way, oldest first */
    struct request requests[NCCL_NET_MAX_REQUESTS];
};

static ncclResult_t tcp_init(ncclDebugLogger_t logger)
{
    logger(NCCL_LOG_INFO, NCCL_INIT | NCCL_NET, __func__, __LINE__, "BenchTCP: TCP over loopback, %d devices",
           DEVICE_COUNT);
    return ncclSuccess;
}

static ncclResult_t tcp_devices(int *count)
{
    *count = DEVICE_COUNT;
    return ncclSuccess;
}

static ncclResult_t tcp_properties(int dev, ncclNetProperties_v8_t *properties)
{
    static char names[DEVICE_COUNT][8] = {"tcp0", "tcp1"};

    if (dev < 0 || dev >= DEVICE_COUNT)
        return ncclInvalidArgument;
    memset(properties, 0, sizeof *properties);
    properties->name = names[dev];
    properties->guid = (uint64_t)dev + 1;
    properties->ptrSupport = NCCL_PTR_HOST;
    properties->speed = 10000;
    properties->port = 1;
    properties->maxComms = 65536;
    properties->maxRecvs = 1;
    return ncclSuccess;
}

static int new_socket(void)
{
    return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* A listening socket on the loopback interface; at *address. -1 on failure. */
static int listen_anywhere(struct sockaddr_in *address)
{
    socklen_t length = sizeof *address;
    int fd = new_socket();

    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd >= 0 && !bind(fd, (struct sockaddr *)address, length) && !listen(fd, 16) &&
        !getsockname(fd, (struct sockaddr *)address, &length))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static ncclResult_t tcp_listen(int dev, void *handle, void **listen_comm)
{
    struct handle *out = handle;
    int *fd = malloc(sizeof *fd);

    (void)dev;
    *listen_comm = NULL;
    if (!fd)
        return ncclSystemError;
    memset(handle, 0, NCCL_NET_HANDLE_MAXSIZE);
    out->magic = MAGIC;
    *fd = listen_anywhere(&out->address);
    if (*fd < 0) {
        free(fd);
        return ncclSystemError;
    }
    *listen_comm = fd;
    return ncclSuccess;
}

static struct comm *new_comm(int fd, int sends)
{
    struct comm *comm = calloc(1, sizeof *comm);
    int one = 1;

    if (!comm)
        return NULL;
    comm->fd = fd;
    comm->sends = sends;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return comm;
}

/* On loopback a connect is over before it returns; one call does it. */
static ncclResult_t tcp_connect(int dev, void *handle, void **send_comm,
                                ncclNetDeviceHandle_v8_t **device_handle)
{
    const struct handle *to = handle;

    (void)dev;
    *send_comm = NULL;
    if (device_handle)
        *device_handle = NULL;
    if (to->magic != MAGIC)
        return ncclInvalidArgument;
    int fd = new_socket();
    if (fd < 0)
        return ncclSystemError;
    if (connect(fd, (const struct sockaddr *)&to->address, sizeof to->address) && errno != EINPROGRESS) {
        close(fd);
        return ncclRemoteError;
    }
    *send_comm = new_comm(fd, 1);
    return *send_comm ? ncclSuccess : ncclSystemError;
}

static ncclResult_t tcp_accept(void *listen_comm, void **recv_comm, ncclNetDeviceHandle_v8_t **device_handle)
{
    int fd = accept4(*(int *)listen_comm, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    *recv_comm = NULL;
    if (device_handle)
        *device_handle = NULL;
    if (fd < 0)
        return errno == EAGAIN ? ncclSuccess : ncclSystemError;
    *recv_comm = new_comm(fd, 0);
    return *recv_comm ? ncclSuccess : ncclSystemError;
}

static ncclResult_t tcp_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    (void)comm;
    (void)size;
    *mhandle = data;
    return type == NCCL_PTR_HOST ? ncclSuccess : ncclInvalidUsage;
}

static ncclResult_t tcp_dereg_mr(void *comm, void *mhandle)
{
    (void)comm;
    (void)mhandle;
    return ncclSuccess;
}

/* What is left of a request: the rest of the size, then the rest of the data. */
static int remaining(struct request *request, struct iovec *parts)
{
    int count = 0;
    size_t head = sizeof request->bytes;

    if (request->moved < head)
        parts[count++] = (struct iovec){(char *)&request->bytes + request->moved, head - request->moved};
    if (request->comm->sends || request->moved >= head) {
        size_t at = request->moved > head ? request->moved - head : 0;

        if (request->bytes > at)
            parts[count++] = (struct iovec){request->data + at, request->bytes - at};
    }
    return count;
}

/* Moves one request as far as the socket goes. */
static ncclResult_t move(struct request *request)
{
    struct comm *comm = request->comm;
    struct iovec parts[2];
    int count;

    while ((count = remaining(request, parts)) > 0) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
        ssize_t moved =
            comm->sends ? sendmsg(comm->fd, &message, MSG_NOSIGNAL) : recvmsg(comm->fd, &message, 0);

        if (moved < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN))
            return ncclSuccess;
        if (moved <= 0)
            return ncclRemoteError;
        request->moved += (size_t)moved;
        if (!comm->sends && request->moved >= sizeof request->bytes && request->bytes > request->capacity)
            return ncclInvalidUsage;
    }
    request->done = 1;
    return ncclSuccess;
}

static ncclResult_t progress(struct comm *comm)
{
    while (comm->finished < comm->posted) {
        struct request *request = &comm->requests[comm->finished % NCCL_NET_MAX_REQUESTS];
        ncclResult_t result = request->done ? ncclSuccess : move(request);

        if (result)
            return result;
        if (!request->done)
            break;
        comm->finished++;
    }
    return ncclSuccess;
}

static ncclResult_t post(struct comm *comm, void *data, size_t bytes, void **out)
{
    struct request *request = &comm->requests[comm->posted % NCCL_NET_MAX_REQUESTS];

    *out = NULL;
    if (request->busy)
        return ncclSuccess;
    *request = (struct request){.comm = comm, .data = data, .busy = 1};
    if (comm->sends)
        request->bytes = bytes;
    else
        request->capacity = bytes;
    comm->posted++;
    *out = request;
    return progress(comm);
}

static ncclResult_t tcp_isend(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    (void)tag;
    (void)mhandle;
    return post(comm, data, (size_t)size, request);
}

static ncclResult_t tcp_irecv(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                              void **request)
{
    (void)tags;
    (void)mhandles;
    return n == 1 ? post(comm, data[0], (size_t)sizes[0], request) : ncclInvalidArgument;
}

static ncclResult_t tcp_iflush(void *comm, int n, void **data, int *sizes, void **mhandles, void **request)
{
    (void)comm;
    (void)n;
    (void)data;
    (void)sizes;
    (void)mhandles;
    *request = NULL; /* host memory: nothing to wait for */
    return ncclSuccess;
}

static ncclResult_t tcp_test(void *arg, int *done, int *sizes)
{
    struct request *request = arg;
    ncclResult_t result = progress(request->comm);

    *done = request->done;
    if (result || !request->done)
        return result;
    if (sizes)
        sizes[0] = (int)request->bytes;
    request->busy = 0;
    return ncclSuccess;
}

static ncclResult_t tcp_close(void *arg)
{
    struct comm *comm = arg;

    close(comm->fd);
    free(comm);
    return ncclSuccess;
}

static ncclResult_t tcp_close_listen(void *arg)
{
    close(*(int *)arg);
    free(arg);
    return ncclSuccess;
}

extern const ncclNet_v8_t ncclNetPlugin_v8;
__attribute__((visibility("default"))) const ncclNet_v8_t ncclNetPlugin_v8 = {
    .name = "BenchTCP",
    .init = tcp_init,
    .devices = tcp_devices,
    .getProperties = tcp_properties,
    .listen = tcp_listen,
    .connect = tcp_connect,
    .accept = tcp_accept,
    .regMr = tcp_reg_mr,
    .deregMr = tcp_dereg_mr,
    .isend = tcp_isend,
    .irecv = tcp_irecv,
    .iflush = tcp_iflush,
    .test = tcp_test,
    .closeSend = tcp_close,
    .closeRecv = tcp_close,
    .closeListen = tcp_close_listen,
};
