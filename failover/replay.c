/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/replay.h"

#include <stddef.h>

#include "base/check.h"

static enum dt_status wqe_post(const struct dt_replay *replay, uint32_t *done)
{
    enum dt_status status = DT_UNSUPPORTED;

    if (replay->from)
        status =
            dt_qp_copy_wqes(replay->from, replay->to, replay->wr_ids, replay->count, &replay->source->map);
    *done = status == DT_OK ? replay->count : 0;
    return status;
}

static enum dt_status repost_post(const struct dt_replay *replay, uint32_t *done)
{
    const struct dt_replay_source *source = replay->source;

    for (*done = 0; *done < replay->count; ++*done) {
        enum dt_status status = source->post(source->arg, replay->to, replay->wr_ids[*done]);

        if (status != DT_OK)
            return status;
    }
    return DT_OK;
}

const struct dt_replay_engine dt_replay_wqe = {"wqe", wqe_post};
const struct dt_replay_engine dt_replay_repost = {"repost", repost_post};

enum dt_status dt_replay_run(const struct dt_replay *replay, uint32_t *done,
                             const struct dt_replay_engine **engine)
{
    const struct dt_replay_engine *used = &dt_replay_wqe;
    enum dt_status status = used->post(replay, done);

    if (status != DT_OK) {
        used = &dt_replay_repost;
        status = used->post(replay, done);
    }
    DT_CHECK(*done <= replay->count && (status != DT_OK || *done == replay->count));
    if (engine)
        *engine = used;
    if (*done)
        dt_qp_ring(replay->to);
    return status;
}
