/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a connection should take the host path now (DETOUR_HOSTPATH=auto). Pure: it is told of each message
 * that was delivered, and decides.
 *
 * A message is compared with what is usual for as many bytes: all that was under way when it was handed over,
 * its own included, since they share the link. The usual time is learned from messages that are not slow, by
 * powers of two, and scaled where a power has not been seen. Before anything is known, it is a generous
 * guess.
 *
 *   slow   at least half as much again as usual, and 2 ms more
 *   fast   at most a quarter more than usual, or less than 1 ms more
 *
 *   off -> on   three slow messages in a row
 *   on -> off   sixteen fast ones in a row, and no three slow ones for the hold time
 *
 * The hold time is half a second. It doubles, up to a minute, whenever the path had to be turned on again
 * within ten hold times of being turned off, so that a link that comes and goes does not make it flap.
 *
 * This is not the verdict that `detour stat` shows (detect/, fed on Detour's threads): that one is about
 * blame and must not be wrong, needs to know what is usual, and takes messages that were under way together
 * for one. Here a queue of messages behind one slow link has to be noticed before it is through, also on a
 * link that has been slow from the start, and a mistake costs a copy.
 */
#ifndef DETOUR_HOSTPATH_AUTO_H
#define DETOUR_HOSTPATH_AUTO_H

#include <stdbool.h>
#include <stdint.h>

#include "detect/baseline.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_auto {
    bool is_on;
    uint32_t slow_run;
    uint32_t fast_run;
    struct dt_baseline baseline;
    uint64_t slow_ns; /* when a run of three or more slow messages last grew */
    uint64_t off_ns;  /* when it was last turned off; 0: never */
    uint64_t hold_ns;
};

/* Off, and knows nothing. */
void dt_auto_init(struct dt_auto *a);

/*
 * A message was delivered `service_ns` after it could have gone: its clear-to-send was there, so waiting for
 * the peer is not in it. `bytes`: under way then, this message included. Returns whether is_on has changed.
 */
bool dt_auto_message(struct dt_auto *a, uint64_t bytes, uint64_t service_ns, uint64_t now_ns);

/* The healthy time for `bytes`, learned or assumed. */
uint64_t dt_auto_healthy_ns(const struct dt_auto *a, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
