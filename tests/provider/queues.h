/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's own work, on one thread: it watches the doorbell registers, takes elements from the provider's
 * send and receive queues to the engine and writes CQ entries. The layouts are those of
 * <infiniband/mlx5dv.h>.
 *
 * An element is sent only after its doorbell register was written, as on hardware; the record alone sends
 * nothing.
 */
#ifndef DETOUR_TESTS_PROVIDER_QUEUES_H
#define DETOUR_TESTS_PROVIDER_QUEUES_H

#include "tests/provider/uverbs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The thread runs while contexts are open. 0 or an errno. The lock is held for start, and not for stop. */
int dt_uverbs_thread_start(void);
void dt_uverbs_thread_stop(void);

#ifdef __cplusplus
}
#endif

#endif
