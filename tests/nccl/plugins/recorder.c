/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that records what NCCL does with the one behind it, and writes it as JSON to DETOUR_RECORD.PID
 * when the process ends: calls by function, how many of them had to be repeated, the threads they came from,
 * registrations by kind, how many messages of each size, requests open at a time, and how often a request is
 * tested before it is done.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/plugins/forward.h"

#define CALLS(X)                                                                                           \
    X(init)                                                                                                \
    X(devices)                                                                                             \
    X(getProperties)                                                                                       \
    X(listen)                                                                                              \
    X(connect) X(accept) X(regMr) X(deregMr) X(isend) X(irecv) X(iflush) X(test) X(closeSend) X(closeRecv) \
        X(closeListen)

enum call {
#define MEMBER(name) CALL_##name,
    CALLS(MEMBER)
#undef MEMBER
        CALL_COUNT
};
enum { THREADS_MAX = 16, SIZES_MAX = 256, GROUP_MAX = 8 };

static const ncclNet_v8_t *net;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    uint64_t calls, repeats, errors; /* repeats: calls that were answered "not yet" */
    pthread_t threads[THREADS_MAX];
    int thread_count;
} counts[CALL_COUNT];

static struct {
    uint64_t host_regions, cuda_regions, registered_bytes, registered_bytes_max;
    uint64_t groups[GROUP_MAX + 1];
    uint64_t open, open_max, completed, tests_of_completed;
} total;

/* Messages by size, in the order in which the sizes appear. The last entry takes all further sizes. */
static struct {
    int bytes;
    uint64_t messages;
} sent[SIZES_MAX];
static int sent_count;

/* A request of the plugin behind and how often it was tested. */
struct request {
    void *behind;
    uint64_t tests;
};

static ncclResult_t count(enum call call, ncclResult_t result, int is_repeat)
{
    pthread_t self = pthread_self();
    int i = 0;

    pthread_mutex_lock(&lock);
    counts[call].calls++;
    counts[call].repeats += (unsigned)is_repeat;
    counts[call].errors += result != ncclSuccess;
    while (i < counts[call].thread_count && !pthread_equal(counts[call].threads[i], self))
        i++;
    if (i == counts[call].thread_count && i < THREADS_MAX)
        counts[call].threads[counts[call].thread_count++] = self;
    pthread_mutex_unlock(&lock);
    return result;
}

static ncclResult_t record_init(ncclDebugLogger_t log)
{
    return count(CALL_init, net->init(log), 0);
}

static ncclResult_t record_devices(int *devices)
{
    return count(CALL_devices, net->devices(devices), 0);
}

static ncclResult_t record_getProperties(int device, ncclNetProperties_v8_t *properties)
{
    return count(CALL_getProperties, net->getProperties(device, properties), 0);
}

static ncclResult_t record_listen(int device, void *handle, void **comm)
{
    return count(CALL_listen, net->listen(device, handle, comm), 0);
}

static ncclResult_t record_connect(int device, void *handle, void **comm,
                                   ncclNetDeviceHandle_v8_t **device_comm)
{
    ncclResult_t result = net->connect(device, handle, comm, device_comm);

    return count(CALL_connect, result, !*comm);
}

static ncclResult_t record_accept(void *listen, void **comm, ncclNetDeviceHandle_v8_t **device_comm)
{
    ncclResult_t result = net->accept(listen, comm, device_comm);

    return count(CALL_accept, result, !*comm);
}

static ncclResult_t record_regMr(void *comm, void *data, size_t bytes, int type, void **mhandle)
{
    pthread_mutex_lock(&lock);
    total.host_regions += type == NCCL_PTR_HOST;
    total.cuda_regions += type == NCCL_PTR_CUDA;
    total.registered_bytes += bytes;
    if (bytes > total.registered_bytes_max)
        total.registered_bytes_max = bytes;
    pthread_mutex_unlock(&lock);
    return count(CALL_regMr, net->regMr(comm, data, bytes, type, mhandle), 0);
}

static ncclResult_t record_deregMr(void *comm, void *mhandle)
{
    return count(CALL_deregMr, net->deregMr(comm, mhandle), 0);
}

/* Counts a call that starts a request, and wraps the request. */
static ncclResult_t started(enum call call, ncclResult_t result, void *behind, void **out)
{
    struct request *request = NULL;

    if (result == ncclSuccess && behind) {
        request = calloc(1, sizeof *request);
        if (!request)
            abort();
        request->behind = behind;
        pthread_mutex_lock(&lock);
        if (++total.open > total.open_max)
            total.open_max = total.open;
        pthread_mutex_unlock(&lock);
    }
    *out = request;
    return count(call, result, !behind);
}

/* Under the lock. */
static void count_size(int bytes)
{
    int i = 0;

    while (i < sent_count && sent[i].bytes != bytes)
        i++;
    if (i == sent_count && i < SIZES_MAX - 1)
        sent[sent_count++].bytes = bytes;
    sent[i].messages++;
}

static ncclResult_t record_isend(void *comm, void *data, int bytes, int tag, void *mhandle, void **out)
{
    void *behind = NULL;
    ncclResult_t result = net->isend(comm, data, bytes, tag, mhandle, &behind);

    if (behind) {
        pthread_mutex_lock(&lock);
        count_size(bytes);
        pthread_mutex_unlock(&lock);
    }
    return started(CALL_isend, result, behind, out);
}

static ncclResult_t record_irecv(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                                 void **out)
{
    void *behind = NULL;
    ncclResult_t result = net->irecv(comm, n, data, sizes, tags, mhandles, &behind);

    if (behind) {
        pthread_mutex_lock(&lock);
        total.groups[n]++;
        pthread_mutex_unlock(&lock);
    }
    return started(CALL_irecv, result, behind, out);
}

static ncclResult_t record_iflush(void *comm, int n, void **data, int *sizes, void **mhandles, void **out)
{
    void *behind = NULL;
    ncclResult_t result = net->iflush(comm, n, data, sizes, mhandles, &behind);

    return started(CALL_iflush, result, behind, out);
}

static ncclResult_t record_test(void *handle, int *done, int *sizes)
{
    struct request *request = handle;
    ncclResult_t result = net->test(request->behind, done, sizes);

    request->tests++;
    count(CALL_test, result, !*done);
    if (result == ncclSuccess && *done) {
        pthread_mutex_lock(&lock);
        total.open--;
        total.completed++;
        total.tests_of_completed += request->tests;
        pthread_mutex_unlock(&lock);
        free(request);
    }
    return result;
}

static ncclResult_t record_closeSend(void *comm)
{
    return count(CALL_closeSend, net->closeSend(comm), 0);
}

static ncclResult_t record_closeRecv(void *comm)
{
    return count(CALL_closeRecv, net->closeRecv(comm), 0);
}

static ncclResult_t record_closeListen(void *comm)
{
    return count(CALL_closeListen, net->closeListen(comm), 0);
}

static void write_calls(FILE *file)
{
    static const char *const names[] = {
#define NAME(name) #name,
        CALLS(NAME)
#undef NAME
    };

    for (int i = 0; i < CALL_COUNT; i++)
        fprintf(file, " \"%s\": {\"calls\": %llu, \"repeats\": %llu, \"errors\": %llu, \"threads\": %d},\n",
                names[i], (unsigned long long)counts[i].calls, (unsigned long long)counts[i].repeats,
                (unsigned long long)counts[i].errors, counts[i].thread_count);
}

static void write_array(FILE *file, const char *name, const uint64_t *values, int n)
{
    fprintf(file, " \"%s\": [", name);
    for (int i = 0; i < n; i++)
        fprintf(file, "%s%llu", i ? ", " : "", (unsigned long long)values[i]);
    fprintf(file, "],\n");
}

/* Pairs of a size and a number of messages. */
static void write_sizes(FILE *file)
{
    fprintf(file, " \"sends\": [");
    for (int i = 0; i < sent_count; i++)
        fprintf(file, "%s[%d, %llu]", i ? ", " : "", sent[i].bytes, (unsigned long long)sent[i].messages);
    fprintf(file, "],\n");
}

__attribute__((destructor)) static void write_record(void)
{
    const char *prefix = getenv("DETOUR_RECORD");
    char path[4096];
    FILE *file;

    if (!prefix || !counts[CALL_init].calls)
        return;
    snprintf(path, sizeof path, "%s.%d", prefix, (int)getpid());
    file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "{\n");
    write_calls(file);
    write_sizes(file);
    write_array(file, "receives_by_group", total.groups, GROUP_MAX + 1);
    fprintf(file, " \"host_regions\": %llu, \"cuda_regions\": %llu, \"registered_bytes\": %llu,\n",
            (unsigned long long)total.host_regions, (unsigned long long)total.cuda_regions,
            (unsigned long long)total.registered_bytes);
    fprintf(file, " \"open_max\": %llu, \"completed\": %llu, \"tests_of_completed\": %llu\n}\n",
            (unsigned long long)total.open_max, (unsigned long long)total.completed,
            (unsigned long long)total.tests_of_completed);
    fclose(file);
}

__attribute__((constructor)) static void fill(void)
{
    net = forward_load();
    ncclNetPlugin_v8 = *net;
#define RECORD(name) ncclNetPlugin_v8.name = record_##name;
    CALLS(RECORD)
#undef RECORD
    ncclNetPlugin_v8.regMrDmaBuf = NULL;
}
