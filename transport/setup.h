/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Set-up of a connection: connect and accept as tables of steps. A step returns
 *
 *   DT_OK      done: the next step follows at once
 *   DT_AGAIN   its event has not come: the same step runs at the next call
 *   else       the set-up has failed; setup->why is the reason
 *
 * so a set-up reads top to bottom and stops only at a step. No step blocks: verbs that may block are tasks of
 * a control thread, and the step that follows polls for them.
 */
#ifndef DETOUR_TRANSPORT_SETUP_H
#define DETOUR_TRANSPORT_SETUP_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/setup_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes the net's listener unless it exists. DT_SYSTEM (one WARN): it cannot be made. The caller holds
 * net->mutex.
 */
enum dt_status dt_net_open_listener(struct dt_net *net);

/* Runs steps until one returns DT_AGAIN or an error, or all are done (DT_OK). Enforces the deadline. */
enum dt_status dt_setup_run(struct dt_setup *setup, uint64_t now_ns);

/* The terms that this end proposes for connections of this device. */
struct dt_terms dt_setup_wishes(const struct dt_nic *nic);

/* A new set-up with its connection; NULL: out of memory. */
struct dt_setup *dt_setup_create(struct dt_nic *nic, bool is_sender, const struct dt_step *steps,
                                 uint64_t now_ns, uint64_t deadline_ns);

/*
 * Ends the set-up. With `keep` its connection is handed to the device thread and returned; without, or if
 * that fails, everything is freed on the control threads and NULL is returned.
 */
struct dt_connection *dt_setup_finish(struct dt_setup *setup, bool keep, uint64_t now_ns);

/*
 * Frees connects and accepts that NCCL has not called since their timeout: it was aborted between two calls,
 * and closes no listener then. The peer of an accept receives an error.
 * Looks at most ten times a second, since each look goes through all attempts; DT_NEVER_NS ends them all. The
 * caller holds net->mutex, or is the only thread.
 */
void dt_setups_abandon(struct dt_net *net, uint64_t now_ns);

/* The steps that follow either table, once both ends have agreed on terms. */
extern const struct dt_step dt_steps_after_agreement[];

/* A step: sends the frames in the channel's buffer. */
enum dt_status dt_step_flush(struct dt_setup *setup, uint64_t now_ns);

/* The next frame, which must be of this type. DT_AGAIN, or why it cannot be (in setup->why). */
enum dt_status dt_setup_expect(struct dt_setup *setup, enum dt_frame_type type, struct dt_frame *frame);

/* Takes over what the ends agree on, and the devices of the paths; `answer` is in range. */
void dt_setup_take_answer(struct dt_setup *setup, const struct dt_answer *answer, enum dt_spread spread);

#ifdef __cplusplus
}
#endif

#endif
