/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ncclNet v8 plugin that passes everything on to another one (DETOUR_TEST_INNER_PLUGIN) and makes one
 * mistake (DETOUR_TEST_FAULT), for tests that `detour perf` notices. Faults of the data path begin with the
 * TRIGGER-th message of a process; those of rank 1 alone know it by the tag it sends with.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/nccl_net_v8.h"

#define TRIGGER 3

/* One outstanding request of the inner plugin. */
struct wrapped {
    void *inner;
    char *data; /* of a receive; NULL: of a send */
    int capacity;
    bool used;
};

static const ncclNet_v8_t *inner;
static const char *fault = "";
static struct wrapped pool[512];
static char *late_target; /* a receive buffer that its owner has got back */
static int sends;
static int receives;

static bool has(const char *name)
{
    return strcmp(fault, name) == 0;
}

static ncclResult_t faulty_init(ncclDebugLogger_t logger)
{
    return has("init-fails") ? ncclSystemError : inner->init(logger);
}

static ncclResult_t faulty_devices(int *count)
{
    ncclResult_t result = inner->devices(count);

    if (has("no-device"))
        *count = 0;
    return result;
}

static ncclResult_t faulty_properties(int dev, ncclNetProperties_v8_t *properties)
{
    static char name[] = "twin";
    ncclResult_t result = inner->getProperties(dev, properties);

    if (has("same-names"))
        properties->name = name;
    if (has("same-ports"))
        properties->guid = 7;
    if (has("unwritten-properties"))
        memset(&properties->netDeviceType, 0xA5, sizeof properties->netDeviceType);
    return result;
}

static ncclResult_t faulty_listen(int dev, void *handle, void **listen_comm)
{
    return inner->listen(dev, handle, listen_comm);
}

static ncclResult_t faulty_connect(int dev, void *handle, void **send_comm, ncclNetDeviceHandle_v8_t **device)
{
    if (has("connect-fails"))
        return ncclRemoteError;
    if (has("connect-never"))
        return ncclSuccess;
    if (has("connect-blocks"))
        pause();
    return inner->connect(dev, handle, send_comm, device);
}

static ncclResult_t faulty_accept(void *listen_comm, void **recv_comm, ncclNetDeviceHandle_v8_t **device)
{
    return inner->accept(listen_comm, recv_comm, device);
}

static ncclResult_t faulty_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    return has("register-fails") ? ncclSystemError : inner->regMr(comm, data, size, type, mhandle);
}

static ncclResult_t faulty_dereg_mr(void *comm, void *mhandle)
{
    return inner->deregMr(comm, mhandle);
}

static ncclResult_t wrap(void *request, char *data, int capacity, void **out)
{
    *out = NULL;
    for (size_t i = 0; request && i < sizeof pool / sizeof pool[0]; i++) {
        if (pool[i].used)
            continue;
        pool[i] = (struct wrapped){request, data, capacity, true};
        *out = &pool[i];
        return ncclSuccess;
    }
    return request ? ncclInternalError : ncclSuccess;
}

/* Faults that strike rank 1 while it sends. */
static ncclResult_t strike_rank_1(void)
{
    if (has("dies"))
        raise(SIGKILL);
    if (has("crashes"))
        raise(SIGSEGV);
    if (has("exits"))
        _exit(0);
    if (has("hangs"))
        pause();
    return has("send-fails") ? ncclRemoteError : ncclSuccess;
}

static ncclResult_t faulty_isend(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
    void *request_inner = NULL;
    ncclResult_t result = ncclSuccess;

    if (tag == 1 && ++sends >= TRIGGER)
        result = strike_rank_1();
    if (result || has("unwritten-request"))
        return result;
    if (has("never-sends")) {
        *request = NULL;
        return ncclSuccess;
    }
    if (late_target) {
        late_target[0] ^= 0x40;
        late_target = NULL;
    }
    result = inner->isend(comm, data, size, tag, mhandle, &request_inner);
    return result ? result : wrap(request_inner, NULL, size, request);
}

static ncclResult_t faulty_irecv(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                                 void **request)
{
    void *request_inner = NULL;
    ncclResult_t result = inner->irecv(comm, n, data, sizes, tags, mhandles, &request_inner);

    return result ? result : wrap(request_inner, data[0], sizes[0], request);
}

static ncclResult_t faulty_iflush(void *comm, int n, void **data, int *sizes, void **mhandles, void **request)
{
    void *request_inner = NULL;
    ncclResult_t result = inner->iflush(comm, n, data, sizes, mhandles, &request_inner);

    return result ? result : wrap(request_inner, NULL, 0, request);
}

/* A receive is done: spoil it. */
static void spoil(const struct wrapped *request, int *size)
{
    if (!*size || ++receives < TRIGGER)
        return;
    if (has("flips-a-bit"))
        request->data[*size - 1] ^= 1;
    if (has("writes-late"))
        late_target = request->data;
    if (has("writes-beyond") && request->capacity > *size)
        request->data[*size] ^= 1;
    if (has("wrong-size"))
        *size += 4;
    if (has("repeats-old-data"))
        memset(request->data, 0x11, (size_t)*size);
}

static ncclResult_t faulty_test(void *arg, int *done, int *sizes)
{
    struct wrapped *request = arg;
    ncclResult_t result;

    if (has("unwritten-done"))
        return ncclSuccess;
    result = inner->test(request->inner, done, sizes);
    if (result || !*done)
        return result;
    request->used = false;
    if (request->data && sizes)
        spoil(request, sizes);
    return ncclSuccess;
}

static ncclResult_t faulty_close_send(void *comm)
{
    return inner->closeSend(comm);
}

static ncclResult_t faulty_close_recv(void *comm)
{
    if (has("close-fails"))
        return ncclInternalError;
    if (has("crashes-at-exit"))
        raise(SIGSEGV);
    return inner->closeRecv(comm);
}

static ncclResult_t faulty_close_listen(void *comm)
{
    return inner->closeListen(comm);
}

extern ncclNet_v8_t ncclNetPlugin_v8;
__attribute__((visibility("default"))) ncclNet_v8_t ncclNetPlugin_v8 = {
    .name = "Faulty",
    .init = faulty_init,
    .devices = faulty_devices,
    .getProperties = faulty_properties,
    .listen = faulty_listen,
    .connect = faulty_connect,
    .accept = faulty_accept,
    .regMr = faulty_reg_mr,
    .deregMr = faulty_dereg_mr,
    .isend = faulty_isend,
    .irecv = faulty_irecv,
    .iflush = faulty_iflush,
    .test = faulty_test,
    .closeSend = faulty_close_send,
    .closeRecv = faulty_close_recv,
    .closeListen = faulty_close_listen,
};

__attribute__((constructor)) static void load_inner(void)
{
    const char *path = getenv("DETOUR_TEST_INNER_PLUGIN");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

    inner = library ? dlsym(library, NCCL_NET_PLUGIN_V8_SYMBOL) : NULL;
    fault = getenv("DETOUR_TEST_FAULT");
    if (!fault)
        fault = "";
    if (!inner)
        ncclNetPlugin_v8.name = NULL; /* the caller says that this is no plugin */
}
