/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA stream: a thread that runs tasks in order. Streams must be asynchronous, because NCCL launches its
 * kernel first and gives the proxy thread the work of that kernel afterwards. A position is the number of
 * tasks that were queued up to a point; it is complete when as many are done. Streams are counted: an event
 * or a waiting task keeps the stream it names.
 */
#ifndef DETOUR_TESTS_NCCL_RUNTIME_STREAM_H
#define DETOUR_TESTS_NCCL_RUNTIME_STREAM_H

#include <stdint.h>

struct CUstream_st;

/* The stream that a handle of the API names: itself, or the default stream for NULL, 1 and 2. */
struct CUstream_st *nh_stream_of(void *handle);

/* Queues run(argument); run owns the argument. Ends the process when memory is out. */
void nh_stream_push(struct CUstream_st *stream, void (*run)(void *argument), void *argument);

/* The position behind all that is queued now. */
uint64_t nh_stream_position(struct CUstream_st *stream);
int nh_stream_is_complete(struct CUstream_st *stream, uint64_t position);
void nh_stream_wait(struct CUstream_st *stream, uint64_t position);

void nh_stream_keep(struct CUstream_st *stream);
void nh_stream_drop(struct CUstream_st *stream);

#endif
