/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/lease.h"

#include "base/clock.h"

static void hold(struct dt_lease *lease, uint64_t now_ns)
{
    lease->is_held = true;
    lease->until_ns = dt_deadline_ns(now_ns, lease->ms * DT_NS_PER_MS);
    lease->renew_ns = dt_deadline_ns(now_ns, lease->ms * DT_NS_PER_MS / 3);
}

bool dt_lease_is_held(const struct dt_lease *lease, uint64_t now_ns)
{
    return lease->is_held && now_ns < lease->until_ns;
}

enum dt_status dt_lease_acquire(struct dt_lease *lease, uint64_t now_ns)
{
    enum dt_status status = lease->store->ops->lease_acquire(lease->store, lease->name, lease->holder,
                                                             lease->ms, now_ns, &lease->fence);

    if (status == DT_OK)
        hold(lease, now_ns);
    return status;
}

enum dt_status dt_lease_renew(struct dt_lease *lease, uint64_t now_ns)
{
    enum dt_status status = DT_AGAIN;

    if (dt_lease_is_held(lease, now_ns)) {
        if (now_ns < lease->renew_ns)
            return DT_OK;
        status = lease->store->ops->lease_renew(lease->store, lease->name, lease->holder, lease->fence,
                                                lease->ms, now_ns);
    }
    if (status == DT_OK)
        hold(lease, now_ns);
    if (status == DT_AGAIN)
        lease->is_held = false;
    return status;
}

void dt_lease_release(struct dt_lease *lease)
{
    if (lease->is_held)
        lease->store->ops->lease_release(lease->store, lease->name, lease->holder, lease->fence);
    lease->is_held = false;
}
