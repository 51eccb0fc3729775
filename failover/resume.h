/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of RESUME: which messages of a connection have arrived at the receiver. All before the first
 * incomplete one, and a set of later ones; at most 64 messages are outstanding, so 64 bits suffice. It also
 * names, per bounce buffer, the eager send (hostpath/staged/eager.h) that arrived last.
 */
#ifndef DETOUR_FAILOVER_RESUME_H
#define DETOUR_FAILOVER_RESUME_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_RESUME_EAGER 8 /* bounce buffers for eager sends */

struct dt_resume {
    uint64_t first;                 /* sequence number of the first incomplete message */
    uint64_t later;                 /* bit i: message first + i is complete; bit 0 is never set */
    uint8_t eager[DT_RESUME_EAGER]; /* low bits of the generation that arrived last in each bounce buffer */
};

static inline bool dt_resume_has(const struct dt_resume *resume, uint64_t sequence)
{
    if (sequence < resume->first)
        return true;
    return sequence - resume->first < 64 && (resume->later >> (sequence - resume->first) & 1);
}

/* Adds a complete message; `first` is set, and `sequence` > first. */
static inline void dt_resume_add(struct dt_resume *resume, uint64_t sequence)
{
    if (sequence > resume->first && sequence - resume->first < 64)
        resume->later |= 1ull << (sequence - resume->first);
}

#ifdef __cplusplus
}
#endif

#endif
