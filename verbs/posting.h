/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A posting back end: how work requests get into a send queue. `std` (posting_std.c) and `dv` (posting_dv.c).
 * All functions but open and close are the owner's (queue.h, "Threads") and data path.
 */
#ifndef DETOUR_VERBS_POSTING_H
#define DETOUR_VERBS_POSTING_H

#include "verbs/object.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_posting {
    const char *name;

    /* Work requests to ask ibv_create_qp for, so that qp->sq_depth of them fit in the worst case. */
    uint32_t (*wr_count)(uint32_t sq_depth, uint32_t inline_bytes);

    /* Before ibv_create_qp; what it fills is undone by dt_mlx5_close_domain(). NULL: nothing to do. */
    void (*prepare)(struct dt_qp *qp);

    /*
     * After ibv_create_qp: takes the send queue, fills qp->slots and enters the QP in its send CQ. Errors are
     * logged; nothing is left behind.
     */
    enum dt_status (*open)(struct dt_qp *qp);
    /* Undoes open, before or after ibv_destroy_qp; completions that are still in the CQ will be dropped. */
    void (*close)(struct dt_qp *qp);

    /* There is room for all of them, as far as sq_depth is concerned. Contracts as in queue.h. */
    enum dt_status (*write)(struct dt_qp *qp, const struct dt_write *writes, unsigned count);
    enum dt_status (*read)(struct dt_qp *qp, const struct dt_read *read);
    void (*ring)(struct dt_qp *qp);
};

extern const struct dt_posting dt_posting_std;
extern const struct dt_posting dt_posting_dv;

#ifdef __cplusplus
}
#endif

#endif
