/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA events: a position of a stream (stream.h). An event that was never recorded is complete. A stream that
 * waits for an event waits for the position that the event had at the call.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/nccl/runtime/stream.h"

struct CUevent_st {
    pthread_mutex_t lock;
    struct CUstream_st *stream; /* NULL: never recorded */
    uint64_t position;
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    if (!*event)
        return cudaErrorMemoryAllocation;
    pthread_mutex_init(&(*event)->lock, NULL);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (event->stream)
        nh_stream_drop(event->stream);
    pthread_mutex_destroy(&event->lock);
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
    struct CUstream_st *stream = nh_stream_of(handle), *before;

    nh_stream_keep(stream);
    pthread_mutex_lock(&event->lock);
    before = event->stream;
    event->stream = stream;
    event->position = nh_stream_position(stream);
    pthread_mutex_unlock(&event->lock);
    if (before)
        nh_stream_drop(before);
    return cudaSuccess;
}

/* The stream and the position that the event names now; the caller drops the stream. NULL: never recorded. */
static struct CUstream_st *named_by(cudaEvent_t event, uint64_t *position)
{
    struct CUstream_st *stream;

    pthread_mutex_lock(&event->lock);
    stream = event->stream;
    *position = event->position;
    if (stream)
        nh_stream_keep(stream);
    pthread_mutex_unlock(&event->lock);
    return stream;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    uint64_t position;
    struct CUstream_st *stream = named_by(event, &position);
    int is_complete;

    if (!stream)
        return cudaSuccess;
    is_complete = nh_stream_is_complete(stream, position);
    nh_stream_drop(stream);
    return is_complete ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    uint64_t position;
    struct CUstream_st *stream = named_by(event, &position);

    if (!stream)
        return cudaSuccess;
    nh_stream_wait(stream, position);
    nh_stream_drop(stream);
    return cudaSuccess;
}

struct wait {
    struct CUstream_st *stream;
    uint64_t position;
};

static void wait_task(void *argument)
{
    struct wait *wait = argument;

    nh_stream_wait(wait->stream, wait->position);
    nh_stream_drop(wait->stream);
    free(wait);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags)
{
    struct CUstream_st *waiting = nh_stream_of(handle);
    struct wait wait, *argument;

    (void)flags;
    wait.stream = named_by(event, &wait.position);
    if (!wait.stream)
        return cudaSuccess;
    if (wait.stream == waiting) { /* its tasks run in order anyway */
        nh_stream_drop(wait.stream);
        return cudaSuccess;
    }
    argument = malloc(sizeof *argument);
    if (!argument) {
        nh_stream_drop(wait.stream);
        return cudaErrorMemoryAllocation;
    }
    *argument = wait;
    nh_stream_push(waiting, wait_task, argument);
    return cudaSuccess;
}
