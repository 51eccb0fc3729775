/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "delay/scan.h"

struct point {
    uint64_t time_ns;
    uint64_t latency_ns;
};

struct dt_delay_trace {
    char link[DT_DELAY_NAME_BYTES]; /* "" until an entry names one */
    bool is_chosen;                 /* by the caller: entries of other links are skipped */
    size_t count;
    size_t capacity;
    uint64_t last_ns; /* of any link */
    uint64_t crash_ns;
    struct point *point;
};

enum dt_status dt_delay_trace_create(const char *link, struct dt_delay_trace **trace)
{
    struct dt_delay_trace *created = calloc(1, sizeof *created);
    size_t length = strnlen(link, sizeof created->link - 1);

    if (!created)
        return DT_NO_MEMORY;
    memcpy(created->link, link, length);
    created->is_chosen = length > 0;
    created->crash_ns = DT_NEVER_NS;
    *trace = created;
    return DT_OK;
}

void dt_delay_trace_destroy(struct dt_delay_trace *trace)
{
    if (trace)
        free(trace->point);
    free(trace);
}

size_t dt_delay_trace_count(const struct dt_delay_trace *trace)
{
    return trace->count;
}

/* ------------------------------------------------------------------------------------------------------------
 * Building
 */
static enum dt_status append(struct dt_delay_trace *trace, uint64_t time_ns, uint64_t latency_ns)
{
    if (trace->count == trace->capacity) {
        size_t capacity = trace->capacity ? trace->capacity * 2 : 64;
        struct point *point = realloc(trace->point, capacity * sizeof *point);

        if (!point)
            return DT_NO_MEMORY;
        trace->point = point;
        trace->capacity = capacity;
    }
    trace->point[trace->count++] = (struct point){time_ns, latency_ns};
    if (latency_ns == DT_DELAY_CRASH)
        trace->crash_ns = dt_earlier_ns(trace->crash_ns, time_ns);
    return DT_OK;
}

static const char *find_fault(const struct dt_delay_trace *trace, uint64_t time_ns, const char *link,
                              uint64_t latency_ns)
{
    if (time_ns < trace->last_ns)
        return "times must not go back";
    if (latency_ns > DT_DELAY_NS_MAX && latency_ns != DT_DELAY_CRASH)
        return "a latency of more than one hour is not possible";
    if (link && strlen(link) >= sizeof trace->link)
        return "the name of a link is too long";
    if (link && !link[0])
        return "the link has no name";
    return NULL;
}

/* True for the link of this trace. If the caller chose none, it is the first one named. */
static enum dt_status recognize(struct dt_delay_trace *trace, const char *link, bool *is_ours,
                                const char **reason)
{
    if (link && !trace->link[0])
        memcpy(trace->link, link, strlen(link) + 1);
    *is_ours = !link || strcmp(trace->link, link) == 0;
    if (*is_ours || trace->is_chosen)
        return DT_OK;
    *reason = "the trace has several links; choose one with link=NAME";
    return DT_INVALID;
}

static enum dt_status append_checked(struct dt_delay_trace *trace, uint64_t time_ns, uint64_t latency_ns,
                                     const char **reason)
{
    enum dt_status status;

    if (trace->count == DT_DELAY_TRACE_POINTS_MAX) {
        *reason = "the trace has too many points";
        return DT_FULL;
    }
    status = append(trace, time_ns, latency_ns);
    if (status != DT_OK)
        *reason = dt_status_text(status);
    return status;
}

enum dt_status dt_delay_trace_add(struct dt_delay_trace *trace, uint64_t time_ns, const char *link,
                                  uint64_t latency_ns, const char **reason)
{
    enum dt_status status;
    bool is_ours;

    *reason = find_fault(trace, time_ns, link, latency_ns);
    if (*reason)
        return DT_INVALID;
    status = recognize(trace, link, &is_ours, reason);
    trace->last_ns = time_ns;
    return status == DT_OK && is_ours ? append_checked(trace, time_ns, latency_ns, reason) : status;
}

/* ------------------------------------------------------------------------------------------------------------
 * Looking up
 */
uint64_t dt_delay_trace_at(const struct dt_delay_trace *trace, uint64_t time_ns)
{
    size_t low = 0; /* points below it are not later than time_ns */
    size_t high = trace->count;

    if (time_ns >= trace->crash_ns)
        return DT_DELAY_CRASH;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (trace->point[middle].time_ns <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? trace->point[low - 1].latency_ns : 0;
}

uint64_t dt_delay_trace_crash_ns(const struct dt_delay_trace *trace)
{
    return trace->crash_ns;
}

/* ------------------------------------------------------------------------------------------------------------
 * Reading
 */
#define LINKS_MAX 256

/* One line. */
struct entry {
    size_t at;
    uint64_t start; /* billionths */
    size_t link_count;
    size_t latency_count;
    char link[LINKS_MAX][DT_DELAY_NAME_BYTES];
    uint64_t latency_ns[LINKS_MAX];
};

struct reader {
    struct dt_scan scan;
    struct dt_delay_trace *trace;
    uint64_t iteration_ns;
    struct entry entry;
};

/* Seconds, or a time with its unit. */
static bool read_time(struct dt_scan *scan, uint64_t *ns)
{
    size_t start = scan->at;

    if (!dt_scan_decimal(scan, DT_DELAY_TIME_NS_MAX, "a time in seconds, or with a unit", ns))
        return false;
    if (dt_scan_word(scan) == 0)
        return true;
    scan->at = start;
    return dt_scan_time(scan, ns);
}

static bool read_latency(struct dt_scan *scan, uint64_t *ns)
{
    size_t start = scan->at;

    if (dt_scan_word(scan) == 3 && memcmp(scan->text + start, "inf", 3) == 0) {
        *ns = DT_DELAY_CRASH;
        return true;
    }
    scan->at = start;
    return read_time(scan, ns);
}

static bool read_link(struct dt_scan *scan, char *to)
{
    const char *ends = ",; \t\r\n";
    size_t used = 0;

    while (!dt_scan_is_end(scan) && !dt_scan_is_at_any(scan, ends)) {
        if (used + 1 == DT_DELAY_NAME_BYTES || (unsigned char)dt_scan_peek(scan) < ' ')
            return dt_scan_expected(scan, "the name of a link (63 printable characters at most)");
        to[used++] = scan->text[scan->at++];
    }
    to[used] = '\0';
    return used > 0 || dt_scan_expected(scan, "the name of a link");
}

static bool read_links(struct reader *r)
{
    struct entry *entry = &r->entry;

    if (dt_scan_peek(&r->scan) == ';')
        return true;
    do {
        if (entry->link_count == LINKS_MAX)
            return dt_scan_fail(&r->scan, r->scan.at, "more than %d links in one line", LINKS_MAX);
        if (!read_link(&r->scan, entry->link[entry->link_count++]))
            return false;
    } while (dt_scan_take(&r->scan, ','));
    return true;
}

static bool read_latencies(struct reader *r)
{
    struct entry *entry = &r->entry;

    do {
        if (entry->latency_count == LINKS_MAX)
            return dt_scan_fail(&r->scan, r->scan.at, "more than %d latencies in one line", LINKS_MAX);
        if (!read_latency(&r->scan, &entry->latency_ns[entry->latency_count++]))
            return false;
    } while (dt_scan_take(&r->scan, ','));
    return true;
}

static bool add_point(struct reader *r, uint64_t time_ns, const char *link, uint64_t latency_ns)
{
    const char *reason;

    return dt_delay_trace_add(r->trace, time_ns, link, latency_ns, &reason) == DT_OK ||
           dt_scan_fail(&r->scan, r->entry.at, "%s", reason);
}

/* Links that are not named have no latency from now on, possibly the link of this trace. */
static bool add_listed(struct reader *r)
{
    struct entry *entry = &r->entry;
    uint64_t unit_ns = r->iteration_ns ? r->iteration_ns : DT_NS_PER_S;
    unsigned __int128 time_ns = (unsigned __int128)entry->start * unit_ns / DT_NS_PER_S;
    bool is_named = false;

    if (time_ns > DT_DELAY_TIME_NS_MAX)
        return dt_scan_fail(&r->scan, entry->at, "this is later than 1000000s");
    for (size_t i = 0; i < entry->link_count; i++) {
        if (!add_point(r, (uint64_t)time_ns, entry->link[i],
                       entry->latency_ns[entry->latency_count == 1 ? 0 : i]))
            return false;
        is_named |= strcmp(entry->link[i], r->trace->link) == 0;
    }
    if (entry->link_count == 0) /* a crash of every link, including links that are named later */
        return add_point(r, (uint64_t)time_ns, NULL, entry->latency_ns[0]);
    return is_named || !r->trace->link[0] || add_point(r, (uint64_t)time_ns, r->trace->link, 0);
}

static bool check_counts(struct reader *r)
{
    const struct entry *entry = &r->entry;

    if (entry->link_count == 0 && entry->latency_ns[0] != DT_DELAY_CRASH)
        return dt_scan_fail(&r->scan, entry->at, "no link is named; only the latency `inf` can do without");
    if (entry->latency_count != 1 && entry->latency_count != entry->link_count)
        return dt_scan_fail(&r->scan, entry->at, "%zu latencies for %zu links: one for all, or one each",
                            entry->latency_count, entry->link_count);
    return true;
}

/* "START;LINKS;LATENCIES", after the first semicolon. */
static bool read_listed(struct reader *r)
{
    if (!read_links(r))
        return false;
    if (!dt_scan_take(&r->scan, ';'))
        return dt_scan_expected(&r->scan, "';' and the latencies");
    return read_latencies(r) && check_counts(r) && add_listed(r);
}

/* "TIME,LINK,LATENCY", after the first comma. */
static bool read_single(struct reader *r, uint64_t time_ns)
{
    struct entry *entry = &r->entry;

    dt_scan_skip_blanks(&r->scan);
    if (!read_link(&r->scan, entry->link[0]))
        return false;
    dt_scan_skip_blanks(&r->scan);
    if (!dt_scan_take(&r->scan, ','))
        return dt_scan_expected(&r->scan, "',' and the latency");
    dt_scan_skip_blanks(&r->scan);
    return read_latency(&r->scan, &entry->latency_ns[0]) &&
           add_point(r, time_ns, entry->link[0], entry->latency_ns[0]);
}

/* The character after the time determines the form. */
static bool read_rest(struct reader *r)
{
    if (dt_scan_take(&r->scan, ';'))
        return read_listed(r);
    if (dt_scan_take(&r->scan, ','))
        return read_single(r, r->entry.start);
    return dt_scan_expected(&r->scan, "',' and a link, or ';' and links");
}

static bool read_line(struct reader *r)
{
    r->entry.at = r->scan.at;
    r->entry.link_count = r->entry.latency_count = 0;
    if (!read_time(&r->scan, &r->entry.start))
        return false;
    dt_scan_skip_blanks(&r->scan);
    if (!read_rest(r))
        return false;
    dt_scan_skip_blanks(&r->scan);
    return dt_scan_is_end(&r->scan) || dt_scan_peek(&r->scan) == '\n' || dt_scan_peek(&r->scan) == '#' ||
           dt_scan_expected(&r->scan, "the end of the line");
}

static void skip_header(struct dt_scan *scan)
{
    static const char header[] = "time,link,latency";

    if (scan->bytes >= sizeof header - 1 && memcmp(scan->text, header, sizeof header - 1) == 0)
        dt_scan_skip_line(scan);
}

static bool read_all(struct reader *r)
{
    skip_header(&r->scan);
    for (;;) {
        dt_scan_skip_blanks(&r->scan);
        if (dt_scan_is_end(&r->scan))
            return true;
        if (dt_scan_take(&r->scan, '\n'))
            continue;
        if (dt_scan_peek(&r->scan) == '#')
            dt_scan_skip_line(&r->scan);
        else if (!read_line(r))
            return false;
    }
}

enum dt_status dt_delay_trace_parse(struct dt_delay_trace *trace, const char *text, size_t bytes,
                                    uint64_t iteration_ns, struct dt_delay_error *error)
{
    struct reader *r = calloc(1, sizeof *r);
    bool is_good;

    if (!r)
        return DT_NO_MEMORY;
    r->scan = (struct dt_scan){text, bytes, 0, error};
    r->trace = trace;
    r->iteration_ns = iteration_ns;
    is_good = read_all(r);
    free(r);
    return is_good ? DT_OK : DT_INVALID;
}
