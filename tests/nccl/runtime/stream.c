/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/runtime/stream.h"

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/nccl/runtime/log.h"

struct task {
    void (*run)(void *argument);
    void *argument;
    struct task *next;
};

struct CUstream_st {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct task *first, **last;
    uint64_t queued, done;
    int is_ending;
    int users; /* the creator, events, tasks of other streams */
};

static void *run_tasks(void *argument)
{
    struct CUstream_st *stream = argument;

    pthread_mutex_lock(&stream->lock);
    for (;;) {
        struct task *task;

        while (!stream->first && !stream->is_ending)
            pthread_cond_wait(&stream->changed, &stream->lock);
        task = stream->first;
        if (!task)
            break;
        stream->first = task->next;
        if (!stream->first)
            stream->last = &stream->first;
        pthread_mutex_unlock(&stream->lock);
        task->run(task->argument);
        free(task);
        pthread_mutex_lock(&stream->lock);
        stream->done++;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static struct CUstream_st *create(void)
{
    struct CUstream_st *stream = calloc(1, sizeof *stream);

    if (!stream)
        return NULL;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->last = &stream->first;
    stream->users = 1;
    if (pthread_create(&stream->thread, NULL, run_tasks, stream))
        nh_die("no thread for a stream");
    return stream;
}

static struct CUstream_st *default_stream;

static void create_default(void)
{
    default_stream = create();
    if (!default_stream)
        nh_die("no memory for the default stream");
}

struct CUstream_st *nh_stream_of(void *handle)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if ((uintptr_t)handle > 2)
        return handle;
    pthread_once(&once, create_default);
    return default_stream;
}

void nh_stream_push(struct CUstream_st *stream, void (*run)(void *argument), void *argument)
{
    struct task *task = malloc(sizeof *task);

    if (!task)
        nh_die("no memory for a stream's task");
    *task = (struct task){.run = run, .argument = argument};
    pthread_mutex_lock(&stream->lock);
    *stream->last = task;
    stream->last = &task->next;
    stream->queued++;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

uint64_t nh_stream_position(struct CUstream_st *stream)
{
    uint64_t position;

    pthread_mutex_lock(&stream->lock);
    position = stream->queued;
    pthread_mutex_unlock(&stream->lock);
    return position;
}

int nh_stream_is_complete(struct CUstream_st *stream, uint64_t position)
{
    int is_complete;

    pthread_mutex_lock(&stream->lock);
    is_complete = stream->done >= position;
    pthread_mutex_unlock(&stream->lock);
    return is_complete;
}

void nh_stream_wait(struct CUstream_st *stream, uint64_t position)
{
    pthread_mutex_lock(&stream->lock);
    while (stream->done < position)
        pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
}

void nh_stream_keep(struct CUstream_st *stream)
{
    __atomic_fetch_add(&stream->users, 1, __ATOMIC_RELAXED);
}

void nh_stream_drop(struct CUstream_st *stream)
{
    if (__atomic_sub_fetch(&stream->users, 1, __ATOMIC_ACQ_REL))
        return;
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = create();
    return *stream ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, 0);
}

/* Unlike CUDA's, returns when the queued tasks are done. */
cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    struct CUstream_st *stream = nh_stream_of(handle);

    if (stream == default_stream)
        return cudaErrorInvalidValue;
    pthread_mutex_lock(&stream->lock);
    stream->is_ending = 1;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    nh_stream_drop(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    struct CUstream_st *stream = nh_stream_of(handle);

    nh_stream_wait(stream, nh_stream_position(stream));
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    struct CUstream_st *stream = nh_stream_of(handle);

    return nh_stream_is_complete(stream, nh_stream_position(stream)) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return cudaStreamSynchronize(NULL);
}

/* ---- Stream capture: never active here ---- */

cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode)
{
    (void)mode;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status)
{
    (void)stream;
    *status = 0;
    return cudaSuccess;
}

/* The variants of this function differ in their last arguments only, which are not written without a capture.
 */
static cudaError_t no_capture(int *status, unsigned long long *id)
{
    *status = 0;
    if (id)
        *id = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, int *status, unsigned long long *id)
{
    (void)stream;
    return no_capture(status, id);
}

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, int *status, unsigned long long *id)
{
    (void)stream;
    return no_capture(status, id);
}

cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, int *status, unsigned long long *id)
{
    (void)stream;
    return no_capture(status, id);
}

struct host_call {
    void (*function)(void *);
    void *data;
};

static void host_task(void *argument)
{
    struct host_call *call = argument;

    call->function(call->data);
    free(call);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *data)
{
    struct host_call *call = malloc(sizeof *call);

    if (!call)
        return cudaErrorMemoryAllocation;
    *call = (struct host_call){function, data};
    nh_stream_push(nh_stream_of(stream), host_task, call);
    return cudaSuccess;
}
