/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The healthy service time per message size, learned from a connection's own traffic: the baseline that
 * detect/surge.h and hostpath/auto.h compare a message with.
 *
 * Sizes fall into classes by powers of two. A class counts as known after a given number of messages; until
 * then it keeps the fastest of them, since set-up delays some. Afterwards it is an exponentially weighted
 * moving average with weight 1/2^shift. For an unknown class, the nearest known class below is scaled in
 * proportion to the bytes, so that a change of message sizes is not taken for a slow link. The caller decides
 * which messages are healthy and passes only those.
 *
 * Pure, no allocation. One thread.
 */
#ifndef DETOUR_DETECT_BASELINE_H
#define DETOUR_DETECT_BASELINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_BASELINE_CLASSES \
    48 /* class i: 2^i to 2^(i+1)-1 bytes; class 0 also 0 bytes, the last one all above */

struct dt_baseline_rule {
    uint32_t known_messages; /* messages of a class until it is known; at least 1 */
    uint32_t shift;          /* weight of a message in a known class: 1/2^shift */
};

struct dt_baseline {
    const struct dt_baseline_rule *rule;
    uint64_t service_ns[DT_BASELINE_CLASSES];
    uint32_t messages[DT_BASELINE_CLASSES]; /* learned from, up to rule->known_messages */
};

/* Every class is unknown. `rule` must outlive the baseline. */
void dt_baseline_init(struct dt_baseline *baseline, const struct dt_baseline_rule *rule);

/* A healthy message of `bytes` took `service_ns`. */
void dt_baseline_learn(struct dt_baseline *baseline, uint64_t bytes, uint64_t service_ns);

/* The healthy time for `bytes`, at least 1 ns; 0 if neither its class nor one below is known. */
uint64_t dt_baseline_ns(const struct dt_baseline *baseline, uint64_t bytes);

/* The same from the nearest known class above, without scaling: a larger message takes at least as long. 0:
 * none. */
uint64_t dt_baseline_above_ns(const struct dt_baseline *baseline, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
