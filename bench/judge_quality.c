/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accuracy of the judge of a job (controller/judge.h) on made-up jobs of 1,024 ranks with a known truth
 * (tests/controller/cluster_trace.h). Trace number n has the row n mod 18, so that the rows take equal parts.
 *
 *   bench-judge-quality [FIRST_SEED [TRACES [EXTENT [STEP [FIRST]]]]]
 *
 * EXTENT: `whole` traces (default), `named`: until their incidents have been named, `local`: whole traces,
 * with the monitor of detect/ on each link. STEP and FIRST: every STEP-th trace from number FIRST on, for
 * several processes at once. Prints one JSON line for each trace, which scripts/judge_quality.py sums up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tests/controller/judge_score.h"

static const char *const named_texts[DT_FINDING_COUNT + 1] = {"link", "NIC", "device", "processor",
                                                              "not named"};

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static void print_incident(const struct score_incident *one)
{
    printf("{\"kind\":\"%s\",\"rank\":%u,\"peer\":%u,\"factor\":%.3f,\"start_s\":%.3f,\"duration_s\":%.3f,"
           "\"named\":\"%s\",\"right\":%s",
           cluster_trace_kind_name(one->truth.kind), one->truth.rank, one->truth.peer,
           one->truth.factor / 1000., seconds(one->truth.start_ns), seconds(one->truth.duration_ns),
           named_texts[one->named_as], one->is_right ? "true" : "false");
    if (one->named_as != SCORE_NOT_NAMED)
        printf(",\"latency_s\":%.3f", seconds(one->latency_ns));
    if (one->local_ns != UINT64_MAX)
        printf(",\"local_s\":%.3f", seconds(one->local_ns));
    printf(",\"later_wrong\":%u}", one->wrong);
}

static void print_alarm(const struct dt_finding *alarm, uint64_t at_ns)
{
    printf("{\"kind\":\"%s\",\"at_s\":%.1f,\"rank\":%" PRId64 ",\"peer\":%" PRId64 ",\"factor\":%.3f}",
           dt_finding_kind_text(alarm->kind), seconds(at_ns),
           alarm->rank == DT_JUDGE_UNKNOWN ? -1 : (int64_t)alarm->rank,
           alarm->peer_rank == DT_JUDGE_UNKNOWN ? -1 : (int64_t)alarm->peer_rank, alarm->factor);
}

static void print_trace(const struct score *score, enum trace_kind kind, enum trace_band band, uint64_t seed,
                        enum score_extent extent)
{
    printf("{\"kind\":\"%s\",\"band\":\"%s\",\"seed\":%" PRIu64
           ",\"simulated_s\":%.1f,\"limit_s\":%.3f,\"incidents\":[",
           cluster_trace_kind_name(kind), cluster_trace_band_name(band), seed, seconds(score->simulated_ns),
           seconds(SCORE_LIMIT_NS));
    for (uint32_t i = 0; i < score->incident_count; i++) {
        printf("%s", i ? "," : "");
        print_incident(&score->incidents[i]);
    }
    printf("],\"false_alarms\":%u,\"alarms\":[", score->false_alarms);
    for (uint32_t i = 0; i < score->false_alarms && i < SCORE_ALARMS; i++) {
        printf("%s", i ? "," : "");
        print_alarm(&score->alarms[i], score->alarm_ns[i]);
    }
    printf("]");
    if (extent == SCORE_LOCAL)
        printf(",\"local_false_alarms\":%u", score->local_false_alarms);
    printf("}\n");
    fflush(stdout);
}

static bool parse_number(const char *text, uint64_t *value)
{
    char *end;

    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

static bool parse_extent(const char *text, enum score_extent *extent)
{
    static const char *const texts[] = {"whole", "named", "local"};

    for (uint32_t i = 0; i < DT_COUNT_OF(texts); i++) {
        if (strcmp(text, texts[i]) == 0) {
            *extent = (enum score_extent)i;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    uint64_t first_seed = 1, traces = 180, step = 1, first = 0;
    enum score_extent extent = SCORE_WHOLE;
    uint32_t rows = 0;
    enum trace_kind kind;
    enum trace_band band;

    if (argc > 6 || (argc > 1 && !parse_number(argv[1], &first_seed)) ||
        (argc > 2 && !parse_number(argv[2], &traces)) || (argc > 3 && !parse_extent(argv[3], &extent)) ||
        (argc > 4 && (!parse_number(argv[4], &step) || step == 0)) ||
        (argc > 5 && !parse_number(argv[5], &first))) {
        fprintf(stderr,
                "usage: bench-judge-quality [FIRST_SEED [TRACES [whole|named|local [STEP [FIRST]]]]]\n");
        return 2;
    }
    while (score_row(rows, &kind, &band))
        rows++;
    for (uint64_t i = first; i < traces; i += step) {
        struct score score;

        score_row((uint32_t)(i % rows), &kind, &band);
        score_trace(&score, kind, band, first_seed + i / rows, extent);
        print_trace(&score, kind, band, first_seed + i / rows, extent);
    }
    return 0;
}
