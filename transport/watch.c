/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/watch.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/planted.h"
#include "transport/line.h"
#include "transport/nic.h"
#include "transport/path.h"
#include "transport/reach.h"

#define POLL_MAX 4

static uint64_t limit_ns(const struct dt_connection *c)
{
    return c->net->params.stall_ms * DT_NS_PER_MS;
}

/* A completion that has not come when the hardware's own retries are over never will. */
static uint64_t deaf_ns(const struct dt_connection *c)
{
    const struct dt_params *params = &c->net->params;
    uint64_t retries_ns = (params->retry_count + 1ull) * (4096ull << params->timeout_exponent);

    return dt_max_u64(limit_ns(c), retries_ns);
}

/* The same of a probe; by the specification, a timer may take four times as long as it is set. */
static uint64_t probe_ns(const struct dt_connection *c)
{
    uint64_t reach_ns = (DT_REACH_RETRY_COUNT + 1ull) * (4096ull << DT_REACH_TIMEOUT_EXPONENT);

    return 4 * dt_max_u64(reach_ns, deaf_ns(c));
}

/* NCCL calls and gets nothing for it: no clear-to-send has come, or none can be sent. */
static bool is_waiting(const struct dt_connection *c, uint64_t now_ns)
{
    return now_ns - c->waiting_ns >= limit_ns(c);
}

void dt_watch_visits(struct dt_connection *c, bool is_called, uint64_t now_ns)
{
    if (dt_load_relaxed(&c->open_requests) > 0 ||
        (!is_called && now_ns - c->idle_since_ns >= limit_ns(c) / 4))
        c->waiting_ns = now_ns;
}

bool dt_watch_is_due(const struct dt_connection *c, uint64_t now_ns)
{
    return (dt_load_relaxed(&c->open_requests) > 0 || is_waiting(c, now_ns)) &&
           now_ns - c->watched_ns >= limit_ns(c) / 4;
}

/* Nothing is posted: what NCCL has, or has staged, waits for a clear-to-send, over the path in use. */
static uint64_t mark_of_waiting(const struct dt_sender *s, const struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = &s->connection;
    bool is_wanted = dt_load_relaxed(&c->open_requests) > 0 || is_waiting(c, now_ns);

    return is_wanted && path == c->current ? (s->next << 8 | 0xff) + 1 : 0;
}

/* Receiver: every message has come, so every clear-to-send went out, but too few of them are reported. */
static bool has_lost_cts(const struct dt_path *path)
{
    const struct dt_connection *c = path->connection;

    return path == c->current && path->cts_posted - path->cts_done >= c->slots;
}

/*
 * The sender's oldest message on this path, or what it waits for; a receiver's open receives may come over
 * any. 0: none.
 */
static uint64_t mark_of(struct dt_path *path, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;
    uint64_t oldest = UINT64_MAX;
    uint32_t left = 0;

    if (!c->is_sender) {
        const struct dt_receiver *r = dt_receiver_of(c);
        uint64_t first = dt_receiver_first_incomplete(r);

        if (first < r->next)
            return (first << 32 | c->completions) + 1;
        return has_lost_cts(path) ? UINT64_MAX - path->cts_done : 0;
    }
    for (uint32_t i = 0; i < c->slots; i++) {
        const struct dt_send_slot *slot = &dt_sender_of(c)->slot[i];

        if (slot->state != DT_SEND_POSTED || slot->path != path->index || slot->sequence >= oldest)
            continue;
        oldest = slot->sequence;
        left = slot->qps_left;
    }
    return oldest == UINT64_MAX ? mark_of_waiting(dt_sender_of(c), path, now_ns) : (oldest << 8 | left) + 1;
}

static void explain_refusal(struct dt_path *path, const struct dt_completion *bad, uint64_t now_ns)
{
    size_t said =
        (size_t)snprintf(path->why, sizeof path->why, "no progress for %llu ms, and a probe over it, ",
                         (unsigned long long)((now_ns - path->stall.since_ns) / DT_NS_PER_MS));

    dt_path_describe_error(path, bad, path->why + said, sizeof path->why - said);
}

/* Hardware answers a probe or gives it up; what does neither has a silent completion queue. */
static void give_up(struct dt_path *path, uint64_t now_ns)
{
    uint64_t waited_ns = now_ns - path->stall.sent_ns;

    if (!path->probe || path->stall.sent_ns == 0 || dt_qp_sends_outstanding(path->probe) == 0 ||
        waited_ns < probe_ns(path->connection) || DT_PLANTED(DEAF_PROBE))
        return;
    dt_stall_refuse(&path->stall);
    snprintf(path->why, sizeof path->why, "a probe over it was neither answered nor given up for %llu ms",
             (unsigned long long)(waited_ns / DT_NS_PER_MS));
}

static void poll_answer(struct dt_path *path, uint64_t now_ns)
{
    struct dt_completion completion[POLL_MAX];
    bool is_awaited = path->probe && dt_qp_sends_outstanding(path->probe) > 0;
    int count = is_awaited ? dt_cq_poll(path->probe_cq, completion, POLL_MAX) : 0;

    for (int i = 0; i < count; i++) {
        if (completion[i].status == DT_WC_SUCCESS) {
            dt_stall_answer(&path->stall);
            continue;
        }
        if (DT_PLANTED(DEAF_PROBE))
            continue;
        dt_stall_refuse(&path->stall);
        explain_refusal(path, &completion[i], now_ns);
    }
}

/* One probe at a time: the answer to an earlier one says as much. */
static void ask(struct dt_path *path, uint64_t now_ns)
{
    if (path->stall.asked_ns != 0 || !path->probe)
        return;
    if (dt_qp_sends_outstanding(path->probe) == 0) {
        if (dt_path_send_probe(path, false) != DT_OK)
            return;
        path->stall.sent_ns = now_ns;
    }
    dt_stall_ask(&path->stall, now_ns);
}

/* Both ends of a comparison are asked at the same moment. */
static void ask_all(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].state == DT_PATH_UP)
            ask(&c->path[p], now_ns);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * What the peer has
 */
static void say_fact(struct dt_connection *c, enum dt_frame_type type, const struct dt_fact *fact)
{
    struct dt_writer *out = dt_line_out(c->line);

    if (!out)
        return;
    dt_fact_encode(type, fact, out); /* what does not fit is asked again */
    dt_line_flush(c->line);
}

static const struct dt_send_slot *sent_slot(struct dt_connection *c, uint64_t sequence)
{
    return &dt_sender_of(c)->slot[sequence & (c->slots - 1)];
}

/* The message that path->stall.mark, which was made just now, is about. */
static uint64_t marked(struct dt_path *path)
{
    struct dt_connection *c = path->connection;

    return c->is_sender ? (path->stall.mark - 1) >> 8 : dt_receiver_first_incomplete(dt_receiver_of(c));
}

/* Is it about this one? A receiver's has room for the low bits only. */
static bool is_marked(const struct dt_path *path, uint64_t sequence)
{
    uint64_t mark = path->stall.mark - 1;

    return path->connection->is_sender ? mark >> 8 == sequence : mark >> 32 == (uint32_t)sequence;
}

static void ask_peer(struct dt_path *path)
{
    struct dt_connection *c = path->connection;
    struct dt_fact fact = {.sequence = marked(path)};

    if (c->version < DT_PROTOCOL_VERSION_FACTS)
        return; /* it would take the question for a broken channel */
    if (c->is_sender) {
        const struct dt_send_slot *slot = sent_slot(c, fact.sequence);

        if (slot->sequence != fact.sequence || slot->state != DT_SEND_POSTED)
            return;
        fact.path = path->index;
        fact.epoch = path->epoch;
    }
    say_fact(c, DT_FRAME_ASK, &fact);
}

/* A receiver says where the sender said it was. */
static void answer(struct dt_connection *c, struct dt_fact fact)
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
    say_fact(c, DT_FRAME_HAS, &fact);
}

void dt_watch_hear(struct dt_connection *c, uint64_t now_ns)
{
    const struct dt_fact *fact = &c->heard_fact;
    struct dt_path *path = &c->path[fact->path];

    if (c->heard_type == DT_FRAME_ASK)
        answer(c, *fact);
    else if (path->state != DT_PATH_NONE && path->epoch == fact->epoch && path->stall.mark != 0 &&
             is_marked(path, fact->sequence))
        dt_stall_know(&path->stall, now_ns);
}

/* What has come meanwhile counts: this process may have been stopped. */
static void drain(struct dt_connection *c)
{
    uint32_t before;

    do {
        before = c->completions;
        dt_connection_progress(c);
    } while (c->completions != before);
}

static bool is_deaf(struct dt_path *path, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;

    if (path->state == DT_PATH_NONE || !dt_stall_is_deaf(&path->stall, deaf_ns(c), now_ns))
        return false;
    drain(c);
    dt_stall_look(&path->stall, mark_of(path, now_ns), limit_ns(c), now_ns);
    return path->state != DT_PATH_NONE && dt_stall_is_deaf(&path->stall, deaf_ns(c), now_ns);
}

static struct dt_path *find_deaf(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        if (!is_deaf(path, now_ns) || DT_PLANTED(TRUST_CQ))
            continue;
        snprintf(path->why, sizeof path->why,
                 "its completion queue is silent: the peer has had what is awaited for %llu ms",
                 (unsigned long long)((now_ns - path->stall.known_ns) / DT_NS_PER_MS));
        return path;
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------
 * What the device has given up
 */

/* On its control thread, where it may take its time; not while a switch waits for that. */
static void query(struct dt_path *path)
{
    if (!dt_stall_wants_query(&path->stall) || path->is_fence_wanted || path->connection->nic->is_hurried ||
        dt_load_acquire(&path->op_state) != DT_PATH_OP_IS_IDLE)
        return;
    dt_stall_query(&path->stall);
    dt_path_submit_op(path, DT_PATH_OP_QUERY);
}

void dt_watch_queried(struct dt_path *path)
{
    if (path->stopped_qpn == 0 || path->state != DT_PATH_UP)
        return;
    path->silent_qpn = path->stopped_qpn;
    dt_stall_stop(&path->stall);
}

static bool has_stopped(struct dt_path *path, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;

    if (path->state != DT_PATH_UP || !dt_stall_has_stopped(&path->stall))
        return false;
    drain(c);
    dt_stall_look(&path->stall, mark_of(path, now_ns), limit_ns(c), now_ns);
    return path->state == DT_PATH_UP && dt_stall_has_stopped(&path->stall);
}

static struct dt_path *find_stopped(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        if (!has_stopped(path, now_ns) || DT_PLANTED(TRUST_CQ))
            continue;
        snprintf(
            path->why, sizeof path->why,
            "its completion queue is silent: queue pair %u is in the error state, and no completion says so",
            path->silent_qpn);
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
                dt_stall_has_failed(&path->stall, &c->path[o].stall, limit_ns(c) / 2, now_ns))
                return path;
        }
    }
    return NULL;
}

/* Questions whose time is over, one way or the other. */
static void rest(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_stall *stall = &c->path[p].stall;

        if (stall->asked_ns != 0 && now_ns - stall->asked_ns >= limit_ns(c) / 2)
            dt_stall_rest(stall, now_ns);
    }
}

struct dt_path *dt_watch_progress(struct dt_connection *c, uint64_t now_ns)
{
    struct dt_path *failed;
    bool is_stalled = false, is_asked = false;

    c->watched_ns = now_ns;
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        if (path->state != DT_PATH_UP)
            continue;
        poll_answer(path, now_ns);
        give_up(path, now_ns);
        query(path);
        if (!dt_stall_look(&path->stall, mark_of(path, now_ns), limit_ns(c), now_ns))
            continue;
        is_stalled = true;
        if (has_lost_cts(path) && !c->is_sender && path->stall.mark == UINT64_MAX - path->cts_done)
            dt_stall_know(&path->stall, now_ns);
        else if (c->is_sender || !is_asked)
            ask_peer(path);
        is_asked = true;
    }
    failed = find_failed(c, now_ns);
    if (failed && !failed->stall.is_refused)
        snprintf(failed->why, sizeof failed->why,
                 "no progress for %llu ms, and a probe over it is not answered while another path's is",
                 (unsigned long long)((now_ns - failed->stall.since_ns) / DT_NS_PER_MS));
    if (!failed)
        failed = find_deaf(c, now_ns);
    if (!failed)
        failed = find_stopped(c, now_ns);
    rest(c, now_ns);
    if (is_stalled && !failed)
        ask_all(c, now_ns);
    return failed;
}
