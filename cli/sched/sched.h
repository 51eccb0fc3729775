/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detour sched VERB`: the schedule library on the command line. A verb reads a profile, usually also a
 * schedule, calls the library and prints JSON or another format. Its exit code is 2 for invalid input and 1
 * for an error of the machine (cli/command.h).
 */
#ifndef DETOUR_CLI_SCHED_SCHED_H
#define DETOUR_CLI_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <argp.h>

#include "cli/sched/optimize_options.h"
#include "detour/model.h"
#include "detour/sched_format.h"

#ifdef __cplusplus
extern "C" {
#endif

int dt_sched_command(int argc, char **argv);

/* Numbers of a comma-separated option; none: not given. Lives until the process ends. */
struct dt_sched_list {
    int32_t *values;
    int32_t count;
};

#define DT_SCHED_DELAYS_MAX 64 /* --delay options */

/* The command line. Paths are "-" for standard input or output, NULL when not given. */
struct dt_sched_options {
    const char *command; /* "detour sched plan", for messages */
    const char *profile_path;
    const char *uniform;                    /* instead of a profile: "8x32:9,10,6" */
    const char *delay[DT_SCHED_DELAYS_MAX]; /* added to the profile's links: "last=60ms" */
    int delay_count;
    const char *schedule_path;
    const char *planned_path; /* adapt: the profile the schedule was made for */
    const char *out_path;
    enum detour_format format;
    bool has_format; /* --format was given */
    struct detour_format_options picture;
    struct detour_options generate;
    uint64_t budget_ms; /* 0: not given */
    struct dt_sched_list warmup;
    int directions;       /* tolerance */
    int64_t delay_ns_max; /* tolerance; 0: the makespan */
    struct detour_adapt_options adapt;
    const char *delays_path;                 /* adapt */
    struct dt_sched_list ranks;              /* adapt: the device of each */
    bool replan;                             /* adapt: inside an iteration, at now_ns */
    int64_t now_ns;                          /* adapt */
    struct dt_sched_list started;            /* adapt */
    const char *svg_path;                    /* compare */
    bool has_family;                         /* model: --family was given */
    struct detour_family_options family;     /* model; without devices and microbatches */
    struct detour_measured_options measured; /* model; devices and microbatches of both forms */
    struct dt_optimize_options optimize;
};

/* The state of one run of a verb. */
struct dt_sched_run {
    struct dt_sched_options *options;
    struct detour_arena *arena;
    struct detour_error error;
    const struct detour_profile *profile;
    struct detour_plan *plan;       /* of --schedule */
    struct detour_profile *planned; /* the profile for which --schedule was made, if the file records it */
    bool repairs;                   /* --schedule is repaired as it is read */
    struct detour_repair repair;
    bool stdin_used;
};

struct dt_sched_verb {
    const char *name;
    const char *summary;
    const char *doc;  /* for --help */
    unsigned groups;  /* of options: DT_SCHED_... */
    unsigned formats; /* 1 << enum detour_format of those it writes */
    int (*run)(struct dt_sched_run *run);
};

/* Groups of options that a verb takes. Every verb takes --out, and --profile with stages unless it takes
 * models. */
enum {
    DT_SCHED_SCHEDULE = 1,
    DT_SCHED_GENERATE = 2,
    DT_SCHED_PICTURE = 4,
    DT_SCHED_TOLERANCE = 8,
    DT_SCHED_ADAPT = 16,
    DT_SCHED_COMPARE = 32,
    DT_SCHED_MODEL = 64,
    DT_SCHED_OPTIMIZE = 128,
    DT_SCHED_REPAIR = 256,                                /* no options; the schedule may deadlock */
    DT_SCHED_LAYERS = DT_SCHED_MODEL | DT_SCHED_OPTIMIZE, /* those that take no profile of stages */
};

/* ---- options ---------------------------------------------------------------------------------------- */

/*
 * Fills *options from the command line of a verb. Returns an exit code; before DT_EXIT_USAGE an error line
 * is written.
 */
int dt_sched_options_parse(const struct dt_sched_verb *verb, int argc, char **argv,
                           struct dt_sched_options *options);

/* ---- input and output ------------------------------------------------------------------------------- */

/* Writes one line to standard error that begins with the command's name; returns `code`. */
int dt_sched_say(const struct dt_sched_options *options, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Writes run->error to standard error and returns the exit code of its status. `path`, if not NULL,
 * precedes the text.
 */
int dt_sched_fail(struct dt_sched_run *run, const char *path);

/* Reads all of a file or standard input; the caller frees *data. */
int dt_sched_read_file(struct dt_sched_run *run, const char *path, char **data, size_t *bytes);

/* The name of `path` in messages. */
const char *dt_sched_name_of(const char *path);

/* Reads a profile from a file or standard input. */
int dt_sched_read_profile(struct dt_sched_run *run, const char *path, struct detour_profile **profile);

/* The profile of --uniform. */
int dt_sched_make_uniform(struct dt_sched_run *run, struct detour_profile **profile);

/* Replaces *profile by one with the delays of all --delay options. */
int dt_sched_add_delays(struct dt_sched_run *run, struct detour_profile **profile);

/* Reads --profile or --uniform with --delay and, if the verb takes it, --schedule into run. */
int dt_sched_read_inputs(struct dt_sched_run *run);

/* Writes to --out or standard output. */
int dt_sched_write(struct dt_sched_run *run, const char *data, size_t bytes);

/* Writes to a file, or to standard output if `path` is NULL or "-". */
int dt_sched_write_file(struct dt_sched_run *run, const char *path, const char *data, size_t bytes);

/* ---- verbs ------------------------------------------------------------------------------------------ */

int dt_sched_plan(struct dt_sched_run *run);
int dt_sched_simulate(struct dt_sched_run *run);
int dt_sched_check(struct dt_sched_run *run);
int dt_sched_repair(struct dt_sched_run *run);
int dt_sched_adapt(struct dt_sched_run *run);
int dt_sched_tolerance(struct dt_sched_run *run);
int dt_sched_compare(struct dt_sched_run *run);
int dt_sched_model(struct dt_sched_run *run);
int dt_sched_optimize(struct dt_sched_run *run);

/* The options of DT_SCHED_MODEL, and an argp parser of them. */
extern const struct argp_option dt_sched_model_options[];
error_t dt_sched_parse_model(int key, const char *arg, struct dt_sched_options *options);

#ifdef __cplusplus
}
#endif

#endif
