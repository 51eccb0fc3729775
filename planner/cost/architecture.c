/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cost/architecture.h"

#include "base/check.h"
#include "base/util.h"

enum { K = 1024 };

/*
 * Layers, vocabulary and hidden size are those of Table 5 of AdaPtis; small, medium and large differ in the
 * first two by factors of 2. Its H is taken for the hidden size (DeepSeek-V2-Lite's is 2,048), although the
 * table of symbols calls it that of the FFN. The other figures keep the published models' proportions:
 *
 *   gemma       Gemma 3 4B: FFN 4 times the hidden size (gated), heads of 256, two heads for one of keys and
 *               values. Attention is full in every layer, as Table 5 has it
 *   deepseek    DeepSeek-V2-Lite, whose hidden size it is: all figures
 *   nemotron-h  Nemotron-H-8B: FFN 5.25 times the hidden size, heads of 128, four heads for one of keys and
 *               values; Mamba-2 with twice the hidden size in heads of 64, 8 groups, states of 128
 */
static const struct dt_architecture families[DETOUR_FAMILY_COUNT] = {
    [DETOUR_FAMILY_GEMMA] = {.layers = 32,
                             .vocabulary = 256 * K,
                             .hidden = 1536,
                             .ffn = 4 * 1536,
                             .heads = 6,
                             .kv_heads = 3,
                             .key_size = 256,
                             .value_size = 256},
    [DETOUR_FAMILY_DEEPSEEK] = {.layers = 16,
                                .vocabulary = 128 * K,
                                .hidden = 2048,
                                .ffn = 10944,
                                .heads = 16,
                                .kv_heads = 16,
                                .key_size = 128,
                                .value_size = 128,
                                .latent = 512,
                                .position = 64,
                                .experts = 64,
                                .active = 6,
                                .expert_ffn = 1408,
                                .shared_ffn = 2 * 1408},
    [DETOUR_FAMILY_NEMOTRON_H] = {.layers = 28,
                                  .vocabulary = 128 * K,
                                  .hidden = 1024,
                                  .ffn = 5.25 * 1024,
                                  .heads = 8,
                                  .kv_heads = 2,
                                  .key_size = 128,
                                  .value_size = 128,
                                  .mamba_heads = 32,
                                  .mamba_size = 64,
                                  .mamba_groups = 8,
                                  .mamba_state = 128},
};

/* Layers, hidden size and heads of the Zero Bubble paper's models; the vocabulary is GPT-2's, padded. */
static const struct {
    int layers;
    double hidden;
    double heads;
} gpt_sizes[DETOUR_MODEL_SIZE_COUNT] = {{22, 2304, 24}, {30, 4096, 32}, {46, 5120, 40}};

enum { GPT_VOCABULARY = 50304 };

/* Mamba-2, FFN and attention of Nemotron-H-8B in order; longer models repeat it, shorter ones end early. */
static const char hybrid_pattern[] = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-";

struct dt_architecture dt_architecture_of(enum detour_family family, enum detour_model_size size)
{
    struct dt_architecture a = families[family];

    DT_CHECK(family < DETOUR_FAMILY_COUNT && size < DETOUR_MODEL_SIZE_COUNT);
    a.family = family;
    if (family != DETOUR_FAMILY_GPT) {
        a.layers <<= size;
        a.vocabulary *= 1 << size;
        return a;
    }
    a.layers = gpt_sizes[size].layers;
    a.vocabulary = GPT_VOCABULARY;
    a.hidden = gpt_sizes[size].hidden;
    a.ffn = 4 * a.hidden;
    a.heads = a.kv_heads = gpt_sizes[size].heads;
    a.key_size = a.value_size = a.hidden / a.heads;
    return a;
}

/* ---- parts that several layers have ------------------------------------------------------------------ */

/* With sequence parallelism each GPU has its share of the tokens between two matrix products. */
static void add_pointwise(struct dt_cost *cost, const struct dt_workload *load, double width,
                          const struct dt_pointwise *shape)
{
    dt_cost_pointwise(cost, load->gpu, load->tokens * width / load->tensor, shape);
}

/* RMSNorm or LayerNorm: F reads and writes; B reads input and gradient, writes a gradient, sums up the
 * scale's. */
static void add_norm(struct dt_cost *cost, const struct dt_workload *load, double width)
{
    const struct dt_pointwise norm = {1, 2, 2, 4, 1};

    add_pointwise(cost, load, width, &norm);
}

static void add_residual(struct dt_cost *cost, const struct dt_workload *load, double width)
{
    const struct dt_pointwise sum = {1, 3, 1, 2, 0};

    add_pointwise(cost, load, width, &sum);
}

/* A product whose outputs the GPUs share, and one whose inputs they share and whose outputs they add up. */
static void add_split_out(struct dt_cost *cost, const struct dt_workload *load, double in, double out)
{
    dt_cost_linear(cost, load->gpu, load->tokens, in, out / load->tensor);
}

static void add_split_in(struct dt_cost *cost, const struct dt_workload *load, double in, double out)
{
    dt_cost_linear(cost, load->gpu, load->tokens, in / load->tensor, out);
    dt_cost_all_reduce(cost, load->gpu, load->tensor, DT_BYTES_VALUE * load->tokens * out);
}

/* GeGLU or SwiGLU: F reads two values and writes one; B reads three and writes two. */
static const struct dt_pointwise gate = {1, 3, 1, 5, 2};

static void add_gated_ffn(struct dt_cost *cost, const struct dt_workload *load, double hidden, double ffn)
{
    add_split_out(cost, load, hidden, 2 * ffn);
    add_pointwise(cost, load, ffn, &gate);
    add_split_in(cost, load, ffn, hidden);
}

static struct dt_attention heads_of(const struct dt_architecture *a, const struct dt_workload *load)
{
    return (struct dt_attention){.tokens = load->tokens,
                                 .sequence = load->sequence,
                                 .heads = a->heads / load->tensor,
                                 .kv_heads = a->kv_heads / load->tensor,
                                 .key_size = a->key_size + a->position,
                                 .value_size = a->value_size};
}

/* Rotates queries and keys; `norms` also normalizes them. */
static void add_rotation(struct dt_cost *cost, const struct dt_workload *load, double width, bool norms)
{
    const struct dt_pointwise rotation = {1, 2, 1, 2, 0};

    add_pointwise(cost, load, width, &rotation);
    if (norms)
        add_norm(cost, load, width);
}

static void add_self_attention(struct dt_cost *cost, const struct dt_architecture *a,
                               const struct dt_workload *load, bool rotates)
{
    struct dt_attention heads = heads_of(a, load);

    add_split_out(cost, load, a->hidden,
                  a->heads * a->key_size + a->kv_heads * (a->key_size + a->value_size));
    if (rotates)
        add_rotation(cost, load, (a->heads + a->kv_heads) * a->key_size, true);
    dt_cost_attention(cost, load->gpu, &heads);
    add_split_in(cost, load, a->heads * a->value_size, a->hidden);
}

/* ---- the families' layers ---------------------------------------------------------------------------- */

/* Norms before and behind each half. */
static void add_gemma(struct dt_cost *cost, const struct dt_architecture *a, const struct dt_workload *load)
{
    for (int i = 0; i < 4; i++)
        add_norm(cost, load, a->hidden);
    add_self_attention(cost, a, load, true);
    add_residual(cost, load, a->hidden);
    add_gated_ffn(cost, load, a->hidden, a->ffn);
    add_residual(cost, load, a->hidden);
}

/* Multi-head latent attention; the products that make the latent values are not split. */
static void add_latent_attention(struct dt_cost *cost, const struct dt_architecture *a,
                                 const struct dt_workload *load)
{
    struct dt_attention heads = heads_of(a, load);

    add_split_out(cost, load, a->hidden, a->heads * (a->key_size + a->position));
    dt_cost_linear(cost, load->gpu, load->tokens, a->hidden, a->latent + a->position);
    add_norm(cost, load, a->latent);
    add_split_out(cost, load, a->latent, a->kv_heads * (a->key_size + a->value_size));
    add_rotation(cost, load, (a->heads + 1) * a->position, false);
    dt_cost_attention(cost, load->gpu, &heads);
    add_split_in(cost, load, a->heads * a->value_size, a->hidden);
}

/* Tokens are spread evenly over the experts. They are gathered by expert, sent, and brought back. */
static void add_experts(struct dt_cost *cost, const struct dt_architecture *a, const struct dt_workload *load)
{
    const struct dt_pointwise route = {3, 4, 3, 4, 1}, move = {2, 4, 2, 4, 0};
    double routed = load->tokens * a->active;
    double sent_bytes = DT_BYTES_VALUE * routed * a->hidden / load->tensor;
    double experts = a->experts / load->expert;

    dt_cost_linear(cost, load->gpu, load->tokens, a->hidden, a->experts);
    add_pointwise(cost, load, a->experts, &route);
    add_pointwise(cost, load, a->active * a->hidden, &move);
    dt_cost_all_to_all(cost, load->gpu, load->expert, sent_bytes);
    dt_cost_experts(cost, load->gpu, experts, routed, a->hidden, 2 * a->expert_ffn / load->tensor);
    add_pointwise(cost, load, a->active * a->expert_ffn, &gate);
    dt_cost_experts(cost, load->gpu, experts, routed, a->expert_ffn / load->tensor, a->hidden);
    dt_cost_all_to_all(cost, load->gpu, load->expert, sent_bytes);
    add_gated_ffn(cost, load, a->hidden, a->shared_ffn);
}

static void add_deepseek(struct dt_cost *cost, const struct dt_architecture *a,
                         const struct dt_workload *load, bool dense)
{
    add_norm(cost, load, a->hidden);
    add_latent_attention(cost, a, load);
    add_residual(cost, load, a->hidden);
    add_norm(cost, load, a->hidden);
    if (dense)
        add_gated_ffn(cost, load, a->hidden, a->ffn);
    else
        add_experts(cost, a, load);
    add_residual(cost, load, a->hidden);
}

static void add_mamba(struct dt_cost *cost, const struct dt_architecture *a, const struct dt_workload *load)
{
    const struct dt_pointwise convolution = {1, 2, 2, 4, 1}, gated_norm = {2, 5, 2, 6, 2};
    double inner = a->mamba_heads * a->mamba_size, states = 2 * a->mamba_groups * a->mamba_state;
    const struct dt_scan scan = {.tokens = load->tokens,
                                 .heads = a->mamba_heads / load->tensor,
                                 .head_size = a->mamba_size,
                                 .groups = a->mamba_groups / load->tensor,
                                 .state_size = a->mamba_state};

    add_split_out(cost, load, a->hidden, 2 * inner + states + a->mamba_heads);
    add_pointwise(cost, load, inner + states, &convolution);
    dt_cost_scan(cost, load->gpu, &scan);
    add_pointwise(cost, load, inner, &gated_norm);
    add_split_in(cost, load, inner, a->hidden);
}

/* The FFN of Nemotron-H has no gate; its activation is a squared ReLU. */
static void add_plain_ffn(struct dt_cost *cost, const struct dt_architecture *a,
                          const struct dt_workload *load)
{
    const struct dt_pointwise activation = {1, 2, 1, 3, 1};

    add_split_out(cost, load, a->hidden, a->ffn);
    add_pointwise(cost, load, a->ffn, &activation);
    add_split_in(cost, load, a->ffn, a->hidden);
}

static const char *add_hybrid(struct dt_cost *cost, const struct dt_architecture *a,
                              const struct dt_workload *load, int index)
{
    char kind = hybrid_pattern[(size_t)index % (sizeof(hybrid_pattern) - 1)];

    add_norm(cost, load, a->hidden);
    if (kind == 'M')
        add_mamba(cost, a, load);
    else if (kind == '*')
        add_self_attention(cost, a, load, false);
    else
        add_plain_ffn(cost, a, load);
    add_residual(cost, load, a->hidden);
    return kind == 'M' ? "mamba" : kind == '*' ? "attention" : "ffn";
}

/* As Megatron-LM ran it for the Zero Bubble paper: attention not fused; bias, dropout and residual in one
 * kernel. */
static void add_gpt(struct dt_cost *cost, const struct dt_architecture *a, const struct dt_workload *load)
{
    const struct dt_pointwise dropout_add = {1, 3.5, 1, 2.5, 0.5};
    struct dt_attention heads = heads_of(a, load);

    add_norm(cost, load, a->hidden);
    add_split_out(cost, load, a->hidden, 3 * a->hidden);
    dt_cost_unfused_attention(cost, load->gpu, &heads);
    add_split_in(cost, load, a->hidden, a->hidden);
    add_pointwise(cost, load, a->hidden, &dropout_add);
    add_norm(cost, load, a->hidden);
    add_plain_ffn(cost, a, load);
    add_pointwise(cost, load, a->hidden, &dropout_add);
}

struct dt_cost dt_layer_cost(const struct dt_architecture *a, const struct dt_workload *load, int index,
                             const char **type)
{
    struct dt_cost cost = {0};

    *type = "decoder";
    if (a->family == DETOUR_FAMILY_GEMMA) {
        add_gemma(&cost, a, load);
    } else if (a->family == DETOUR_FAMILY_DEEPSEEK) {
        *type = index == 0 ? "dense" : "moe";
        add_deepseek(&cost, a, load, index == 0);
    } else if (a->family == DETOUR_FAMILY_NEMOTRON_H) {
        *type = add_hybrid(&cost, a, load, index);
    } else {
        add_gpt(&cost, a, load);
    }
    return cost;
}

/* Looks rows up; its backward pass adds to them and has no gradient of an input, so all of it is W. */
struct dt_cost dt_embedding_cost(const struct dt_architecture *a, const struct dt_workload *load)
{
    const struct dt_pointwise lookup = {1, 2, 1, 5, 0};
    struct dt_cost cost = {0};

    add_pointwise(&cost, load, a->hidden, &lookup);
    cost.w_s = cost.b_s;
    cost.b_s = 0;
    cost.parameters = a->vocabulary * a->hidden / load->tensor;
    cost.activation_w_bytes = DT_BYTES_VALUE * load->tokens * a->hidden / load->tensor;
    return cost;
}

/* The loss reads the logits, writes their softmax in their place, and turns that into the gradient. */
struct dt_cost dt_head_cost(const struct dt_architecture *a, const struct dt_workload *load)
{
    const struct dt_pointwise loss = {2, 3, 1, 2, 1};
    struct dt_cost cost = {0};

    add_norm(&cost, load, a->hidden);
    add_split_out(&cost, load, a->hidden, a->vocabulary);
    add_pointwise(&cost, load, a->vocabulary, &loss);
    return cost;
}
