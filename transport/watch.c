/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/watch.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/planted.h"
#include "transport/nic.h"
#include "transport/path.h"
#include "transport/work_id.h"

#define POLL_MAX 4

static uint64_t limit_ns(const struct dt_connection *c)
{
    return c->net->params.stall_ms * DT_NS_PER_MS;
}

/* NCCL calls and gets nothing for it: a sender without a clear-to-send. */
static bool is_waiting(const struct dt_connection *c, uint64_t now_ns)
{
    return c->is_sender && now_ns - c->waiting_ns >= limit_ns(c);
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

        return first < r->next ? (first << 32 | c->completions) + 1 : 0;
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
    struct dt_write write = {
        .wr_id = dt_work_encode(DT_WORK_PROBE, path->index, 0, path->epoch, 0),
        .flags = DT_POST_SIGNALED,
    };

    if (path->stall.asked_ns != 0 || !path->probe)
        return;
    if (dt_qp_sends_outstanding(path->probe) == 0) {
        if (dt_qp_post_write(path->probe, &write, 1) != DT_OK)
            return;
        dt_qp_ring(path->probe);
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
    bool is_stalled = false;

    c->watched_ns = now_ns;
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        if (path->state != DT_PATH_UP)
            continue;
        poll_answer(path, now_ns);
        is_stalled |= dt_stall_look(&path->stall, mark_of(path, now_ns), limit_ns(c), now_ns);
    }
    failed = find_failed(c, now_ns);
    if (failed && !failed->stall.is_refused)
        snprintf(failed->why, sizeof failed->why,
                 "no progress for %llu ms, and a probe over it is not answered while another path's is",
                 (unsigned long long)((now_ns - failed->stall.since_ns) / DT_NS_PER_MS));
    rest(c, now_ns);
    if (is_stalled && !failed)
        ask_all(c, now_ns);
    return failed;
}
