/* SPDX-License-Identifier: Apache-2.0 */
/* `detour stat --json`. docs/stat.md has the format; `links` is that of docs/sched-cli.md, "Delays". */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/stat.h"

/* ---- Links. ---- */
static json_t *link_json(const struct detour_stat_link *link)
{
    return json_pack("{s:i, s:i, s:f, s:f, s:s, s:s}", "from", (int)link->from_rank, "to", (int)link->to_rank,
                     "delay_ms", (double)link->delay_ns / 1e6, "factor", link->factor, "verdict",
                     link->is_slow ? "slow" : "healthy", "cause",
                     detour_stat_cause_text((enum detour_stat_cause)link->cause));
}

static json_t *links_json(const struct detour_stat_snapshot *snapshot)
{
    size_t count;
    struct detour_stat_link *links = detour_stat_links(snapshot, &count);
    json_t *array = links ? json_array() : NULL;

    for (size_t i = 0; array && i < count; i++) {
        if (json_array_append_new(array, link_json(&links[i]))) {
            json_decref(array);
            array = NULL;
        }
    }
    free(links);
    return array;
}

/* ---- Processes. ---- */
static json_t *rank_json(int32_t rank)
{
    return rank >= 0 ? json_integer(rank) : json_null();
}

/* Upper bounds of the buckets in microseconds, and their counts; empty buckets are omitted. */
static json_t *histogram_json(const struct detour_stat_connection *c)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < DETOUR_STAT_BUCKETS; i++) {
        if (c->service_count[i])
            json_array_append_new(array, json_pack("{s:f, s:I}", "below_us", (double)(1ull << (10 + i)) / 1e3,
                                                   "messages", (json_int_t)c->service_count[i]));
    }
    return array;
}

static json_t *health_json(const struct detour_stat_connection *c)
{
    return json_pack("{s:s, s:s, s:f, s:f, s:o, s:I, s:I, s:I}", "verdict",
                     detour_stat_verdict_text((enum detour_stat_verdict)c->verdict), "cause",
                     detour_stat_cause_text((enum detour_stat_cause)c->cause), "factor", c->factor,
                     "delay_ms", (double)c->delay_ns / 1e6, "since_s",
                     c->since_ns ? json_real((double)c->since_ns / 1e9) : json_null(), "transfer_bytes",
                     (json_int_t)c->transfer_bytes, "samples", (json_int_t)c->samples, "merged",
                     (json_int_t)c->merged);
}

static json_t *connection_json(const struct detour_stat_connection *c)
{
    char id[24];
    json_t *object;

    snprintf(id, sizeof id, "%016" PRIx64, c->id);
    object =
        json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:s, s:i}", "connection", id, "direction",
                  c->is_send ? "send" : "recv", "from", rank_json(c->from_rank), "to", rank_json(c->to_rank),
                  "peer", c->peer, "nic", c->nic, "peer_nic", c->peer_nic, "path", (int)c->path);
#define COUNTER(field, unit, help) json_object_set_new(object, #field, json_integer((json_int_t)c->field));
    DETOUR_STAT_COUNTERS(COUNTER)
#undef COUNTER
    if (c->is_send) {
        json_object_set_new(object, "pool_full", json_integer((json_int_t)c->pool_full));
        json_object_set_new(object, "held", json_integer((json_int_t)c->held));
        json_object_set_new(object, "held_ns", json_integer((json_int_t)c->held_ns));
        json_object_set_new(object, "service", histogram_json(c));
        json_object_set_new(object, "health", health_json(c));
    }
    return object;
}

static json_t *milliseconds_json(uint64_t ns)
{
    return ns ? json_real((double)ns / 1e6) : json_null();
}

static json_t *pace_json(const struct detour_stat_process *process)
{
    return json_pack(
        "{s:I, s:o, s:o, s:s, s:f, s:o}", "iterations", (json_int_t)process->iterations, "iteration_ms",
        milliseconds_json(process->iteration_ns), "compute_ms", milliseconds_json(process->compute_ns),
        "verdict", detour_stat_verdict_text((enum detour_stat_verdict)process->compute_verdict), "factor",
        process->compute_factor, "since_s",
        process->compute_since_ns ? json_real((double)process->compute_since_ns / 1e9) : json_null());
}

static json_t *process_json(const struct detour_stat_process *process)
{
    json_t *connections = json_array();

    for (size_t i = 0; i < process->connection_count; i++)
        json_array_append_new(connections, connection_json(detour_stat_get_connection(process, i)));
    return json_pack("{s:i, s:s, s:s, s:f, s:o, s:o, s:o}", "pid", (int)process->pid, "process",
                     process->name, "detour", process->version, "started_s", (double)process->start_ns / 1e9,
                     "rank", rank_json(process->rank), "pace", pace_json(process), "connections",
                     connections);
}

static bool print_document(json_t *document)
{
    bool is_made = document != NULL;

    if (is_made) {
        json_dumpf(document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
        putchar('\n');
        json_decref(document);
    }
    return is_made;
}

bool dt_stat_print_json(const struct detour_stat_snapshot *snapshot)
{
    json_t *processes = json_array();

    for (size_t i = 0; i < detour_stat_process_count(snapshot); i++)
        json_array_append_new(processes, process_json(detour_stat_get_process(snapshot, i)));
    return print_document(json_pack("{s:i, s:f, s:o, s:o}", "version", 1, "time_s",
                                    (double)detour_stat_time_ns(snapshot) / 1e9, "links",
                                    links_json(snapshot), "processes", processes));
}
