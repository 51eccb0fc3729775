/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/stall_watch.h"

#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"
#include "detour/stat.h"
#include "failover/planted.h"
#include "failover/switchover/post.h"
#include "transport/path/inband.h"
#include "transport/path/nic.h"
#include "transport/path/path.h"
#include "transport/path/queues.h"
#include "transport/message/send.h"
#include "transport/message/receive.h"

#define POLL_MAX 4

static uint64_t limit_ns(const struct dt_connection *c)
{
    return c->environment->params.stall_ms * DT_NS_PER_MS;
}

/* After the hardware's own retries are over, an outstanding completion will not come. */
static uint64_t silent_ns(const struct dt_connection *c)
{
    const struct dt_params *params = &c->environment->params;
    uint64_t retries_ns = (params->retry_count + 1ull) * (4096ull << params->timeout_exponent);

    return dt_max_u64(limit_ns(c), retries_ns);
}

/* The same limit for a probe. By the InfiniBand specification a timer may take four times its setting. */
static uint64_t probe_ns(const struct dt_connection *c)
{
    uint64_t retries_ns = (DT_PROBE_RETRY_COUNT + 1ull) * (4096ull << DT_PROBE_TIMEOUT_EXPONENT);

    return 4 * dt_max_u64(retries_ns, silent_ns(c));
}

/* NCCL calls in vain: no clear-to-send has arrived, or none can be sent. */
static bool is_waiting(const struct dt_connection *c, uint64_t now_ns)
{
    return now_ns - c->switchover->waiting_ns >= limit_ns(c);
}

void dt_stall_watch_visits(struct dt_connection *c, bool is_called, uint64_t idle_since_ns, uint64_t now_ns)
{
    if (dt_load_relaxed(&c->open_requests) > 0 || (!is_called && now_ns - idle_since_ns >= limit_ns(c) / 4))
        c->switchover->waiting_ns = now_ns;
}

void dt_stall_watch_rested(struct dt_connection *c, uint64_t now_ns)
{
    c->switchover->waiting_ns = now_ns;
}

uint64_t dt_stall_watch_due_ns(const struct dt_connection *c)
{
    return dt_deadline_ns(c->switchover->watched_ns, limit_ns(c) / 4);
}

bool dt_stall_watch_is_due(const struct dt_connection *c, uint64_t now_ns)
{
    return (dt_load_relaxed(&c->open_requests) > 0 || is_waiting(c, now_ns)) &&
           now_ns >= dt_stall_watch_due_ns(c);
}

/* No message is posted: a requested or staged one awaits its clear-to-send, over the path in use. */
static struct dt_stall_mark mark_of_waiting(const struct dt_sender *s, const struct dt_path *path,
                                            uint64_t now_ns)
{
    const struct dt_connection *c = &s->connection;
    bool is_wanted = dt_load_relaxed(&c->open_requests) > 0 || is_waiting(c, now_ns);

    if (!is_wanted || path != c->current)
        return (struct dt_stall_mark){.work = DT_STALL_NONE};
    return (struct dt_stall_mark){.work = DT_STALL_AWAIT_CTS, .sequence = s->next};
}

/*
 * Receiver: too few clear-to-sends have their completion for another one. It is asked when every message has
 * arrived, so that they were sent, or when receives wait to be offered again over this path.
 */
static bool has_lost_cts(const struct dt_path *path)
{
    const struct dt_connection *c = path->connection;

    return path == c->current && path->cts_posted - path->cts_done >= c->slots;
}

/* The sender's oldest message that was posted on this path, or the one that awaits its clear-to-send. */
static struct dt_stall_mark sender_mark(const struct dt_sender *s, const struct dt_path *path,
                                        uint64_t now_ns)
{
    struct dt_stall_mark oldest = {.work = DT_STALL_NONE};

    for (uint32_t i = 0; i < s->connection.slots; i++) {
        const struct dt_send_slot *slot = &s->slot[i];

        if (slot->state != DT_SEND_POSTED || slot->path != path->index ||
            (oldest.work != DT_STALL_NONE && slot->sequence >= oldest.sequence))
            continue;
        DT_CHECK(slot->qps_left > 0 && slot->qps_left <= path->qp_count);
        oldest = (struct dt_stall_mark){DT_STALL_SEND, slot->qps_left, slot->sequence};
    }
    return oldest.work == DT_STALL_NONE ? mark_of_waiting(s, path, now_ns) : oldest;
}

/* A receiver's open receives may arrive over any path. */
static struct dt_stall_mark receiver_mark(const struct dt_receiver *r, const struct dt_path *path)
{
    uint64_t first = dt_receiver_first_incomplete(r);
    bool is_offered = r->again == 0 || !has_lost_cts(path);

    if (first < r->next && is_offered)
        return (struct dt_stall_mark){DT_STALL_RECEIVE, r->connection.completions, first};
    if (has_lost_cts(path))
        return (struct dt_stall_mark){DT_STALL_CTS, path->cts_done, 0};
    return (struct dt_stall_mark){.work = DT_STALL_NONE};
}

static struct dt_stall_mark mark_of(struct dt_path *path, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;

    return c->is_sender ? sender_mark(dt_sender_of(c), path, now_ns) : receiver_mark(dt_receiver_of(c), path);
}

/* Without a probe under way, a frame in band has failed, and the path's work may have made progress. */
static void explain_refusal(struct dt_path *path, const struct dt_completion *bad, uint64_t now_ns)
{
    const struct dt_stall *stall = &path->switchover->stall;
    char *why = path->switchover->why;
    int used =
        stall->asked_ns == 0
            ? snprintf(why, sizeof path->switchover->why, "a frame in band over it, ")
            : snprintf(why, sizeof path->switchover->why, "no progress for %llu ms, and a probe over it, ",
                       (unsigned long long)((now_ns - stall->since_ns) / DT_NS_PER_MS));

    dt_path_describe_error(path, bad, why + used, sizeof path->switchover->why - (size_t)used);
}

/* Hardware completes a probe or gives it up. Without either, the probe's completion queue is silent. */
static void check_probe_age(struct dt_path *path, uint64_t now_ns)
{
    uint64_t sent_ns = path->switchover->stall.sent_ns;
    uint64_t waited_ns = now_ns - sent_ns;

    if (!path->probe || sent_ns == 0 || dt_qp_sends_outstanding(path->probe) == 0 ||
        waited_ns < probe_ns(path->connection) || DT_PLANTED(SILENT_PROBE))
        return;
    dt_stall_probe_failed(&path->switchover->stall);
    snprintf(path->switchover->why, sizeof path->switchover->why,
             "a probe over it was neither answered nor given up for %llu ms",
             (unsigned long long)(waited_ns / DT_NS_PER_MS));
}

void dt_stall_watch_poll(struct dt_path *path, uint64_t now_ns)
{
    struct dt_completion completion[POLL_MAX];
    bool is_awaited = path->probe && dt_qp_sends_outstanding(path->probe) > 0;
    int count = is_awaited ? dt_cq_poll(path->probe_cq, completion, POLL_MAX) : 0;

    for (int i = 0; i < count; i++) {
        if (completion[i].status == DT_WC_SUCCESS) {
            dt_stall_probe_answered(&path->switchover->stall);
            path->switchover->stall.sent_ns = now_ns; /* the age of what is still outstanding */
            continue;
        }
        if (DT_PLANTED(SILENT_PROBE))
            continue;
        dt_stall_probe_failed(&path->switchover->stall);
        explain_refusal(path, &completion[i], now_ns);
    }
}

bool dt_stall_watch_post(struct dt_path *path, const struct dt_post *frame, bool is_last, uint64_t now_ns)
{
    enum dt_status status;
    bool was_idle;

    if (dt_load_relaxed(&path->state) != DT_PATH_UP || !path->probe || dt_load_relaxed(&path->nic->is_dead))
        return false;
    dt_stall_watch_poll(path, now_ns);
    was_idle = dt_qp_sends_outstanding(path->probe) == 0;
    status = frame ? dt_inband_send(path, frame->bytes, frame->writer.used, is_last)
                   : dt_path_send_probe(path, false);
    if (status == DT_OK && was_idle)
        path->switchover->stall.sent_ns = now_ns;
    return status == DT_OK;
}

/* One probe at a time: the answer to an earlier one proves the same. */
static void probe(struct dt_path *path, uint64_t now_ns)
{
    if (path->switchover->stall.asked_ns != 0 || !path->probe)
        return;
    dt_stall_watch_poll(path, now_ns); /* a frame in band that was answered long ago proves nothing now */
    if (dt_qp_sends_outstanding(path->probe) > 0 || dt_stall_watch_post(path, NULL, false, now_ns))
        dt_stall_probe_sent(&path->switchover->stall, now_ns);
}

bool dt_stall_watch_is_answered(struct dt_path *path, uint64_t now_ns)
{
    if (dt_load_relaxed(&path->state) != DT_PATH_UP || !path->probe)
        return false;
    dt_stall_watch_poll(path, now_ns);
    return dt_qp_sends_outstanding(path->probe) == 0 && !path->switchover->stall.is_refused;
}

/* All paths are probed at the same moment, so that they can be compared. */
static void probe_all(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].state == DT_PATH_UP)
            probe(&c->path[p], now_ns);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Queries to the peer
 */
static void send_fact(struct dt_connection *c, enum dt_frame_type type, const struct dt_fact *fact,
                      uint64_t now_ns)
{
    struct dt_post post;

    dt_post_begin(&post);
    dt_fact_encode(type, fact, &post.writer);
    dt_post_frame(c, &post, now_ns);
}

static const struct dt_send_slot *sent_slot(struct dt_connection *c, uint64_t sequence)
{
    return &dt_sender_of(c)->slot[sequence & (c->slots - 1)];
}

/* Whether the path's oldest work is this message. */
static bool is_marked(const struct dt_path *path, uint64_t sequence)
{
    const struct dt_stall_mark *mark = &path->switchover->stall.mark;

    return mark->work != DT_STALL_NONE && mark->work != DT_STALL_CTS && mark->sequence == sequence;
}

static void query_peer(struct dt_path *path, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;
    struct dt_fact fact = {.sequence = path->switchover->stall.mark.sequence};

    if (c->is_sender) {
        const struct dt_send_slot *slot = sent_slot(c, fact.sequence);

        if (slot->sequence != fact.sequence || slot->state != DT_SEND_POSTED)
            return;
        fact.path = path->index;
        fact.epoch = path->epoch;
    }
    send_fact(c, DT_FRAME_QUERY, &fact, now_ns);
}

/* The message is complete at this end? A receiver echoes the epoch that the sender named. No answer: it is
 * not. */
static void answer(struct dt_connection *c, struct dt_fact fact, uint64_t now_ns)
{
    if (c->is_sender) {
        const struct dt_send_slot *slot = sent_slot(c, fact.sequence);

        if (slot->sequence != fact.sequence || fact.sequence >= dt_sender_of(c)->next_post ||
            (slot->state != DT_SEND_DONE && slot->state != DT_SEND_FREE))
            return;
        fact.path = slot->path;
        fact.epoch = slot->epoch;
    } else {
        const struct dt_receiver *r = dt_receiver_of(c);
        const struct dt_recv_slot *slot = &r->slot[fact.sequence & (c->slots - 1)];

        if (fact.sequence >= r->next || (slot->sequence == fact.sequence && slot->state == DT_RECV_OPEN))
            return;
    }
    send_fact(c, DT_FRAME_COMPLETE, &fact, now_ns);
}

void dt_stall_watch_receive(struct dt_connection *c, uint64_t now_ns)
{
    const struct dt_fact *fact = &c->switchover->fact;
    struct dt_path *path = &c->path[fact->path];

    DT_CHECK(fact->path < c->path_count); /* dt_fact_decode() has refused others */
    if (c->switchover->frame_type == DT_FRAME_QUERY)
        answer(c, *fact, now_ns);
    else if (path->state != DT_PATH_NONE && path->epoch == fact->epoch && is_marked(path, fact->sequence))
        dt_stall_known_done(&path->switchover->stall, now_ns);
}

static bool is_silent(struct dt_path *path, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;

    if (path->state == DT_PATH_NONE || !dt_stall_is_silent(&path->switchover->stall, silent_ns(c), now_ns))
        return false;
    dt_connection_drain(c); /* this process may have been stopped: completions that arrived meanwhile count */
    dt_stall_observe(&path->switchover->stall, mark_of(path, now_ns), limit_ns(c), now_ns);
    return path->state != DT_PATH_NONE && dt_stall_is_silent(&path->switchover->stall, silent_ns(c), now_ns);
}

static struct dt_path *find_silent(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        if (!is_silent(path, now_ns) || DT_PLANTED(TRUST_CQ))
            continue;
        snprintf(path->switchover->why, sizeof path->switchover->why,
                 "its completion queue is silent: the peer has had what is awaited for %llu ms",
                 (unsigned long long)((now_ns - path->switchover->stall.known_ns) / DT_NS_PER_MS));
        return path;
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------
 * Queries to the device
 */

/* Runs on the control thread, where it may block; not while a switchover waits for that thread. */
static void query_device(struct dt_path *path)
{
    if (!dt_stall_needs_query(&path->switchover->stall) || path->switchover->is_fence_wanted ||
        path->connection->nic->is_hurried || dt_load_acquire(&path->op_state) != DT_PATH_OP_IS_IDLE)
        return;
    DT_CHECK(path->state == DT_PATH_UP && dt_stall_has_work(&path->switchover->stall));
    dt_stall_query_sent(&path->switchover->stall);
    dt_path_submit_op(path, DT_PATH_OP_QUERY);
}

void dt_stall_watch_queried(struct dt_path *path)
{
    if (path->stopped_qpn == 0 || path->state != DT_PATH_UP)
        return;
    path->switchover->silent_qpn = path->stopped_qpn;
    dt_stall_known_stopped(&path->switchover->stall);
}

static bool has_stopped(struct dt_path *path, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;

    if (path->state != DT_PATH_UP || !dt_stall_has_stopped(&path->switchover->stall))
        return false;
    dt_connection_drain(c);
    dt_stall_observe(&path->switchover->stall, mark_of(path, now_ns), limit_ns(c), now_ns);
    return path->state == DT_PATH_UP && dt_stall_has_stopped(&path->switchover->stall);
}

static struct dt_path *find_stopped(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        if (!has_stopped(path, now_ns) || DT_PLANTED(TRUST_CQ))
            continue;
        snprintf(path->switchover->why, sizeof path->switchover->why,
                 "its completion queue is silent: queue pair %u is in the error state, and no completion "
                 "reports it",
                 path->switchover->silent_qpn);
        return path;
    }
    return NULL;
}

static struct dt_path *find_failed(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        for (uint32_t o = 0; o < c->path_count; o++) {
            struct dt_path *path = &c->path[p];

            if (path->state == DT_PATH_UP && c->path[o].state == DT_PATH_UP &&
                dt_stall_has_failed(&path->switchover->stall, &c->path[o].switchover->stall, limit_ns(c) / 2,
                                    now_ns))
                return path;
        }
    }
    return NULL;
}

/* Ends the probes whose time is over. */
static void end_probes(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_stall *stall = &c->path[p].switchover->stall;

        if (stall->asked_ns != 0 && now_ns - stall->asked_ns >= limit_ns(c) / 2)
            dt_stall_restart(stall, now_ns);
    }
}

/* One look at a path in use. True: its work is stalled. *is_queried: the peer was queried in this round. */
static bool look(struct dt_path *path, bool *is_queried, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;
    struct dt_stall *stall = &path->switchover->stall;

    DT_CHECK(path->state == DT_PATH_UP && path->epoch == path->machine.epoch);
    dt_stall_watch_poll(path, now_ns);
    check_probe_age(path, now_ns);
    query_device(path);
    if (!dt_stall_observe(stall, mark_of(path, now_ns), limit_ns(c), now_ns))
        return false;
    if (stall->mark.work == DT_STALL_CTS)
        dt_stall_known_done(stall, now_ns); /* the messages of its slots have arrived */
    else if (c->is_sender || !*is_queried)
        query_peer(path, now_ns);
    *is_queried = true;
    return true;
}

static struct dt_path *find_any_failed(struct dt_connection *c, uint64_t now_ns)
{
    struct dt_path *failed = find_failed(c, now_ns);

    if (failed && !failed->switchover->stall.is_refused)
        snprintf(failed->switchover->why, sizeof failed->switchover->why,
                 "no progress for %llu ms, and a probe over it is not answered while another path's is",
                 (unsigned long long)((now_ns - failed->switchover->stall.since_ns) / DT_NS_PER_MS));
    if (!failed)
        failed = find_silent(c, now_ns);
    return failed ? failed : find_stopped(c, now_ns);
}

struct dt_path *dt_stall_watch_progress(struct dt_connection *c, uint64_t now_ns)
{
    struct dt_path *failed;
    bool is_stalled = false, is_queried = false;

    c->switchover->watched_ns = now_ns;
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].state == DT_PATH_UP)
            is_stalled |= look(&c->path[p], &is_queried, now_ns);
    }
    failed = find_any_failed(c, now_ns);
    if (failed)
        failed->switchover->cause =
            failed->switchover->stall.is_refused ? DETOUR_STAT_CAUSE_FAILED_WORK : DETOUR_STAT_CAUSE_SILENCE;
    end_probes(c, now_ns);
    if (is_stalled && !failed)
        probe_all(c, now_ns);
    return failed;
}
