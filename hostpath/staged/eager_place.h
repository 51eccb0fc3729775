/* SPDX-License-Identifier: Apache-2.0 */
/* Eager send, at the sender: places at the receiver and their states. All functions: owner of the
 * connection, unless they say otherwise. */
#ifndef DETOUR_HOSTPATH_STAGED_EAGER_PLACE_H
#define DETOUR_HOSTPATH_STAGED_EAGER_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "hostpath/staged/eager.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_frame;
struct dt_work;

/* A new entry is in the queue; or leaves it, matched. */
void dt_eager_queued(struct dt_sender *sender, struct dt_staged *entry);
void dt_eager_matched(struct dt_sender *sender, struct dt_staged *entry);
/* The entry's message is delivered, or never will be. */
void dt_eager_delivered(struct dt_sender *sender, struct dt_staged *entry);
/* The entry's payload was written to the receiver's memory, eagerly. */
bool dt_eager_was_sent(const struct dt_sender *sender, const struct dt_staged *entry);
/* A row has arrived: places that it releases are free again. */
void dt_eager_read_row(struct dt_sender *sender, const struct dt_cts_entry *row);
/* The frame GRANT. Device thread. DT_PROTOCOL: another frame, or malformed. */
enum dt_status dt_eager_frame(struct dt_sender *sender, const struct dt_frame *frame);
/* A completion of DT_WORK_EAGER; others are ignored. */
void dt_eager_completed(struct dt_sender *sender, const struct dt_work *work);

void dt_eager_place_set(struct dt_eager_place *place, enum dt_eager_state state);
/* The place is free; its entry, if there is one, gets this value of dt_staged.eager. */
void dt_eager_place_free(struct dt_eager *eager, struct dt_eager_place *place, uint8_t entry_eager);
/* The payload has arrived. */
void dt_eager_place_count(struct dt_sender *sender, struct dt_eager_place *place);
/* A HELD place may be written, or given up, now. If not, the device thread will look in time. */
bool dt_eager_place_is_due(struct dt_sender *sender, struct dt_eager_place *place);
void dt_eager_place_leave_gate(struct dt_sender *sender, struct dt_eager_place *place);
struct dt_eager_place *dt_eager_place_of(struct dt_sender *sender, const struct dt_staged *entry);
uint32_t dt_eager_place_number(const struct dt_eager *eager, const struct dt_eager_place *place);
/* wr_id of what is posted for this use of the place. */
uint64_t dt_eager_work_id(const struct dt_path *path, const struct dt_eager *eager,
                          const struct dt_eager_place *place);
/* The entry is a candidate no longer, or again. */
void dt_eager_set_candidate(struct dt_eager *eager, struct dt_staged *entry, bool is_candidate);

#ifdef __cplusplus
}
#endif

#endif
