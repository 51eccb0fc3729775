/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/path/nic.h"

#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"

static void submit(struct dt_nic *nic, struct dt_task *task, bool is_urgent)
{
    if (dt_executor_submit(&nic->executor, task, is_urgent) != DT_OK)
        task->run(task);
}

void dt_nic_submit(struct dt_nic *nic, struct dt_task *task)
{
    submit(nic, task, false);
}

void dt_nic_submit_urgent(struct dt_nic *nic, struct dt_task *task)
{
    submit(nic, task, true);
}

void dt_nic_wake(struct dt_nic *nic)
{
    uint64_t one = 1;

    dt_store_release(&nic->has_work, 1u);
    if (!nic->is_started || dt_exchange_acq_rel(&nic->is_woken, 1u))
        return;
    DT_CHECK(nic->wake_fd >= 0); /* a started thread has its files */
    /* The counter cannot be full: it is written once between two reads. */
    (void)!write(nic->wake_fd, &one, sizeof one);
}
