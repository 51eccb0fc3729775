/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detour-sim-pipeline: one row of a table of docs/experiments.md. Makes a schedule, runs it in virtual time
 * through the plugin (pipeline_sim.h) and prints one line of JSON: the same on every machine and in every
 * run.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/param.h"
#include "base/util.h"
#include "detour/sched.h"
#include "tests/sim/pipeline_end.h"
#include "tests/sim/pipeline_loop.h"
#include "tests/sim/pipeline_plan.h"
#include "tests/sim/pipeline_work.h"
#include "tests/sim/trace.h"

#define ITERATIONS_MAX 64

static const struct dt_pipeline_sim_settings defaults = {
    .devices = 8,
    .microbatches = 32,
    .f_ns = 10 * DT_NS_PER_MS,
    .b_ns = 10 * DT_NS_PER_MS,
    .w_ns = 10 * DT_NS_PER_MS,
    .algorithm = DETOUR_ALGORITHM_ZB,
    .sim = {.replicas = 1,
            .gradient_bytes = 64u << 20,
            .message_bytes = 40u << 20,
            .slice_bytes = 5u << 20,
            .slots = 8,
            .rate_bytes_per_s = 50000000000,
            .latency_ns = 5000,
            .to_host_bytes_per_s = 50000000000,
            .to_gpu_bytes_per_s = 50000000000,
            .pool_bytes = 4ull << 30,
            .iteration_count = 2,
            .seed = 1},
};

static const char help[] =
    "usage: detour-sim-pipeline [OPTION]...\n"
    "Runs a pipeline, of equal stages or of files, in virtual time, through the plugin, and prints one line "
    "of JSON.\n"
    "\n"
    "  --devices N            stages, one per device (8)\n"
    "  --microbatches N       per iteration (32)\n"
    "  --times F,B,W          of a stage in ms (10,10,10)\n"
    "  --dp N                 replicas of the pipeline, which sum up their gradients (1)\n"
    "  --dp-microbatches M0,M1,...[@N]\n"
    "                         of each replica from iteration N on (0), up to 16 times; the sum stays the "
    "same\n"
    "  --gradients BYTES      of a stage; with --dp (64M)\n"
    "  --profile FILE         stages, placement and links of `detour sched optimize --profile-out`, as in\n"
    "                         `detour pipeline`; a message occupies its link for the file's time\n"
    "  --plan FILE            the schedule of `detour sched optimize --schedule-out`, for --profile\n"
    "  --schedule NAME        zb (default), 1f1b, zb-h1, zb-h2, adaptra, ...: as `detour sched generate`\n"
    "  --replan               the schedule is made for the slow links, not for the healthy ones\n"
    "  --free-links           ... for links that take no time, as `detour pipeline` makes it\n"
    "  --adapt                the schedule follows the measured delays, between iterations\n"
    "  --mode NAME            nccl (default), hostpath, delegated\n"
    "  --launch NAME          of messages in mode nccl: sends (default), isend, isend-free, batched, "
    "batched-free\n"
    "  --slow-link A-B=MSms[,serial]\n"
    "                         both directions between device A and the next one, B; up to 16 times. With\n"
    "                         --dp: of every replica; 0@1-1@1: of replica 1; 0@1-0@2: between the\n"
    "                         replicas 1 and 2 of device 0, where each 4 MiB of gradients are delayed as\n"
    "                         a message is, or serially for their share of --message bytes\n"
    "  --slow-device D=FACTORx\n"
    "                         computations of a device, up to 16 times; with --dp: D@R, of replica R\n"
    "  --effect TEXT          of these links instead, as `detour inject` has it; MS is what --replan "
    "assumes\n"
    "  --message BYTES        of an activation or gradient (40M)\n"
    "  --slice BYTES          of a message in mode nccl (5M), in --slots N (8)\n"
    "  --rate BYTES           of a link per second, each way (50000000000: 400 Gb/s); --latency US (5)\n"
    "  --copy-rate BYTES      of a GPU per second, each way (50000000000); one way: --to-host-rate,\n"
    "                         --to-gpu-rate\n"
    "  --pool BYTES           DETOUR_HOSTPATH_BYTES (4G)\n"
    "  --iterations N         the last one counts, mean_ns is that of all but the first (2)\n"
    "  --verbose              Detour's log\n";

static int refuse(const char *option, const char *value)
{
    fprintf(stderr, "detour-sim-pipeline: %s %s: see --help\n", option, value);
    return 2;
}

/* ---- options ---- */

static bool parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    return dt_parse_number(text, true, value) == DT_OK && *value >= min && *value <= max;
}

static bool parse_times(const char *text, struct dt_pipeline_sim_settings *s)
{
    double f, b, w;

    if (sscanf(text, "%lf,%lf,%lf", &f, &b, &w) != 3 || f <= 0 || b <= 0 || w < 0 || f > 1e4 || b > 1e4 ||
        w > 1e4)
        return false;
    s->f_ns = (int64_t)(f * DT_NS_PER_MS + 0.5);
    s->b_ns = (int64_t)(b * DT_NS_PER_MS + 0.5);
    s->w_ns = (int64_t)(w * DT_NS_PER_MS + 0.5);
    return true;
}

/* "A-B", or "A@R-B@S" where either the replicas or the devices are the same; their length goes to *length. */
static bool parse_ends(const char *text, struct dt_pipeline_slow_link *slow, int *length)
{
    int32_t next, next_replica;

    if (sscanf(text, "%" SCNd32 "-%" SCNd32 "%n", &slow->link, &next, length) == 2) {
        slow->replica = next_replica = DT_PIPELINE_SIM_EVERY_REPLICA;
    } else if (sscanf(text, "%" SCNd32 "@%" SCNd32 "-%" SCNd32 "@%" SCNd32 "%n", &slow->link, &slow->replica,
                      &next, &next_replica, length) != 4 ||
               slow->replica < 0) {
        return false;
    }
    slow->is_dp = slow->link == next;
    return slow->link >= 0 && (slow->is_dp ? slow->replica + 1 == next_replica
                                           : slow->link + 1 == next && slow->replica == next_replica);
}

static bool parse_slow(const char *text, struct dt_pipeline_sim_settings *s)
{
    struct dt_pipeline_slow_link *slow = &s->slow[s->sim.slow_count];
    double delay_ms;
    int ends = 0, length = 0;

    if (s->sim.slow_count == DT_PIPELINE_SIM_SLOW_MAX || !parse_ends(text, slow, &ends) ||
        sscanf(text + ends, "=%lfms%n", &delay_ms, &length) != 1 || !length || delay_ms < 0 || delay_ms > 1e4)
        return false;
    length += ends;
    slow->delay_ns = (uint64_t)(delay_ms * DT_NS_PER_MS + 0.5);
    slow->is_serial = !strcmp(text + length, ",serial");
    s->sim.slow_count += slow->delay_ns > 0; /* a link without delay is not slow */
    return slow->is_serial || !text[length];
}

/* "D=FACTORx" or "D@R=FACTORx". */
static bool parse_slow_device(const char *text, struct dt_pipeline_sim_settings *s)
{
    struct dt_pipeline_slow_device *slow = &s->slow_device[s->sim.slow_device_count];
    int at = 0, length = 0;
    double factor;

    if (s->sim.slow_device_count == DT_PIPELINE_SIM_SLOW_MAX)
        return false;
    slow->replica = DT_PIPELINE_SIM_EVERY_REPLICA;
    if (sscanf(text, "%" SCNd32 "@%" SCNd32 "%n", &slow->device, &slow->replica, &at) < 2 &&
        sscanf(text, "%" SCNd32 "%n", &slow->device, &at) < 1)
        return false;
    if (sscanf(text + at, "=%lfx%n", &factor, &length) != 1 || !length || text[at + length] ||
        !(factor >= 0.01 && factor <= 100) || slow->device < 0 ||
        slow->replica < DT_PIPELINE_SIM_EVERY_REPLICA)
        return false;
    slow->permille = (uint32_t)(factor * 1000 + 0.5);
    s->sim.slow_device_count++;
    return true;
}

enum {
    OPTION_DEVICES,
    OPTION_MICROBATCHES,
    OPTION_DP,
    OPTION_DP_MICROBATCHES,
    OPTION_GRADIENTS,
    OPTION_TIMES,
    OPTION_PROFILE,
    OPTION_PLAN,
    OPTION_SCHEDULE,
    OPTION_REPLAN,
    OPTION_FREE_LINKS,
    OPTION_ADAPT,
    OPTION_MODE,
    OPTION_LAUNCH,
    OPTION_SLOW,
    OPTION_SLOW_DEVICE,
    OPTION_EFFECT,
    OPTION_MESSAGE,
    OPTION_SLICE,
    OPTION_SLOTS,
    OPTION_RATE,
    OPTION_LATENCY,
    OPTION_COPY_RATE,
    OPTION_TO_HOST_RATE,
    OPTION_TO_GPU_RATE,
    OPTION_POOL,
    OPTION_ITERATIONS,
    OPTION_VERBOSE,
    OPTION_HELP
};

static const struct option long_options[] = {
    {"devices", required_argument, NULL, OPTION_DEVICES},
    {"microbatches", required_argument, NULL, OPTION_MICROBATCHES},
    {"dp", required_argument, NULL, OPTION_DP},
    {"dp-microbatches", required_argument, NULL, OPTION_DP_MICROBATCHES},
    {"gradients", required_argument, NULL, OPTION_GRADIENTS},
    {"times", required_argument, NULL, OPTION_TIMES},
    {"profile", required_argument, NULL, OPTION_PROFILE},
    {"plan", required_argument, NULL, OPTION_PLAN},
    {"schedule", required_argument, NULL, OPTION_SCHEDULE},
    {"replan", no_argument, NULL, OPTION_REPLAN},
    {"free-links", no_argument, NULL, OPTION_FREE_LINKS},
    {"adapt", no_argument, NULL, OPTION_ADAPT},
    {"mode", required_argument, NULL, OPTION_MODE},
    {"launch", required_argument, NULL, OPTION_LAUNCH},
    {"slow-link", required_argument, NULL, OPTION_SLOW},
    {"slow-device", required_argument, NULL, OPTION_SLOW_DEVICE},
    {"effect", required_argument, NULL, OPTION_EFFECT},
    {"message", required_argument, NULL, OPTION_MESSAGE},
    {"slice", required_argument, NULL, OPTION_SLICE},
    {"slots", required_argument, NULL, OPTION_SLOTS},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"latency", required_argument, NULL, OPTION_LATENCY},
    {"copy-rate", required_argument, NULL, OPTION_COPY_RATE},
    {"to-host-rate", required_argument, NULL, OPTION_TO_HOST_RATE},
    {"to-gpu-rate", required_argument, NULL, OPTION_TO_GPU_RATE},
    {"pool", required_argument, NULL, OPTION_POOL},
    {"iterations", required_argument, NULL, OPTION_ITERATIONS},
    {"verbose", no_argument, NULL, OPTION_VERBOSE},
    {"help", no_argument, NULL, OPTION_HELP},
    {0},
};

/* Numbers: where they go, and between which limits. False: the option is none of them. */
static bool set_number(struct dt_pipeline_sim_settings *s, int option, const char *text, bool *is_good)
{
    uint64_t value = 0;
    const struct {
        int option;
        uint64_t min, max;
        uint64_t *to;
        int32_t *to_int;
        uint32_t *to_unsigned;
        uint64_t unit;
    } rows[] = {
        {OPTION_DEVICES, 1, DT_SIM_HOSTS_MAX, NULL, &s->devices, NULL, 1},
        {OPTION_MICROBATCHES, 1, 4096, NULL, &s->microbatches, NULL, 1},
        {OPTION_DP, 1, DT_SIM_HOSTS_MAX, NULL, &s->sim.replicas, NULL, 1},
        {OPTION_GRADIENTS, 1, UINT64_C(1) << 36, &s->sim.gradient_bytes, NULL, NULL, 1},
        {OPTION_MESSAGE, 64, 1u << 30, &s->sim.message_bytes, NULL, NULL, 1},
        {OPTION_SLICE, 64, 1u << 30, &s->sim.slice_bytes, NULL, NULL, 1},
        {OPTION_SLOTS, 1, 32, NULL, NULL, &s->sim.slots, 1},
        {OPTION_RATE, 1000000, UINT64_C(1) << 40, &s->sim.rate_bytes_per_s, NULL, NULL, 1},
        {OPTION_LATENCY, 1, 1000000, &s->sim.latency_ns, NULL, NULL, 1000},
        {OPTION_COPY_RATE, 1000000, UINT64_C(1) << 40, &s->sim.to_host_bytes_per_s, NULL, NULL, 1},
        {OPTION_TO_HOST_RATE, 1000000, UINT64_C(1) << 40, &s->sim.to_host_bytes_per_s, NULL, NULL, 1},
        {OPTION_TO_GPU_RATE, 1000000, UINT64_C(1) << 40, &s->sim.to_gpu_bytes_per_s, NULL, NULL, 1},
        {OPTION_POOL, 4096, UINT64_C(1) << 36, &s->sim.pool_bytes, NULL, NULL, 1},
        {OPTION_ITERATIONS, 1, ITERATIONS_MAX, NULL, NULL, &s->sim.iteration_count, 1},
    };

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        if (rows[i].option != option)
            continue;
        *is_good = parse_count(text, rows[i].min, rows[i].max, &value);
        if (rows[i].to)
            *rows[i].to = value * rows[i].unit;
        if (rows[i].to_int)
            *rows[i].to_int = (int32_t)value;
        if (rows[i].to_unsigned)
            *rows[i].to_unsigned = (uint32_t)value;
        if (option == OPTION_COPY_RATE)
            s->sim.to_gpu_bytes_per_s = s->sim.to_host_bytes_per_s;
        return true;
    }
    return false;
}

static bool set_other(struct dt_pipeline_sim_settings *s, int option, const char *text)
{
    switch (option) {
    case OPTION_TIMES:
        return parse_times(text, s);
    case OPTION_PROFILE:
        s->profile_path = text;
        return true;
    case OPTION_PLAN:
        s->plan_path = text;
        return true;
    case OPTION_SCHEDULE:
        return detour_algorithm_find(text, &s->algorithm);
    case OPTION_MODE:
        return dt_pipeline_mode_find(text, &s->sim.mode);
    case OPTION_LAUNCH:
        s->sim.launch = dt_pipeline_launch_find(text);
        return s->sim.launch;
    case OPTION_SLOW:
        return parse_slow(text, s);
    case OPTION_SLOW_DEVICE:
        return parse_slow_device(text, s);
    case OPTION_DP_MICROBATCHES:
        return dt_pipeline_shares_add(&s->sim.shares, text);
    case OPTION_EFFECT:
        s->sim.effect = text;
        return true;
    case OPTION_REPLAN:
        return s->knows_delays = true;
    case OPTION_FREE_LINKS:
        return s->plans_free = true;
    case OPTION_ADAPT:
        return s->adapts = true;
    case OPTION_VERBOSE:
        dt_trace_start(DT_TRACE_EVENTS);
        return true;
    default:
        return false;
    }
}

/* ---- options that do not fit together ---- */

static int check_slow(const struct dt_pipeline_sim_settings *s)
{
    for (uint32_t i = 0; i < s->sim.slow_count; i++) {
        const struct dt_pipeline_slow_link *slow = &s->slow[i];

        if (slow->link + !slow->is_dp >= s->devices || slow->replica + slow->is_dp >= s->sim.replicas)
            return refuse("slow-link", "beyond the last device or replica");
    }
    for (uint32_t i = 0; i < s->sim.slow_device_count; i++)
        if (s->slow_device[i].device >= s->devices || s->slow_device[i].replica >= s->sim.replicas)
            return refuse("slow-device", "beyond the last device or replica");
    return 0;
}

/* What a profile has already, or what is made for pipelines of equal stages only. */
static int check_files(const struct dt_pipeline_sim_settings *s, uint64_t given)
{
    static const int unfit[] = {OPTION_DEVICES, OPTION_MICROBATCHES, OPTION_DP_MICROBATCHES,
                                OPTION_TIMES,   OPTION_REPLAN,       OPTION_FREE_LINKS,
                                OPTION_ADAPT,   OPTION_SLOW,         OPTION_SLOW_DEVICE};

    if (!s->profile_path)
        return s->plan_path ? refuse("plan", "without --profile") : 0;
    for (size_t i = 0; i < DT_COUNT_OF(unfit); i++)
        if (given >> unfit[i] & 1)
            return refuse(long_options[unfit[i]].name, "is not for a --profile");
    if (s->plan_path && given >> OPTION_SCHEDULE & 1)
        return refuse("schedule", "is not for a --plan");
    return 0;
}

static int check(const struct dt_pipeline_sim_settings *s)
{
    char text[DT_PIPELINE_SHARES_TEXT_BYTES];

    if (s->devices * s->sim.replicas > DT_SIM_HOSTS_MAX)
        return refuse("devices, dp", "too many");
    if (s->sim.replicas > 1 && s->adapts)
        return refuse("adapt", "not with --dp");
    if (s->sim.replicas > 1 && s->sim.gradient_bytes < DT_SIM_HOSTS_MAX * (uint64_t)DT_PIPELINE_STAMP_EVERY)
        return refuse("gradients", "less than 32M");
    if (s->sim.message_bytes % 64 || s->sim.slice_bytes % 64)
        return refuse("message, slice", "not a multiple of 64");
    if (!dt_pipeline_sim_stamp_bytes(&s->sim))
        return refuse("message",
                      "the host path's pieces carry no stamps; use a multiple of 256K, with --dp of 4M");
    if (s->sim.shares.set_count && s->sim.replicas == 1)
        return refuse("dp-microbatches", "without --dp");
    if (dt_pipeline_shares_find_wrong(&s->sim.shares, s->sim.replicas, s->microbatches,
                                      s->sim.iteration_count, text))
        return refuse("dp-microbatches", text);
    return check_slow(s);
}

/* 0, or the exit status. */
static int parse(int argc, char **argv, struct dt_pipeline_sim_settings *s)
{
    int option, index = 0;
    uint64_t given = 0;
    bool is_good;

    while ((option = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (option == OPTION_HELP) {
            fputs(help, stdout);
            exit(0);
        }
        if (option == '?')
            return 2;
        given |= UINT64_C(1) << option;
        if (!set_number(s, option, optarg, &is_good))
            is_good = set_other(s, option, optarg);
        if (!is_good)
            return refuse(long_options[index].name, optarg ? optarg : "");
    }
    return optind < argc ? refuse("argument", argv[optind]) : check_files(s, given);
}

/* Into *input, which the settings point to afterwards. 0, or the exit status. */
static int read_files(struct dt_pipeline_sim_settings *s, struct dt_pipeline_input *input)
{
    struct detour_error error;

    if (!s->profile_path)
        return 0;
    if (!dt_pipeline_input_read(input, s->profile_path, s->plan_path, &error)) {
        fprintf(stderr, "detour-sim-pipeline: %s\n", error.text);
        return 1;
    }
    s->input = input;
    s->sim.has_own_links = true;
    s->devices = input->profile->device_count;
    s->microbatches = input->profile->microbatch_count;
    return 0;
}

/* ---- the run ---- */

/* Of all messages of an iteration. */
static uint64_t message_bytes(const struct dt_pipeline_sim_settings *s)
{
    const struct detour_profile *profile = s->sim.profile;
    uint64_t links = 0;

    for (int32_t i = 0; i + 1 < profile->stage_count; i++)
        links += profile->stages[i].device != profile->stages[i + 1].device;
    return 2 * links * (uint64_t)s->sim.replicas * (uint64_t)s->microbatches * s->sim.message_bytes;
}

static void print(const struct dt_pipeline_sim_settings *s, const struct dt_pipeline_sim_plan *plan,
                  uint32_t changes, const struct dt_pipeline_sim_result *results)
{
    const struct dt_pipeline_sim_result *r = &results[s->sim.iteration_count - 1];
    uint32_t first = s->sim.iteration_count > 1; /* a first iteration is not a usual one */
    uint64_t sum_ns = 0;
    double span_ns = (double)r->iteration_ns * s->devices * s->sim.replicas;

    for (uint32_t i = first; i < s->sim.iteration_count; i++)
        sum_ns += results[i].iteration_ns;
    printf("{\"iteration_ns\": %" PRIu64 ", \"mean_ns\": %" PRIu64 ", \"predicted_ns\": %" PRId64
           ", \"lower_bound_ns\": %" PRId64 ", \"dp_ns\": %" PRIu64
           ", \"bubble\": %.4f, \"waiting\": %.4f, \"held\": %.4f, \"transfers\": %" PRIu64
           ", \"bytes\": %" PRIu64 ", \"changes\": %" PRIu32 "}\n",
           r->iteration_ns, sum_ns / (s->sim.iteration_count - first), plan->makespan_ns,
           plan->lower_bound_ns, r->iteration_ns - r->pipeline_ns, 1 - (double)r->compute_ns / span_ns,
           (double)r->wait_ns / span_ns, (double)r->held_ns / span_ns, r->transfers, message_bytes(s),
           changes);
}

/* False with the reason in `failure`. */
static bool execute(struct dt_pipeline_sim_settings *s, const struct dt_pipeline_sim_plan *plan,
                    char failure[DT_PIPELINE_SIM_TEXT_BYTES])
{
    struct dt_pipeline_sim_result results[ITERATIONS_MAX];
    static struct dt_pipeline_sim_model planned;
    struct dt_pipeline_loop *loop = NULL;
    bool is_good;

    dt_pipeline_sim_model_make(s, s->knows_delays, DT_PIPELINE_SIM_EVERY_REPLICA, &planned);
    if (s->adapts) {
        loop = dt_pipeline_loop_create(&plan->model.profile, &planned.profile, plan->schedule);
        snprintf(failure, DT_PIPELINE_SIM_TEXT_BYTES, "out of memory");
        if (!loop)
            return false;
        s->sim.after = dt_pipeline_loop_after;
        s->sim.after_arg = loop;
    }
    is_good = dt_pipeline_sim_run(&s->sim, results, failure);
    if (is_good)
        print(s, plan, loop ? dt_pipeline_loop_changes(loop) : 0, results);
    dt_pipeline_loop_destroy(loop);
    return is_good;
}

static int run(struct dt_pipeline_sim_settings *s)
{
    struct detour_arena *arena = detour_arena_create();
    char failure[DT_PIPELINE_SIM_TEXT_BYTES];
    static struct dt_pipeline_sim_plan plan;
    struct detour_error error = {.text = "out of memory"};

    s->sim.slow = s->slow;
    s->sim.slow_device = s->slow_device;
    bool is_good = arena && dt_pipeline_sim_plan_make(arena, s, &plan, &error) == DETOUR_OK;
    if (!is_good) {
        fprintf(stderr, "detour-sim-pipeline: schedule: %s\n", error.text);
    } else {
        s->sim.profile = &plan.model.profile;
        s->sim.program = plan.program;
        s->sim.variants = plan.variants;
        s->sim.variant_count = plan.variant_count;
        is_good = execute(s, &plan, failure);
        if (!is_good)
            fprintf(stderr, "detour-sim-pipeline: %s\n", failure);
    }
    detour_arena_destroy(arena);
    return is_good ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct dt_pipeline_sim_settings settings = defaults;
    static struct dt_pipeline_input input;
    int status;

    dt_trace_start(DT_TRACE_OFF);
    status = parse(argc, argv, &settings);
    if (!status)
        status = read_files(&settings, &input);
    if (!status)
        status = check(&settings);
    if (!status)
        status = run(&settings);
    dt_pipeline_input_free(&input);
    return status;
}
