/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/failing.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "failover/switchover/post.h"
#include "transport/message/receive.h"
#include "transport/message/send.h"
#include "transport/service_state.h"
#include "transport/session/session.h"

static void start_fences(struct dt_connection *c, uint64_t now_ns)
{
    uint32_t before = dt_fetch_add_acq_rel(&c->group.fences_pending, c->path_count);

    DT_CHECK(before == 0); /* a connection fails once */
    c->service->fence_deadline_ns = dt_deadline_ns(now_ns, DT_FAIL_FENCE_NS);
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_path_submit_fence(&c->path[p]);
}

static void send_close(struct dt_connection *c, uint64_t now_ns)
{
    uint64_t sequence;

    if (c->session->is_closing || !dt_owner_take(&c->owner))
        return;
    sequence = c->is_sender ? dt_sender_first_incomplete(dt_sender_of(c))
                            : dt_receiver_first_missing(dt_receiver_of(c));
    dt_post_close(c, sequence, now_ns);
    dt_owner_give_back(&c->owner);
    dt_session_send_close(c->session, sequence, now_ns);
}

void dt_failing_progress(struct dt_connection *c, uint64_t now_ns)
{
    DT_CHECK(dt_load_acquire(&c->failing) != DT_OK);
    send_close(c, now_ns);
    if (c->service->fence_deadline_ns == 0)
        start_fences(c, now_ns);
    DT_CHECK(dt_load_acquire(&c->group.fences_pending) <= c->path_count);
    if (now_ns < c->service->fence_deadline_ns || dt_load_acquire(&c->error))
        return;
    dt_warn("failed-unfenced",
            "connection %016llx: %s did not fence its queue pairs within %llu ms; the error is reported "
            "without the fence",
            (unsigned long long)c->id, c->nic->name, DT_FAIL_FENCE_NS / DT_NS_PER_MS);
    dt_store_release(&c->error, dt_load_acquire(&c->failing));
}
