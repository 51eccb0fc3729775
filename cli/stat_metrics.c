/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stat_metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/util.h"
#include "cli/metrics_text.h"

/* ---- Labels. ---- */

static void write_rank(FILE *out, const char *name, int32_t rank)
{
    if (rank == DETOUR_STAT_RANK_SEVERAL)
        dt_metrics_label(out, name, "many");
    else
        dt_metrics_label_number(out, name, rank);
}

static void write_process_labels(FILE *out, const struct detour_stat_process *process,
                                 const struct dt_metrics_labels *labels)
{
    putc('{', out);
    dt_metrics_label(out, "host", labels->host ? labels->host : process->host);
    putc(',', out);
    write_rank(out, "rank", process->job_rank >= 0 ? process->job_rank : process->rank);
    if (labels->job) {
        putc(',', out);
        dt_metrics_label(out, "job", labels->job);
    }
    fprintf(out, ",pid=\"%" PRId32 "\",", process->pid);
    dt_metrics_label(out, "process", process->name);
}

/* A row of the tables below for one connection. */
struct sample {
    FILE *out;
    const struct dt_metrics_labels *labels;
    const struct detour_stat_process *process;
    const struct detour_stat_connection *c;
    bool has_nics;
};

/* The name and labels before a value; `more` follows the labels. */
static void write_sample(const struct sample *sample, const char *name, const char *suffix, const char *more)
{
    const struct detour_stat_connection *c = sample->c;
    FILE *out = sample->out;

    fprintf(out, "%s%s", name, suffix);
    write_process_labels(out, sample->process, sample->labels);
    fprintf(out, ",connection=\"%016" PRIx64 "\",direction=\"%s\",", c->id, c->is_send ? "send" : "recv");
    write_rank(out, "from", c->from_rank);
    putc(',', out);
    write_rank(out, "to", c->to_rank);
    putc(',', out);
    dt_metrics_label(out, "peer", c->peer);
    if (sample->has_nics) {
        putc(',', out);
        dt_metrics_label(out, "nic", c->nic);
        putc(',', out);
        dt_metrics_label(out, "peer_nic", c->peer_nic);
    }
    fprintf(out, "%s} ", more);
}

/* ---- Counters. ---- */

typedef void write_func(const struct sample *sample, const char *name, size_t offset);

/* A metric of all connections. */
static void write_metric(const struct sample *all, const struct detour_stat_snapshot *snapshot,
                         write_func *write_value, const char *name, size_t offset)
{
    struct sample sample = *all;

    for (size_t i = 0; i < detour_stat_process_count(snapshot); i++) {
        sample.process = detour_stat_get_process(snapshot, i);
        for (size_t j = 0; j < sample.process->connection_count; j++) {
            sample.c = detour_stat_get_connection(sample.process, j);
            write_value(&sample, name, offset);
        }
    }
}

static uint64_t counter_at(const struct detour_stat_connection *c, size_t offset)
{
    uint64_t value;

    memcpy(&value, (const char *)c + offset, sizeof value);
    return value;
}

static void write_count(const struct sample *sample, const char *name, size_t offset)
{
    write_sample(sample, name, "", "");
    fprintf(sample->out, "%" PRIu64 "\n", counter_at(sample->c, offset));
}

static void write_seconds(const struct sample *sample, const char *name, size_t offset)
{
    write_sample(sample, name, "", "");
    fprintf(sample->out, "%.9f\n", (double)counter_at(sample->c, offset) / 1e9);
}

/*
 * A switchover changes the RNICs, hence begins new series of what has them as labels, and increase() does not
 * see a change at that moment. So counters of switchovers and errors do not have them.
 */
static bool is_traffic(const char *name)
{
    static const char *const names[] = {"messages", "bytes", "staged_messages", "staged_bytes"};

    for (size_t i = 0; i < DT_COUNT_OF(names); i++) {
        if (!strcmp(names[i], name))
            return true;
    }
    return false;
}

static void write_counters(const struct sample *all, const struct detour_stat_snapshot *snapshot)
{
    static const struct {
        const char *name, *unit, *help;
        size_t offset;
    } counters[] = {
#define ROW(field, unit, help) {#field, unit, help, offsetof(struct detour_stat_connection, field)},
        DETOUR_STAT_COUNTERS(ROW)
#undef ROW
    };

    for (size_t i = 0; i < DT_COUNT_OF(counters); i++) {
        bool is_time = !strcmp(counters[i].unit, "ns");
        struct sample sample = *all;
        char name[64];

        if (counters[i].offset == offsetof(struct detour_stat_connection, service_ns))
            continue; /* the histogram's sum */
        snprintf(name, sizeof name, "detour_%.*s%s_total",
                 (int)(strlen(counters[i].name) - (is_time ? 3 : 0)), counters[i].name,
                 is_time ? "_seconds" : "");
        sample.has_nics = is_traffic(counters[i].name);
        dt_metrics_head(all->out, name, "counter", counters[i].help);
        write_metric(&sample, snapshot, is_time ? write_seconds : write_count, name, counters[i].offset);
    }
}

/* ---- Of senders: service times and the verdict. ---- */

static void write_histogram(const struct sample *sample, const char *name, size_t offset)
{
    const struct detour_stat_connection *c = sample->c;
    uint64_t seen = 0;
    char more[48];

    (void)offset;
    if (!c->is_send)
        return;
    for (uint32_t i = 0; i < DETOUR_STAT_BUCKETS; i++) {
        seen += c->service_count[i];
        if (i + 1 < DETOUR_STAT_BUCKETS)
            snprintf(more, sizeof more, ",le=\"%.9g\"", (double)(1ull << (10 + i)) / 1e9);
        else
            snprintf(more, sizeof more, ",le=\"+Inf\"");
        write_sample(sample, name, "_bucket", more);
        fprintf(sample->out, "%" PRIu64 "\n", seen);
    }
    write_sample(sample, name, "_sum", "");
    fprintf(sample->out, "%.9f\n", (double)c->service_ns / 1e9);
    write_sample(sample, name, "_count", "");
    fprintf(sample->out, "%" PRIu64 "\n", seen);
}

static double is_slow(const struct detour_stat_connection *c)
{
    return c->verdict == DETOUR_STAT_SLOW;
}

static double slow_factor(const struct detour_stat_connection *c)
{
    return c->factor;
}

static double slow_delay_seconds(const struct detour_stat_connection *c)
{
    return c->verdict == DETOUR_STAT_SLOW ? (double)c->delay_ns / 1e9 : 0;
}

static double waits_for_peer(const struct detour_stat_connection *c)
{
    return c->verdict == DETOUR_STAT_WAITING;
}

static double path_index(const struct detour_stat_connection *c)
{
    return c->path;
}

struct gauge {
    const char *name, *help;
    double (*value)(const struct detour_stat_connection *c);
    bool is_of_senders;
};

static const struct gauge gauges[] = {
    {"detour_is_slow", "1: the sender's messages take longer than on a healthy link", is_slow, true},
    {"detour_slow_factor", "present network time divided by the healthy network time", slow_factor, true},
    {"detour_slow_delay_seconds", "additional time of a transfer over a healthy one; 0 unless slow",
     slow_delay_seconds, true},
    {"detour_is_waiting", "1: the network is healthy, but the peer posts its receives late", waits_for_peer,
     true},
    {"detour_path", "path of new messages: 0 the default, others backups; -1: none is up", path_index, false},
};

static void write_gauge(const struct sample *sample, const char *name, size_t index)
{
    if (gauges[index].is_of_senders && !sample->c->is_send)
        return;
    write_sample(sample, name, "", "");
    fprintf(sample->out, "%.9g\n", gauges[index].value(sample->c));
}

/* ---- Of processes. ---- */

static void write_processes(FILE *out, const struct detour_stat_snapshot *snapshot,
                            const struct dt_metrics_labels *labels)
{
    size_t count = detour_stat_process_count(snapshot);

    dt_metrics_head(out, "detour_processes", "gauge", "processes of this user on this host that use Detour");
    fprintf(out, "detour_processes %zu\n", count);
    dt_metrics_head(out, "detour_process_start_time_seconds", "gauge",
                    "when the process started to use Detour");
    for (size_t i = 0; i < count; i++) {
        const struct detour_stat_process *process = detour_stat_get_process(snapshot, i);

        fputs("detour_process_start_time_seconds", out);
        write_process_labels(out, process, labels);
        putc(',', out);
        dt_metrics_label(out, "version", process->version);
        fprintf(out, "} %.3f\n", (double)process->start_ns / 1e9);
    }
}

void dt_metrics_write(FILE *out, const struct detour_stat_snapshot *snapshot,
                      const struct dt_metrics_labels *labels)
{
    const struct sample all = {.out = out, .labels = labels, .has_nics = true};

    write_processes(out, snapshot, labels);
    write_counters(&all, snapshot);
    dt_metrics_head(out, "detour_service_seconds", "histogram",
                    "time of a message from hand-over to completion");
    write_metric(&all, snapshot, write_histogram, "detour_service_seconds", 0);
    for (size_t i = 0; i < DT_COUNT_OF(gauges); i++) {
        dt_metrics_head(out, gauges[i].name, "gauge", gauges[i].help);
        write_metric(&all, snapshot, write_gauge, gauges[i].name, i);
    }
}

bool dt_metrics_write_host(void *arg, FILE *out, char *reason, size_t reason_bytes)
{
    const struct dt_metrics_host *host = arg;
    struct detour_stat_snapshot *snapshot;
    char error[DETOUR_STAT_ERROR_BYTES];

    if (detour_stat_read(host->runtime_dir, 0, &snapshot, error) != DETOUR_STAT_OK) {
        snprintf(reason, reason_bytes, "%s", error);
        return false;
    }
    dt_metrics_write(out, snapshot, &host->labels);
    detour_stat_free(snapshot);
    return true;
}
