/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events: records of struct ib_uverbs_async_event_desc (<rdma/ib_user_verbs.h>) in a packet
 * socket, of which the provider's end is the context's async_fd. read() takes one record; those that were not
 * read can be taken back, as the kernel does when their object is destroyed. The lock is held.
 */
#ifndef DETOUR_TESTS_PROVIDER_EVENTS_H
#define DETOUR_TESTS_PROVIDER_EVENTS_H

#include "tests/provider/uverbs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0 and the provider's end, or an errno. */
int dt_uverbs_events_open(struct dt_uverbs_context *context, int *provider_fd);
void dt_uverbs_events_close(struct dt_uverbs_context *context);

/* Hands the engine's events on. */
void dt_uverbs_events_pass(struct dt_uverbs_context *context);

/* Before the object is destroyed: takes its unread events back. Returns how many the provider has read. */
uint32_t dt_uverbs_events_forget(struct dt_uverbs_object *object);

#ifdef __cplusplus
}
#endif

#endif
