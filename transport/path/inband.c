/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/path/inband.h"

#include "transport/protocol/memory_layout.h"
#include "transport/protocol/work_id.h"

/* A frame and its bell. */
#define WRITES 2u
/* Of the probe queue pair: outbox slots are not filled again while their writes may be outstanding. */
#define OUTSTANDING_MAX (WRITES * DT_MAILBOX_SLOTS)

static struct dt_mailbox *mailbox_of(const struct dt_path *path)
{
    const struct dt_path_group *group = path->group;

    return (struct dt_mailbox *)(void *)(path->control + dt_mailbox_offset(group->is_sender, group->slots));
}

enum dt_status dt_inband_send(struct dt_path *path, const uint8_t *frame, size_t bytes, bool is_last)
{
    const struct dt_path_group *group = path->group;
    struct dt_mailbox *mailbox = mailbox_of(path);
    uint64_t peer =
        path->peer_control_addr + dt_peer_probe_offset(group->is_sender, group->slots) + DT_PROBE_BYTES;
    uint64_t sequence = path->mail_sent + 1;
    uint64_t slot = sequence % DT_MAILBOX_SLOTS;
    struct dt_write write[WRITES];
    uint32_t needed = is_last ? WRITES : 2 * WRITES;
    enum dt_status status;

    if (bytes > DT_MAILBOX_FRAME_BYTES || dt_qp_sends_outstanding(path->probe) > OUTSTANDING_MAX - needed)
        return DT_FULL;
    write[0] = (struct dt_write){
        .local_addr = (uintptr_t)&mailbox->out[slot],
        .remote_addr = peer + offsetof(struct dt_mailbox, in) + slot * sizeof mailbox->in[0],
        .wr_id = dt_work_encode(DT_WORK_PROBE, path->index, 0, path->epoch, 0),
        .bytes = (uint32_t)dt_mailbox_fill(mailbox, sequence, frame, bytes),
        .lkey = dt_load_relaxed(&path->control_mr->lkey),
        .rkey = path->peer_control_rkey,
    };
    write[1] = write[0];
    write[1].remote_addr = peer + offsetof(struct dt_mailbox, bell);
    write[1].bytes = sizeof mailbox->bell; /* the slot begins with its sequence */
    write[1].flags = DT_POST_SIGNALED;
    status = dt_qp_post_write(path->probe, write, WRITES);
    if (status != DT_OK)
        return status;
    path->mail_sent = sequence;
    dt_qp_ring(path->probe);
    return DT_OK;
}

bool dt_inband_has_news(const struct dt_path *path)
{
    return path->probe && dt_mailbox_has_news(mailbox_of(path), path->mail_taken);
}

bool dt_inband_receive(struct dt_path *path, struct dt_mail *mail)
{
    return dt_inband_has_news(path) && dt_mailbox_take(mailbox_of(path), &path->mail_taken, mail);
}
