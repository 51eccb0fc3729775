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

#include "base/param.h"
#include "base/util.h"
#include "detour/sched.h"
#include "pipeline/ring_model.h"
#include "tests/sim/pipeline_end.h"
#include "tests/sim/pipeline_loop.h"
#include "tests/sim/pipeline_sim.h"
#include "tests/sim/trace.h"

#define STAGES_MAX     DT_SIM_HOSTS_MAX
#define SLOW_MAX       16
#define ITERATIONS_MAX 64
#define NS_PER_MS      1000000

#include "tests/sim/stream_sim.h"

struct settings {
    int32_t devices, microbatches;
    int64_t f_ns, b_ns, w_ns;
    enum detour_algorithm algorithm;
    bool knows_delays; /* the schedule is made for the slow links */
    bool plans_free;   /* ... for links that take no time */
    bool adapts;       /* and follows the delays that are measured */
    struct dt_pipeline_sim_options sim;
    struct dt_pipeline_slow_link slow[SLOW_MAX];
};

static const struct settings defaults = {
    .devices = 8,
    .microbatches = 32,
    .f_ns = 10 * NS_PER_MS,
    .b_ns = 10 * NS_PER_MS,
    .w_ns = 10 * NS_PER_MS,
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
    "Runs a pipeline of equal stages in virtual time, through the plugin, and prints one line of JSON.\n"
    "\n"
    "  --devices N            stages, one per device (8)\n"
    "  --microbatches N       per iteration (32)\n"
    "  --times F,B,W          of a stage in ms (10,10,10)\n"
    "  --dp N                 replicas of the pipeline, which sum up their gradients (1)\n"
    "  --gradients BYTES      of a stage; with --dp (64M)\n"
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

static bool parse_times(const char *text, struct settings *s)
{
    double f, b, w;

    if (sscanf(text, "%lf,%lf,%lf", &f, &b, &w) != 3 || f <= 0 || b <= 0 || w < 0 || f > 1e4 || b > 1e4 ||
        w > 1e4)
        return false;
    s->f_ns = (int64_t)(f * NS_PER_MS + 0.5);
    s->b_ns = (int64_t)(b * NS_PER_MS + 0.5);
    s->w_ns = (int64_t)(w * NS_PER_MS + 0.5);
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

static bool parse_slow(const char *text, struct settings *s)
{
    struct dt_pipeline_slow_link *slow = &s->slow[s->sim.slow_count];
    double delay_ms;
    int ends = 0, length = 0;

    if (s->sim.slow_count == SLOW_MAX || !parse_ends(text, slow, &ends) ||
        sscanf(text + ends, "=%lfms%n", &delay_ms, &length) != 1 || !length || delay_ms < 0 || delay_ms > 1e4)
        return false;
    length += ends;
    slow->delay_ns = (uint64_t)(delay_ms * NS_PER_MS + 0.5);
    slow->is_serial = !strcmp(text + length, ",serial");
    s->sim.slow_count += slow->delay_ns > 0; /* a link without delay is not slow */
    return slow->is_serial || !text[length];
}

enum {
    OPTION_DEVICES,
    OPTION_MICROBATCHES,
    OPTION_DP,
    OPTION_GRADIENTS,
    OPTION_TIMES,
    OPTION_SCHEDULE,
    OPTION_REPLAN,
    OPTION_FREE_LINKS,
    OPTION_ADAPT,
    OPTION_MODE,
    OPTION_LAUNCH,
    OPTION_SLOW,
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
    {"gradients", required_argument, NULL, OPTION_GRADIENTS},
    {"times", required_argument, NULL, OPTION_TIMES},
    {"schedule", required_argument, NULL, OPTION_SCHEDULE},
    {"replan", no_argument, NULL, OPTION_REPLAN},
    {"free-links", no_argument, NULL, OPTION_FREE_LINKS},
    {"adapt", no_argument, NULL, OPTION_ADAPT},
    {"mode", required_argument, NULL, OPTION_MODE},
    {"launch", required_argument, NULL, OPTION_LAUNCH},
    {"slow-link", required_argument, NULL, OPTION_SLOW},
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
static bool set_number(struct settings *s, int option, const char *text, bool *is_good)
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
        {OPTION_DEVICES, 2, STAGES_MAX, NULL, &s->devices, NULL, 1},
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

static bool set_other(struct settings *s, int option, const char *text)
{
    switch (option) {
    case OPTION_TIMES:
        return parse_times(text, s);
    case OPTION_SCHEDULE:
        return detour_algorithm_find(text, &s->algorithm);
    case OPTION_MODE:
        return dt_pipeline_mode_find(text, &s->sim.mode);
    case OPTION_LAUNCH:
        s->sim.launch = dt_pipeline_launch_find(text);
        return s->sim.launch;
    case OPTION_SLOW:
        return parse_slow(text, s);
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

/* 0, or the exit status. */
static int parse(int argc, char **argv, struct settings *s)
{
    int option, index = 0;
    bool is_good;

    while ((option = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (option == OPTION_HELP) {
            fputs(help, stdout);
            exit(0);
        }
        if (option == '?')
            return 2;
        if (!set_number(s, option, optarg, &is_good))
            is_good = set_other(s, option, optarg);
        if (!is_good)
            return refuse(long_options[index].name, optarg ? optarg : "");
    }
    if (optind < argc)
        return refuse("argument", argv[optind]);
    for (uint32_t i = 0; i < s->sim.slow_count; i++) {
        const struct dt_pipeline_slow_link *slow = &s->slow[i];

        if (slow->link + !slow->is_dp >= s->devices || slow->replica + slow->is_dp >= s->sim.replicas)
            return refuse("slow-link", "beyond the last device or replica");
    }
    if (s->devices * s->sim.replicas > DT_SIM_HOSTS_MAX)
        return refuse("devices, dp", "too many");
    if (s->sim.replicas > 1 && s->adapts)
        return refuse("adapt", "not with --dp");
    if (s->sim.replicas > 1 && s->sim.gradient_bytes < DT_SIM_HOSTS_MAX * (uint64_t)DT_PIPELINE_STAMP_EVERY)
        return refuse("gradients", "less than 32M");
    if (s->sim.message_bytes % 64 || s->sim.slice_bytes % 64)
        return refuse("message, slice", "not a multiple of 64");
    return 0;
}

/* ---- schedule ---- */

struct model {
    struct detour_profile profile;
    struct detour_stage stages[STAGES_MAX];
    struct detour_link links[STAGES_MAX];
};

/*
 * What a message costs on a healthy link: it occupies the link for its bytes and arrives a latency later. The
 * copies of the host path are not in it. replica: whose slow links it has.
 */
static void make_model(const struct settings *s, bool has_delays, int32_t replica, struct model *model)
{
    int64_t serial_ns = (int64_t)(s->sim.message_bytes * UINT64_C(1000000000) / s->sim.rate_bytes_per_s);

    *model = (struct model){.profile = {.stage_count = s->devices,
                                        .microbatch_count = s->microbatches,
                                        .device_count = s->devices,
                                        .stages = model->stages,
                                        .links = model->links}};
    for (int32_t i = 0; i < s->devices; i++) {
        model->stages[i] =
            (struct detour_stage){.f_ns = s->f_ns, .b_ns = s->b_ns, .w_ns = s->w_ns, .device = i};
        model->links[i] = (struct detour_link){.forward_ns = (int64_t)s->sim.latency_ns,
                                               .backward_ns = (int64_t)s->sim.latency_ns,
                                               .forward_serial_ns = serial_ns,
                                               .backward_serial_ns = serial_ns};
    }
    for (uint32_t i = 0; has_delays && i < s->sim.slow_count; i++) {
        const struct dt_pipeline_slow_link *slow = &s->slow[i];
        struct detour_link *link = &model->links[slow->link];
        int64_t delay_ns = (int64_t)slow->delay_ns;

        if (slow->is_dp || !(replica == slow->replica || replica == DT_PIPELINE_SIM_EVERY_REPLICA ||
                             slow->replica == DT_PIPELINE_SIM_EVERY_REPLICA))
            continue;
        *(slow->is_serial ? &link->forward_serial_ns : &link->forward_ns) += delay_ns;
        *(slow->is_serial ? &link->backward_serial_ns : &link->backward_ns) += delay_ns;
    }
}

struct prediction {
    const struct detour_schedule *schedule;
    int64_t makespan_ns;
    int64_t lower_bound_ns;
};

/* From a replica of a device to the next one: of a slice of gradients. */
static struct dt_ring_link ring_link(const struct settings *s, struct dt_pipeline_position from)
{
    uint64_t slice_bytes = dt_pipeline_sim_gradients(&s->sim, from).slice_bytes;
    struct dt_ring_link link = {.latency_ns = (int64_t)s->sim.latency_ns,
                                .serial_ns =
                                    (int64_t)(slice_bytes * UINT64_C(1000000000) / s->sim.rate_bytes_per_s)};

    for (uint32_t i = 0; i < s->sim.slow_count; i++) {
        const struct dt_pipeline_slow_link *slow = &s->slow[i];
        bool is_back = s->sim.replicas == 2; /* the ring's other connection between the same two */

        if (!slow->is_dp || slow->link != from.device || (slow->replica != from.replica && !is_back))
            continue;
        *(slow->is_serial ? &link.serial_ns : &link.latency_ns) +=
            (int64_t)dt_pipeline_sim_slice_delay_ns(&s->sim, slow);
    }
    return link;
}

/* The end of the last all-reduce; ended_ns: [replica * devices + device]. */
static int64_t rings_end_ns(const struct settings *s, const int64_t *ended_ns)
{
    int64_t last_ns = 0;

    for (int32_t device = 0; device < s->devices; device++) {
        struct dt_pipeline_position position = {device, 0};
        struct dt_gradients_options gradients = dt_pipeline_sim_gradients(&s->sim, position);
        struct dt_ring_link links[DT_SIM_HOSTS_MAX];
        int64_t column_ns[DT_SIM_HOSTS_MAX];
        const struct dt_ring ring = {s->sim.replicas, dt_gradients_slices(&gradients), gradients.slots,
                                     links};

        for (; position.replica < s->sim.replicas; position.replica++) {
            links[position.replica] = ring_link(s, position);
            column_ns[position.replica] = ended_ns[dt_pipeline_rank_of(s->devices, position)];
        }
        int64_t end_ns = dt_ring_end_ns(&ring, column_ns);
        last_ns = end_ns > last_ns ? end_ns : last_ns;
    }
    return last_ns;
}

/* What libdetour-sched expects of a schedule on the links as they are, and its gradients behind it. */
static enum detour_status predict(struct detour_arena *arena, const struct settings *s,
                                  struct detour_schedule *schedule, struct model *model, int64_t *end_ns,
                                  struct detour_error *error)
{
    int64_t ended_ns[DT_SIM_HOSTS_MAX];
    enum detour_status status = DETOUR_OK;
    struct detour_report *report;

    for (int32_t replica = 0; status == DETOUR_OK && replica < s->sim.replicas; replica++) {
        make_model(s, true, replica, model);
        status = detour_simulate(arena, &model->profile, schedule, &report, error);
        for (int32_t i = 0; status == DETOUR_OK && i < s->devices; i++)
            ended_ns[replica * s->devices + i] = report->devices[i].last_finish_ns;
        if (status == DETOUR_OK)
            *end_ns = report->makespan_ns;
    }
    if (status == DETOUR_OK && s->sim.replicas > 1)
        *end_ns = rings_end_ns(s, ended_ns);
    return status;
}

/* The schedule that is executed, and what libdetour-sched expects of it on the links as they are. */
static enum detour_status plan(struct detour_arena *arena, const struct settings *s, struct model *model,
                               struct detour_program **program, struct prediction *prediction,
                               struct detour_error *error)
{
    struct detour_options options = {.algorithm = s->algorithm};
    struct detour_plan *made;
    enum detour_status status;

    make_model(s, s->knows_delays, DT_PIPELINE_SIM_EVERY_REPLICA, model);
    if (s->plans_free)
        memset(model->links, 0, sizeof model->links);
    status = detour_generate(arena, &model->profile, &options, &made, error);
    if (status == DETOUR_OK) /* the order of its receives follows from the same times */
        status = detour_program_create(arena, &model->profile, made->schedule, program, error);
    if (status == DETOUR_OK)
        status = predict(arena, s, made->schedule, model, &prediction->makespan_ns, error);
    make_model(s, true, DT_PIPELINE_SIM_EVERY_REPLICA, model);
    if (status == DETOUR_OK)
        status = detour_lower_bound(arena, &model->profile, &prediction->lower_bound_ns, error);
    if (status == DETOUR_OK)
        prediction->schedule = made->schedule;
    return status;
}

/* ---- the run ---- */

static void print(const struct settings *s, const struct prediction *prediction, uint32_t changes,
                  const struct dt_pipeline_sim_result *results)
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
           r->iteration_ns, sum_ns / (s->sim.iteration_count - first), prediction->makespan_ns,
           prediction->lower_bound_ns, r->iteration_ns - r->pipeline_ns, 1 - (double)r->compute_ns / span_ns,
           (double)r->wait_ns / span_ns, (double)r->held_ns / span_ns, r->transfers,
           2 * (uint64_t)s->sim.replicas * (uint64_t)(s->devices - 1) * (uint64_t)s->microbatches *
               s->sim.message_bytes,
           changes);
}

/* False with the reason in `failure`. */
static bool execute(struct settings *s, const struct prediction *prediction,
                    char failure[DT_PIPELINE_SIM_TEXT_BYTES])
{
    struct dt_pipeline_sim_result results[ITERATIONS_MAX];
    static struct model healthy, planned;
    struct dt_pipeline_loop *loop = NULL;
    bool is_good;

    make_model(s, false, DT_PIPELINE_SIM_EVERY_REPLICA, &healthy);
    make_model(s, s->knows_delays, DT_PIPELINE_SIM_EVERY_REPLICA, &planned);
    if (s->adapts) {
        loop = dt_pipeline_loop_create(&healthy.profile, &planned.profile, prediction->schedule);
        snprintf(failure, DT_PIPELINE_SIM_TEXT_BYTES, "out of memory");
        if (!loop)
            return false;
        s->sim.after = dt_pipeline_loop_after;
        s->sim.after_arg = loop;
    }
    is_good = dt_pipeline_sim_run(&s->sim, results, failure);
    if (is_good)
        print(s, prediction, loop ? dt_pipeline_loop_changes(loop) : 0, results);
    dt_pipeline_loop_destroy(loop);
    return is_good;
}

static int run(struct settings *s)
{
    struct detour_arena *arena = detour_arena_create();
    char failure[DT_PIPELINE_SIM_TEXT_BYTES];
    struct detour_program *program = NULL;
    struct prediction prediction;
    static struct model model;
    struct detour_error error = {.text = "out of memory"};
    bool is_good = arena && plan(arena, s, &model, &program, &prediction, &error) == DETOUR_OK;

    if (!is_good) {
        fprintf(stderr, "detour-sim-pipeline: schedule: %s\n", error.text);
    } else {
        s->sim.profile = &model.profile;
        s->sim.program = program;
        s->sim.slow = s->slow;
        is_good = execute(s, &prediction, failure);
        if (!is_good)
            fprintf(stderr, "detour-sim-pipeline: %s\n", failure);
    }
    if (arena)
        detour_arena_destroy(arena);
    return is_good ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct settings settings = defaults;
    int status;

    dt_trace_start(DT_TRACE_OFF);
    status = parse(argc, argv, &settings);
    return status ? status : run(&settings);
}
