/* SPDX-License-Identifier: Apache-2.0 */
/* Making a connection. */
#ifndef DETOUR_TRANSPORT_MESSAGE_CREATE_H
#define DETOUR_TRANSPORT_MESSAGE_CREATE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_connection;
struct dt_nic;

/* A new one, with nothing but memory. NULL: out of memory. One reference, the caller's (connection->group).
 */
struct dt_connection *dt_connection_create(struct dt_nic *nic, bool is_sender);

#ifdef __cplusplus
}
#endif

#endif
