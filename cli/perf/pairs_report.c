/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/pairs_report.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/perf/gemm.h"
#include "cli/validation.h"
#include "detour/version.h"

/* ---- Text. ---- */

/* The times of a large job that have a row of their own: those above the threshold. */
struct rows {
    int64_t median_ns;
    int64_t limit_ns; /* -1: every time has a row */
    int32_t left_out;
};

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Without memory for the median every time has a row. */
static struct rows choose_rows(const struct dt_perf_options *options, const int64_t *ns, int32_t count)
{
    struct rows rows = {.limit_ns = -1};
    size_t bytes = (size_t)count * sizeof *ns;
    int64_t *sorted = options->job.ranks > DT_PERF_PAIRS_ROWS_RANKS && count > 0 ? malloc(bytes) : NULL;

    if (!sorted)
        return rows;
    memcpy(sorted, ns, bytes);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_ns);
    rows.median_ns = sorted[count / 2];
    rows.limit_ns = (int64_t)((double)rows.median_ns * options->slow_permille / 1000);
    free(sorted);
    return rows;
}

static bool has_row(struct rows *rows, int64_t ns)
{
    bool has = ns > rows->limit_ns;

    rows->left_out += !has;
    return has;
}

static void print_left_out(FILE *out, const struct dt_perf_options *options, const struct rows *rows,
                           const char *title)
{
    if (rows->left_out > 0)
        fprintf(out, "%s: %d times up to %.2f medians of %.3f ms are not listed; -J FILE has all\n", title,
                (int)rows->left_out, options->slow_permille / 1000.0, (double)rows->median_ns / 1e6);
}

static void print_pairs(FILE *out, const struct dt_perf_options *options,
                        const struct detour_validation *plan, const int64_t *ns, const char *title)
{
    struct rows rows = choose_rows(options, ns, plan->pair_count);

    for (int32_t pass = 0; pass < plan->pass_count; pass++) {
        for (int32_t i = plan->first_pair[pass]; i < plan->first_pair[pass + 1]; i++) {
            if (has_row(&rows, ns[i]))
                fprintf(out, "%-8s %4d %5d %5d %12.3f\n", title, (int)pass, (int)plan->pairs[i].from,
                        (int)plan->pairs[i].to, (double)ns[i] / 1e6);
        }
    }
    print_left_out(out, options, &rows, title);
}

static void print_compute(FILE *out, const struct dt_perf_options *options,
                          const struct dt_perf_pairs_times *times)
{
    struct rows rows = choose_rows(options, times->compute_ns, (int32_t)options->job.ranks);

    for (unsigned rank = 0; rank < options->job.ranks; rank++) {
        if (!has_row(&rows, times->compute_ns[rank]))
            continue;
        fprintf(out, "%-8s %4s %5u %5s %12.3f", "compute", "-", rank, "-",
                (double)times->compute_ns[rank] / 1e6);
        if (times->is_gemm)
            fprintf(out, "  %.2f TFLOP/s", dt_gemm_tflops(times->compute_ns[rank]));
        fputc('\n', out);
    }
    print_left_out(out, options, &rows, "compute");
    if (times->is_gemm)
        fprintf(out, "compute: products of %d x %d floats on the GPU, by %s\n", DT_GEMM_SIDE, DT_GEMM_SIDE,
                times->compute_text);
    else
        fprintf(out, "compute: a loop on the processor: %s\n", times->compute_text);
}

static void print_slow(FILE *out, const struct detour_slow *slow)
{
    double factor = slow->factor_permille / 1000.0;

    if (slow->kind == DETOUR_SLOW_LINK)
        fprintf(out, "slow: the link between the ranks %d and %d, %.2f times the others' time\n",
                (int)slow->rank, (int)slow->peer, factor);
    else
        fprintf(out, "slow: the %s of rank %d, %.2f times the others' time\n",
                slow->kind == DETOUR_SLOW_NETWORK ? "network" : "computing", (int)slow->rank, factor);
}

void dt_perf_pairs_print(FILE *out, const struct dt_perf_options *options,
                         const struct dt_perf_pairs_times *times, const struct dt_perf_pairs_result *result)
{
    fprintf(out, "%-8s %4s %5s %5s %12s\n", "", "PASS", "FROM", "TO", "TIME(ms)");
    print_pairs(out, options, result->plan, times->pair_ns, "pair");
    if (times->confirm_count > 0)
        print_pairs(out, options, result->confirm, times->confirm_ns, "confirm");
    print_compute(out, options, times);
    for (int32_t i = 0; i < result->diagnosis.slow_count; i++)
        print_slow(out, &result->diagnosis.slow[i]);
    if (result->diagnosis.slow_count == 0)
        fputs("slow: nothing\n", out);
    if (result->diagnosis.ambiguous)
        fputs("a rank has only slow pairs, and no healthy rank is there to tell its network from its links\n",
              out);
    fprintf(out, "took: set-up %.3f s, exchange %.3f s\n", (double)times->setup_ns / 1e9,
            (double)times->exchange_ns / 1e9);
}

/* ---- JSON. ---- */

static json_t *pairs_json(const struct detour_validation *plan, const int64_t *ns)
{
    json_t *list = json_array();

    for (int32_t pass = 0; plan && pass < plan->pass_count; pass++) {
        for (int32_t i = plan->first_pair[pass]; i < plan->first_pair[pass + 1]; i++)
            json_array_append_new(list, json_pack("{s:i, s:i, s:i, s:f}", "pass", (int)pass, "from",
                                                  (int)plan->pairs[i].from, "to", (int)plan->pairs[i].to,
                                                  "time_ms", (double)ns[i] / 1e6));
    }
    return list;
}

static json_t *slow_json(const struct detour_diagnosis *diagnosis)
{
    json_t *list = json_array();

    for (int32_t i = 0; i < diagnosis->slow_count; i++) {
        const struct detour_slow *slow = &diagnosis->slow[i];

        json_array_append_new(
            list, json_pack("{s:s, s:i, s:o, s:f}", "kind", dt_validation_kind_name(slow->kind), "rank",
                            (int)slow->rank, "peer",
                            slow->kind == DETOUR_SLOW_LINK ? json_integer(slow->peer) : json_null(), "factor",
                            slow->factor_permille / 1000.0));
    }
    return list;
}

bool dt_perf_pairs_print_json(FILE *out, const struct dt_perf_options *options,
                              const struct dt_perf_pairs_times *times,
                              const struct dt_perf_pairs_result *result)
{
    json_t *compute = json_array(), *tflops = times->is_gemm ? json_array() : json_null();
    json_t *document;
    bool is_written;

    for (unsigned rank = 0; rank < options->job.ranks; rank++)
        json_array_append_new(compute, json_real((double)times->compute_ns[rank] / 1e6));
    for (unsigned rank = 0; times->is_gemm && rank < options->job.ranks; rank++)
        json_array_append_new(tflops, json_real(dt_gemm_tflops(times->compute_ns[rank])));
    document =
        json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:f, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:b, s:f, s:f}",
                  "program", "detour perf", "version", DETOUR_VERSION_STRING, "plan", options->pairs, "ranks",
                  (int)options->job.ranks, "bytes", (json_int_t)options->bytes_min, "iterations",
                  (json_int_t)options->iterations, "threshold", options->slow_permille / 1000.0, "pairs",
                  pairs_json(result->plan, times->pair_ns), "confirm",
                  pairs_json(times->confirm_count > 0 ? result->confirm : NULL, times->confirm_ns), "compute",
                  times->is_gemm ? "gemm" : "loop", "compute_with", times->compute_text, "compute_tflops",
                  tflops, "compute_ms", compute, "slow", slow_json(&result->diagnosis), "ambiguous",
                  (int)result->diagnosis.ambiguous, "setup_s", (double)times->setup_ns / 1e9, "exchange_s",
                  (double)times->exchange_ns / 1e9);
    is_written = document && json_dumpf(document, out, JSON_INDENT(1)) == 0 && fputc('\n', out) != EOF;
    json_decref(document);
    return is_written;
}
