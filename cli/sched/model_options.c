/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `detour sched model`. */
#include "cli/arg.h"
#include "cli/sched/sched.h"

enum {
    KEY_FAMILY = 512,
    KEY_SIZE,
    KEY_GPU,
    KEY_SEQ,
    KEY_BATCH,
    KEY_MICROBATCHES,
    KEY_DEVICES,
    KEY_TENSOR,
    KEY_EXPERT,
    KEY_DATA,
    KEY_PROFILE,
    KEY_CAPACITY,
    KEY_BANDWIDTH,
    KEY_LATENCY_MS,
};

const struct argp_option dt_sched_model_options[] = {
    {"family", KEY_FAMILY, "NAME", 0, "gemma, deepseek, nemotron-h or gpt (this or --profile is required)",
     1},
    {"size", KEY_SIZE, "SIZE", 0, "small (default), medium or large", 1},
    {"gpu", KEY_GPU, "NAME", 0, "h800 (default), h100 or a100", 1},
    {"seq", KEY_SEQ, "TOKENS", 0, "length of a sequence (default 2048)", 1},
    {"batch", KEY_BATCH, "N", 0, "sequences of a microbatch (default 1)", 1},
    {"tensor", KEY_TENSOR, "N", 0, "GPUs that share each layer (default 1)", 1},
    {"expert", KEY_EXPERT, "N", 0, "GPUs that share the experts of a layer (default 1)", 1},
    {"data", KEY_DATA, "N", 0,
     "replicas, which share the optimizer's state and exchange gradients "
     "(default 1)",
     1},
    {"profile", KEY_PROFILE, "FILE", 0, "instead of a family: layers with measured times, as JSON", 2},
    {"capacity", KEY_CAPACITY, "BYTES", 0,
     "with --profile: memory of a device, as in 80G (default: no limit)", 2},
    {"bandwidth", KEY_BANDWIDTH, "BYTES", 0,
     "with --profile: bytes per second of a link, as in 40G (default: no limit)", 2},
    {"latency-ms", KEY_LATENCY_MS, "MS", 0, "with --profile: latency of a link (default 0)", 2},
    {"devices", KEY_DEVICES, "N", 0, "devices of the pipeline (default with --family: 4)", 3},
    {"microbatches", KEY_MICROBATCHES, "N", 0, "of an iteration (default with --family: 16)", 3},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse_bytes(const char *command, const char *option, const char *text, int64_t max,
                           int64_t *value)
{
    uint64_t bytes = 0;
    error_t error = dt_arg_bytes(command, option, text, 1, (uint64_t)max, &bytes);

    *value = (int64_t)bytes;
    return error;
}

/* The options of a family. */
static error_t parse_family(int key, const char *arg, struct dt_sched_options *options)
{
    struct detour_family_options *family = &options->family;
    const char *command = options->command;

    switch (key) {
    case KEY_FAMILY:
        options->has_family = true;
        return detour_family_find(arg, &family->family)
                   ? 0
                   : dt_arg_refuse(command, "--family %s: expected gemma, deepseek, nemotron-h or gpt", arg);
    case KEY_SIZE:
        return detour_model_size_find(arg, &family->size)
                   ? 0
                   : dt_arg_refuse(command, "--size %s: expected small, medium or large", arg);
    case KEY_GPU:
        family->gpu = arg;
        return 0;
    case KEY_SEQ:
        return dt_arg_int(command, "--seq", arg, 1, 1 << 20, &family->sequence_tokens);
    case KEY_BATCH:
        return dt_arg_int(command, "--batch", arg, 1, 1024, &family->batch_sequences);
    case KEY_TENSOR:
        return dt_arg_int(command, "--tensor", arg, 1, 64, &family->tensor_parallel);
    case KEY_EXPERT:
        return dt_arg_int(command, "--expert", arg, 1, 64, &family->expert_parallel);
    case KEY_DATA:
        return dt_arg_int(command, "--data", arg, 1, 65536, &family->data_parallel);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

error_t dt_sched_parse_model(int key, const char *arg, struct dt_sched_options *options)
{
    struct detour_measured_options *measured = &options->measured;
    const char *command = options->command;

    switch (key) {
    case KEY_PROFILE:
        options->profile_path = arg;
        return 0;
    case KEY_CAPACITY:
        return parse_bytes(command, "--capacity", arg, INT64_MAX, &measured->capacity_bytes);
    case KEY_BANDWIDTH:
        return parse_bytes(command, "--bandwidth", arg, DETOUR_BANDWIDTH_MAX, &measured->bytes_per_s);
    case KEY_LATENCY_MS:
        return dt_arg_ms(command, "--latency-ms", arg, &measured->latency_ns);
    case KEY_DEVICES:
        return dt_arg_int(command, "--devices", arg, 1, DETOUR_MODEL_DEVICES_MAX, &measured->device_count);
    case KEY_MICROBATCHES:
        return dt_arg_int(command, "--microbatches", arg, 1, DETOUR_MICROBATCHES_MAX,
                          &measured->microbatch_count);
    default:
        return parse_family(key, arg, options);
    }
}
