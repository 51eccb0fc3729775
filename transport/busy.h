/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How busy this host's processors are for the threads that move messages (detect/processor.h): their run
 * queue delays, read at an interval. Under the mutex of struct dt_health_net.
 */
#ifndef DETOUR_TRANSPORT_BUSY_H
#define DETOUR_TRANSPORT_BUSY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "detect/processor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NCCL's progress threads and the device threads of a process; further ones are not known. */
#define DT_BUSY_THREADS 16
/* Between two readings of a thread's times. */
#define DT_BUSY_EVERY_NS (100 * DT_NS_PER_MS)
/* A thread that nothing has asked for since then gives its place to another one. */
#define DT_BUSY_FORGET_NS DT_NS_PER_S

/* Reads the times of a thread of this process. False: no such thread, or the kernel does not count. */
typedef bool dt_busy_read_func(void *arg, int32_t tid, struct dt_processor_times *times);

struct dt_busy_thread {
    int32_t tid;       /* 0: free */
    uint64_t read_ns;  /* 0: never */
    uint64_t asked_ns; /* when it was asked for last */
    struct dt_processor_thread sums;
};

struct dt_busy {
    dt_busy_read_func *read; /* NULL: nothing is known, as in simulations */
    void *read_arg;
    struct dt_busy_thread threads[DT_BUSY_THREADS];
};

/* The kernel's: /proc/self/task/TID/schedstat. */
bool dt_busy_read_schedstat(void *arg, int32_t tid, struct dt_processor_times *times);

/* The thread's sums, at most DT_BUSY_EVERY_NS old; NULL: it is not known. */
const struct dt_processor_thread *dt_busy_sums(struct dt_busy *busy, int32_t tid, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
