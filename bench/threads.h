/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processor time of the plugin's threads in the calling process, from /proc/self/task: the names begin with
 * "detour-", and threads of the same name are added up. Two readings in turn give what was used in between.
 * No copy of the state is kept; any thread may read.
 */
#ifndef DETOUR_BENCH_THREADS_H
#define DETOUR_BENCH_THREADS_H

#include <stdint.h>

#define BENCH_THREADS 16 /* names, of which the last one may be empty */

struct bench_threads {
    char name[16]; /* "": no further threads */
    uint64_t busy_ns;
    uint64_t sleeps; /* each ends with a wake-up */
};

void bench_threads_read(struct bench_threads all[BENCH_THREADS]);

#endif
