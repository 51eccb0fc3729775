/* SPDX-License-Identifier: Apache-2.0 */
/* A library that has every function of libibverbs that is needed, none of which may be called but
 * ibv_fork_init. */
#include <stdlib.h>

#define STUB(name)         \
    void ibv_##name(void); \
    void ibv_##name(void)  \
    {                      \
        abort();           \
    }
STUB(get_device_list)
STUB(free_device_list)
STUB(get_device_name)
STUB(get_device_guid)
STUB(open_device)
STUB(close_device)
STUB(query_device)
STUB(query_port)
STUB(query_gid)
STUB(query_pkey)
STUB(get_async_event)
STUB(ack_async_event)
STUB(event_type_str)
STUB(alloc_pd)
STUB(dealloc_pd)
STUB(reg_mr)
STUB(dereg_mr)
STUB(create_cq)
STUB(destroy_cq)
STUB(create_qp)
STUB(modify_qp)
STUB(query_qp)
STUB(destroy_qp)

int stub_fork_init_calls;
int stub_fork_init_error;

int ibv_fork_init(void);
int ibv_fork_init(void)
{
    stub_fork_init_calls++;
    return stub_fork_init_error;
}
