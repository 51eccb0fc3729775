/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the ring all-reduce of gradients.h takes on given links: the time that the schedule library's
 * model does not have. With a message j of replica r arriving at
 *
 *   a(r, j) = max(a(r, j - 1) - latency(r), posted at r, posted at r + 1) + serial(r) + latency(r)
 *
 * where a send is posted once its device has ended its pipeline, slice j - slices has arrived from r - 1, and
 * message j - slots of the same link is complete, and a receive once its device has ended and message j -
 * slots is complete. If all devices end at the same time and every link has the same l and c = serial, with
 * enough slots, that is max(slices * c, c + l) * (2 * replicas - 3) + slices * c + l after that.
 *
 * Pure; no state.
 */
#ifndef DETOUR_PIPELINE_RING_MODEL_H
#define DETOUR_PIPELINE_RING_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From a replica to the next one. */
struct dt_ring_link {
    int64_t latency_ns; /* of a slice; slices overlap */
    int64_t serial_ns;  /* of a slice, one after the other */
};

struct dt_ring {
    int32_t replicas;                 /* at least 2 */
    uint64_t slices;                  /* of a chunk, at least 1 */
    uint32_t slots;                   /* at least 1 */
    const struct dt_ring_link *links; /* [replica that sends] */
};

/* When the last device has all sums; ended_ns: [replica], the end of its pipeline. -1 when out of memory. */
int64_t dt_ring_end_ns(const struct dt_ring *ring, const int64_t *ended_ns);

#ifdef __cplusplus
}
#endif

#endif
