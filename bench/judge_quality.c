/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accuracy of the judge of a job (controller/judge.h) on made-up jobs of 1,024 ranks with a known truth
 * (tests/controller/cluster_trace.h). Trace number n has the row n mod 18, so that the rows take equal parts.
 *
 *   bench-judge-quality [FIRST_SEED [TRACES [LOCAL_EVERY]]]
 *
 * Every LOCAL_EVERY-th trace of a row also runs the monitor of detect/ on each of its links, for comparison
 * (0: none).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "tests/controller/judge_score.h"

#define ROWS_MAX     32
#define LATENCY_ROOM 8192
#define WEEK_S       604800.

struct row {
    uint32_t traces, incidents, right, in_time, wrong;
    uint32_t named_as[DT_FINDING_COUNT + 1];
    uint32_t false_alarms;
    uint32_t local_incidents, local_named, local_false_alarms;
    uint64_t simulated_ns, local_simulated_ns;
    double latency_s[LATENCY_ROOM];
    uint32_t latency_count;
    double local_latency_s[LATENCY_ROOM];
};

static struct row rows[ROWS_MAX];

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(double *values, uint32_t count, uint32_t permille)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, compare);
    return values[(uint64_t)(count - 1) * permille / 1000];
}

/* Only the first incident is of the row; a second one counts among the findings about an incident. */
static void add(struct row *row, const struct score *score, bool has_local)
{
    const struct score_incident *one = &score->incidents[0];

    row->traces++;
    row->false_alarms += score->false_alarms;
    row->simulated_ns += score->simulated_ns;
    if (has_local) {
        row->local_false_alarms += score->local_false_alarms;
        row->local_simulated_ns += score->simulated_ns;
    }
    if (score->incident_count == 0 || one->truth.kind == TRACE_KIND_FABRIC)
        return;
    row->incidents++;
    row->named_as[one->named_as]++;
    row->right += one->is_right;
    row->in_time += one->is_right && one->latency_ns <= SCORE_LIMIT_NS;
    row->wrong += one->wrong;
    if (one->is_right && row->latency_count < LATENCY_ROOM)
        row->latency_s[row->latency_count++] = (double)one->latency_ns / 1e9;
    row->local_incidents += has_local;
    if (has_local && one->local_ns != UINT64_MAX && row->local_named < LATENCY_ROOM)
        row->local_latency_s[row->local_named++] = (double)one->local_ns / 1e9;
}

static void print_row(struct row *row, enum trace_kind kind, enum trace_band band)
{
    printf("| %s | %s | %u |", cluster_trace_kind_name(kind), cluster_trace_band_name(band), row->incidents);
    for (uint32_t i = 0; i <= DT_FINDING_COUNT; i++)
        printf(" %u |", row->named_as[i]);
    printf(" %u | %u | %.1f / %.1f | %u | %u", row->right, row->in_time,
           quantile(row->latency_s, row->latency_count, 500),
           quantile(row->latency_s, row->latency_count, 990), row->wrong, row->false_alarms);
    if (row->local_incidents)
        printf(" | %u of %u, %.1f s", row->local_named, row->local_incidents,
               quantile(row->local_latency_s, row->local_named, 500));
    printf(" |\n");
}

static void print_sums(void)
{
    uint32_t incidents[TRACE_BAND_COUNT] = {0}, right[TRACE_BAND_COUNT] = {0},
             in_time[TRACE_BAND_COUNT] = {0};
    uint32_t false_alarms = 0, local_false_alarms = 0;
    double weeks = 0, local_weeks = 0;
    enum trace_kind kind;
    enum trace_band band;

    for (uint32_t i = 0; score_row(i, &kind, &band); i++) {
        incidents[band] += rows[i].incidents;
        right[band] += rows[i].right;
        in_time[band] += rows[i].in_time;
        false_alarms += rows[i].false_alarms;
        weeks += (double)rows[i].simulated_ns / 1e9 / WEEK_S;
        local_false_alarms += rows[i].local_false_alarms;
        local_weeks += (double)rows[i].local_simulated_ns / 1e9 / WEEK_S;
    }
    for (uint32_t b = 0; b < TRACE_BAND_COUNT; b++)
        printf("%s: %u of %u right (%.2f %%), %u of them within two iterations (%.2f %%)\n",
               cluster_trace_band_name((enum trace_band)b), right[b], incidents[b],
               incidents[b] ? 100. * right[b] / incidents[b] : 0, in_time[b],
               incidents[b] ? 100. * in_time[b] / incidents[b] : 0);
    printf("false alarms: %u in %.3f weeks of the job\n", false_alarms, weeks);
    if (local_weeks > 0)
        printf("false alarms of the %d monitors of single links: %u in %.3f weeks\n", TRACE_LINKS,
               local_false_alarms, local_weeks);
}

static bool parse(const char *text, uint64_t *value)
{
    char *end;

    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

int main(int argc, char **argv)
{
    uint64_t values[] = {1, 180, 0};
    uint32_t row_count = 0;
    enum trace_kind kind;
    enum trace_band band;

    for (int i = 1; i < argc; i++) {
        if (i > 3 || !parse(argv[i], &values[i - 1])) {
            fprintf(stderr, "usage: bench-judge-quality [FIRST_SEED [TRACES [LOCAL_EVERY]]]\n");
            return 2;
        }
    }
    while (score_row(row_count, &kind, &band))
        row_count++;
    for (uint64_t i = 0; i < values[1]; i++) {
        uint32_t at = (uint32_t)(i % row_count);
        bool has_local = values[2] > 0 && i / row_count % values[2] == 0;
        struct score score;

        score_row(at, &kind, &band);
        score_trace(&score, kind, band, values[0] + i / row_count, has_local);
        add(&rows[at], &score, has_local);
    }
    printf("%" PRIu64 " traces, seeds from %" PRIu64 "\n", values[1], values[0]);
    printf("| kind | band | incidents | named link | NIC | device | processor | not named | right | in two "
           "iterations | "
           "latency s, p50 / p99 | wrong later | false alarms | monitors alone |\n");
    for (uint32_t i = 0; i < row_count; i++) {
        score_row(i, &kind, &band);
        print_row(&rows[i], kind, band);
    }
    print_sums();
    return 0;
}
