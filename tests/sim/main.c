/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detour-sim: runs simulations of the plugin (world.h). The first failing seed is printed and ends the run
 * with exit code 1; `detour-sim --seed N` shows it again.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/param.h"
#include "tests/sim/world.h"

struct arguments {
    uint64_t first;
    uint64_t count;
    bool is_verbose;
};

static const struct argp_option options[] = {
    {"seed", 's', "N", 0, "run this seed only, and say what it does", 0},
    {"first", 'f', "N", 0, "the first seed (default 1)", 0},
    {"count", 'n', "N", 0, "how many seeds (default 1000)", 0},
    {"verbose", 'v', NULL, 0, "a line for each run, and Detour's own log", 0},
    {0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    uint64_t value = 0;

    if (text && dt_parse_number(text, false, &value) != DT_OK)
        argp_error(state, "'%s' is not a number", text);
    switch (key) {
    case 's':
        *arguments = (struct arguments){value, 1, true};
        return 0;
    case 'f':
        arguments->first = value;
        return 0;
    case 'n':
        arguments->count = value;
        return 0;
    case 'v':
        arguments->is_verbose = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_run(uint64_t seed, const struct dt_world_report *report)
{
    printf("seed %" PRIu64 ": %s\n", seed, report->drawn);
    printf("  %" PRIu64 " messages, %" PRIu64 " bytes in %.3f ms of virtual time; %" PRIu64
           " times gone back, %" PRIu64 " duplicates, %" PRIu64 " out of sequence\n",
           report->messages, report->bytes, (double)report->virtual_ns / 1e6, report->retransmissions,
           report->duplicates, report->out_of_sequence);
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        options, parse, NULL, "Runs simulations of the plugin, each made from its seed.", NULL, NULL, NULL};
    struct arguments arguments = {1, 1000, false};
    struct dt_world_report report, total = {0};

    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    dt_log_set_sink(NULL, NULL, arguments.is_verbose ? DT_LOG_TRACE : DT_LOG_WARN);
    for (uint64_t i = 0; i < arguments.count; i++) {
        uint64_t seed = arguments.first + i;
        bool is_good = dt_world_run(seed, &report);

        if (!is_good)
            printf("FAILED seed %" PRIu64 ": %s\n", seed, report.failure);
        if (!is_good || arguments.is_verbose)
            print_run(seed, &report);
        if (!is_good)
            return EXIT_FAILURE;
        total.messages += report.messages;
        total.bytes += report.bytes;
        total.retransmissions += report.retransmissions;
        total.duplicates += report.duplicates;
    }
    printf("%" PRIu64 " seeds from %" PRIu64 ": %" PRIu64 " messages, %" PRIu64 " bytes, %" PRIu64
           " times gone back, %" PRIu64 " duplicates; every message once and whole\n",
           arguments.count, arguments.first, total.messages, total.bytes, total.retransmissions,
           total.duplicates);
    return EXIT_SUCCESS;
}
