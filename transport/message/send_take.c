/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end: posting TAKE. */
#include "transport/message/send_take.h"

#include "base/check.h"
#include "transport/message/send_path.h"
#include "transport/protocol/immediate.h"

void dt_sender_post_take(struct dt_path *path, const struct dt_send_slot *slot, uint64_t wr_id)
{
    struct dt_write write = {
        .wr_id = wr_id,
        .remote_addr = path->peer_control_addr,
        .rkey = path->peer_control_rkey,
        .imm = dt_imm_encode(DT_IMM_TAKE, slot->body.place, slot->sequence),
        .flags = DT_POST_IMM | DT_POST_SIGNALED,
    };
    enum dt_status status;

    DT_CHECK(slot->body.kind == DT_BODY_TAKE && path->state == DT_PATH_UP);
    status = dt_qp_post_write(path->qp[0], &write, 1);
    dt_qp_ring(path->qp[0]);
    if (status != DT_OK)
        dt_connection_path_refused(path->connection, path, "refused a write");
}

/*
 * Posts a message whose payload the receiver has. One that is bound to an epoch which is being settled counts
 * as posted there: RESUME reports whether the receiver has the payload, and settling decides the message.
 */
bool dt_sender_post_taken(struct dt_sender *s, struct dt_send_slot *slot)
{
    const struct dt_send_body *body = &slot->body;
    bool is_bound = body->path < DT_PATHS_MAX;
    struct dt_path *path = is_bound ? &s->connection.path[body->path] : s->connection.current;
    bool is_settling = is_bound && path->state != DT_PATH_UP;

    if (!path || (!is_settling && dt_qp_room(path->qp[0]) < 1))
        return false;
    DT_CHECK(is_settling || !is_bound || path->epoch == body->epoch);
    dt_sender_mark_posted(path, slot);
    slot->qps_left = 1;
    if (is_settling)
        slot->epoch = body->epoch;
    else
        dt_sender_post_take(path, slot, path->payload_id[0] | (uint32_t)slot->sequence);
    return true;
}
