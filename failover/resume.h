/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a receiver has of a connection's messages: everything before the first that is not complete, and a set
 * of later ones. At most 64 messages are open at a time, so the set always reaches far enough. And which of
 * the writes ahead of its irecvs (transport/ahead.h) have come.
 */
#ifndef DETOUR_FAILOVER_RESUME_H
#define DETOUR_FAILOVER_RESUME_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_RESUME_AHEAD 8 /* places to write ahead to */

struct dt_resume {
    uint64_t first;                 /* sequence of the first message that is not complete */
    uint64_t later;                 /* bit i: message first + i is complete; bit 0 is never set */
    uint8_t ahead[DT_RESUME_AHEAD]; /* low bits of the generation that came last to each place */
};

static inline bool dt_resume_has(const struct dt_resume *resume, uint64_t sequence)
{
    if (sequence < resume->first)
        return true;
    return sequence - resume->first < 64 && (resume->later >> (sequence - resume->first) & 1);
}

/* Notes a complete message; to be called with `first` set and `sequence` > first. */
static inline void dt_resume_add(struct dt_resume *resume, uint64_t sequence)
{
    if (sequence > resume->first && sequence - resume->first < 64)
        resume->later |= 1ull << (sequence - resume->first);
}

#ifdef __cplusplus
}
#endif

#endif
