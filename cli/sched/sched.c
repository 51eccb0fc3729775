/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched`: the table of verbs and what they have in common. */
#include "cli/sched/sched.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "cli/command.h"

enum {
    ALL_FORMATS = 0x3f,
    JSON_ONLY = 1 << DETOUR_FORMAT_JSON,
    JSON_OR_TEXT = JSON_ONLY | 1 << DETOUR_FORMAT_TEXT,
};

static const struct dt_sched_verb verbs[] = {
    {"plan", "make a schedule for a profile",
     "Makes a schedule for a pipeline profile and prints it, with its makespan and a lower bound.",
     DT_SCHED_GENERATE | DT_SCHED_PICTURE, ALL_FORMATS, dt_sched_plan},
    {"simulate", "time a schedule under a profile",
     "Computes when every operation of a schedule runs under a profile. The JSON has a report: idle times, "
     "bubble ratios, peak memory, slack of each link.",
     DT_SCHED_SCHEDULE | DT_SCHED_PICTURE, ALL_FORMATS, dt_sched_simulate},
    {"check", "check that a schedule can be executed",
     "Checks a schedule against a profile: every operation once, dependencies, memory, sends and receives "
     "that "
     "cannot deadlock, the order that PyTorch needs. Exit code 2 and one line when it cannot be executed.",
     DT_SCHED_SCHEDULE, JSON_ONLY, dt_sched_check},
    {"repair", "make a schedule that deadlocks executable",
     "Reads a schedule that may deadlock and prints one that does not. Where all devices wait for one "
     "another, "
     "the next operation that can run is brought forward; sends and receives (csv-comms) are laid out anew, "
     "each receive as early as its peer sends. A line on standard error reports the deadlock.",
     DT_SCHED_SCHEDULE | DT_SCHED_REPAIR | DT_SCHED_PICTURE, ALL_FORMATS, dt_sched_repair},
    {"adapt", "decide whether slow links call for a new schedule",
     "Given the schedule in use and the present links, prints the schedule to use from now on: a new one if "
     "the gain pays for the change, else the present one. The member \"adapt\" of the JSON is the decision "
     "and "
     "its reason; a line on standard error reports a schedule that is kept. The present links are those of "
     "--profile, plus the delays of --delays. Without --planned the schedule is taken to be made for the "
     "links "
     "that its file records; if it records none, for those of --profile if --delays is given, else for links "
     "without delay. With --now-ms the rest of an iteration in progress gets a new order.",
     DT_SCHED_SCHEDULE | DT_SCHED_GENERATE | DT_SCHED_ADAPT | DT_SCHED_PICTURE, ALL_FORMATS, dt_sched_adapt},
    {"tolerance", "the delay that each link may have",
     "For a fixed schedule: the largest extra delay of each link up to which the iteration grows no faster "
     "than the delay itself, and the makespan as a function of the delay.",
     DT_SCHED_SCHEDULE | DT_SCHED_TOLERANCE, JSON_OR_TEXT, dt_sched_tolerance},
    {"compare", "all algorithms on one profile, in a table",
     "Runs every algorithm on a profile and compares makespan, bubbles and memory. --format text is a table "
     "with "
     "a bar for each algorithm.",
     DT_SCHED_GENERATE | DT_SCHED_COMPARE | DT_SCHED_PICTURE, JSON_OR_TEXT | 1 << DETOUR_FORMAT_SVG,
     dt_sched_compare},
    {"model", "write a model in layers, known or measured",
     "Writes a model file: layers with times and memory, devices, links. The layers are those of a known "
     "family, by a cost model of published figures, or measured by the user. docs/adaptis.md has the formats "
     "and formulas.",
     DT_SCHED_MODEL, JSON_ONLY, dt_sched_model},
    {"optimize", "find partition, placement and schedule of a model",
     "Reads a model in layers and searches the pipeline with the shortest iteration that fits into the "
     "devices' "
     "memory: which layers form a stage, where each stage lies, and in which order the devices work. Prints "
     "it "
     "beside the pipelines that are in use and a lower bound. docs/adaptis.md has the format of models.",
     DT_SCHED_OPTIMIZE | DT_SCHED_PICTURE, ALL_FORMATS, dt_sched_optimize},
};

static void print_help(FILE *out)
{
    fprintf(out, "Usage: detour sched VERB [OPTION...]\n\n"
                 "Pipeline schedules that absorb slow links.\n\nVerbs:\n");
    for (size_t i = 0; i < DT_COUNT_OF(verbs); i++)
        fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(out, "\n  detour sched VERB --help   the description and options of a verb\n\n"
                 "Files are JSON or, for schedules, PyTorch's pipelining CSV; \"-\" is standard input.\n");
}

static int run_verb(const struct dt_sched_verb *verb, int argc, char **argv)
{
    static struct dt_sched_options options;
    struct dt_sched_run run = {.options = &options, .repairs = verb->groups & DT_SCHED_REPAIR};

    int code = dt_sched_options_parse(verb, argc, argv, &options);
    if (code != DT_EXIT_OK)
        return code;
    run.arena = detour_arena_create();
    if (!run.arena)
        return dt_sched_say(&options, DT_EXIT_FAILED, "out of memory");
    if (!(verb->groups & DT_SCHED_LAYERS))
        code = dt_sched_read_inputs(&run);
    if (code == DT_EXIT_OK)
        code = verb->run(&run);
    detour_arena_destroy(run.arena);
    return code;
}

int dt_sched_command(int argc, char **argv)
{
    char name[64];

    if (argc < 2) {
        print_help(stderr);
        return DT_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-?") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return DT_EXIT_OK;
    }
    for (size_t i = 0; i < DT_COUNT_OF(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) != 0)
            continue;
        snprintf(name, sizeof(name), "detour sched %s", verbs[i].name);
        argv[1] = name;
        return run_verb(&verbs[i], argc - 1, argv + 1);
    }
    fprintf(stderr, "detour sched: unknown verb '%s'; `detour sched --help` lists the verbs\n", argv[1]);
    return DT_EXIT_USAGE;
}
