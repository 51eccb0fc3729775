/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/service.h"

#include "base/clock.h"
#include "base/log.h"
#include "transport/device_events.h"
#include "transport/device_thread.h"
#include "transport/listener.h"
#include "transport/path.h"
#include "transport/line.h"
#include "transport/setup.h"
#include "transport/staging.h"
#include "transport/switch.h"
#include "transport/watch.h"

/* A fence that takes longer than this hangs in the driver: the error is shown without it. */
#define FENCE_WAIT_NS DT_NS_PER_S
/* What a dead process has sent is here within the network's latency; what another one has sent and closed may
 * take a repetition. */
#define PEER_DEAD_WAIT_NS (20 * DT_NS_PER_MS)
#define PEER_GONE_WAIT_NS (100 * DT_NS_PER_MS)
/* Rounds over connections that nobody uses become rarer, up to this. */
#define QUIET_PERIOD_NS_MAX (100 * DT_NS_PER_MS)
/* NCCL is still inside a connection that is to be taken: so long that the thread really sleeps, since the one
 * that is inside may wait for this processor. */
#define DOOR_WAIT_NS (20 * DT_NS_PER_US)
/* What is staged is nobody's but Detour's: it is looked after so often while NCCL does not call. */
#define STAGED_PERIOD_NS (100 * DT_NS_PER_US)
/* Of one peer, which may talk without end. */
#define FRAMES_PER_ROUND 64
/* Connections that are taken from NCCL, and given back, together. */
#define TOGETHER_MAX 32
/* Reports of switches, which somebody else's logger writes. */
#define LINES_PER_ROUND 16

/* ------------------------------------------------------------------------------------------------------------
 * The control channel
 */
static enum dt_status take_grant(struct dt_connection *c, const struct dt_frame *frame)
{
    struct dt_grant grant;
    enum dt_status status = dt_grant_decode(frame->body, frame->bytes, c->path_count, &grant);

    if (status == DT_OK)
        dt_ahead_granted(dt_sender_of(c), &grant);
    return status;
}

static enum dt_status take_frame(struct dt_connection *c, const struct dt_frame *frame)
{
    struct dt_close close;
    enum dt_status status;

    c->heard_type = frame->type;
    if (c->version >= DT_PROTOCOL_VERSION_FACTS &&
        (frame->type == DT_FRAME_ASK || frame->type == DT_FRAME_HAS)) {
        status = dt_fact_decode(frame->body, frame->bytes, c->path_count, &c->heard_fact);
        c->is_heard = status == DT_OK;
        return status;
    }
    if (frame->type == DT_FRAME_PATH) {
        status =
            dt_path_frame_decode(frame->body, frame->bytes, c->path_count, c->qps, c->version, &c->heard);
        c->is_heard = status == DT_OK;
        return status;
    }
    if (frame->type == DT_FRAME_GRANT && c->version >= DT_PROTOCOL_VERSION_AHEAD && c->is_sender)
        return take_grant(c, frame);
    if (frame->type != DT_FRAME_CLOSE)
        return DT_PROTOCOL;
    status = dt_close_decode(frame->body, frame->bytes, &close);
    if (status != DT_OK || dt_load_relaxed(&c->notices) & DT_NOTICE_PEER_CLOSED)
        return status;
    c->peer_close_sequence = close.sequence;
    dt_connection_notify(c, DT_NOTICE_PEER_CLOSED);
    return DT_OK;
}

/* Up to a frame that the switch has to attend to before the next one is read. */
static void read_line(struct dt_connection *c, uint64_t now_ns)
{
    enum dt_status status = DT_OK;
    struct dt_frame frame;

    for (int i = 0; i < FRAMES_PER_ROUND && status == DT_OK && !c->is_heard; i++) {
        status = dt_line_receive(c->line, &frame, now_ns);
        if (status == DT_OK)
            status = take_frame(c, &frame);
    }
    if (status != DT_PROTOCOL)
        return;
    dt_line_break(c->line);
    dt_connection_notify(c, DT_NOTICE_PEER_BROKEN);
}

/* The line itself, whatever has become of the connection. Returns when it wants to be looked at again. */
static uint64_t serve_line(struct dt_connection *c, uint64_t now_ns)
{
    uint64_t deadline_ns = dt_line_progress(c->line, now_ns);

    if (c->line->is_back)
        dt_switch_say_again(c, now_ns);
    if (c->line->is_back && !c->is_sender)
        dt_ahead_grant(dt_receiver_of(c));
    c->line->is_back = false;
    c->is_peer_lost = c->line->is_dead;
    return deadline_ns;
}

/* ------------------------------------------------------------------------------------------------------------
 * Failing connections
 */
static void start_fences(struct dt_connection *c, uint64_t now_ns)
{
    c->fence_deadline_ns = dt_deadline_ns(now_ns, FENCE_WAIT_NS);
    dt_fetch_add_acq_rel(&c->fences_pending, c->path_count);
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_path_submit_fence(&c->path[p]);
}

/* The peer, which may know nothing of the failure, hears that nothing more will come. */
static void say_failing(struct dt_connection *c, uint64_t now_ns)
{
    uint64_t sequence;

    if (c->line->is_closing || !dt_owner_take(&c->owner))
        return;
    sequence = c->is_sender ? dt_sender_first_incomplete(dt_sender_of(c))
                            : dt_receiver_first_missing(dt_receiver_of(c));
    dt_owner_give_back(&c->owner);
    dt_line_say_close(c->line, sequence, now_ns);
}

static void fence_failing(struct dt_connection *c, uint64_t now_ns)
{
    say_failing(c, now_ns);
    if (c->fence_deadline_ns == 0)
        start_fences(c, now_ns);
    if (now_ns < c->fence_deadline_ns || dt_load_acquire(&c->error))
        return;
    dt_warn(
        "connection %016llx: %s did not fence its queue pairs within %llu ms; the error is reported all the "
        "same",
        (unsigned long long)c->id, c->nic->name, FENCE_WAIT_NS / DT_NS_PER_MS);
    dt_store_release(&c->error, dt_load_acquire(&c->failing));
}

/* ------------------------------------------------------------------------------------------------------------
 * Pending work that NCCL does not look at
 */
static bool has_staged(const struct dt_connection *c);

/* Neither NCCL has looked at it for so long, nor Detour in its place; and NCCL is not inside one long call.
 */
static bool wants_takeover(const struct dt_connection *c, uint64_t now_ns)
{
    uint64_t takeover_ns = has_staged(c) ? STAGED_PERIOD_NS : c->net->params.idle_takeover_us * DT_NS_PER_US;
    uint32_t visits = dt_owner_visits(&c->owner);

    return dt_load_relaxed(&c->open_requests) > 0 && visits == c->visits_seen && !(visits & 1) &&
           now_ns - c->idle_since_ns >= takeover_ns;
}

static void take_over(struct dt_connection *c, uint64_t now_ns)
{
    c->idle_since_ns = now_ns;
    dt_page_add(&c->meter.row->takeover_count, 1);
    dt_connection_progress(c);
    if (dt_load_acquire(&c->notices) != c->attended)
        dt_connection_attend(c);
}

/* Keeps progress_ns: when something was last completed, or nothing was open. */
static void watch_progress(struct dt_connection *c, uint64_t now_ns)
{
    uint32_t completions = dt_load_relaxed(&c->completions);

    if (completions != c->completions_seen || dt_load_relaxed(&c->open_requests) == 0)
        dt_store_relaxed(&c->progress_ns, now_ns);
    c->completions_seen = completions;
}

/* A sender that has closed was told that its messages arrived; a device that failed may have taken some
 * along. */
static bool waits_for_the_gone(const struct dt_connection *c)
{
    return !c->is_sender && dt_load_relaxed(&c->notices) & DT_NOTICE_PEER_CLOSED &&
           dt_load_relaxed(&c->open_requests) > 0;
}

/*
 * What a peer that is dead, or has closed, has sent may still be on its way to the completion queue: the
 * connection ends when nothing has come for a while.
 */
static void mourn(struct dt_connection *c, uint64_t now_ns)
{
    uint64_t wait_ns = c->is_peer_lost ? PEER_DEAD_WAIT_NS : PEER_GONE_WAIT_NS;

    if (dt_load_relaxed(&c->notices) & DT_NOTICE_PEER_LOST)
        return;
    if (!c->is_peer_lost && !waits_for_the_gone(c))
        c->peer_lost_ns = 0;
    else if (c->peer_lost_ns == 0 || c->completions_seen != dt_load_relaxed(&c->completions))
        c->peer_lost_ns = now_ns;
    else if (now_ns - c->peer_lost_ns >= wait_ns)
        dt_connection_notify(c, DT_NOTICE_PEER_LOST);
}

/* Returns whether the connection is in use. */
static bool look_after(struct dt_connection *c, uint64_t now_ns)
{
    uint32_t visits = dt_owner_visits(&c->owner);
    bool is_busy = visits != c->visits_seen || dt_load_relaxed(&c->open_requests) > 0;

    mourn(c, now_ns);
    watch_progress(c, now_ns);
    dt_watch_visits(c, visits != c->visits_seen, now_ns);
    if (visits != c->visits_seen) {
        c->visits_seen = visits;
        c->idle_since_ns = now_ns;
    }
    return is_busy || ((c->is_peer_lost || waits_for_the_gone(c)) &&
                       !(dt_load_relaxed(&c->notices) & DT_NOTICE_PEER_LOST));
}

static void make_flushes(struct dt_connection *c)
{
    struct dt_receiver *r = dt_receiver_of(c);
    uint32_t wanted = dt_load_acquire(&r->flush_wanted_mask) & ~r->flush_made_mask;

    r->flush_made_mask |= wanted;
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (wanted & 1u << p)
            dt_path_submit_flush(&c->path[p]);
    }
}

/* What the peer says does not matter any more, but that it closes. */
static void ignore_peer(struct dt_connection *c, uint64_t now_ns)
{
    if (dt_line_is_ready(c->line))
        dt_line_ignore(c->line, now_ns);
}

/*
 * The first half of serving a connection: its line, and the first thing that the peer has said. Returns
 * whether it is claimed, because there is something to do for which one has to own it.
 */
static bool begin(struct dt_connection *c, uint64_t now_ns, uint64_t *deadline_ns)
{
    *deadline_ns = dt_earlier_ns(*deadline_ns, serve_line(c, now_ns));
    if (dt_load_relaxed(&c->notices) & DT_NOTICE_ABANDONED || dt_load_acquire(&c->failing) != DT_OK)
        return false;
    if (!c->is_heard && dt_line_is_ready(c->line))
        read_line(c, now_ns);
    c->claims = dt_switch_is_due(c, now_ns) ? DT_CLAIM_SWITCH : 0;
    c->claims |= wants_takeover(c, now_ns) ? DT_CLAIM_TAKEOVER : 0;
    if (c->claims)
        dt_owner_claim(&c->owner);
    return c->claims != 0;
}

/* What the switch has to do, also about all that the peer has said meanwhile. */
static void progress_switch(struct dt_connection *c, uint64_t now_ns)
{
    dt_switch_progress(c, now_ns);
    for (uint32_t i = 1; i < FRAMES_PER_ROUND && dt_line_is_ready(c->line); i++) {
        read_line(c, now_ns);
        if (!c->is_heard)
            break;
        dt_switch_progress(c, now_ns);
    }
}

/* Does what the connection was claimed for. False: NCCL is inside, and the switch has to wait for it. */
static bool use_claim(struct dt_connection *c, uint64_t now_ns)
{
    uint32_t claims = c->claims;

    c->claims = 0;
    if (!claims)
        return true;
    if (!dt_owner_confirm(&c->owner))
        return !(claims & DT_CLAIM_SWITCH);
    if (claims & DT_CLAIM_SWITCH)
        progress_switch(c, now_ns);
    if (claims & DT_CLAIM_TAKEOVER && dt_load_acquire(&c->failing) == DT_OK)
        take_over(c, now_ns);
    dt_owner_give_back(&c->owner);
    return true;
}

/* The second half. Returns whether the connection is in use, and brings *deadline_ns forward if it has to. */
static bool finish(struct dt_connection *c, uint64_t now_ns, uint64_t *deadline_ns)
{
    bool is_done = use_claim(c, now_ns);

    dt_line_flush(c->line);
    if (dt_load_relaxed(&c->notices) & DT_NOTICE_ABANDONED) {
        ignore_peer(c, now_ns);
        return false;
    }
    if (dt_load_acquire(&c->failing) != DT_OK) {
        ignore_peer(c, now_ns);
        fence_failing(c, now_ns);
        return dt_load_relaxed(&c->error) == DT_OK;
    }
    if (!is_done) /* from now on: it has been waited for, and may need this processor to get out */
        *deadline_ns = dt_earlier_ns(*deadline_ns, dt_device_thread_later_ns(c->nic, now_ns) + DOOR_WAIT_NS);
    else
        *deadline_ns =
            dt_earlier_ns(*deadline_ns, c->line->is_ready ? now_ns : dt_switch_deadline_ns(c, now_ns));
    if (c->is_sender)
        dt_health_feed(dt_sender_of(c), now_ns);
    else
        make_flushes(c);
    return look_after(c, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * Closed, with messages staged
 */
/* They may still be delivered. */
static bool has_staged(const struct dt_connection *c)
{
    return dt_stage_undelivered(c) > 0 && dt_load_acquire(&c->failing) == DT_OK &&
           !(dt_load_relaxed(&c->notices) & DT_NOTICE_ABANDONED);
}

bool dt_service_linger(struct dt_connection *c)
{
    struct dt_nic *nic = c->nic;
    bool lingers;

    pthread_mutex_lock(&nic->mutex);
    lingers = has_staged(c);
    c->is_closed = lingers;
    pthread_mutex_unlock(&nic->mutex);
    if (lingers)
        dt_nic_wake(nic);
    return lingers;
}

bool dt_service_has_staged(const struct dt_nic *nic)
{
    for (const struct dt_list *node = nic->connections.next; node != &nic->connections; node = node->next) {
        if (has_staged(dt_container_of(node, const struct dt_connection, node)))
            return true;
    }
    return false;
}

/* Detour's thread does not touch it any more, and nobody sees it. Holds nic->mutex. */
static void forget(struct dt_connection *c)
{
    dt_list_remove(&c->node);
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_switch_report_end(&c->path[p]);
    if (c->is_sender)
        dt_health_remove(dt_sender_of(c));
    dt_meter_close(c);
}

static void end_lingering(struct dt_connection *c)
{
    forget(c);
    dt_connection_end(c);
}

/* Returns when the connection is to be looked at again; DT_NEVER_NS: it does not linger, or no longer exists.
 */
static uint64_t linger(struct dt_connection *c, uint64_t now_ns)
{
    if (!c->is_closed)
        return DT_NEVER_NS;
    if (c->linger_until_ns == 0)
        c->linger_until_ns = dt_deadline_ns(now_ns, c->net->params.linger_ms * DT_NS_PER_MS);
    if (has_staged(c) && now_ns < c->linger_until_ns)
        return c->linger_until_ns;
    if (has_staged(c))
        dt_warn(
            "connection %016llx to %s: %u staged messages could not be delivered within %llu ms of its close "
            "(DETOUR_LINGER_MS); they are lost",
            (unsigned long long)c->id, c->peer, dt_stage_undelivered(c),
            (unsigned long long)c->net->params.linger_ms);
    end_lingering(c);
    return DT_NEVER_NS;
}

void dt_service_end_lingering(struct dt_nic *nic)
{
    dt_list_for_each(node, &nic->connections)
    {
        struct dt_connection *c = dt_container_of(node, struct dt_connection, node);

        if (c->is_closed)
            end_lingering(c);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * A round
 */

/* Strangers who say nothing, and connects that NCCL has given up, go also when nobody calls accept or
 * connect. */
static void tidy_setup(struct dt_net *net, uint64_t now_ns)
{
    if (pthread_mutex_trylock(&net->mutex) != 0)
        return;
    if (now_ns - net->tidied_ns >= DT_NS_PER_S) {
        net->tidied_ns = now_ns;
        if (net->listener)
            dt_listener_progress(net->listener, now_ns);
        dt_setups_abandon(net, now_ns);
    }
    pthread_mutex_unlock(&net->mutex);
}

/* The stamps' scale gets better with time; one thread at a time. */
static void calibrate(struct dt_net *net, uint64_t now_ns)
{
    uint64_t last_ns = dt_load_relaxed(&net->calibrated_ns);

    if (now_ns - last_ns >= DT_NS_PER_S && dt_compare_swap(&net->calibrated_ns, &last_ns, now_ns))
        dt_ticks_calibrate(&net->ticks);
}

/* Somebody has come, perhaps a peer that has lost its channel. */
static void open_doors(struct dt_nic *nic, uint64_t now_ns)
{
    struct dt_net *net = nic->net;

    nic->is_listener_ready = false;
    pthread_mutex_lock(&net->mutex);
    if (net->listener)
        dt_listener_progress(net->listener, now_ns);
    pthread_mutex_unlock(&net->mutex);
}

/* Of connections that are closed. Those that are over go to `done`, and are destroyed without the mutex. */
static void serve_lines(struct dt_nic *nic, uint64_t now_ns, uint64_t *deadline_ns, struct dt_list *done)
{
    dt_list_for_each(node, &nic->lines)
    {
        if (!dt_line_linger(dt_container_of(node, struct dt_line, node), now_ns, deadline_ns))
            continue;
        dt_list_remove(node);
        dt_list_push_back(done, node);
    }
}

static void destroy_lines(struct dt_list *done)
{
    struct dt_list *node;

    while ((node = dt_list_pop_front(done)))
        dt_line_destroy(dt_container_of(node, struct dt_line, node));
}

/* A round, as far as it has come. */
struct round {
    struct dt_nic *nic;
    uint64_t now_ns;
    uint64_t deadline_ns; /* of the next */
    uint32_t lines_left;  /* reports that may be written */
    bool is_busy;
    bool is_hurried;
    bool has_claimed;
    uint32_t count; /* of the connections that are being served together */
    struct dt_connection *connection[TOGETHER_MAX];
};

static void finish_one(struct round *round, struct dt_connection *c)
{
    round->is_busy |= finish(c, round->now_ns, &round->deadline_ns);
    round->is_hurried |= dt_switch_is_hurried(c, round->now_ns);
    dt_switch_report(c, round->now_ns, &round->lines_left);
    if (has_staged(c))
        round->deadline_ns =
            dt_earlier_ns(round->deadline_ns, dt_deadline_ns(round->now_ns, STAGED_PERIOD_NS));
    round->deadline_ns = dt_earlier_ns(round->deadline_ns, linger(c, round->now_ns));
}

static void finish_together(struct round *round)
{
    const struct dt_net *net = round->nic->net;

    if (round->has_claimed)
        dt_owner_fence(net->has_membarrier);
    for (uint32_t i = 0; i < round->count; i++) {
        round->now_ns = dt_device_thread_later_ns(round->nic, round->now_ns);
        finish_one(round, round->connection[i]);
    }
    round->has_claimed = false;
    round->count = 0;
}

/* Connections are taken from NCCL a few at a time: that is one system call for all of them. */
static void serve_connections(struct round *round)
{
    dt_list_for_each(node, &round->nic->connections)
    {
        struct dt_connection *c = dt_container_of(node, struct dt_connection, node);

        round->has_claimed |= begin(c, round->now_ns, &round->deadline_ns);
        round->connection[round->count++] = c;
        if (round->count == TOGETHER_MAX)
            finish_together(round);
    }
    finish_together(round);
}

/* What has become readable. */
static void collect(struct dt_nic *nic)
{
    pthread_mutex_lock(&nic->mutex);
    dt_device_thread_collect(nic);
    pthread_mutex_unlock(&nic->mutex);
}

uint64_t dt_service_progress(struct dt_nic *nic, uint64_t now_ns)
{
    uint64_t period_ns = nic->net->params.idle_takeover_us * DT_NS_PER_US;
    struct round round = {.nic = nic, .now_ns = now_ns, .deadline_ns = DT_NEVER_NS};
    uint64_t inject_ns;
    bool is_empty;
    struct dt_list done;

    dt_list_init(&done);
    dt_store_relaxed(&nic->net->tick_ns, now_ns);
    if (nic->net->has_threads)
        collect(nic);
    if (nic->is_event_ready || !nic->net->has_threads)
        dt_device_events_read(nic, now_ns);
    tidy_setup(nic->net, now_ns);
    calibrate(nic->net, now_ns);
    pthread_mutex_lock(&nic->mutex);
    round.lines_left = nic->is_hurried ? 0 : LINES_PER_ROUND;
    serve_connections(&round);
    nic->is_hurried = round.is_hurried;
    nic->round_ns = round.now_ns - now_ns;
    serve_lines(nic, now_ns, &round.deadline_ns, &done);
    inject_ns = dt_inject_release(nic, now_ns);
    is_empty = dt_list_is_empty(&nic->connections);
    pthread_mutex_unlock(&nic->mutex);
    destroy_lines(&done);
    if (nic->is_listener_ready || !nic->net->has_threads)
        open_doors(nic, now_ns);
    dt_health_judge(nic->net, now_ns);
    inject_ns = dt_earlier_ns(inject_ns, dt_inject_faults(nic, now_ns));
    if (round.is_busy)
        nic->quiet_since_ns = now_ns;
    round.deadline_ns = dt_earlier_ns(round.deadline_ns, inject_ns);
    if (is_empty)
        return round.deadline_ns;
    /* Twice as long after every quiet time of the same length. */
    period_ns = dt_max_u64(period_ns, dt_earlier_ns(now_ns - nic->quiet_since_ns, QUIET_PERIOD_NS_MAX));
    return dt_earlier_ns(round.deadline_ns, dt_deadline_ns(now_ns, period_ns));
}

enum dt_status dt_service_add(struct dt_connection *c, uint64_t now_ns)
{
    struct dt_nic *nic = c->nic;
    enum dt_status status = c->is_sender ? dt_gate_open(dt_sender_of(c)) : DT_OK;

    if (status == DT_OK && c->is_sender)
        status = dt_stage_open(dt_sender_of(c));
    if (status != DT_OK)
        return status;
    if (c->net->has_threads) {
        for (uint32_t p = 0; p < c->path_count && status == DT_OK; p++) {
            if (c->path[p].nic)
                status = dt_nic_start(c->path[p].nic);
        }
        if (status != DT_OK)
            return status;
    }
    c->line->nic = nic;
    c->line->door.nic = nic;
    c->line->door.connection_id = c->id;
    c->line->door.is_sender = c->is_sender;
    dt_line_open_door(c->line);
    pthread_mutex_lock(&nic->mutex);
    c->idle_since_ns = c->waiting_ns = now_ns;
    dt_store_relaxed(&c->progress_ns, now_ns);
    dt_ticks_calibrate(&c->net->ticks);
    dt_meter_open(c, now_ns);
    if (c->is_sender && dt_health_add(dt_sender_of(c)) != DT_OK)
        dt_info("connection %016llx: out of memory; nobody will say whether it is slow",
                (unsigned long long)c->id);
    dt_switch_start(c, now_ns);
    dt_list_push_back(&nic->connections, &c->node);
    dt_line_start(c->line);
    if (!c->is_sender) {
        dt_ahead_start(dt_receiver_of(c));
        dt_ahead_grant(dt_receiver_of(c));
    }
    pthread_mutex_unlock(&nic->mutex);
    dt_nic_wake(nic);
    return DT_OK;
}

void dt_service_remove(struct dt_connection *c)
{
    pthread_mutex_lock(&c->nic->mutex);
    forget(c);
    pthread_mutex_unlock(&c->nic->mutex);
}

void dt_service_part(struct dt_connection *c, uint64_t sequence)
{
    struct dt_nic *nic = c->nic;
    uint64_t now_ns = dt_load_relaxed(&nic->net->tick_ns);

    dt_line_say_close(c->line, sequence, now_ns);
    dt_list_push_back(&nic->lines, &c->line->node);
    c->line = NULL;
    dt_nic_wake(nic);
}
