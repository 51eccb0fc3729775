/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detour-sim-intra: one cell of "Re-planning within an iteration" in docs/experiments.md. Prints one line of
 * JSON: the same on every machine and in every run.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/param.h"
#include "tests/sim/intra.h"
#include "tests/sim/intra_bound.h"
#include "tests/sim/stream_sim.h"

#define NS_PER_MS  1000000
#define MESSAGE_NS 838860 /* 40 MiB at 400 Gb/s */

struct settings {
    struct dt_intra_options intra;
    bool wants_bound;
};

static const char help[] =
    "usage: detour-sim-intra [OPTION]...\n"
    "Computes iterations of a pipeline (10 ms for F, B and W, links of 400 Gb/s, messages of 40 MiB) whose\n"
    "delays change, and prints one line of JSON. See tests/sim/intra.h.\n"
    "\n"
    "  --devices N        stages, one per device (4)\n"
    "  --microbatches N   per iteration (12)\n"
    "  --effect TEXT      of every link, as `detour inject` has it: latency=VALUE [every=VALUE] (none)\n"
    "  --schedule NAME    made for the mean of these delays: adaptra (default), auto, ...\n"
    "  --adapt NAME       off (default); iteration: the schedule follows the delays between iterations, as\n"
    "                     with `detour pipeline --adapt iteration`; intra: and it is re-planned within them, "
    "by\n"
    "                     a planner that knows the delays of this instant and costs nothing\n"
    "  --decision MS      from a change of the delays to the use of the new order (0)\n"
    "  --measured         with intra: the planner knows the delay of the last message that has arrived on a\n"
    "                     link, each way, instead of the present one\n"
    "  --bound            mean_ns is what no order of operations goes below in these iterations\n"
    "  --iterations N     (1000)\n"
    "  --seed N           (1)\n";

static int refuse(const char *option, const char *value)
{
    fprintf(stderr, "detour-sim-intra: %s %s: see --help\n", option, value);
    return 2;
}

static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    return dt_parse_number(text, false, value) == DT_OK && *value >= min && *value <= max;
}

/* A delay that has a mean and either holds forever or for a stated time. */
static bool parse_effect(const char *text, struct dt_intra_options *o)
{
    struct dt_delay_error error;
    size_t count = 0;

    if (dt_delay_parse(text, strlen(text), &o->rule, 1, &count, &error) != DT_OK || count != 1 ||
        o->rule.effect != DT_DELAY_LATENCY)
        return false;
    switch (o->rule.value.shape) {
    case DT_DELAY_UNIFORM:
        o->planned_ns = (int64_t)((o->rule.value.a + o->rule.value.b) / 2);
        return true;
    case DT_DELAY_CONSTANT:
    case DT_DELAY_NORMAL:
    case DT_DELAY_EXPONENTIAL:
        o->planned_ns = (int64_t)o->rule.value.a;
        return true;
    default:
        return false;
    }
}

static bool parse_adapt(const char *text, struct dt_intra_options *o)
{
    o->replans = !strcmp(text, "intra");
    o->follows = o->replans || !strcmp(text, "iteration");
    return o->follows || !strcmp(text, "off");
}

static const struct option long_options[] = {
    {"devices", required_argument, NULL, 'd'},
    {"microbatches", required_argument, NULL, 'm'},
    {"effect", required_argument, NULL, 'e'},
    {"schedule", required_argument, NULL, 's'},
    {"adapt", required_argument, NULL, 'a'},
    {"decision", required_argument, NULL, 'i'},
    {"measured", no_argument, NULL, 'k'},
    {"bound", no_argument, NULL, 'b'},
    {"iterations", required_argument, NULL, 'n'},
    {"seed", required_argument, NULL, 'r'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static bool set(struct settings *s, int option, const char *text)
{
    struct dt_intra_options *o = &s->intra;
    uint64_t value = 0;
    bool is_good;

    switch (option) {
    case 'd':
        is_good = parse_number(text, 2, DT_SIM_HOSTS_MAX, &value);
        o->devices = (int32_t)value;
        return is_good;
    case 'm':
        is_good = parse_number(text, 1, DT_INTRA_MICROBATCHES_MAX, &value);
        o->microbatches = (int32_t)value;
        return is_good;
    case 'e':
        return parse_effect(text, o);
    case 's':
        return detour_algorithm_find(text, &o->schedule);
    case 'a':
        return parse_adapt(text, o);
    case 'i':
        is_good = parse_number(text, 0, 1000, &value);
        o->decision_ns = (int64_t)value * NS_PER_MS;
        return is_good;
    case 'k':
        return o->measures = true;
    case 'b':
        return s->wants_bound = true;
    case 'n':
        is_good = parse_number(text, 1, 100000, &value);
        o->iteration_count = (uint32_t)value;
        return is_good;
    case 'r':
        return parse_number(text, 0, UINT64_MAX, &o->seed);
    default:
        return false;
    }
}

/* 0, or the exit status. */
static int parse(int argc, char **argv, struct settings *s)
{
    int option, index = 0;

    while ((option = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            exit(0);
        }
        if (option == '?')
            return 2;
        if (!set(s, option, optarg))
            return refuse(long_options[index].name, optarg ? optarg : "");
    }
    return optind < argc ? refuse("argument", argv[optind]) : 0;
}

int main(int argc, char **argv)
{
    struct settings s = {.intra = {.devices = 4,
                                   .microbatches = 12,
                                   .f_ns = 10 * NS_PER_MS,
                                   .b_ns = 10 * NS_PER_MS,
                                   .w_ns = 10 * NS_PER_MS,
                                   .serial_ns = MESSAGE_NS,
                                   .latency_ns = 5000,
                                   .rule = {.effect = DT_DELAY_LATENCY},
                                   .schedule = DETOUR_ALGORITHM_ADAPTRA,
                                   .iteration_count = 1000,
                                   .seed = 1}};
    struct detour_error error = {.text = "out of memory"};
    struct dt_intra_result result;
    int status = parse(argc, argv, &s);

    if (status)
        return status;
    if (dt_intra_run(&s.intra, &result, &error) != DETOUR_OK) {
        fprintf(stderr, "detour-sim-intra: schedule: %s\n", error.text);
        return 1;
    }
    printf("{\"mean_ns\": %" PRId64 ", \"bound_ns\": %" PRId64 ", \"changes\": %" PRIu32
           ", \"replans\": %" PRIu64 "}\n",
           s.wants_bound ? result.bound_ns : result.mean_ns, result.bound_ns, result.changes, result.replans);
    return 0;
}
