/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cost/part.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

double dt_kernel_s(const struct dt_gpu *gpu, double share, double flops, double bytes)
{
    double compute_s = flops / (share * gpu->flops);
    double memory_s = bytes / (DT_SHARE_MEMORY * gpu->memory_bytes_s);

    return larger(larger(compute_s, memory_s), DT_KERNEL_S);
}

/* Of `count` equal kernels that move `bytes` together. */
static double pass_s(const struct dt_gpu *gpu, int count, double bytes)
{
    return count ? count * dt_kernel_s(gpu, 1, 0, bytes / count) : 0;
}

/* W also reads and writes the accumulated gradient. */
static void add_products(struct dt_cost *cost, const struct dt_gpu *gpu, double experts, double tokens,
                         double in, double out)
{
    double flops = 2 * tokens * in * out;
    double values_bytes = DT_BYTES_VALUE * tokens * (in + out);
    double weights = experts * in * out;
    double product_s = dt_kernel_s(gpu, DT_SHARE_GEMM, flops, values_bytes + DT_BYTES_PARAMETER * weights);

    cost->f_s += product_s;
    cost->b_s += product_s;
    cost->w_s += dt_kernel_s(gpu, DT_SHARE_GEMM, flops, values_bytes + 2 * DT_BYTES_GRADIENT * weights);
    cost->parameters += weights;
    cost->activation_bytes += DT_BYTES_VALUE * tokens * in;
    cost->activation_w_bytes += values_bytes;
}

void dt_cost_linear(struct dt_cost *cost, const struct dt_gpu *gpu, double tokens, double in, double out)
{
    add_products(cost, gpu, 1, tokens, in, out);
}

void dt_cost_experts(struct dt_cost *cost, const struct dt_gpu *gpu, double experts, double tokens, double in,
                     double out)
{
    add_products(cost, gpu, experts, tokens, in, out);
}

void dt_cost_pointwise(struct dt_cost *cost, const struct dt_gpu *gpu, double elements,
                       const struct dt_pointwise *shape)
{
    double bytes = DT_BYTES_VALUE * elements;

    cost->f_s += pass_s(gpu, shape->f_kernels, shape->f_passes * bytes);
    cost->b_s += pass_s(gpu, shape->b_kernels, shape->b_passes * bytes);
    cost->activation_bytes += shape->held * bytes;
}

/* Values of queries and outputs, keys and values; all of them are held for the backward pass. */
static double attention_values(const struct dt_attention *shape)
{
    return shape->tokens * (shape->heads + shape->kv_heads) * (shape->key_size + shape->value_size);
}

void dt_cost_attention(struct dt_cost *cost, const struct dt_gpu *gpu, const struct dt_attention *shape)
{
    /* Two products, of which the mask leaves half. */
    double flops =
        2 * shape->tokens * shape->sequence * shape->heads * (shape->key_size + shape->value_size) / 2;
    double bytes = DT_BYTES_VALUE * attention_values(shape);

    cost->f_s += dt_kernel_s(gpu, DT_SHARE_ATTENTION, flops, bytes);
    cost->b_s += dt_kernel_s(gpu, DT_SHARE_ATTENTION, DT_BACKWARD_OF_FUSED * flops, 2 * bytes);
    cost->activation_bytes += bytes;
}

void dt_cost_unfused_attention(struct dt_cost *cost, const struct dt_gpu *gpu,
                               const struct dt_attention *shape)
{
    double scores = shape->tokens * shape->sequence * shape->heads;
    double key_flops = 2 * scores * shape->key_size, value_flops = 2 * scores * shape->value_size;
    double score_bytes = DT_BYTES_VALUE * scores;
    /* Softmax reads and writes, dropout reads and writes values and a mask of one byte, which is half a pass.
     */
    const struct dt_pointwise middle = {2, 4.5, 2, 5.5, 2.5};

    cost->f_s += dt_kernel_s(gpu, DT_SHARE_ATTENTION, key_flops, score_bytes) +
                 dt_kernel_s(gpu, DT_SHARE_ATTENTION, value_flops, score_bytes);
    cost->b_s += 2 * dt_kernel_s(gpu, DT_SHARE_ATTENTION, key_flops, score_bytes) +
                 2 * dt_kernel_s(gpu, DT_SHARE_ATTENTION, value_flops, score_bytes);
    dt_cost_pointwise(cost, gpu, scores, &middle);
    cost->activation_bytes += DT_BYTES_VALUE * attention_values(shape);
}

void dt_cost_scan(struct dt_cost *cost, const struct dt_gpu *gpu, const struct dt_scan *shape)
{
    /* Within a chunk: scores of each group and their product with the values, of which the mask leaves half.
     * Between chunks: the states that the chunk makes, and the outputs that come from earlier states. */
    double inner = DT_SCAN_CHUNK * (shape->groups * shape->state_size + shape->heads * shape->head_size);
    double outer = 4 * shape->heads * shape->head_size * shape->state_size;
    double values =
        shape->tokens * (2 * shape->heads * shape->head_size + 2 * shape->groups * shape->state_size);
    double flops = shape->tokens * (inner + outer), bytes = DT_BYTES_VALUE * values;

    cost->f_s += dt_kernel_s(gpu, DT_SHARE_SCAN, flops, bytes);
    cost->b_s += dt_kernel_s(gpu, DT_SHARE_SCAN, DT_BACKWARD_OF_FUSED * flops, 2 * bytes);
    cost->activation_bytes += bytes;
}

static void add_collective(struct dt_cost *cost, const struct dt_gpu *gpu, double sent_bytes)
{
    double time_s = larger(sent_bytes / (DT_SHARE_NETWORK * gpu->nvlink_bytes_s), DT_KERNEL_S);

    cost->f_s += time_s;
    cost->b_s += time_s;
}

void dt_cost_all_reduce(struct dt_cost *cost, const struct dt_gpu *gpu, int ranks, double bytes)
{
    if (ranks > 1)
        add_collective(cost, gpu, 2 * bytes * (ranks - 1) / ranks);
}

void dt_cost_all_to_all(struct dt_cost *cost, const struct dt_gpu *gpu, int ranks, double bytes)
{
    if (ranks > 1)
        add_collective(cost, gpu, bytes * (ranks - 1) / ranks);
}
