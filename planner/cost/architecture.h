/* SPDX-License-Identifier: Apache-2.0 */
/* Published figures of the families, and their layers as sums of parts. */
#ifndef DETOUR_PLANNER_COST_ARCHITECTURE_H
#define DETOUR_PLANNER_COST_ARCHITECTURE_H

#include "detour/model.h"
#include "planner/cost/part.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The figures of a model; 0 where its family has no such part. */
struct dt_architecture {
    enum detour_family family;
    int layers; /* without embedding and head */
    double vocabulary;
    double hidden;
    double ffn;
    double heads;
    double kv_heads;
    double key_size;
    double value_size;
    double latent;     /* of keys and values, without their position part */
    double position;   /* size of that part */
    double experts;    /* routed */
    double active;     /* of these for each token */
    double expert_ffn; /* of one expert */
    double shared_ffn; /* of the shared experts together */
    double mamba_heads;
    double mamba_size; /* of a head */
    double mamba_groups;
    double mamba_state;
};

/* What determines the cost of a layer besides the architecture. */
struct dt_workload {
    const struct dt_gpu *gpu;
    double sequence; /* tokens */
    double tokens;   /* of a microbatch */
    int tensor;
    int expert;
};

/* The figures of a family's model; the sizes of GPT are the first three of the Zero Bubble paper. */
struct dt_architecture dt_architecture_of(enum detour_family family, enum detour_model_size size);

/* Layer `index`, 0 being the first behind the embedding. *type is its name. */
struct dt_cost dt_layer_cost(const struct dt_architecture *a, const struct dt_workload *load, int index,
                             const char **type);

struct dt_cost dt_embedding_cost(const struct dt_architecture *a, const struct dt_workload *load);

/* The last norm, the logits and the loss. */
struct dt_cost dt_head_cost(const struct dt_architecture *a, const struct dt_workload *load);

#ifdef __cplusplus
}
#endif

#endif
