/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over layers, for the parts of the planner that look at many partitions of one model. */
#ifndef DETOUR_PLANNER_MODEL_H
#define DETOUR_PLANNER_MODEL_H

#include "detour/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the layers of a stage, or of a device, need together. */
struct dt_layer_sum {
    int64_t f_ns;
    int64_t b_ns;
    int64_t w_ns;
    int64_t bw_ns; /* with b_ns + w_ns for layers without a fused time */
    int64_t parameter_bytes;
    int64_t gradient_bytes;
    int64_t optimizer_bytes;
    int64_t activation_bytes;
    int64_t activation_w_bytes;
};

/* Of the layers first .. end - 1 of a checked model. */
struct dt_layer_sum dt_sum_layers(const struct detour_model *model, int32_t first, int32_t end);

/* time_ns of nominal speed on the device, rounded up. */
int64_t dt_device_time_ns(const struct detour_model_device *device, int64_t time_ns);

/* How long a message of `bytes` occupies the link, rounded up; DT_FOREVER (sched/problem.h) at most. */
int64_t dt_link_serial_ns(const struct detour_model_link *link, int64_t bytes);

/* The link from device `from` to device `to`: one without times if the model has no links. */
struct detour_model_link dt_model_link(const struct detour_model *model, int32_t from, int32_t to);

/* How long replicas exchange gradients and parameters of together `bytes`; DT_FOREVER at most. */
int64_t dt_exchange_ns(const struct detour_model_replicas *replicas, int64_t bytes);

/* detour_model_profile() of a checked model and partition; without `limits`, devices have no capacity. */
enum detour_status dt_model_profile(struct detour_arena *arena, const struct detour_model *model,
                                    const struct detour_partition *partition, bool limits,
                                    struct detour_profile **profile, struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
