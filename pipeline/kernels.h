/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's kernels of one device in one iteration: which may run, which messages may be transferred, when each
 * ends. docs/pipeline.md has the rules with their source in NCCL, tests/nccl/blocking.py compares them with
 * stock NCCL:
 *
 *   order     The kernels of a communicator run one after the other, in the order of their launch, whatever
 * their streams (ncclLaunchPrepare: the launch stream waits for the communicator's device stream). queue The
 * transfers of a communicator's sends to all peers wait for those of the sends before them, and the receives
 * for the receives before them (ProxyAppend: buffers of send/receive are shared, so operations are chained
 * per channel and direction). end       A kernel ends when the last slice of each of its sends has a slot,
 * and each of its receives is there. receives  are posted as soon as the queue permits, before their kernel
 * runs, into at most `slots` slots: the host launches ahead of the device.
 *
 * A kernel has one message, or (batched) those that the program has between two computations, as
 * batch_isend_irecv() makes them; a receive for the computation that follows ends its kernel, as in the
 * runtime of Zero Bubble.
 *
 * Used by one executor. Time and events are arguments.
 */
#ifndef DETOUR_PIPELINE_KERNELS_H
#define DETOUR_PIPELINE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detour/sched.h"
#include "pipeline/flows.h"
#include "pipeline/mode.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pipeline_kernels;

/* NULL when out of memory. slices: of a message; slots: of a connection. */
struct dt_pipeline_kernels *dt_pipeline_kernels_create(const struct dt_pipeline_launch *launch,
                                                       uint32_t slices, uint32_t slots);

/* NULL is allowed. */
void dt_pipeline_kernels_destroy(struct dt_pipeline_kernels *kernels);

/* A new iteration of the device's actions; they and the flows are not kept. False when out of memory. */
bool dt_pipeline_kernels_begin(struct dt_pipeline_kernels *kernels, const struct detour_action *actions,
                               size_t action_count, const struct dt_pipeline_flows *flows);

/*
 * A message is named by the index of its action among those of begin(). The device has come to it at
 * ready_ns; a kernel is launched with its first message.
 */
void dt_pipeline_kernels_launch(struct dt_pipeline_kernels *kernels, size_t action, uint64_t ready_ns);

/* The kernel of this message has been started; *start_ns: when. */
bool dt_pipeline_kernels_has_started(const struct dt_pipeline_kernels *kernels, size_t action,
                                     uint64_t *start_ns);

/* One more slice of the message has a slot; one more is transferred. Slices are in order. */
void dt_pipeline_kernels_posted(struct dt_pipeline_kernels *kernels, size_t action, uint64_t now_ns);
void dt_pipeline_kernels_completed(struct dt_pipeline_kernels *kernels, size_t action, uint64_t now_ns);

/* What has become possible. */
enum dt_pipeline_kernels_kind { DT_KERNELS_TRANSFER, DT_KERNELS_ARRIVED };

struct dt_pipeline_kernels_event {
    enum dt_pipeline_kernels_kind kind;
    size_t action;
    size_t flow;
    uint32_t slices; /* TRANSFER: so many more may be transferred, as slots permit */
    uint64_t at_ns;  /* ARRIVED: the kernel of this receive has ended */
};

/* Takes the next event; false: nothing more until a call of launch(), posted() or completed(). */
bool dt_pipeline_kernels_next(struct dt_pipeline_kernels *kernels, struct dt_pipeline_kernels_event *event);

/* All kernels have ended. */
bool dt_pipeline_kernels_are_done(const struct dt_pipeline_kernels *kernels);

/* Number of kernels of the iteration, and the one of a message; for tests and timelines. */
size_t dt_pipeline_kernels_count(const struct dt_pipeline_kernels *kernels);
size_t dt_pipeline_kernels_of(const struct dt_pipeline_kernels *kernels, size_t action);

/* When the kernel ended; UINT64_MAX: not yet. */
uint64_t dt_pipeline_kernels_end_ns(const struct dt_pipeline_kernels *kernels, size_t kernel);

#ifdef __cplusplus
}
#endif

#endif
