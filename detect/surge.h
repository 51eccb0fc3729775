/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a link just become slow? The verdict that `detour stat` shows until the monitor (detect/monitor.h) has
 * seen enough iterations. It needs three messages, so it detects only large changes: a message is slow if it
 * takes more than three times its baseline (detect/baseline.h) and at least 1 ms more.
 *
 *   on    after three slow messages in a row, each submitted after the one before had completed; or when one
 *         message is more than 100 ms overdue
 *   off   after 32 healthy messages in a row that span at least a second
 *
 * hostpath/auto.h makes a similar decision for the host path. The two share the baseline and differ in more
 * than constants, since they err in different directions: this verdict blames a link and must not be wrong,
 * while an unnecessary switch to the host path costs one copy.
 *
 *                            surge                                  auto
 *   nothing learned yet      no verdict                             an assumed bandwidth
 *   overlapping messages     one piece of evidence: they may have   each counts, so that a queue behind a
 * slow met the same short stall               link is noticed before it has drained overdue message turns it
 * on                            not seen: auto decides at completions minimum time until off   from the first
 * healthy message         from the last confirmed slow one, and doubled if it flaps
 *
 * Pure, no allocation. One thread.
 */
#ifndef DETOUR_DETECT_SURGE_H
#define DETOUR_DETECT_SURGE_H

#include <stdbool.h>
#include <stdint.h>

#include "detect/baseline.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_SURGE_FACTOR       3
#define DT_SURGE_EXTRA_NS     1000000ull
#define DT_SURGE_OVERDUE_NS   100000000ull
#define DT_SURGE_ON_MESSAGES  3
#define DT_SURGE_OFF_MESSAGES 32
#define DT_SURGE_OFF_NS       1000000000ull

struct dt_surge {
    struct dt_baseline baseline;
    uint32_t slow_run;          /* independent slow messages in a row */
    uint64_t slow_run_until_ns; /* completion of the last of them */
    uint32_t healthy_run;
    uint64_t healthy_run_since_ns;
    uint64_t slow_ns; /* service time of the last slow message, and its baseline */
    uint64_t slow_baseline_ns;
    bool is_on;
};

void dt_surge_init(struct dt_surge *surge);

/* A message of `bytes` completed at `now_ns` after `service_ns`. */
void dt_surge_message(struct dt_surge *surge, uint64_t bytes, uint64_t service_ns, uint64_t now_ns);

/* The oldest message in flight: its size, and when it was submitted. */
void dt_surge_waiting(struct dt_surge *surge, uint64_t bytes, uint64_t since_ns, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
