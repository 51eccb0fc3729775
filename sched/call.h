/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context of one call of the library: where to allocate, where to write the error, how many search
 * nodes are left. Lives on the stack of the public function.
 */
#ifndef DETOUR_SCHED_CALL_H
#define DETOUR_SCHED_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "detour/sched.h"
#include "sched/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_call {
    struct detour_arena *arena;
    struct detour_error *error;           /* may be NULL */
    const struct detour_options *options; /* never NULL */
    uint64_t node_count;                  /* search nodes expanded so far */
    bool stopped;                         /* should_stop returned true; stays set */
};

/* `options` NULL means all defaults. */
void dt_call_init(struct dt_call *call, struct detour_arena *arena, struct detour_error *error,
                  const struct detour_options *options);

/* Writes status and one line to `error` (which may be NULL) and returns `status`. */
enum detour_status dt_error_set(struct detour_error *error, enum detour_status status, const char *format,
                                ...) __attribute__((format(printf, 3, 4)));

/* dt_error_set() on a call's error. */
#define dt_fail(call, status, ...) dt_error_set((call)->error, (status), __VA_ARGS__)

/* The failure of an allocation: DETOUR_NO_MEMORY with its line. */
enum detour_status dt_fail_memory(struct detour_error *error);

/* Counts one search node; true once should_stop has returned true (called every 256 nodes). */
bool dt_call_node(struct dt_call *call);

#ifdef __cplusplus
}
#endif

#endif
