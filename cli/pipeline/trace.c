/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/util.h"
#include "cli/file.h"
#include "delay/trace.h"

#define TRACE_BYTES_MAX (16ul * 1024 * 1024)
#define LINKS_MAX       128
#define LINK_BYTES      16

/* Read like a link that no line names, for the crashes of every link. */
static const char every_link[] = "every";

struct reader {
    const char *path;
    const char *text;
    size_t bytes;
    int32_t devices;
    uint32_t iterations;
    char links[LINKS_MAX + 1][LINK_BYTES]; /* that the file names, and every_link */
    size_t link_count;
    struct dt_pipeline_slow *slow;
    struct detour_error *error;
};

static bool fail(struct reader *reader, const char *text, const char *at)
{
    reader->error->status = DETOUR_INVALID;
    snprintf(reader->error->text, sizeof reader->error->text, "--trace %s: %s%s", reader->path, text, at);
    return false;
}

/* ---- The names of the links. ---- */

/* "A_B", two devices of the pipeline. */
static bool parse_link(const struct reader *reader, const char *name, int32_t *a, int32_t *b)
{
    int length = 0;

    return sscanf(name, "%2" SCNd32 "_%2" SCNd32 "%n", a, b, &length) == 2 && !name[length] && *a >= 0 &&
           *b >= 0 && *a != *b && *a < reader->devices && *b < reader->devices;
}

static bool add_link(struct reader *reader, const char *name, size_t bytes)
{
    char link[LINK_BYTES] = "";
    int32_t a, b;

    memcpy(link, name, dt_min_u64(bytes, LINK_BYTES - 1));
    for (size_t i = 0; i < reader->link_count; i++)
        if (!strcmp(reader->links[i], link))
            return true;
    if (!parse_link(reader, link, &a, &b))
        return fail(reader, "expected links of devices of this pipeline, like 0_1, got ", link);
    if (reader->link_count == LINKS_MAX)
        return fail(reader, "more than 128 links", "");
    memcpy(reader->links[reader->link_count++], link, sizeof link);
    return true;
}

/* The links of a line "START;LINKS;LATENCIES". */
static bool add_links(struct reader *reader, const char *line, size_t bytes)
{
    const char *at = memchr(line, ';', bytes), *end = line + bytes;

    while (line < end && (*line == ' ' || *line == '\t' || *line == '\r'))
        line++;
    if (line == end || *line == '#')
        return true;
    if (!at)
        return fail(reader, "expected lines START;LINKS;LATENCIES, like 120;0_1,5_6;0.04", "");
    for (at++; at < end && *at != ';'; at += at < end && *at == ',') {
        size_t length = 0;

        while (at + length < end && at[length] != ',' && at[length] != ';')
            length++;
        if (!add_link(reader, at, length))
            return false;
        at += length;
    }
    return true;
}

static bool find_links(struct reader *reader)
{
    const char *at = reader->text, *end = at + reader->bytes;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((newline ? newline : end) - at);

        if (!add_links(reader, at, bytes))
            return false;
        at += bytes + 1;
    }
    memcpy(reader->links[reader->link_count++], every_link, sizeof every_link);
    return true;
}

/* ---- Their delays. ---- */

static uint64_t device_bit(int32_t device)
{
    return UINT64_C(1) << device;
}

/* The RNIC of the link's devices fails; the first crash of the file decides. */
static bool add_crash(struct reader *reader, const char *link, uint32_t iteration)
{
    struct dt_pipeline_kill *kill = &reader->slow->kill;
    uint64_t devices = UINT64_MAX;
    int32_t a, b;

    if (parse_link(reader, link, &a, &b))
        devices = device_bit(a) | device_bit(b);
    if (kill->nic[0] && kill->period.from != iteration)
        return fail(reader, "an RNIC fails twice; a run has one failure, here or by --kill", "");
    kill->devices |= devices;
    memcpy(kill->nic, DT_PIPELINE_FIRST_NIC, sizeof DT_PIPELINE_FIRST_NIC);
    kill->period = (struct dt_pipeline_period){iteration, UINT32_MAX};
    return true;
}

/* The link has a delay in the iterations from `from` to `to`. */
static bool add_period(struct reader *reader, const char *link, uint64_t delay_ns, uint32_t from, uint32_t to)
{
    struct dt_pipeline_slow *slow = reader->slow;
    int32_t a, b;

    if (!delay_ns || !parse_link(reader, link, &a, &b))
        return true;
    if (slow->link_count == DT_PIPELINE_SLOW_MAX)
        return fail(reader, "too many changes of links for one run", "");
    slow->links[slow->link_count++] =
        (struct dt_pipeline_slow_link){.a = {a < b ? a : b, DT_PIPELINE_EVERY_REPLICA},
                                       .b = {a < b ? b : a, DT_PIPELINE_EVERY_REPLICA},
                                       .delay_ns = (int64_t)delay_ns,
                                       .period = {from, to}};
    return true;
}

static bool add_steps(struct reader *reader, const char *link, const struct dt_delay_trace *trace)
{
    uint64_t present_ns = 0;
    uint32_t from = 0;

    for (uint32_t i = 0; i < reader->iterations; i++) {
        uint64_t delay_ns = dt_delay_trace_at(trace, i * DT_NS_PER_S); /* an iteration is a second */

        if (delay_ns == present_ns)
            continue;
        if (!add_period(reader, link, present_ns, from, i))
            return false;
        if (delay_ns == DT_DELAY_CRASH)
            return add_crash(reader, link, i);
        present_ns = delay_ns;
        from = i;
    }
    return add_period(reader, link, present_ns, from, UINT32_MAX);
}

static bool read_link(struct reader *reader, const char *link)
{
    struct dt_delay_trace *trace;
    struct dt_delay_error reason = {.text = "out of memory"};

    if (dt_delay_trace_create(link, &trace) != DT_OK)
        return fail(reader, reason.text, "");
    bool is_good = dt_delay_trace_parse(trace, reader->text, reader->bytes, DT_NS_PER_S, &reason) == DT_OK
                       ? add_steps(reader, link, trace)
                       : fail(reader, "", reason.text);
    dt_delay_trace_destroy(trace);
    return is_good;
}

static bool read_text(struct reader *reader)
{
    if (reader->bytes > TRACE_BYTES_MAX)
        return fail(reader, "the file is larger than 16 MiB", "");
    if (!find_links(reader))
        return false;
    for (size_t i = 0; i < reader->link_count; i++)
        if (!read_link(reader, reader->links[i]))
            return false;
    return true;
}

bool dt_pipeline_trace_read(const char *path, int32_t devices, uint32_t iterations,
                            struct dt_pipeline_slow *slow, uint64_t *digest, struct detour_error *error)
{
    struct reader reader = {
        .path = path, .devices = devices, .iterations = iterations, .slow = slow, .error = error};
    FILE *stream = fopen(path, "rbe");
    char *text = stream ? dt_file_read(stream, TRACE_BYTES_MAX, &reader.bytes) : NULL;
    bool is_good = text || fail(&reader, strerror(errno), "");

    if (stream)
        fclose(stream);
    reader.text = text;
    is_good = is_good && read_text(&reader);
    if (is_good)
        *digest = dt_digest_add(DT_DIGEST_EMPTY, text, reader.bytes);
    free(text);
    return is_good;
}
