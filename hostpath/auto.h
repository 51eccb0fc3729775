/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a connection should use the host path now (DETOUR_HOSTPATH=auto).
 *
 * Each message is compared with the healthy time (detect/baseline.h) of all bytes that were in flight when it
 * was submitted, its own included, since they share the link. Before anything has been learned, a healthy
 * link of 500 MB/s and 3 ms latency is assumed, so that a link that is slow from the start is recognized as
 * well.
 *
 *   slow   at least 1.5 times the healthy time, and at least 2 ms more
 *   fast   at most 1.25 times the healthy time, or less than 1 ms more
 *
 *   off -> on   after three slow messages in a row
 *   on -> off   after 16 fast messages in a row, and at least the hold time after the last run of three slow
 * ones
 *
 * The hold time is half a second. It doubles, up to a minute, whenever the host path is turned on within ten
 * hold times of being turned off, so that an intermittent link does not make the decision flap.
 *
 * detect/surge.h decides about the verdict that `detour stat` shows; its header compares the two rules.
 *
 * Pure, no allocation. The owner's thread of the sender.
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

/* Off, nothing learned. */
void dt_auto_init(struct dt_auto *a);

/*
 * A message was delivered `service_ns` after its CTS had arrived, so waiting for the peer is not included.
 * `bytes`: in flight at that time, this message included. Returns whether is_on has changed.
 */
bool dt_auto_message(struct dt_auto *a, uint64_t bytes, uint64_t service_ns, uint64_t now_ns);

/* The healthy time for `bytes`, learned or assumed. */
uint64_t dt_auto_healthy_ns(const struct dt_auto *a, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
