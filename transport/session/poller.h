/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of a session to the thread that serves it: watch the file descriptor of a channel, and serve
 * the session soon. transport/device_thread.c implements it; without threads (simulations) every operation
 * does nothing.
 */
#ifndef DETOUR_TRANSPORT_SESSION_POLLER_H
#define DETOUR_TRANSPORT_SESSION_POLLER_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_poller;
struct dt_session;

struct dt_poller_ops {
    /* Watches the session's channel, or adapts to its new state. The caller holds the lock of the session. */
    void (*watch)(struct dt_poller *poller, struct dt_session *session);
    /* Stops to watch it; the channel is about to be closed. The caller holds the lock of the session. */
    void (*forget)(struct dt_poller *poller, struct dt_session *session);
    /* Has the thread serve its sessions now. Any thread. */
    void (*wake)(struct dt_poller *poller);
    /* Whether the thread runs, so that a channel which it has not reported has nothing to receive. */
    bool (*is_running)(const struct dt_poller *poller);
};

struct dt_poller {
    const struct dt_poller_ops *ops;
};

#ifdef __cplusplus
}
#endif

#endif
