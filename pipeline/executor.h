/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes the actions of one device of a detour_program (detour/sched.h), one iteration at a time. Time and
 * message events are arguments, orders come out; the driver owns the clock, the buffers and the network:
 *
 *   dt_executor_begin(executor, &work, now_ns);
 *   while (!dt_executor_is_done(executor)) {
 *       while (dt_executor_next(executor, now_ns, &order))
 *           post the transfer order.identity on order.flow;
 *       sleep until dt_executor_due_ns() or until a posted transfer completes;
 *       for each completed transfer, the oldest of its flow first: dt_executor_sent() or
 * dt_executor_received();
 *   }
 *
 * The device is emulated as a queue of work: a computation begins when the one before it has ended and its
 * input is there, even if the driver calls later than that, as a GPU does not wait for its host between two
 * kernels. Sends leave when the driver calls, so a late driver shows as a late message.
 *
 * A transfer is one message of the plugin. All transfers of one direction of one pipeline link form a flow,
 * for which the driver has a connection: both ends post its transfers in the same order, and report their
 * completion in that order. In the mode DT_PIPELINE_NCCL a message of the program is cut into slices, one
 * transfer each; in the others it is one transfer.
 *
 * An executor is used by one thread. The program must pass detour_program_check() and have the WAITs of
 * detour_program_create().
 */
#ifndef DETOUR_PIPELINE_EXECUTOR_H
#define DETOUR_PIPELINE_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detour/sched.h"
#include "pipeline/flows.h"
#include "pipeline/mode.h"
#include "pipeline/payload.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_executor_options {
    int32_t device; /* of the program */
    enum dt_pipeline_mode mode;
    uint64_t message_bytes; /* of an activation or gradient; at least DT_PIPELINE_PAYLOAD_BYTES_MIN */
    uint64_t slice_bytes;   /* nccl: 0 means 512 KiB; otherwise at least 2 * DT_PIPELINE_PAYLOAD_BYTES_MIN */
    uint32_t slots;         /* nccl: 0 means 8 */
    const struct dt_pipeline_launch *launch; /* nccl: NULL means "sends" */
};

/* What an iteration is made of. The executor reads both structs until the iteration is done. */
struct dt_executor_work {
    /* Computing times; the same stages and placement in all iterations, and at most the microbatches of the
     * profile of dt_executor_create(). */
    const struct detour_profile *profile;
    const struct detour_program *program;
    uint32_t iteration;
    uint32_t
        compute_permille; /* of the profile's computing times: 1500 for a device that is 1.5 times slower */
};

/* One transfer to be posted. */
struct dt_executor_order {
    size_t flow;
    uint64_t number;       /* of the transfer in its flow and iteration, from 0 */
    uint64_t offset_bytes; /* of the slice in its message */
    uint64_t bytes;
    struct dt_pipeline_identity identity; /* to send, or expected */
};

/*
 * When an action was executed. Computations and copies: the emulated device's times. Messages: from the first
 * order to the last completion. WAIT: from the moment at which the device had nothing else to do.
 */
struct dt_executor_span {
    uint64_t start_ns;
    uint64_t end_ns;
};

/* Where the time of an iteration of this device went; the sum is end_ns - start_ns. */
struct dt_executor_account {
    uint64_t start_ns;
    uint64_t end_ns; /* of the last action */
    uint64_t compute_ns;
    uint64_t wait_ns;   /* for messages */
    uint64_t held_ns;   /* by sends without a slot; nccl only */
    uint64_t reload_ns; /* for copies from the host */
};

struct dt_executor;

/* NULL when out of memory. The profile is only read, for its shape. */
struct dt_executor *dt_executor_create(const struct dt_executor_options *options,
                                       const struct detour_profile *profile);

/* NULL is allowed. */
void dt_executor_destroy(struct dt_executor *executor);

/* The flows of this device; the same in every iteration. */
size_t dt_executor_flow_count(const struct dt_executor *executor);
const struct dt_executor_flow *dt_executor_get_flow(const struct dt_executor *executor, size_t flow);

/* Transfers of a message: its slices. */
uint32_t dt_executor_slices(const struct dt_executor *executor);

/* Begins an iteration; the one before must be done. False when out of memory. */
bool dt_executor_begin(struct dt_executor *executor, const struct dt_executor_work *work, uint64_t now_ns);

/* Advances the device to `now_ns`. True with an order that the driver must carry out; false: nothing more
 * now. */
bool dt_executor_next(struct dt_executor *executor, uint64_t now_ns, struct dt_executor_order *order);

/* When the device continues without an event; UINT64_MAX: it waits for a transfer, or is done. */
uint64_t dt_executor_due_ns(const struct dt_executor *executor);

/* The oldest posted send of the flow is complete: its buffer is free. */
void dt_executor_sent(struct dt_executor *executor, size_t flow, uint64_t now_ns);

/* What the oldest posted receive of the flow must bring; NULL: none is posted. Valid until the next call. */
const struct dt_pipeline_identity *dt_executor_expected(struct dt_executor *executor, size_t flow);

/*
 * The oldest posted receive of the flow is complete, and has `identity`. False when the program expects
 * another message; the iteration cannot continue then.
 */
bool dt_executor_received(struct dt_executor *executor, size_t flow,
                          const struct dt_pipeline_identity *identity, uint64_t now_ns);

/* All actions are executed, all transfers complete. */
bool dt_executor_is_done(const struct dt_executor *executor);

/*
 * The measured timeline: a span for each action of the device, from program->first[device] on. Valid until
 * the next begin.
 */
const struct dt_executor_span *dt_executor_spans(const struct dt_executor *executor);

struct dt_executor_account dt_executor_get_account(const struct dt_executor *executor);

struct dt_pipeline_kernels;

/* The kernels of the iteration (kernels.h), which name messages by action, from program->first[device] on;
 * NULL: the executor has none. Valid until the next begin. */
const struct dt_pipeline_kernels *dt_executor_kernels(const struct dt_executor *executor);

/* "WAIT_F of microbatch 3 on stage 1", what the device is at; for messages about a stall. Returns `text`. */
enum { DT_EXECUTOR_TEXT_BYTES = 96 };
const char *dt_executor_text(const struct dt_executor *executor, char text[DT_EXECUTOR_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
