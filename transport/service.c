/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/service.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "failover/switchover/stall_watch.h"
#include "failover/switchover/switchover.h"
#include "hostpath/staged/staged.h"
#include "transport/closing.h"
#include "transport/device_events.h"
#include "transport/device_thread.h"
#include "transport/failing.h"
#include "transport/glance.h"
#include "transport/message/receive.h"
#include "transport/message/send.h"
#include "transport/path/path.h"
#include "transport/peer_frames.h"
#include "transport/peer_processor.h"
#include "transport/reopen.h"
#include "transport/session/listener.h"
#include "transport/session/session.h"
#include "transport/setup.h"
#include "transport/takeover.h"

/* While no connection is in use, the rounds become rarer, up to this interval. */
#define QUIET_PERIOD_NS_MAX (100 * DT_NS_PER_MS)
/* NCCL is inside a connection that the switchover needs: the thread sleeps for this time, since NCCL's thread
 * may be waiting for this processor. */
#define OWNER_WAIT_NS (20 * DT_NS_PER_US)
/* Connections that are claimed and given back together: one membarrier for all of them. */
#define BATCH_MAX 32
/* Reports of switchovers in one round, since the log sink is foreign code. */
#define REPORT_LINES_PER_ROUND 16

/* ------------------------------------------------------------------------------------------------------------
 * One connection
 */

/* Posts the task that makes a path's flush, where the owner needs one. */
static void create_flushes(struct dt_connection *c)
{
    struct dt_receiver *r = dt_receiver_of(c);
    uint32_t wanted = dt_load_acquire(&r->flush_wanted_mask) & ~r->flush_made_mask;

    DT_CHECK(wanted >> c->path_count == 0);
    DT_CHECK(!(wanted & r->flush_made_mask)); /* a path's loopback queue pair is made once */
    r->flush_made_mask |= wanted;
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (wanted & 1u << p)
            dt_path_submit_flush(&c->path[p]);
    }
}

static void serve_receiver(struct dt_connection *c, uint64_t now_ns)
{
    create_flushes(c);
    dt_pace_feed(&c->net->health.mutex, dt_receiver_of(c));
    dt_peer_processor_publish(&c->net->health, dt_receiver_of(c), now_ns);
}

/*
 * First half of serving a connection: its session and the first frame that the switchover has to handle.
 * Returns whether it is claimed, because there is work that only the owner may do.
 */
static bool begin(struct dt_connection *c, uint64_t now_ns)
{
    DT_CHECK(c->service->claims == 0); /* the round before has settled its claims */
    c->service->deadline_ns = dt_peer_frames_session(c, now_ns);
    if (dt_load_relaxed(&c->notices) & DT_NOTICE_ABANDONED || dt_load_acquire(&c->failing) != DT_OK)
        return false;
    if (!c->switchover->is_frame_pending && dt_peer_frames_are_ready(c))
        dt_peer_frames_read(c, now_ns);
    c->service->claims = dt_switchover_is_due(c, now_ns) ? DT_CLAIM_SWITCHOVER : 0;
    c->service->claims |= dt_takeover_is_due(c, now_ns) ? DT_CLAIM_TAKEOVER : 0;
    if (c->service->claims)
        dt_owner_claim(&c->owner);
    return c->service->claims != 0;
}

/* The switchover's work, with every frame that has arrived meanwhile. */
static void progress_switchover(struct dt_connection *c, uint64_t now_ns)
{
    DT_CHECK(dt_load_relaxed(&c->owner.holder) == DT_HOLDER_DETOUR);
    dt_switchover_progress(c, now_ns);
    for (uint32_t i = 1;
         i < DT_FRAMES_PER_ROUND && dt_peer_frames_are_ready(c) && dt_load_relaxed(&c->failing) == DT_OK;
         i++) {
        dt_peer_frames_read(c, now_ns);
        if (!c->switchover->is_frame_pending)
            break;
        dt_switchover_progress(c, now_ns);
    }
}

/* Does the work that the connection was claimed for. False: NCCL is inside, and the switchover has to wait.
 */
static bool use_claim(struct dt_connection *c, uint64_t now_ns)
{
    uint32_t claims = c->service->claims;

    c->service->claims = 0;
    if (!claims)
        return true;
    if (!dt_owner_confirm(&c->owner))
        return !(claims & DT_CLAIM_SWITCHOVER);
    if (claims & DT_CLAIM_SWITCHOVER)
        progress_switchover(c, now_ns);
    if (claims & DT_CLAIM_TAKEOVER && dt_load_acquire(&c->failing) == DT_OK)
        dt_takeover_run(c, now_ns);
    dt_owner_give_back(&c->owner);
    return true;
}

/* Second half. Returns whether the connection is in use; brings its deadline forward where needed. */
static bool finish(struct dt_connection *c, uint64_t now_ns)
{
    bool is_claimed = c->service->claims != 0;
    bool is_done = use_claim(c, now_ns);
    uint64_t *deadline_ns = &c->service->deadline_ns;

    /* The work lasts as long as this thread waits for a processor. NCCL's calls were refused meanwhile;
     * counted from an earlier time, they would seem old enough for the next takeover at once. */
    if (is_claimed)
        now_ns = dt_device_thread_later_ns(c->nic, now_ns);
    DT_CHECK(c->owner.holder == DT_HOLDER_NCCL);
    dt_session_flush(c->session);
    if (dt_load_relaxed(&c->notices) & DT_NOTICE_ABANDONED) {
        dt_peer_frames_discard(c, now_ns);
        return false;
    }
    if (dt_load_acquire(&c->failing) != DT_OK) {
        dt_peer_frames_discard(c, now_ns);
        dt_failing_progress(c, now_ns);
        return dt_load_relaxed(&c->error) == DT_OK;
    }
    if (!is_done) /* counted from the end of this round, since NCCL may need this processor to leave */
        *deadline_ns = dt_earlier_ns(*deadline_ns, dt_device_thread_later_ns(c->nic, now_ns) + OWNER_WAIT_NS);
    else
        *deadline_ns = dt_earlier_ns(*deadline_ns, dt_earlier_ns(dt_peer_frames_deadline_ns(c, now_ns),
                                                                 dt_switchover_deadline_ns(c, now_ns)));
    if (c->is_sender)
        dt_health_feed(&c->net->health, dt_sender_of(c), now_ns);
    else
        serve_receiver(c, now_ns);
    return dt_takeover_observe(c, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * The net, once in a while from any device thread
 */

/* Drops pending peers and abandoned connects also while NCCL calls neither accept nor connect. */
static void tidy_setup(struct dt_net *net, uint64_t now_ns)
{
    if (pthread_mutex_trylock(&net->mutex) != 0)
        return;
    if (now_ns - net->tidied_ns >= DT_NS_PER_S) {
        net->tidied_ns = now_ns;
        if (net->session_host.listener)
            dt_listener_progress(net->session_host.listener, now_ns);
        dt_setups_abandon(net, now_ns);
    }
    pthread_mutex_unlock(&net->mutex);
}

/* The longer the interval, the more exact the scale of the stamps; one thread at a time. */
static void calibrate(struct dt_net *net, uint64_t now_ns)
{
    uint64_t last_ns = dt_load_relaxed(&net->calibrated_ns);

    if (now_ns - last_ns >= DT_NS_PER_S && dt_compare_swap(&net->calibrated_ns, &last_ns, now_ns))
        dt_ticks_calibrate(&net->environment.ticks);
}

/* Without threads: a new stream has come, perhaps of a peer that has lost its channel. */
static void progress_listener(struct dt_net *net, uint64_t now_ns)
{
    pthread_mutex_lock(&net->mutex);
    if (net->session_host.listener)
        dt_listener_progress(net->session_host.listener, now_ns);
    pthread_mutex_unlock(&net->mutex);
}

/* ------------------------------------------------------------------------------------------------------------
 * Sessions of connections that are closed
 */

/* Moves those that are over to `done`, to be destroyed without the mutex. */
static void serve_sessions(struct dt_nic *nic, uint64_t now_ns, uint64_t *deadline_ns, struct dt_list *done)
{
    dt_list_for_each(node, &nic->service->sessions)
    {
        if (!dt_session_linger(dt_container_of(node, struct dt_session, node), now_ns, deadline_ns))
            continue;
        DT_CHECK(!dt_container_of(node, struct dt_session, node)->channel.stream); /* nothing watches it */
        dt_list_remove(node);
        dt_list_push_back(done, node);
    }
}

static void destroy_sessions(struct dt_list *done)
{
    struct dt_list *node;

    while ((node = dt_list_pop_front(done)))
        dt_session_destroy(dt_container_of(node, struct dt_session, node));
}

/* ------------------------------------------------------------------------------------------------------------
 * A round
 */
struct round {
    struct dt_nic *nic;
    uint64_t now_ns;
    uint64_t deadline_ns; /* of the next round */
    uint32_t lines_left;  /* reports that may still be written */
    bool is_busy;
    bool is_hurried;
    bool has_claimed;
    uint32_t count; /* of connections in the present batch */
    struct dt_connection *connection[BATCH_MAX];
};

/* What a glance has left to do. */
static void finish_takeover(struct round *round, struct dt_connection *c)
{
    use_claim(c, round->now_ns);
    round->is_busy = true;
    round->deadline_ns = dt_earlier_ns(round->deadline_ns, c->service->deadline_ns);
}

static void finish_visit(struct round *round, struct dt_connection *c)
{
    bool is_busy = finish(c, round->now_ns);
    bool is_hurried = dt_switchover_is_hurried(c, round->now_ns);

    round->is_busy |= is_busy;
    round->is_hurried |= is_hurried;
    dt_switchover_write_reports(c, round->now_ns, &round->lines_left);
    if (dt_closing_has_staged(c))
        c->service->deadline_ns =
            dt_earlier_ns(c->service->deadline_ns, dt_deadline_ns(round->now_ns, DT_STAGED_PERIOD_NS));
    round->deadline_ns = dt_earlier_ns(round->deadline_ns, c->service->deadline_ns);
    dt_turns_settle(&round->nic->service->turns, c, is_busy || is_hurried, round->now_ns);
    dt_glance_settle(&round->nic->service->turns, c, round->now_ns);
    round->deadline_ns = dt_earlier_ns(round->deadline_ns, dt_closing_progress(c, round->now_ns));
}

static void finish_batch(struct round *round)
{
    const struct dt_net *net = round->nic->net;

    DT_CHECK(round->count <= BATCH_MAX && (round->count > 0 || !round->has_claimed));
    if (round->has_claimed)
        dt_owner_fence(net->environment.has_membarrier);
    for (uint32_t i = 0; i < round->count; i++) {
        round->now_ns = dt_device_thread_later_ns(round->nic, round->now_ns);
        if (round->connection[i]->service->is_glanced_at)
            finish_takeover(round, round->connection[i]);
        else
            finish_visit(round, round->connection[i]);
    }
    round->has_claimed = false;
    round->count = 0;
}

static void add_to_batch(struct round *round, struct dt_connection *c, bool is_glanced_at)
{
    c->service->is_glanced_at = is_glanced_at;
    round->connection[round->count++] = c;
    if (round->count == BATCH_MAX)
        finish_batch(round);
}

static void visit(struct round *round, struct dt_connection *c)
{
    DT_CHECK(c->nic == round->nic); /* a connection is served by its default device's thread alone */
    if (dt_turns_visit(&round->nic->service->turns, c))
        dt_stall_watch_rested(c, round->now_ns);
    round->has_claimed |= begin(c, round->now_ns);
    add_to_batch(round, c, false);
}

/* As begin(), for no more than a takeover. */
static void claim_for_takeover(struct dt_connection *c)
{
    DT_CHECK(c->service->claims == 0);
    c->service->claims = DT_CLAIM_TAKEOVER;
    dt_owner_claim(&c->owner);
}

/* A glance, or a visit where that is not enough. */
static void look_at(struct round *round, struct dt_connection *c)
{
    enum dt_glance_finding glance = dt_glance(&round->nic->service->turns, c, round->now_ns);

    if (glance == DT_GLANCE_VISIT) {
        visit(round, c);
        return;
    }
    round->is_busy |= glance != DT_GLANCE_QUIET;
    round->deadline_ns = dt_earlier_ns(round->deadline_ns, c->service->deadline_ns);
    if (glance != DT_GLANCE_TAKEOVER)
        return;
    claim_for_takeover(c);
    round->has_claimed = true;
    add_to_batch(round, c, true);
}

static void serve_connections(struct round *round)
{
    struct dt_turns *turns = &round->nic->service->turns;
    uint32_t resting = dt_turns_begin(round->nic, round->now_ns);
    struct dt_connection *c;

    for (uint32_t i = 0; i < turns->busy_count; i++) {
        if ((c = dt_turns_busy(turns, i)))
            look_at(round, c);
    }
    finish_batch(round);
    for (; resting > 0 && (c = dt_turns_next(turns)); resting--)
        visit(round, c);
    finish_batch(round);
    DT_CHECK(round->count == 0 && !round->has_claimed); /* each claim was used or given back */
}

/* Marks what has become readable. */
static void collect(struct dt_nic *nic)
{
    pthread_mutex_lock(&nic->mutex);
    dt_device_thread_collect(nic);
    pthread_mutex_unlock(&nic->mutex);
}

/* While no connection is in use, each round waits for as long as it has been quiet, up to the maximum. */
static uint64_t next_round_ns(const struct dt_nic *nic, uint64_t now_ns)
{
    uint64_t period_ns = nic->environment->params.idle_takeover_us * DT_NS_PER_US;
    uint64_t quiet_ns = dt_earlier_ns(now_ns - nic->service->quiet_since_ns, QUIET_PERIOD_NS_MAX);

    return dt_deadline_ns(now_ns, dt_max_u64(period_ns, quiet_ns));
}

uint64_t dt_service_progress(struct dt_nic *nic, uint64_t now_ns)
{
    struct round round = {.nic = nic, .now_ns = now_ns, .deadline_ns = DT_NEVER_NS};
    uint64_t inject_ns;
    bool is_empty;
    struct dt_list done;

    dt_list_init(&done);
    dt_store_relaxed(&nic->environment->tick_ns, now_ns);
    if (nic->environment->has_threads)
        collect(nic);
    if (nic->service->is_event_ready || !nic->environment->has_threads)
        dt_device_events_read(nic, now_ns);
    tidy_setup(nic->net, now_ns);
    calibrate(nic->net, now_ns);
    pthread_mutex_lock(&nic->mutex);
    round.lines_left = nic->is_hurried ? 0 : REPORT_LINES_PER_ROUND;
    serve_connections(&round);
    nic->is_hurried = round.is_hurried;
    nic->round_ns = round.now_ns - now_ns;
    serve_sessions(nic, now_ns, &round.deadline_ns, &done);
    inject_ns = dt_inject_release(nic, now_ns);
    is_empty = dt_list_is_empty(&nic->service->connections);
    pthread_mutex_unlock(&nic->mutex);
    destroy_sessions(&done);
    if (!nic->environment->has_threads)
        progress_listener(nic->net, now_ns);
    dt_health_judge(&nic->net->health, now_ns);
    inject_ns = dt_earlier_ns(inject_ns, dt_reopen_progress(nic, now_ns));
    inject_ns = dt_earlier_ns(inject_ns, dt_inject_faults(nic, now_ns));
    if (round.is_busy)
        nic->service->quiet_since_ns = now_ns;
    round.deadline_ns = dt_earlier_ns(round.deadline_ns, inject_ns);
    return is_empty ? round.deadline_ns : dt_earlier_ns(round.deadline_ns, next_round_ns(nic, now_ns));
}

/* ------------------------------------------------------------------------------------------------------------
 * A new connection
 */
static enum dt_status start_threads(struct dt_connection *c)
{
    enum dt_status status = DT_OK;

    for (uint32_t p = 0; p < c->path_count && status == DT_OK; p++) {
        if (c->path[p].nic)
            status = dt_nic_start(c->path[p].nic);
    }
    return status;
}

static enum dt_status reserve_turn(struct dt_nic *nic)
{
    bool has_room;

    pthread_mutex_lock(&nic->mutex);
    has_room = dt_turns_reserve(&nic->service->turns);
    pthread_mutex_unlock(&nic->mutex);
    return has_room ? DT_OK : DT_NO_MEMORY;
}

static void open_session(struct dt_connection *c)
{
    struct dt_session *session = c->session;

    DT_CHECK(!session->has_endpoint && !session->poller); /* the session starts once */
    session->host = &c->net->session_host;
    session->poller = &c->nic->service->poller;
    session->endpoint.poller = &c->nic->service->poller;
    session->endpoint.connection_id = c->id;
    session->endpoint.is_sender = c->is_sender;
    dt_session_open_endpoint(session);
}

/* Slowness of the connection, or its part of the process's computing gap. */
static void watch(struct dt_connection *c)
{
    struct dt_health_net *health = &c->net->health;
    enum dt_status status = c->is_sender ? dt_health_add(health, dt_sender_of(c))
                                         : dt_pace_add(&health->pace, &health->mutex, dt_receiver_of(c));

    if (status != DT_OK)
        dt_info("health-memory",
                "connection %016llx: out of memory; slowness of this connection is not detected",
                (unsigned long long)c->id);
}

/* With nic->mutex: the device thread serves the connection from here on. */
static void attach(struct dt_connection *c, uint64_t now_ns)
{
    DT_CHECK(dt_list_is_empty(&c->node) && !c->service->is_closed && c->service->claims == 0);
    c->service->idle_since_ns = c->switchover->waiting_ns = now_ns;
    dt_store_relaxed(&c->progress_ns, now_ns);
    dt_ticks_calibrate(&c->environment->ticks);
    dt_meter_open(c, now_ns);
    watch(c);
    dt_switchover_start(c, now_ns);
    dt_list_push_back(&c->nic->service->connections, &c->node);
    dt_turns_add(c->nic, c, now_ns);
    dt_session_start(c->session);
    c->ops->session_started(c);
}

enum dt_status dt_service_add(struct dt_connection *c, uint64_t now_ns)
{
    struct dt_nic *nic = c->nic;
    enum dt_status status = c->is_sender ? dt_gate_open(dt_sender_of(c)) : DT_OK;

    if (status == DT_OK)
        status = dt_staged_open(c);
    if (status == DT_OK && c->environment->has_threads)
        status = start_threads(c);
    if (status == DT_OK)
        status = reserve_turn(nic);
    if (status != DT_OK)
        return status;
    open_session(c);
    pthread_mutex_lock(&nic->mutex);
    attach(c, now_ns);
    pthread_mutex_unlock(&nic->mutex);
    dt_nic_interrupt(nic);
    return DT_OK;
}
