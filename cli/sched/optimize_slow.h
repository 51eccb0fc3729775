/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links and devices that have become slow since a model was written: --slow-link and --slow-device of `detour
 * sched optimize`. Pure.
 *
 *   --slow-link A-B=TIME     messages between devices A and B, in both directions, arrive TIME later
 *   --slow-device D=FACTORx  computations of device D take FACTOR times as long
 *
 * TIME is a number with us, ms or s, at most 100 s; FACTOR is from 0.01 to 100.
 */
#ifndef DETOUR_CLI_SCHED_OPTIMIZE_SLOW_H
#define DETOUR_CLI_SCHED_OPTIMIZE_SLOW_H

#include "detour/model.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DT_OPTIMIZE_SLOW_MAX = 16 };

struct dt_optimize_slow {
    struct {
        int32_t a;
        int32_t b;
        int64_t delay_ns;
    } links[DT_OPTIMIZE_SLOW_MAX];
    int32_t link_count;
    struct {
        int32_t device;
        double factor;
    } devices[DT_OPTIMIZE_SLOW_MAX];
    int32_t device_count;
};

/* Adds the text of an option. False: not of that form, or the table is full. */
bool dt_optimize_slow_add_link(struct dt_optimize_slow *slow, const char *text);
bool dt_optimize_slow_add_device(struct dt_optimize_slow *slow, const char *text);

/* The largest number of a device in the table; -1: nothing is slow. */
int32_t dt_optimize_slow_last(const struct dt_optimize_slow *slow);

/*
 * Writes the model's links (device_count squared) and devices (device_count) with the slowness to arrays of
 * the caller. No device of the table is beyond the model's.
 */
void dt_optimize_slow_apply(const struct dt_optimize_slow *slow, const struct detour_model *model,
                            struct detour_model_link *links, struct detour_model_device *devices);

#ifdef __cplusplus
}
#endif

#endif
