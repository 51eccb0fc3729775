/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/fence.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"

void dt_fence_begin(struct dt_fence *fence, uint32_t qp_count, uint64_t limit_ns, uint64_t now_ns)
{
    DT_CHECK(!fence->is_active && qp_count > 0);
    memset(fence, 0, sizeof *fence);
    fence->is_active = true;
    fence->last_verdict = DT_FENCE_WAIT;
    fence->all = dt_qp_set_of_first(qp_count);
    fence->begun_ns = now_ns;
    fence->limit_ns = limit_ns;
}

void dt_fence_peer_stopped(struct dt_fence *fence, uint64_t now_ns)
{
    if (fence->is_active && fence->peer_stopped_ns == 0)
        fence->peer_stopped_ns = now_ns;
}

void dt_fence_end(struct dt_fence *fence)
{
    fence->is_active = false;
}

static bool is_flushed(const struct dt_fence *fence)
{
    return fence->is_err_requested && dt_qp_set_contains(&fence->markers, &fence->all) &&
           dt_qp_set_contains(&fence->receives, &fence->all);
}

static bool is_destroyed(const struct dt_fence *fence)
{
    return fence->is_destroyed && !fence->is_device_dead;
}

/* When the sender's own proof becomes one for this end. */
static uint64_t stopped_ns(const struct dt_fence *fence)
{
    return fence->peer_stopped_ns && (fence->is_device_dead || fence->is_refused)
               ? dt_deadline_ns(fence->peer_stopped_ns, fence->late_ns)
               : DT_NEVER_NS;
}

enum dt_fence_verdict dt_fence_verdict(struct dt_fence *fence, uint64_t now_ns)
{
    DT_CHECK(dt_qp_set_contains(&fence->all, &fence->markers) &&
             dt_qp_set_contains(&fence->all, &fence->receives));
    if (!fence->is_active)
        return DT_FENCE_WAIT;
    if (is_flushed(fence) || is_destroyed(fence) || fence->is_device_gone || now_ns >= stopped_ns(fence))
        return DT_FENCE_PROVEN;
    if (fence->last_verdict == DT_FENCE_LATE || now_ns < dt_fence_deadline_ns(fence))
        return DT_FENCE_WAIT;
    fence->last_verdict =
        fence->last_verdict == DT_FENCE_WAIT && !fence->is_device_dead ? DT_FENCE_DESTROY : DT_FENCE_LATE;
    return (enum dt_fence_verdict)fence->last_verdict;
}

uint64_t dt_fence_deadline_ns(const struct dt_fence *fence)
{
    uint64_t first_ns = dt_deadline_ns(fence->begun_ns, fence->limit_ns);

    if (!fence->is_active)
        return DT_NEVER_NS;
    if (fence->last_verdict == DT_FENCE_LATE)
        return stopped_ns(fence);
    if (fence->last_verdict == DT_FENCE_DESTROY && !fence->is_device_dead)
        first_ns = dt_deadline_ns(first_ns, fence->limit_ns);
    return dt_earlier_ns(first_ns, stopped_ns(fence));
}

const char *dt_fence_evidence(const struct dt_fence *fence, uint64_t now_ns)
{
    if (is_flushed(fence))
        return "flushed";
    if (is_destroyed(fence))
        return "destroyed";
    if (fence->is_device_gone)
        return "device gone";
    return now_ns >= stopped_ns(fence) ? "peer stopped" : "unproven";
}
