/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ncclNet v8 interface: the binary contract between NCCL (2.20.3 and later) and a network plugin. NCCL
 * opens the plugin with dlopen(RTLD_NOW | RTLD_LOCAL) and looks up one data object, a filled-in ncclNet_v8_t
 * called NCCL_NET_PLUGIN_V8_SYMBOL. This is Detour's own declaration of it; plugin/ fills the table, cli/
 * (`detour perf`) calls it. The checks below pin sizes, offsets and order on LP64.
 *
 * Threads: init, devices and getProperties come from the user's threads; getProperties, listen, connect,
 * accept, regMr*, deregMr and close* from one service thread per rank, which must never be blocked; isend,
 * irecv, iflush and test from one progress thread per rank, which sleeps while no operation is active. The
 * two may use the same communicator at the same time (registration beside data). Several ranks in a process
 * have several such pairs.
 *
 * Every function returns ncclSuccess or an error after which the communicator is dead. "Not now" is success
 * with NULL in the output (connect, accept, isend, irecv, iflush) or with *done = 0 (test). Output arguments
 * are uninitialized or stale on entry: always write them.
 */
#ifndef DETOUR_PLUGIN_NCCL_NET_V8_H
#define DETOUR_PLUGIN_NCCL_NET_V8_H

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_NET_PLUGIN_V8_SYMBOL "ncclNetPlugin_v8"

/* Bytes of a listen handle: filled by listen, carried to the other rank as plain bytes, and then the
 * connecting side's own scratch space across repeated calls of connect. */
#define NCCL_NET_HANDLE_MAXSIZE 128
/* Requests that may be outstanding per communicator (a sender's, times maxRecvs). */
#define NCCL_NET_MAX_REQUESTS 32
/* Largest message of this version of the interface, in bytes. */
#define NCCL_NET_MAX_SIZE_V8 (1 << 30)

/* Kinds of memory; ptrSupport is a mask of them. */
#define NCCL_PTR_HOST   0x1
#define NCCL_PTR_CUDA   0x2
#define NCCL_PTR_DMABUF 0x4

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7, /* never from a plugin: NCCL takes any non-zero value as an error */
} ncclResult_t;

typedef enum {
    NCCL_LOG_NONE = 0,
    NCCL_LOG_VERSION = 1,
    NCCL_LOG_WARN = 2,
    NCCL_LOG_INFO = 3,
    NCCL_LOG_ABORT = 4,
    NCCL_LOG_TRACE = 5,
} ncclDebugLogLevel;

/* Subsystem flags of a log line (a mask; those a network plugin has use for). */
#define NCCL_INIT 0x1ul
#define NCCL_NET  0x10ul
#define NCCL_ALL  (~0ul)

/* By NCCL's custom, WARN goes with NCCL_ALL and a file name, INFO with the function's name as `file`. */
typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                                  const char *format, ...);

typedef enum {
    NCCL_NET_DEVICE_HOST = 0, /* the CPU drives the device; anything unknown makes NCCL refuse the plugin */
    NCCL_NET_DEVICE_UNPACK = 1,
} ncclNetDeviceType;

#define NCCL_NET_DEVICE_INVALID_VERSION 0

/* What a GPU needs to drive a device itself. Plugins of the host kind return NULL instead. */
typedef struct {
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
    void *handle;
    size_t size; /* of what handle points to, in bytes */
    int needsProxyProgress;
} ncclNetDeviceHandle_v8_t;

/* Facts about a device. NCCL passes uninitialized memory: a plugin fills every field. */
typedef struct {
    char *name;     /* unique per device: NCCL's key for it */
    char *pciPath;  /* folder of the PCI device under /sys, or NULL */
    uint64_t guid;  /* (guid, port) equal means: the same physical port, bandwidth shared */
    int ptrSupport; /* mask of NCCL_PTR_* */
    int regIsGlobal;
    int speed; /* Mbit/s */
    int port;
    float latency; /* microseconds */
    int maxComms;
    int maxRecvs; /* most buffers in one irecv */
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
} ncclNetProperties_v8_t;

typedef struct {
    const char *name; /* what NCCL_NET selects, in any case */

    ncclResult_t (*init)(ncclDebugLogger_t logger);
    ncclResult_t (*devices)(int *count);
    ncclResult_t (*getProperties)(int dev, ncclNetProperties_v8_t *properties);

    /* Set-up. handle: NCCL_NET_HANDLE_MAXSIZE bytes. The device handle arguments of connect and accept may be
     * NULL. On a failure *sendComm and *recvComm are left NULL. */
    ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
    ncclResult_t (*connect)(int dev, void *handle, void **sendComm, ncclNetDeviceHandle_v8_t **sendDevComm);
    ncclResult_t (*accept)(void *listenComm, void **recvComm, ncclNetDeviceHandle_v8_t **recvDevComm);

    /* Registration, for a sendComm or a recvComm. type is one of NCCL_PTR_*; regMrDmaBuf may be NULL;
     * deregMr takes a NULL mhandle; the memory may be freed as soon as it returns. */
    ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                                void **mhandle);
    ncclResult_t (*deregMr)(void *comm, void *mhandle);

    /* Data. The k-th isend of a connection meets its k-th irecv; sizes of an irecv are capacities; one
     * request stands for all n buffers. size may be 0. */
    ncclResult_t (*isend)(void *sendComm, void *data, int size, int tag, void *mhandle, void **request);
    ncclResult_t (*irecv)(void *recvComm, int n, void **data, int *sizes, int *tags, void **mhandles,
                          void **request);
    /* After a receive into GPU memory: makes the data visible to the GPU. */
    ncclResult_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles, void **request);
    /* sizes may be NULL; for an irecv it takes the n sizes received. Not called again after *done = 1. */
    ncclResult_t (*test)(void *request, int *done, int *sizes);

    /* After deregMr of everything, possibly with requests outstanding. */
    ncclResult_t (*closeSend)(void *sendComm);
    ncclResult_t (*closeRecv)(void *recvComm);
    ncclResult_t (*closeListen)(void *listenComm);

    /* For devices that a GPU drives: NULL in plugins of the host kind. */
    ncclResult_t (*getDeviceMr)(void *comm, void *mhandle, void **dptr);
    ncclResult_t (*irecvConsumed)(void *recvComm, int n, void *request);
} ncclNet_v8_t;

#define NCCL_CHECK_OFFSET(type, member, at) \
    DT_STATIC_CHECK(offsetof(type, member) == (at), #type "." #member " is out of place")

DT_STATIC_CHECK(sizeof(ncclResult_t) == 4 && sizeof(ncclDebugLogLevel) == 4, "enums are ints in this ABI");

DT_STATIC_CHECK(sizeof(ncclNetDeviceHandle_v8_t) == 32, "size of the device handle");
NCCL_CHECK_OFFSET(ncclNetDeviceHandle_v8_t, netDeviceType, 0);
NCCL_CHECK_OFFSET(ncclNetDeviceHandle_v8_t, netDeviceVersion, 4);
NCCL_CHECK_OFFSET(ncclNetDeviceHandle_v8_t, handle, 8);
NCCL_CHECK_OFFSET(ncclNetDeviceHandle_v8_t, size, 16);
NCCL_CHECK_OFFSET(ncclNetDeviceHandle_v8_t, needsProxyProgress, 24);

DT_STATIC_CHECK(sizeof(ncclNetProperties_v8_t) == 64, "size of the properties");
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, name, 0);
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, pciPath, 8);
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, guid, 16);
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, ptrSupport, 24);
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, regIsGlobal, 28);
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, speed, 32);
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, port, 36);
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, latency, 40);
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, maxComms, 44);
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, maxRecvs, 48);
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, netDeviceType, 52);
NCCL_CHECK_OFFSET(ncclNetProperties_v8_t, netDeviceVersion, 56);

DT_STATIC_CHECK(sizeof(ncclNet_v8_t) == 19 * sizeof(void *) && sizeof(ncclNet_v8_t) == 152,
                "size of the table");
NCCL_CHECK_OFFSET(ncclNet_v8_t, name, 0);
NCCL_CHECK_OFFSET(ncclNet_v8_t, init, 8);
NCCL_CHECK_OFFSET(ncclNet_v8_t, devices, 16);
NCCL_CHECK_OFFSET(ncclNet_v8_t, getProperties, 24);
NCCL_CHECK_OFFSET(ncclNet_v8_t, listen, 32);
NCCL_CHECK_OFFSET(ncclNet_v8_t, connect, 40);
NCCL_CHECK_OFFSET(ncclNet_v8_t, accept, 48);
NCCL_CHECK_OFFSET(ncclNet_v8_t, regMr, 56);
NCCL_CHECK_OFFSET(ncclNet_v8_t, regMrDmaBuf, 64);
NCCL_CHECK_OFFSET(ncclNet_v8_t, deregMr, 72);
NCCL_CHECK_OFFSET(ncclNet_v8_t, isend, 80);
NCCL_CHECK_OFFSET(ncclNet_v8_t, irecv, 88);
NCCL_CHECK_OFFSET(ncclNet_v8_t, iflush, 96);
NCCL_CHECK_OFFSET(ncclNet_v8_t, test, 104);
NCCL_CHECK_OFFSET(ncclNet_v8_t, closeSend, 112);
NCCL_CHECK_OFFSET(ncclNet_v8_t, closeRecv, 120);
NCCL_CHECK_OFFSET(ncclNet_v8_t, closeListen, 128);
NCCL_CHECK_OFFSET(ncclNet_v8_t, getDeviceMr, 136);
NCCL_CHECK_OFFSET(ncclNet_v8_t, irecvConsumed, 144);

#undef NCCL_CHECK_OFFSET

#ifdef __cplusplus
}
#endif

#endif
