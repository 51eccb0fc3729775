/* SPDX-License-Identifier: Apache-2.0 */
/* `detour stat`: the table. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/util.h"
#include "cli/stat.h"

/* ---- The table. ---- */
static const char *rank_text(int32_t rank, char text[16])
{
    if (rank >= 0)
        snprintf(text, 16, "%" PRId32, rank);
    else
        snprintf(text, 16, "%s", rank == DETOUR_STAT_RANK_SEVERAL ? "many" : "-");
    return text;
}

/* The factor that leaves three digits. */
static int decimals(double value)
{
    return value < 10 ? 2 : value < 100 ? 1 : 0;
}

/* As "1.5G": three digits, powers of 1024. */
static const char *bytes_text(double bytes, char text[16])
{
    static const char units[] = "BKMGTPE";
    size_t unit = 0;

    for (; bytes >= 1000 && unit + 2 < sizeof units; unit++)
        bytes /= 1024;
    snprintf(text, 16, "%.*f%c", unit ? decimals(bytes) : 0, bytes, units[unit]);
    return text;
}

static const char *time_text(double ns, char text[16])
{
    static const struct {
        double ns;
        const char *unit;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};

    snprintf(text, 16, "-");
    for (size_t i = 0; i < DT_COUNT_OF(units); i++) {
        if (ns >= units[i].ns || i + 1 == DT_COUNT_OF(units)) {
            double value = ns / units[i].ns;

            if (ns > 0)
                snprintf(text, 16, "%.*f%s", decimals(value), value, units[i].unit);
            break;
        }
    }
    return text;
}

static void print_verdict(const struct detour_stat_snapshot *snapshot, const struct detour_stat_connection *c)
{
    char delay[16], since[16], held[16];

    if (!c->is_send) {
        puts("-");
        return;
    }
    fputs(detour_stat_verdict_text((enum detour_stat_verdict)c->verdict), stdout);
    if (c->verdict == DETOUR_STAT_SLOW)
        printf(" %.2fx (+%s) for %s: %s", c->factor, time_text((double)c->delay_ns, delay),
               time_text((double)(detour_stat_time_ns(snapshot) - c->since_ns), since),
               detour_stat_cause_text((enum detour_stat_cause)c->cause));
    else if (c->verdict == DETOUR_STAT_WAITING)
        printf(" for %s: %s", time_text((double)(detour_stat_time_ns(snapshot) - c->since_ns), since),
               detour_stat_cause_text((enum detour_stat_cause)c->cause));
    if (c->held > 0)
        printf("; held %" PRIu64 " messages (%s)", c->held, time_text((double)c->held_ns, held));
    putchar('\n');
}

/* The same connection in an earlier snapshot, or NULL. */
static const struct detour_stat_connection *find_before(const struct detour_stat_snapshot *before,
                                                        int32_t pid, const struct detour_stat_connection *c)
{
    for (size_t i = 0; before && i < detour_stat_process_count(before); i++) {
        const struct detour_stat_process *process = detour_stat_get_process(before, i);

        for (size_t j = 0; process->pid == pid && j < process->connection_count; j++) {
            const struct detour_stat_connection *old = detour_stat_get_connection(process, j);

            if (old->id == c->id && old->is_send == c->is_send)
                return old;
        }
    }
    return NULL;
}

/* Bytes per second since `before`, or "-". */
static const char *rate_text(const struct detour_stat_snapshot *snapshot,
                             const struct detour_stat_snapshot *before, int32_t pid,
                             const struct detour_stat_connection *c, char text[16])
{
    const struct detour_stat_connection *old = find_before(before, pid, c);
    double seconds = before ? (double)(detour_stat_time_ns(snapshot) - detour_stat_time_ns(before)) / 1e9 : 0;

    snprintf(text, 16, "-");
    return old && seconds > 0 && c->bytes >= old->bytes
               ? bytes_text((double)(c->bytes - old->bytes) / seconds, text)
               : text;
}

static void print_connection(const struct detour_stat_snapshot *snapshot,
                             const struct detour_stat_snapshot *before,
                             const struct detour_stat_process *process,
                             const struct detour_stat_connection *c)
{
    char from[16], to[16], bytes[16], rate[16], mean[16], p99[16];
    char nics[72];
    bool is_timed = c->is_send && c->messages > 0;

    snprintf(nics, sizeof nics, "%s-%s", *c->nic ? c->nic : "none", *c->peer_nic ? c->peer_nic : "none");
    printf("%-8" PRId32 " %-12.12s %-4s %4s %4s %-20s %-15s %9" PRIu64 " %7s ", process->pid, process->name,
           c->is_send ? "send" : "recv", rank_text(c->from_rank, from), rank_text(c->to_rank, to), c->peer,
           nics, c->messages, bytes_text((double)c->bytes, bytes));
    if (before)
        printf("%7s ", rate_text(snapshot, before, process->pid, c, rate));
    printf("%7s %7s %7" PRIu64 " %8" PRIu64 " %6" PRIu64 "  ",
           time_text(is_timed ? (double)c->service_ns / (double)c->messages : 0, mean),
           time_text(is_timed ? (double)detour_stat_service_quantile_ns(c, 0.99) : 0, p99), c->retries,
           c->switches, c->staged_messages);
    print_verdict(snapshot, c);
}

/* The iterations of each process that has some. */
static void print_pace(const struct detour_stat_snapshot *snapshot)
{
    bool has_head = false;

    for (size_t i = 0; i < detour_stat_process_count(snapshot); i++) {
        const struct detour_stat_process *process = detour_stat_get_process(snapshot, i);
        char rank[16], whole[16], compute[16], since[16];

        if (process->iteration_ns == 0)
            continue;
        if (!has_head)
            printf("\n%-8s %-12s %4s %10s %9s %8s  %s\n", "PID", "PROCESS", "RANK", "ITERATIONS", "ITERATION",
                   "COMPUTE", "COMPUTATION");
        has_head = true;
        printf("%-8" PRId32 " %-12.12s %4s %10" PRIu64 " %9s %8s  %s", process->pid, process->name,
               rank_text(process->job_rank >= 0 ? process->job_rank : process->rank, rank),
               process->iterations, time_text((double)process->iteration_ns, whole),
               time_text((double)process->compute_ns, compute),
               detour_stat_verdict_text((enum detour_stat_verdict)process->compute_verdict));
        if (process->compute_verdict == DETOUR_STAT_SLOW)
            printf(" %.2fx for %s: %s", process->compute_factor,
                   time_text((double)(detour_stat_time_ns(snapshot) - process->compute_since_ns), since),
                   detour_stat_cause_text(DETOUR_STAT_CAUSE_OWN_COMPUTATION));
        putchar('\n');
    }
}

void dt_stat_print_table(const struct detour_stat_snapshot *snapshot,
                         const struct detour_stat_snapshot *before)
{
    printf("%-8s %-12s %-4s %4s %4s %-20s %-15s %9s %7s ", "PID", "PROCESS", "DIR", "FROM", "TO", "PEER",
           "NICS", "MESSAGES", "BYTES");
    if (before)
        printf("%7s ", "BYTES/s");
    printf("%7s %7s %7s %8s %6s  %s\n", "MEAN", "P99", "RETRIES", "SWITCHES", "STAGED", "VERDICT");
    for (size_t i = 0; i < detour_stat_process_count(snapshot); i++) {
        const struct detour_stat_process *process = detour_stat_get_process(snapshot, i);

        for (size_t j = 0; j < process->connection_count; j++)
            print_connection(snapshot, before, process, detour_stat_get_connection(process, j));
        if (process->connection_count == 0)
            printf("%-8" PRId32 " %-12.12s no connection\n", process->pid, process->name);
    }
    print_pace(snapshot);
}
