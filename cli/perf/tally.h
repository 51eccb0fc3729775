/* SPDX-License-Identifier: Apache-2.0 */
/* The wrong data that one rank has detected: the "#wrong" column and the place of the first error. */
#ifndef DETOUR_CLI_PERF_TALLY_H
#define DETOUR_CLI_PERF_TALLY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dt_perf_wrong {
    DT_PERF_WRONG_RESULT, /* elements that differ from the expected value */
    DT_PERF_WRONG_LATE,   /* bytes written into a buffer after its receive was reported done */
    DT_PERF_WRONG_BEYOND, /* bytes written behind the end of a message */
    DT_PERF_WRONG_SIZE,   /* messages whose reported size is not the size sent */
    DT_PERF_WRONG_KINDS
};

struct dt_perf_tally {
    uint64_t count[DT_PERF_WRONG_KINDS];
    char first[200]; /* place of the first error; empty while all data is right */
};

/* Counts `count` errors; the text of the first is kept. No effect when count is 0. */
void dt_perf_tally_add(struct dt_perf_tally *tally, enum dt_perf_wrong kind, uint64_t count,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* All kinds together. */
uint64_t dt_perf_tally_total(const struct dt_perf_tally *tally);

#ifdef __cplusplus
}
#endif

#endif
