/* SPDX-License-Identifier: Apache-2.0 */
/* Streams over TCP. Stateless: one network serves all callers. Any thread. */
#ifndef DETOUR_TRANSPORT_SESSION_STREAM_TCP_H
#define DETOUR_TRANSPORT_SESSION_STREAM_TCP_H

#include "transport/session/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_network *dt_network_tcp(void);

#ifdef __cplusplus
}
#endif

#endif
