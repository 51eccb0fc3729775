/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/owner.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"

#define CALL_SPINS 2000 /* some tens of microseconds */

static int membarrier(int command)
{
    return (int)syscall(__NR_membarrier, command, 0, 0);
}

bool dt_owner_setup(void)
{
    int commands = membarrier(MEMBARRIER_CMD_QUERY);

    return commands > 0 && commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED &&
           membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

void dt_owner_claim(struct dt_owner *owner)
{
    uint32_t holder = __atomic_exchange_n(&owner->holder, DT_HOLDER_DETOUR, __ATOMIC_SEQ_CST);

    DT_CHECK(holder == DT_HOLDER_NCCL);
}

void dt_owner_fence(bool has_membarrier)
{
    /* The call cannot fail once the process is registered; without the fence ownership would be unsound. */
    if (has_membarrier)
        DT_CHECK(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0);
}

bool dt_owner_confirm(struct dt_owner *owner)
{
    uint32_t visits = owner->is_exchange ? dt_load_seq_cst(&owner->visits) : dt_load_acquire(&owner->visits);

    DT_CHECK(owner->holder == DT_HOLDER_DETOUR);
    /* A call in progress ends soon; a call that begins now sees the new holder and leaves. */
    for (uint32_t i = 0; i < CALL_SPINS && visits & 1 && dt_load_acquire(&owner->visits) == visits; i++)
        dt_cpu_relax();
    if (!(visits & 1) || dt_load_acquire(&owner->visits) != visits)
        return true;
    dt_owner_give_back(owner);
    return false;
}

bool dt_owner_take(struct dt_owner *owner)
{
    dt_owner_claim(owner);
    dt_owner_fence(!owner->is_exchange);
    return dt_owner_confirm(owner);
}
