/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/state.h"
#include "failover/switchover/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "transport/message/connection.h"
#include "transport/path/nic.h"

#define WAIT_NS (1 * DT_NS_PER_S)
/* A switchover that takes longer waits for something else: other work need not make room for it any more. */
#define AWAITED_NS (100 * DT_NS_PER_MS)
/* The first completion is polled at this interval at first, then at this part of the time that has passed,
 * and at most once in POLL_ROUNDS rounds of the device thread. */
#define POLL_NS     (20 * DT_NS_PER_US)
#define POLL_PART   8
#define POLL_ROUNDS 8

static bool has_completed(const struct dt_path *path)
{
    return dt_load_relaxed(&path->connection->completions) != path->switchover->report.completions;
}

/* Messages or receives still wait for a path or for room on it. */
static bool has_waiting(const struct dt_path *path)
{
    return dt_load_relaxed(&path->connection->notices) & DT_NOTICE_AGAIN;
}

static bool is_over(const struct dt_path *path, uint64_t now_ns)
{
    return now_ns - path->switchover->report.steps.resumed_ns >= WAIT_NS ||
           dt_load_relaxed(&path->connection->open_requests) == 0;
}

/* All steps are known, or no step is awaited any more. */
static bool is_due(const struct dt_path *path, uint64_t now_ns)
{
    bool is_whole =
        has_completed(path) && !has_waiting(path) && path->switchover->report.steps.agreed_ns != 0;

    return path->switchover->report.is_pending && (is_whole || is_over(path, now_ns));
}

bool dt_switchover_report_is_awaited(const struct dt_path *path, uint64_t now_ns)
{
    const struct dt_switchover_steps *steps = &path->switchover->report.steps;

    return steps->detected_ns != 0 && steps->resumed_ns == 0 && now_ns - steps->detected_ns < AWAITED_NS;
}

uint64_t dt_switchover_report_deadline_ns(const struct dt_path *path, uint64_t now_ns)
{
    uint64_t age_ns = now_ns - path->switchover->report.steps.resumed_ns;
    uint64_t round_ns = path->connection->nic->round_ns;

    if (!path->switchover->report.is_pending)
        return DT_NEVER_NS;
    return now_ns + dt_max_u64(POLL_NS, dt_max_u64(age_ns / POLL_PART, POLL_ROUNDS * round_ns));
}

/* ------------------------------------------------------------------------------------------------------------
 * Writing
 */
#define STEP_BYTES 24

/* Microseconds since it was detected, or "-". */
static const char *step_text(const struct dt_switchover_steps *steps, uint64_t step_ns, char text[STEP_BYTES])
{
    if (step_ns < steps->detected_ns)
        snprintf(text, STEP_BYTES, "-");
    else
        snprintf(text, STEP_BYTES, "%" PRIu64, (uint64_t)((step_ns - steps->detected_ns) / DT_NS_PER_US));
    return text;
}

static uint64_t last_step_ns(const struct dt_switchover_steps *steps)
{
    uint64_t last_ns = dt_max_u64(steps->resumed_ns, dt_max_u64(steps->again_ns, steps->first_ns));

    return dt_max_u64(last_ns, steps->agreed_ns);
}

/* The line up to the steps. */
static void describe(const struct dt_path *path, char *text, size_t bytes)
{
    static const char *const engines[] = {"nothing to do", "wqe", "repost", "wqe and repost"};
    const struct dt_connection *c = path->connection;
    const struct dt_switchover_report *report = &path->switchover->report;
    const struct dt_switchover_settled *settled = &report->settled;
    const char *over = report->over ? report->over : "the next path that is up";
    const char *device = dt_path_name(path);
    unsigned long long id = c->id;

    if (c->is_sender)
        snprintf(text, bytes,
                 DT_LOG_ID("path-settled") "connection %016llx to %s: path %u, %s to %s, epoch %u is "
                                           "settled: %s; %u messages again over %s (%s), %u had arrived",
                 id, c->peer, path->index, device, report->peer_device, report->epoch, report->why,
                 settled->again, over, engines[settled->engines], settled->held);
    else
        snprintf(text, bytes,
                 DT_LOG_ID("path-fenced") "connection %016llx from %s: path %u, %s to %s, epoch %u is "
                                          "fenced: %s; %u open receives go over %s",
                 id, c->peer, path->index, device, report->peer_device, report->epoch, report->why,
                 settled->again, over);
}

static void write_event(const struct dt_path *path, const char *agreed, const char *again, const char *first)
{
    const struct dt_connection *c = path->connection;
    const struct dt_switchover_report *report = &path->switchover->report;
    const struct dt_switchover_steps *steps = &report->steps;
    const char *next = report->over ? report->over : c->current ? dt_path_name(c->current) : "";
    char fenced[STEP_BYTES], resumed[STEP_BYTES];
    struct dt_event_record event = dt_meter_event(c, DT_EVENT_KIND_PATH, steps->detected_ns, path);

    if (!c->environment->page)
        return;
    event.epoch = report->epoch;
    event.cause = report->cause;
    event.delay_ns = last_step_ns(steps) - steps->detected_ns;
    event.value = (int64_t)event.delay_ns;
    memcpy(event.peer_nic, report->peer_device, sizeof event.peer_nic - 1); /* a reader ends the text */
    snprintf(event.next_nic, sizeof event.next_nic, "%.31s", next);
    dt_event_write(dt_page_events(c->environment->page), &event,
                   "switch path %u epoch %u us: fenced %s agreed %s resumed %s again %s first %s",
                   path->index, report->epoch, step_text(steps, steps->fenced_ns, fenced), agreed,
                   step_text(steps, steps->resumed_ns, resumed), again, first);
}

void dt_switchover_report_end(struct dt_path *path)
{
    struct dt_switchover_report *report = &path->switchover->report;
    const struct dt_switchover_steps *steps = &report->steps;
    char fenced[STEP_BYTES], agreed[STEP_BYTES], again[STEP_BYTES], first[STEP_BYTES], what[640];

    if (!report->is_pending)
        return;
    report->is_pending = false;
    describe(path, what, sizeof what);
    step_text(steps, steps->agreed_ns, agreed);
    step_text(steps, steps->again_ns, again);
    step_text(steps, steps->first_ns, first);
    dt_log_write(
        DT_LOG_INFO, __FILE__, __LINE__,
        "%s; fenced after %s us (%s), agreed after %s us, %s after %s us, first completion after %s us, "
        "%" PRIu64 " us in all; the path is %s",
        what, step_text(steps, steps->fenced_ns, fenced), report->evidence, agreed,
        path->connection->is_sender ? "posted again" : "published again", again, first,
        (uint64_t)((last_step_ns(steps) - steps->detected_ns) / DT_NS_PER_US),
        dt_path_state_name((enum dt_path_end)path->machine.end, path->machine.state));
    write_event(path, agreed, again, first);
}

void dt_switchover_report_unproven(const struct dt_path *path, uint64_t now_ns, const char *reason)
{
    const struct dt_connection *c = path->connection;
    uint64_t detected_ns = path->switchover->report.steps.detected_ns;
    struct dt_event_record event = dt_meter_event(c, DT_EVENT_KIND_PATH, detected_ns, path);

    if (!c->environment->page)
        return;
    event.epoch = path->epoch;
    event.cause = path->switchover->cause;
    event.delay_ns = now_ns - detected_ns;
    event.value = (int64_t)event.delay_ns;
    memcpy(event.peer_nic, path->peer_device, sizeof event.peer_nic - 1); /* a reader ends the text */
    dt_event_write(dt_page_events(c->environment->page), &event, "fence unproven path %u epoch %u: %s",
                   path->index, path->epoch, reason);
}

/* ------------------------------------------------------------------------------------------------------------
 * The steps
 */
void dt_switchover_report_begin(struct dt_path *path, uint64_t now_ns)
{
    dt_switchover_report_end(path);
    memset(&path->switchover->report, 0, sizeof path->switchover->report);
    path->switchover->report.steps.detected_ns = now_ns;
}

void dt_switchover_report_resumed(struct dt_path *path, uint64_t now_ns, struct dt_switchover_settled settled)
{
    struct dt_switchover_report *report = &path->switchover->report;
    const struct dt_connection *c = path->connection;

    DT_CHECK(!report->is_pending && report->steps.detected_ns != 0);
    DT_CHECK(now_ns >= report->steps.detected_ns);
    report->is_pending = true;
    report->epoch = path->epoch;
    report->completions = dt_load_relaxed(&c->completions);
    report->evidence = dt_fence_evidence(&path->fence, now_ns);
    report->over = c->current ? dt_path_name(c->current) : NULL;
    report->settled = settled;
    memcpy(report->peer_device, path->peer_device, sizeof report->peer_device);
    memcpy(report->why, path->switchover->why, sizeof report->why);
    report->cause = path->switchover->cause;
    report->steps.resumed_ns = now_ns;
}

void dt_switchover_report_progress(struct dt_path *path, uint64_t now_ns, uint32_t *lines_left)
{
    struct dt_switchover_report *report = &path->switchover->report;

    if (!report->is_pending)
        return;
    if (report->steps.again_ns == 0 && !has_waiting(path))
        report->steps.again_ns = now_ns;
    if (report->steps.first_ns == 0 && has_completed(path))
        report->steps.first_ns = now_ns;
    DT_CHECK(report->steps.resumed_ns <= now_ns);
    if (!is_due(path, now_ns) || *lines_left == 0)
        return;
    --*lines_left;
    dt_switchover_report_end(path);
}
