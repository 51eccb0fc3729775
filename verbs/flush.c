/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/flush.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "verbs/object.h"

struct dt_flush {
    struct dt_device *device;
    void *sink; /* a page that takes the bytes read */
    struct dt_mr *sink_mr;
    struct dt_cq *cq;
    struct dt_qp *qp;
};

static enum dt_status connect_to_itself(struct dt_flush *flush, const struct dt_qp_link_options *options)
{
    struct dt_qp_address address;

    dt_qp_local_address(flush->qp, &address);
    return dt_qp_connect(flush->qp, &address, options);
}

static enum dt_status create_qp(struct dt_flush *flush, uint32_t depth, uint32_t psn)
{
    struct dt_qp_options options = {.send_cq = flush->cq,
                                    .recv_cq = flush->cq,
                                    .sq_depth = depth,
                                    .rq_depth = 1,
                                    .posting = DT_POSTING_STD,
                                    .access = DT_MR_REMOTE_READ,
                                    .psn = psn};

    return dt_qp_create(flush->device, &options, &flush->qp);
}

/* Does not log DT_NO_MEMORY. */
static enum dt_status open_parts(struct dt_flush *flush, uint32_t depth, uint32_t psn,
                                 const struct dt_qp_link_options *options)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    enum dt_status status;

    flush->sink = aligned_alloc(page_bytes, page_bytes);
    if (!flush->sink)
        return DT_NO_MEMORY;
    status = dt_mr_register(flush->device, flush->sink, page_bytes, DT_MR_LOCAL_WRITE, &flush->sink_mr);
    if (status == DT_OK)
        status = dt_cq_create(flush->device, depth + 1, NULL, &flush->cq);
    if (status == DT_OK)
        status = create_qp(flush, depth, psn);
    if (status == DT_OK)
        status = connect_to_itself(flush, options);
    return status;
}

enum dt_status dt_flush_create(struct dt_device *device, uint32_t depth, uint32_t psn,
                               const struct dt_qp_link_options *options, struct dt_flush **flush)
{
    struct dt_flush *created = calloc(1, sizeof *created);
    enum dt_status status;

    if (!created)
        return DT_NO_MEMORY;
    created->device = device;
    status = open_parts(created, depth, psn, options);
    if (status == DT_OK)
        *flush = created;
    else
        dt_flush_destroy(created);
    return status;
}

/* Also of one that was opened in part. */
void dt_flush_destroy(struct dt_flush *flush)
{
    if (flush->qp)
        dt_qp_destroy(flush->qp);
    if (flush->cq)
        dt_cq_destroy(flush->cq);
    if (flush->sink_mr)
        dt_mr_deregister(flush->device, flush->sink_mr);
    free(flush->sink);
    free(flush);
}

enum dt_status dt_flush_post(struct dt_flush *flush, uint64_t addr, uint32_t rkey, uint64_t wr_id)
{
    struct dt_read read = {.local_addr = (uintptr_t)flush->sink,
                           .remote_addr = addr,
                           .wr_id = wr_id,
                           .bytes = 1,
                           .lkey = flush->sink_mr->lkey,
                           .rkey = rkey,
                           .flags = DT_POST_SIGNALED};
    enum dt_status status = dt_qp_post_read(flush->qp, &read);

    if (status == DT_OK)
        dt_qp_ring(flush->qp);
    return status;
}

int dt_flush_poll(struct dt_flush *flush, struct dt_completion *completions, unsigned count_max)
{
    return dt_cq_poll(flush->cq, completions, count_max);
}
