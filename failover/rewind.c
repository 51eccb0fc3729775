/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/rewind.h"

#include <stddef.h>

static enum dt_status wqe_post(const struct dt_rewind *rewind, uint32_t *done)
{
    enum dt_status status = DT_UNSUPPORTED;

    if (rewind->from)
        status = dt_qp_rewind(rewind->from, rewind->to, rewind->wr_ids, rewind->count, &rewind->source->map);
    *done = status == DT_OK ? rewind->count : 0;
    return status;
}

static enum dt_status repost_post(const struct dt_rewind *rewind, uint32_t *done)
{
    const struct dt_rewind_source *source = rewind->source;

    for (*done = 0; *done < rewind->count; ++*done) {
        enum dt_status status = source->post(source->arg, rewind->to, rewind->wr_ids[*done]);

        if (status != DT_OK)
            return status;
    }
    return DT_OK;
}

const struct dt_rewind_engine dt_rewind_wqe = {"wqe", wqe_post};
const struct dt_rewind_engine dt_rewind_repost = {"repost", repost_post};

enum dt_status dt_rewind_run(const struct dt_rewind *rewind, uint32_t *done,
                             const struct dt_rewind_engine **engine)
{
    const struct dt_rewind_engine *used = &dt_rewind_wqe;
    enum dt_status status = used->post(rewind, done);

    if (status != DT_OK) {
        used = &dt_rewind_repost;
        status = used->post(rewind, done);
    }
    if (engine)
        *engine = used;
    if (*done)
        dt_qp_ring(rewind->to);
    return status;
}
