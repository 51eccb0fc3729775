/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detour-sim: runs simulations of the plugin (world.h). The first failing seed is printed and ends the run
 * with exit code 1; `detour-sim --profile P --seed N` shows it again.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/param.h"
#include "delay/keyword.h"
#include "failover/planted.h"
#include "base/util.h"
#include "tests/sim/exhaustive.h"
#include "tests/sim/trace.h"
#include "tests/sim/world.h"

#define PROGRESS_S 5
/* A planted bug is searched in its known seed, then in this many seeds of the chosen profile, then in those
 * of profile slow, then in the first ones again with personality ionic, then in the rest. */
#define FIRST_SEEDS 200
#define SLOW_SEEDS  100

struct arguments {
    enum dt_profile profile;
    uint64_t first;
    uint64_t count;
    enum dt_trace_level trace;
    bool is_replay;
    bool goes_on;
    uint64_t stride;         /* not 0: the exhaustive search */
    const char *case_name;   /* of it, only this */
    bool hunts;              /* every planted bug in turn */
    unsigned part, parts;    /* of them, each parts-th from this one on, counted from 1 */
    const char *personality; /* of all devices, or NULL */
    bool must_act;           /* and it must matter in some seed */
};

#define KEY_EXHAUSTIVE  1000
#define KEY_CASE        1001
#define KEY_PLANTED     1002
#define KEY_PERSONALITY 1003
#define KEY_MUST_ACT    1004

static const struct argp_option options[] = {
    {"profile", 'P', "NAME", 0, "what a seed draws: lossy (default), failover or slow", 0},
    {"personality", KEY_PERSONALITY, "NAME", 0,
     "every device behaves in the error state like this provider: mlx5, ionic, bnxt, rxe or mana", 0},
    {"must-act", KEY_MUST_ACT, NULL, 0, "with --personality: an error unless it matters in one of the seeds",
     0},
    {"seed", 's', "N", 0, "run this seed only, and print its plan and events", 0},
    {"seeds", 'n', "FROM:COUNT", 0, "run these seeds (default 1:1000)", 0},
    {"exhaustive", KEY_EXHAUSTIVE, "STRIDE", OPTION_ARG_OPTIONAL,
     "instead of seeds: every loss and every failure at every packet of a fixed script, and every pair "
     "(STRIDE: "
     "every STRIDE-th)",
     0},
    {"case", KEY_CASE, "NAME", 0, "one case of the exhaustive search, as it was named there", 0},
#ifdef DT_PLANTED_BUGS
    {"planted", KEY_PLANTED, "BUG", 0,
     "with this bug in Detour; all: each in turn, until a seed shows it; 2/3: every third one, from the "
     "second",
     0},
#endif
    {"keep-going", 'k', NULL, 0, "go on after a failure, and name them all", 0},
    {"verbose", 'v', NULL, 0, "every fault, call and log line with its time; twice: every packet", 0},
    {0},
};

static bool parse_seeds(const char *text, struct arguments *arguments)
{
    char first[32];
    const char *colon = strchr(text, ':');

    if (!colon || colon - text >= (long)sizeof first)
        return false;
    memcpy(first, text, (size_t)(colon - text));
    first[colon - text] = '\0';
    return dt_parse_number(first, false, &arguments->first) == DT_OK &&
           dt_parse_number(colon + 1, true, &arguments->count) == DT_OK;
}

/* ---- planted bugs ---- */

#ifdef DT_PLANTED_BUGS

uint32_t dt_planted;

static const struct {
    const char *name;
    const char *text;
} bugs[] = {{"NONE", "none"},
#define BUG_ROW(bug, text) {#bug, text},
            DT_PLANTED_LIST(BUG_ROW)
#undef BUG_ROW
};

static bool plant(const char *name, struct arguments *arguments)
{
    bool is_part = sscanf(name, "%u/%u%c", &arguments->part, &arguments->parts, &(char){0}) == 2;

    if (!is_part)
        arguments->part = arguments->parts = 1;
    if (arguments->part < 1 || arguments->part > arguments->parts)
        return false;
    arguments->hunts = is_part || strcmp(name, "all") == 0;
    for (uint32_t i = 0; i < DT_COUNT_OF(bugs); i++) {
        if (strcmp(name, bugs[i].name) == 0) {
            dt_planted = i;
            return true;
        }
    }
    return arguments->hunts;
}

#endif

/* ---- arguments ---- */

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;

    switch (key) {
    case 'P':
        if (!dt_profile_find(text, &arguments->profile))
            argp_error(state, "no profile '%s': lossy, failover or slow", text);
        return 0;
    case KEY_PERSONALITY:
        if (!dt_delay_keyword_find(&dt_delay_personalities, text, strlen(text), &(int){0}))
            argp_error(state, "no personality '%s': mlx5, ionic, bnxt or rxe", text);
        arguments->personality = text;
        return 0;
    case KEY_MUST_ACT:
        arguments->must_act = true;
        return 0;
    case 's':
        if (dt_parse_number(text, false, &arguments->first) != DT_OK)
            argp_error(state, "'%s' is not a number", text);
        arguments->count = 1;
        arguments->is_replay = true;
        return 0;
    case 'n':
        if (!parse_seeds(text, arguments))
            argp_error(state, "'%s' is not FROM:COUNT", text);
        return 0;
    case KEY_EXHAUSTIVE:
        arguments->stride = 1;
        if (text && (dt_parse_number(text, false, &arguments->stride) != DT_OK || !arguments->stride))
            argp_error(state, "'%s' is not a stride", text);
        return 0;
    case KEY_CASE:
        arguments->case_name = text;
        return 0;
#ifdef DT_PLANTED_BUGS
    case KEY_PLANTED:
        if (!plant(text, arguments))
            argp_error(state, "no bug '%s'", text);
        return 0;
#endif
    case 'k':
        arguments->goes_on = true;
        return 0;
    case 'v':
        arguments->trace = arguments->trace == DT_TRACE_OFF ? DT_TRACE_EVENTS : DT_TRACE_PACKETS;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void add(struct dt_world_report *total, const struct dt_world_report *report)
{
    total->messages += report->messages;
    total->bytes += report->bytes;
    total->virtual_ns += report->virtual_ns;
    total->ends_failed += report->ends_failed;
    total->retransmissions += report->retransmissions;
    total->duplicates += report->duplicates;
    total->personality_actions += report->personality_actions;
    total->personality_seeds += report->personality_actions > 0;
}

static void print_totals(const struct dt_world_report *r)
{
    printf("%" PRIu64 " messages, %" PRIu64 " bytes in %.3f s of virtual time; %" PRIu64
           " times gone back, %" PRIu64 " duplicates, %" PRIu64 " ends with an error\n",
           r->messages, r->bytes, (double)r->virtual_ns / 1e9, r->retransmissions, r->duplicates,
           r->ends_failed);
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A line now and then on standard error. `count` 0: it is not known how many there will be. */
static void show_progress(uint64_t done, uint64_t count)
{
    static double begin_s, shown_s;
    double now_s = seconds_now();

    if (begin_s == 0)
        begin_s = shown_s = now_s;
    if (now_s - shown_s < PROGRESS_S)
        return;
    shown_s = now_s;
    fprintf(stderr, "%" PRIu64, done);
    if (count)
        fprintf(stderr, " of %" PRIu64, count);
    fprintf(stderr, " done, %.0f a second\n", (double)done / (now_s - begin_s));
}

static bool run(const struct arguments *arguments, uint64_t seed, struct dt_world_report *report)
{
    static struct dt_scenario scenario;
    bool is_good;

    dt_scenario_draw(arguments->profile, seed, &scenario);
    dt_scenario_set_personality(&scenario, arguments->personality);
    if (arguments->is_replay)
        dt_scenario_print(&scenario);
    is_good = dt_world_run(&scenario, report);
    if (is_good)
        return true;
    printf("FAILED seed %" PRIu64 " of profile %s%s%s: %s\n", seed, dt_profile_name(arguments->profile),
           arguments->personality ? " with personality " : "",
           arguments->personality ? arguments->personality : "", report->failure);
    if (!arguments->is_replay && !arguments->goes_on)
        dt_scenario_print(&scenario);
    fflush(stdout);
    return false;
}

static int run_seeds(const struct arguments *arguments)
{
    struct dt_world_report report, total = {0};
    uint64_t failed = 0, i;

    for (i = 0; i < arguments->count && (!failed || arguments->goes_on); i++) {
        failed += !run(arguments, arguments->first + i, &report);
        add(&total, &report);
        show_progress(i + 1, arguments->count);
    }
    printf("%" PRIu64 " seeds from %" PRIu64 " of profile %s, %" PRIu64 " failed: ", i, arguments->first,
           dt_profile_name(arguments->profile), failed);
    print_totals(&total);
    if (arguments->personality)
        printf("%" PRIu64 " times, in %" PRIu64 " seeds, a device acted as with %s\n",
               total.personality_actions, total.personality_seeds, arguments->personality);
    return failed || (arguments->must_act && !total.personality_actions) ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- the exhaustive search ---- */

struct search {
    const struct arguments *arguments;
    struct dt_world_report total;
    uint64_t cases;
    uint64_t failed;
};

static bool take_case(void *arg, const char *name, bool is_good, const struct dt_world_report *report)
{
    struct search *search = arg;

    search->cases++;
    search->failed += !is_good;
    add(&search->total, report);
    show_progress(search->cases, 0);
    if (!is_good)
        printf("FAILED --case %s: %s\n", name, report->failure);
    return is_good || search->arguments->goes_on;
}

static int run_exhaustive(const struct arguments *arguments)
{
    struct search search = {.arguments = arguments};

    if (!arguments->case_name) {
        dt_exhaustive_run(arguments->stride, take_case, &search);
    } else if (!dt_exhaustive_run_case(arguments->case_name, take_case, &search)) {
        fprintf(stderr, "detour-sim: no case '%s'\n", arguments->case_name);
        return EXIT_FAILURE;
    }
    printf("%" PRIu64 " cases, %" PRIu64 " failed: ", search.cases, search.failed);
    print_totals(&search.total);
    return search.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- the hunt ---- */

#ifdef DT_PLANTED_BUGS

/*
 * Tried before all others, since a search for these bugs is long. A change of what seeds draw makes an entry
 * useless, and the search long again; it finds the same.
 */
static const struct {
    enum dt_planted bug;
    uint64_t seed;           /* of profile failover */
    const char *personality; /* or NULL */
} known_seeds[] = {
    {DT_PLANTED_NO_RECEIVER_FENCE, 102, NULL}, {DT_PLANTED_NO_SENDER_FENCE, 89, NULL},
    {DT_PLANTED_ONE_RING, 52, NULL},           {DT_PLANTED_SAME_PSNS, 682, NULL},
    {DT_PLANTED_KEEP_PARTS, 189, NULL},        {DT_PLANTED_OVERLAP_UNSETTLED, 256, NULL},
    {DT_PLANTED_TCP_ALONE, 70, NULL},          {DT_PLANTED_SILENT_CLOSE, 57, NULL},
    {DT_PLANTED_CLOSE_ONCE, 135, NULL},        {DT_PLANTED_RESET_IS_DEATH, 67, NULL},
    {DT_PLANTED_TRUST_CQ, 56, NULL},           {DT_PLANTED_FENCE_UNASKED, 89, "ionic"},
    {DT_PLANTED_LOST_FLUSH, 125, NULL},        {DT_PLANTED_EAGER_INDEX, 72, NULL},
};

/* What a hunt for one bug has come to; shared with the process that runs the seeds. */
struct quarry {
    uint64_t seed;     /* runs, or has failed */
    bool is_found;     /* it has failed */
    char failure[400]; /* and how */
};

/* Runs seeds until one fails. */
static void run_until_failure(const struct arguments *arguments, struct quarry *quarry)
{
    static struct dt_scenario scenario;
    struct dt_world_report report;

    for (uint64_t i = 0; i < arguments->count && !quarry->is_found; i++) {
        quarry->seed = arguments->first + i;
        dt_scenario_draw(arguments->profile, quarry->seed, &scenario);
        dt_scenario_set_personality(&scenario, arguments->personality);
        quarry->is_found = !dt_world_run(&scenario, &report);
        if (quarry->is_found)
            snprintf(quarry->failure, sizeof quarry->failure, "%s", report.failure);
    }
}

/* In a process of its own, since an invariant of Detour may find the bug first, and aborts. */
static void find_seed(const struct arguments *arguments, struct quarry *quarry)
{
    int status = 0;
    pid_t child;

    memset(quarry, 0, sizeof *quarry);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        run_until_failure(arguments, quarry);
        _exit(EXIT_SUCCESS);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        snprintf(quarry->failure, sizeof quarry->failure, "cannot run the seeds: %s", strerror(errno));
        return;
    }
    if (WIFEXITED(status))
        return;
    quarry->is_found = true;
    snprintf(quarry->failure, sizeof quarry->failure, "%s",
             WTERMSIG(status) == SIGABRT ? "an invariant is broken" : strsignal(WTERMSIG(status)));
}

/* find_seed() in other seeds. False: the search goes on, since they neither fail nor end the process. */
static bool find_among(const struct arguments *arguments, enum dt_profile profile, const char *personality,
                       uint64_t first, uint64_t count, struct quarry *quarry)
{
    struct arguments seeds = *arguments;

    seeds.profile = profile;
    seeds.personality = personality;
    seeds.first = first;
    seeds.count = count;
    find_seed(&seeds, quarry);
    return quarry->is_found || *quarry->failure;
}

/* The planted bug's entry in known_seeds, if it is among the seeds to search. */
static bool find_known(const struct arguments *arguments, struct quarry *quarry, const char **personality)
{
    for (size_t i = 0; i < DT_COUNT_OF(known_seeds); i++) {
        uint64_t seed = known_seeds[i].seed;

        *personality = known_seeds[i].personality;
        if (known_seeds[i].bug == dt_planted && arguments->profile == DT_PROFILE_FAILOVER &&
            seed >= arguments->first && seed - arguments->first < arguments->count)
            return find_among(arguments, DT_PROFILE_FAILOVER, *personality, seed, 1, quarry);
    }
    return false;
}

/*
 * Some bugs show where messages are late rather than where much fails, others on devices that discard
 * completions; both kinds are rare in other seeds. Without a bug the rest is left out: seeds in which nothing
 * is planted are run without this search, too. Returns the kind of seeds in which the search ended.
 */
static const char *find_anywhere(const struct arguments *arguments, struct quarry *quarry)
{
    uint64_t first = arguments->count < FIRST_SEEDS ? arguments->count : FIRST_SEEDS;
    const char *personality;

    if (find_known(arguments, quarry, &personality))
        return personality ? " with personality ionic" : "";
    if (find_among(arguments, arguments->profile, NULL, arguments->first, first, quarry))
        return "";
    if (find_among(arguments, DT_PROFILE_SLOW, NULL, 1, SLOW_SEEDS, quarry) || dt_planted == DT_PLANTED_NONE)
        return " of profile slow";
    if (find_among(arguments, arguments->profile, "ionic", arguments->first, first, quarry))
        return " with personality ionic";
    find_among(arguments, arguments->profile, NULL, arguments->first + first, arguments->count - first,
               quarry);
    return "";
}

/* Without a bug no seed may fail, with one some seed must. */
static int hunt(const struct arguments *arguments)
{
    struct quarry *quarry =
        mmap(NULL, sizeof *quarry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t missed = 0;

    if (quarry == MAP_FAILED) {
        fprintf(stderr, "sim: no memory to share with the seeds' process\n");
        return EXIT_FAILURE;
    }
    for (dt_planted = DT_PLANTED_NONE; dt_planted < DT_PLANTED_COUNT; dt_planted++) {
        const char *kind;

        if ((unsigned)dt_planted % arguments->parts != arguments->part - 1)
            continue;
        kind = find_anywhere(arguments, quarry);
        missed += quarry->is_found == (dt_planted == DT_PLANTED_NONE);
        printf("%-18s %-70s ", bugs[dt_planted].name, bugs[dt_planted].text);
        if (quarry->is_found)
            printf("seed %" PRIu64 "%s: %s\n", quarry->seed, kind, quarry->failure);
        else
            printf("no seed shows it%s%s\n", *quarry->failure ? ": " : "", quarry->failure);
        fflush(stdout);
    }
    munmap(quarry, sizeof *quarry);
    if (missed)
        printf("FAILED: %" PRIu64 " not as it must be\n", missed);
    return missed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#else

static int hunt(const struct arguments *arguments)
{
    (void)arguments;
    return EXIT_FAILURE;
}

#endif

int main(int argc, char **argv)
{
    static const struct argp argp = {
        options, parse, NULL, "Runs simulations of the plugin, each made from its seed.", NULL, NULL, NULL};
    struct arguments arguments = {.first = 1, .count = 1000};

    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    /* Every run allocates the same large blocks: keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    dt_trace_start(arguments.trace);
    if (arguments.hunts)
        return hunt(&arguments);
    return arguments.stride || arguments.case_name ? run_exhaustive(&arguments) : run_seeds(&arguments);
}
