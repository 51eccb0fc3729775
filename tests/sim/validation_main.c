/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detour-sim-validation: what a validation of links costs for each number of ranks (validation_cost.h).
 * Prints a line of JSON for each number and each of ring and tree, the same on every machine.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tests/sim/validation_cost.h"

static const char help[] =
    "usage: detour-sim-validation RANKS...\n"
    "The cost of a validation of the links of a ring and of a double tree of so many ranks, 8 on each host, "
    "in\n"
    "virtual time, healthy and with one link of 10 times: messages as `detour perf --pairs` has them (21 "
    "there\n"
    "and back of 1 MiB) at 400 Gbit/s and 10 us, rounds of controller and agents of 200 ms.\n";

typedef enum detour_status plan_func(struct detour_arena *arena, int32_t rank_count,
                                     const struct detour_validation **validation, struct detour_error *error);

static const struct {
    const char *name;
    plan_func *make;
} plans[] = {{"ring", detour_validation_ring}, {"tree", detour_validation_double_tree}};

static enum detour_status run(struct detour_arena *arena, size_t kind, int32_t ranks,
                              struct detour_error *error)
{
    struct dt_validation_cost_options options = {.ranks_per_host = 8,
                                                 .bytes = 1 << 20,
                                                 .round_trips = 21,
                                                 .bytes_per_s = 50000000000,
                                                 .latency_ns = 10000,
                                                 .period_ns = 200000000,
                                                 .slow_pair = -1,
                                                 .slow_permille = 10000};
    struct dt_validation_cost healthy, slow;
    enum detour_status status = plans[kind].make(arena, ranks, &options.plan, error);

    if (!status)
        status = dt_validation_cost_run(arena, &options, &healthy, error);
    options.slow_pair = 0;
    if (!status)
        status = dt_validation_cost_run(arena, &options, &slow, error);
    if (status)
        return status;
    printf("{\"ranks\": %" PRId32 ", \"topology\": \"%s\", \"passes\": %" PRId32 ", \"hold_ns\": %" PRId64
           ", \"exchange_ns\": %" PRId64 ", \"total_ns\": %" PRId64 ", \"one_by_one_ns\": %" PRId64
           ", \"slow_exchange_ns\": %" PRId64 ", \"slow_found\": %" PRId32 "}\n",
           ranks, plans[kind].name, healthy.pass_count, healthy.hold_ns, healthy.exchange_ns,
           healthy.total_ns, healthy.one_by_one_ns, slow.exchange_ns, slow.slow_count);
    return DETOUR_OK;
}

static int refuse(const char *what, const char *text)
{
    fprintf(stderr, "detour-sim-validation: %s: %s\n", what, text);
    return 2;
}

static int run_ranks(const char *text)
{
    struct detour_error error = {DETOUR_NO_MEMORY, "out of memory"};
    char *end;
    long ranks = strtol(text, &end, 10);

    if (*end || ranks < 2 || ranks > DETOUR_RANKS_MAX)
        return refuse(text, "expected a number of ranks from 2 to 65536");
    for (size_t kind = 0; kind < DT_COUNT_OF(plans); kind++) {
        struct detour_arena *arena = detour_arena_create();
        enum detour_status status = arena ? run(arena, kind, (int32_t)ranks, &error) : DETOUR_NO_MEMORY;

        detour_arena_destroy(arena);
        if (status)
            return refuse(text, error.text);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int status = argc > 1 ? 0 : refuse("RANKS", "is missing, see --help");

    if (argc > 1 && !strcmp(argv[1], "--help")) {
        fputs(help, stdout);
        return 0;
    }
    for (int i = 1; !status && i < argc; i++)
        status = run_ranks(argv[i]);
    return status;
}
