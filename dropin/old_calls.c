/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names with the version of libibverbs 1.0 (2006), whose structs were different. No current program uses
 * them; one that does gets EOPNOTSUPP from its first call, ibv_get_device_list(), on. (A lookup without any
 * version finds the present functions, which are marked as the default.)
 */
#include <errno.h>
#include <stdint.h>

#include "dropin/dropin.h"

/* A table: one line per function. */
/* clang-format off */
#define OLD(type, name, version, statement)                                                                  \
    DT_EXPORT type old_##name(void);                                                                         \
    type old_##name(void) { statement; }                                                                     \
    __asm__(".symver old_" #name ", ibv_" #name "@" version);

#define OLD_INT(name)     OLD(int, name, "IBVERBS_1.0", return dt_dropin_no_int())
#define OLD_READ(name)    OLD(int, name, "IBVERBS_1.0", errno = EOPNOTSUPP; return -1)
#define OLD_POINTER(name) OLD(void *, name, "IBVERBS_1.0", return dt_dropin_no_pointer())
#define OLD_NOTHING(name) OLD(void, name, "IBVERBS_1.0", )

OLD_INT(attach_mcast)
OLD_INT(close_device)
OLD_INT(dealloc_pd)
OLD_INT(dereg_mr)
OLD_INT(destroy_ah)
OLD_INT(destroy_cq)
OLD_INT(destroy_qp)
OLD_INT(destroy_srq)
OLD_INT(detach_mcast)
OLD_INT(modify_qp)
OLD_INT(modify_srq)
OLD_INT(query_device)
OLD_INT(query_port)
OLD_INT(query_qp)
OLD_INT(query_srq)
OLD_INT(resize_cq)

OLD_READ(get_async_event)
OLD_READ(get_cq_event)
OLD_READ(query_gid)
OLD_READ(query_pkey)

OLD_POINTER(alloc_pd)
OLD_POINTER(create_ah)
OLD_POINTER(create_cq)
OLD_POINTER(create_qp)
OLD_POINTER(create_srq)
OLD_POINTER(get_device_list)
OLD_POINTER(get_device_name)
OLD_POINTER(open_device)
OLD_POINTER(reg_mr)

OLD_NOTHING(ack_async_event)
OLD_NOTHING(ack_cq_events)
OLD_NOTHING(free_device_list)

OLD(uint64_t, get_device_guid, "IBVERBS_1.0", errno = EOPNOTSUPP; return 0)
/* Drivers of the same time. */
OLD(void, register_driver, "IBVERBS_1.1", )
