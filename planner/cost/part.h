/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that layers are made of. Each adds what it costs on one GPU, for one microbatch, to a sum.
 *
 * A kernel takes the longest of three times: its FLOPs at a share of the peak, its bytes at a share of the
 * memory's bandwidth, and the time to launch it (constants.h). B and W of a matrix product have as many FLOPs
 * as F; parts without parameters have no W.
 *
 * An activation is `held` from F to B; what W needs is held on until W: the input of each matrix product and
 * the gradient of its output.
 */
#ifndef DETOUR_PLANNER_COST_PART_H
#define DETOUR_PLANNER_COST_PART_H

#include "planner/cost/constants.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_cost {
    double f_s;
    double b_s;
    double w_s;
    double parameters;       /* on this GPU */
    double activation_bytes; /* as in struct detour_layer */
    double activation_w_bytes;
};

/* How long a kernel takes. */
double dt_kernel_s(const struct dt_gpu *gpu, double share, double flops, double bytes);

/* A product of `tokens` x `in` with parameters `in` x `out`. */
void dt_cost_linear(struct dt_cost *cost, const struct dt_gpu *gpu, double tokens, double in, double out);

/*
 * As many products as there are experts on the GPU, with parameters of their own, for `tokens` in all: each
 * expert gets the same number.
 */
void dt_cost_experts(struct dt_cost *cost, const struct dt_gpu *gpu, double experts, double tokens, double in,
                     double out);

/* Kernels that touch `elements` values: how often forward and backward, and how many stay held for B. */
struct dt_pointwise {
    int f_kernels;
    double f_passes;
    int b_kernels;
    double b_passes;
    double held;
};

void dt_cost_pointwise(struct dt_cost *cost, const struct dt_gpu *gpu, double elements,
                       const struct dt_pointwise *shape);

/* Causal attention in one kernel; the heads are those of this GPU. Keys and values have `kv_heads`. */
struct dt_attention {
    double tokens;
    double sequence;
    double heads;
    double kv_heads;
    double key_size;
    double value_size;
};

void dt_cost_attention(struct dt_cost *cost, const struct dt_gpu *gpu, const struct dt_attention *shape);

/*
 * Attention without a fused kernel, as Megatron-LM did it before FlashAttention: the products of whole
 * matrices, scores, softmax, mask and dropout in memory.
 */
void dt_cost_unfused_attention(struct dt_cost *cost, const struct dt_gpu *gpu,
                               const struct dt_attention *shape);

/* The scan of Mamba-2 in chunks (Dao and Gu, 2024); heads and groups are those of this GPU. */
struct dt_scan {
    double tokens;
    double heads;
    double head_size;
    double groups;
    double state_size;
};

void dt_cost_scan(struct dt_cost *cost, const struct dt_gpu *gpu, const struct dt_scan *shape);

/* An all-reduce of `bytes` over `ranks` GPUs by NVLink, once forward and once backward, not overlapped. */
void dt_cost_all_reduce(struct dt_cost *cost, const struct dt_gpu *gpu, int ranks, double bytes);

/* An all-to-all in which each of `ranks` GPUs has `bytes` to send, likewise. */
void dt_cost_all_to_all(struct dt_cost *cost, const struct dt_gpu *gpu, int ranks, double bytes);

#ifdef __cplusplus
}
#endif

#endif
