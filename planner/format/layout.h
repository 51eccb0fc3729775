/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a layer in a model file: one table for the reader and the writer.
 *
 *   {"version": 1, "name": "...", "microbatches": 16,
 *    "layers": [{"type": "decoder", "count": 32, "f_ms": 1.5, ...}],
 *    "devices": [{"count": 4, "capacity_bytes": 80000000000, "speed": 1}],
 *    "links": {"latency_ms": 0.01, "bytes_per_s": 50000000000, "overlap": true,
 *              "except": [{"from": 2, "to": 3, "latency_ms": 40}]},
 *    "fixed": {"stages": 4, "layers": [8, 8, 8, 8], "placement": [0, 1, 2, 3]}}
 *
 * `count` (1 by default) stands for equal neighbors. A link that is an exception has the default's values
 * where it names no other.
 */
#ifndef DETOUR_PLANNER_FORMAT_LAYOUT_H
#define DETOUR_PLANNER_FORMAT_LAYOUT_H

#include <stddef.h>

#include "detour/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A member that is an int64_t of struct detour_layer. */
struct dt_layer_field {
    const char *key;
    size_t offset;
    bool is_time;  /* milliseconds in the file; else bytes */
    bool required; /* else 0 when it is missing */
};

#define DT_LAYER_FIELDS                                                                              \
    {                                                                                                \
        {"f_ms", offsetof(struct detour_layer, f_ns), true, true},                                   \
            {"b_ms", offsetof(struct detour_layer, b_ns), true, true},                               \
            {"w_ms", offsetof(struct detour_layer, w_ns), true, true},                               \
            {"bw_ms", offsetof(struct detour_layer, bw_ns), true, false},                            \
            {"parameter_bytes", offsetof(struct detour_layer, parameter_bytes), false, false},       \
            {"gradient_bytes", offsetof(struct detour_layer, gradient_bytes), false, false},         \
            {"optimizer_bytes", offsetof(struct detour_layer, optimizer_bytes), false, false},       \
            {"activation_bytes", offsetof(struct detour_layer, activation_bytes), false, false},     \
            {"activation_w_bytes", offsetof(struct detour_layer, activation_w_bytes), false, false}, \
            {"message_bytes", offsetof(struct detour_layer, message_bytes), false, false},           \
    }

#ifdef __cplusplus
}
#endif

#endif
