/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/session/session.h"
#include "failover/switchover/switchover.h"
#include "transport/path/path.h"
#include "transport/path/queues.h"
#include "transport/closing.h"
#include "transport/service.h"
#include "transport/setup_wait.h"
#include "hostpath/staged/staged.h"
#include "transport/message/create.h"
#include "transport/message/send.h"
#include "transport/message/receive.h"

#define ABANDON_EVERY_NS (100 * DT_NS_PER_MS) /* each look goes through all attempts */
/* A connect that NCCL still calls reports its timeout itself; this time later, NCCL has abandoned it. */
#define ABANDON_WAIT_NS (10 * DT_NS_PER_S)

/* ------------------------------------------------------------------------------------------------------------
 * Which devices, and how much of everything
 */

struct dt_terms dt_setup_wishes(const struct dt_nic *nic)
{
    const struct dt_net *net = nic->net;
    struct dt_terms terms = {
        .paths = (uint32_t)net->environment.params.paths,
        .qps = (uint32_t)net->environment.params.qps_per_path,
        .slots = DT_SLOTS_MAX,
        .chunk_bytes = net->environment.chunk_bytes,
    };

    for (uint32_t i = 0; i < nic->service->backups.count; i++) {
        DT_CHECK(nic->service->backups.index[i] < net->nic_count);
        const struct dt_nic *backup = &net->nic[nic->service->backups.index[i]];

        terms.slots =
            (uint32_t)dt_min_u64(terms.slots, dt_path_slots_max(&net->environment.params, &backup->info));
    }
    return terms;
}

/* All paths of a connection are of one link layer. */
static uint32_t adaptive_bytes(const struct dt_connection *c)
{
    const struct dt_params *params = &c->environment->params;
    bool is_adaptive = params->adaptive_routing == 1 ||
                       (params->adaptive_routing == 2 && c->nic->info.link_layer == DT_LINK_INFINIBAND);

    return is_adaptive ? (uint32_t)params->ar_threshold : UINT32_MAX;
}

void dt_setup_take_answer(struct dt_setup *setup, const struct dt_answer *answer, enum dt_spread spread)
{
    struct dt_connection *c = setup->connection;
    const struct dt_terms *terms = &answer->agreed;
    const struct dt_backup_pair *pairs = answer->path;
    const struct dt_backup_list *backups = &c->nic->service->backups;

    DT_CHECK(terms->paths >= 1 && terms->paths <= DT_PATHS_MAX);
    DT_CHECK(c->path_count == 0); /* once, before any path exists */
    DT_CHECK(terms->qps >= 1 && terms->qps <= DT_QPS_MAX && terms->slots <= DT_SLOTS_MAX);
    DT_CHECK((terms->slots & (terms->slots - 1)) == 0); /* a slot is found by masking the sequence */
    setup->terms = *terms;
    c->path_count = terms->paths;
    c->qps = terms->qps;
    c->shares = spread == DT_SPREAD_TURNS ? 1 : (uint32_t)dt_min_u64(terms->qps, DT_SHARES_MAX);
    c->slots = c->group.slots = terms->slots;
    c->chunk_bytes = terms->chunk_bytes;
    c->adaptive_bytes = adaptive_bytes(c);
    c->group.uses_ece = answer->version >= DT_PROTOCOL_VERSION_ECE && c->environment->params.ece &&
                        dt_verbs_has_ece(c->environment->verbs);
    setup->links_first = c->group.uses_ece && !c->is_sender;
    if (!c->is_sender)
        dt_receiver_of(c)->cts_period = (uint32_t)dt_min_u64(DT_CTS_SIGNAL_PERIOD, terms->slots / 2);
    for (uint32_t p = 0; p < c->path_count; p++) {
        DT_CHECK((c->is_sender ? pairs[p].sender : pairs[p].receiver) < backups->count);
        c->path[p].connection = c;
        c->path[p].group = &c->group;
        c->path[p].index = p;
        c->path[p].qp_count = terms->qps;
        c->path[p].share_count = c->shares;
        c->path[p].whole_message = dt_arrivals_whole(c->shares);
        c->path[p].nic = &c->net->nic[backups->index[c->is_sender ? pairs[p].sender : pairs[p].receiver]];
        c->path[p].backup_kind = pairs[p].kind;
        dt_list_init(&c->path[p].retired);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Steps after the agreement
 */
static enum dt_status fail(struct dt_setup *setup, enum dt_status status, const char *why)
{
    snprintf(setup->why, sizeof setup->why, "%s", why);
    return status;
}

enum dt_status dt_setup_expect(struct dt_setup *setup, enum dt_frame_type type, struct dt_frame *frame)
{
    enum dt_status status = dt_channel_receive(&setup->connection->session->channel, frame);
    struct dt_reject reject;

    if (status == DT_AGAIN)
        return status;
    if (status == DT_PROTOCOL)
        return fail(setup, status, "the peer does not speak our protocol");
    if (status != DT_OK)
        return fail(setup, status, "the peer ended the control channel");
    if (frame->type == type)
        return DT_OK;
    if (frame->type == DT_FRAME_REJECT && dt_reject_decode(frame->body, frame->bytes, &reject) == DT_OK) {
        setup->is_rejected = true;
        snprintf(setup->why, sizeof setup->why, "the peer refused: %s", reject.reason);
        return DT_PEER_ERROR;
    }
    return fail(setup, DT_PROTOCOL, "the peer sent a frame out of order");
}

enum dt_status dt_step_flush(struct dt_setup *setup, uint64_t now_ns)
{
    enum dt_status status = dt_channel_flush(&setup->connection->session->channel);

    (void)now_ns;
    if (status == DT_OK || status == DT_AGAIN)
        return status;
    return fail(setup, status, "the peer ended the control channel");
}

static enum dt_status step_create(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_connection *c = setup->connection;

    (void)now_ns;
    pthread_mutex_lock(&c->net->mutex);
    dt_hostpath_place(&c->net->hostpath, c->nic->info.numa_node); /* the paths register the pool */
    pthread_mutex_unlock(&c->net->mutex);
    dt_staged_prepare(c);
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_path_submit_create(&c->path[p]);
    return DT_OK;
}

static uint32_t paths_up(const struct dt_connection *c)
{
    uint32_t mask = 0;

    for (uint32_t p = 0; p < c->path_count; p++)
        mask |= c->path[p].state == DT_PATH_UP ? 1u << p : 0;
    return mask;
}

static enum dt_status step_wait_tasks(struct dt_setup *setup, uint64_t now_ns)
{
    if (!dt_setup_tasks_done(setup, now_ns))
        return DT_AGAIN;
    setup->path_mask = paths_up(setup->connection);
    DT_CHECK(setup->path_mask >> setup->terms.paths == 0);
    return setup->path_mask ? DT_OK : fail(setup, DT_SYSTEM, "no device could set up its queue pairs");
}

static enum dt_status step_wait_links(struct dt_setup *setup, uint64_t now_ns)
{
    if (!dt_setup_tasks_done(setup, now_ns) || dt_setup_repeats_links(setup, now_ns))
        return DT_AGAIN;
    return step_wait_tasks(setup, now_ns);
}

static enum dt_status send_paths(struct dt_setup *setup)
{
    struct dt_connection *c = setup->connection;
    struct dt_paths_offer offer;

    memset(&offer, 0, sizeof offer);
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_path_get_offer(&c->path[p], c->path[p].state == DT_PATH_UP, &offer.path[p]);
    dt_paths_encode(&offer, &setup->terms, &c->session->channel.out);
    return DT_OK;
}

static enum dt_status step_send_paths(struct dt_setup *setup, uint64_t now_ns)
{
    (void)now_ns;
    return setup->links_first ? DT_OK : send_paths(setup);
}

static enum dt_status step_send_linked(struct dt_setup *setup, uint64_t now_ns)
{
    (void)now_ns;
    return setup->links_first ? send_paths(setup) : DT_OK;
}

static enum dt_status receive_paths(struct dt_setup *setup)
{
    struct dt_connection *c = setup->connection;
    struct dt_frame frame;
    enum dt_status status = dt_setup_expect(setup, DT_FRAME_PATHS, &frame);

    if (status != DT_OK)
        return status;
    status = dt_paths_decode(frame.body, frame.bytes, &setup->terms, &setup->peer_offer);
    if (status != DT_OK)
        return fail(setup, status, "the peer's list of paths is invalid");
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_path_accept_offer(&c->path[p], &setup->peer_offer.path[p]);
    setup->has_peer_paths = true;
    return paths_up(c) ? DT_OK : fail(setup, DT_SYSTEM, "no path has a working device at both ends");
}

/*
 * With many queue pairs the list of an end is longer than the window of a stream (session/pair_record.h), and
 * both ends send first: each reads while it sends.
 */
static enum dt_status step_exchange_paths(struct dt_setup *setup, uint64_t now_ns)
{
    enum dt_status flushed = dt_step_flush(setup, now_ns);
    enum dt_status status = DT_OK;

    if (flushed != DT_OK && flushed != DT_AGAIN)
        return flushed;
    if (!setup->has_peer_paths)
        status = receive_paths(setup);
    return status == DT_OK ? flushed : status;
}

static enum dt_status step_link(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_connection *c = setup->connection;

    (void)now_ns;
    DT_CHECK(dt_load_acquire(&c->group.setup_pending) == 0); /* the tasks of the step before are done */
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].state == DT_PATH_UP)
            dt_path_submit_link(&c->path[p]);
    }
    return DT_OK;
}

static enum dt_status step_send_ready(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_ready ready = {setup->path_mask};

    (void)now_ns;
    dt_ready_encode(&ready, &setup->connection->session->channel.out);
    return DT_OK;
}

static enum dt_status step_receive_ready(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_connection *c = setup->connection;
    struct dt_frame frame;
    struct dt_ready ready;
    enum dt_status status = dt_setup_expect(setup, DT_FRAME_READY, &frame);

    (void)now_ns;
    if (status != DT_OK)
        return status;
    status = dt_ready_decode(frame.body, frame.bytes, &setup->terms, &ready);
    if (status != DT_OK)
        return fail(setup, status, "the peer is ready for paths that were not agreed on");
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (!(ready.path_mask & 1u << p))
            c->path[p].state = DT_PATH_NONE;
    }
    return paths_up(c) ? DT_OK : fail(setup, DT_SYSTEM, "no path works at both ends");
}

static enum dt_status step_probe(struct dt_setup *setup, uint64_t now_ns)
{
    dt_reachability_ask(setup->connection, &setup->reach, now_ns);
    return DT_OK;
}

static enum dt_status step_wait_answers(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_connection *c = setup->connection;
    char pairs[700];

    if (!dt_reachability_is_known(c, &setup->reach, now_ns, setup->deadline_ns))
        return DT_AGAIN;
    setup->path_mask = paths_up(c);
    if (setup->path_mask)
        return DT_OK;
    dt_reachability_describe(c, pairs, sizeof pairs);
    snprintf(setup->why, sizeof setup->why, "no path reaches the peer: %s", pairs);
    return DT_PEER_ERROR;
}

const struct dt_step dt_steps_after_agreement[] = {
    {step_create, "this end's control thread"},
    {step_wait_tasks, "this end's devices to create queue pairs"},
    {step_send_paths, NULL},
    {step_exchange_paths, "the peer's list of paths"},
    {step_link, "this end's control thread"},
    {step_wait_links, "this end's devices to connect queue pairs"},
    {step_send_linked, NULL},
    {dt_step_flush, "room to send this end's paths in"},
    {step_send_ready, NULL},
    {dt_step_flush, "room to send READY"},
    {step_receive_ready, "the peer's devices to connect queue pairs"},
    {step_probe, NULL},
    {step_wait_answers, "an answer over each path"},
    {step_send_ready, NULL},
    {dt_step_flush, "room to send the paths that reach the peer"},
    {step_receive_ready, "the peer's list of paths that it reaches"},
    {NULL, NULL},
};

/* ------------------------------------------------------------------------------------------------------------
 * The listener
 */
static bool serve_listener(void *arg, uint64_t now_ns)
{
    struct dt_net *net = arg;
    bool has_more;

    pthread_mutex_lock(&net->mutex);
    has_more = dt_listener_progress(net->session_host.listener, now_ns);
    pthread_mutex_unlock(&net->mutex);
    return has_more;
}

/* Without the thread of the control channels their work is done by the calls that need it. */
enum dt_status dt_net_open_listener(struct dt_net *net)
{
    struct dt_session_host *host = &net->session_host;
    struct dt_pairs_listener listener = {.serve = serve_listener, .arg = net};
    enum dt_status status;

    if (host->listener)
        return DT_OK;
    status = dt_listener_create(net->environment.network, &net->address, &host->listener);
    if (status != DT_OK || !net->environment.has_threads)
        return status;
    listener.fd = dt_listener_fd(host->listener);
    dt_pairs_start(net->pairs, &listener);
    return DT_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * Running
 */
static struct dt_connection *create_connection(struct dt_nic *nic, bool is_sender)
{
    struct dt_connection *c = dt_connection_create(nic, is_sender);

    if (!c)
        return NULL;
    c->service = calloc(1, sizeof *c->service);
    if (c->service && dt_switchover_create(c) == DT_OK)
        return c;
    dt_path_group_release(&c->group);
    return NULL;
}

struct dt_setup *dt_setup_create(struct dt_nic *nic, bool is_sender, const struct dt_step *steps,
                                 uint64_t now_ns, uint64_t deadline_ns)
{
    struct dt_setup *setup = calloc(1, sizeof *setup);

    if (!setup)
        return NULL;
    setup->connection = create_connection(nic, is_sender);
    if (!setup->connection) {
        free(setup);
        return NULL;
    }
    dt_list_init(&setup->node);
    setup->step = steps;
    setup->started_ns = now_ns;
    setup->deadline_ns = deadline_ns;
    return setup;
}

enum dt_status dt_setup_run(struct dt_setup *setup, uint64_t now_ns)
{
    for (;;) {
        enum dt_status status;

        if (!setup->step->run) {
            if (setup->is_agreed)
                return DT_OK;
            setup->is_agreed = true;
            setup->step = dt_steps_after_agreement;
        }
        status = setup->step->run(setup, now_ns);
        DT_CHECK(status != DT_AGAIN || setup->step->waits_for); /* only steps that name their event wait */
        if (status == DT_AGAIN && now_ns >= setup->deadline_ns) {
            snprintf(setup->why, sizeof setup->why, "gave up after %llu ms, waiting for %s",
                     (unsigned long long)((now_ns - setup->started_ns) / DT_NS_PER_MS),
                     setup->step->waits_for);
            return DT_TIMED_OUT;
        }
        if (status != DT_OK)
            return status;
        setup->step++;
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * The end of it
 */
static void describe_paths(const struct dt_connection *c, char *text, size_t bytes)
{
    size_t used = 0;

    for (uint32_t p = 0; p < c->path_count && used < bytes; p++) {
        const struct dt_path *path = &c->path[p];
        const char *kind = dt_backup_kind_text(path->backup_kind);
        bool is_down = path->state != DT_PATH_UP;

        used += (size_t)snprintf(text + used, bytes - used, "%s%s-%s", p ? ", " : "", dt_path_name(path),
                                 *path->peer_device ? path->peer_device : "none");
        if (used < bytes && (*kind || is_down))
            used += (size_t)snprintf(text + used, bytes - used, " (%s%s%s)", kind,
                                     *kind && is_down ? ", " : "", is_down ? "down" : "");
        if (used < bytes && !is_down && path->ece.options)
            used += (size_t)snprintf(text + used, bytes - used, " (ECE 0x%x)", path->ece.options);
    }
}

/* "812 + 790 us of control verbs, 190 + 190 KiB of queues": of each path. */
static void describe_cost(const struct dt_connection *c, char *text, size_t bytes)
{
    size_t used = 0;

    for (uint32_t p = 0; p < c->path_count && used < bytes; p++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%llu", p ? " + " : "",
                                 (unsigned long long)(c->path[p].verbs_ns / DT_NS_PER_US));
    if (used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, " us of control verbs, ");
    for (uint32_t p = 0; p < c->path_count && used < bytes; p++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%llu", p ? " + " : "",
                                 (unsigned long long)(dt_path_bytes(&c->path[p]) >> 10));
    if (used < bytes)
        snprintf(text + used, bytes - used, " KiB of queues");
}

static void describe_agreement(const struct dt_setup *setup, uint64_t now_ns, char *text, size_t bytes)
{
    const struct dt_connection *c = setup->connection;
    char paths[640], cost[160];

    describe_paths(c, paths, sizeof paths);
    describe_cost(c, cost, sizeof cost);
    snprintf(text, bytes,
             "connection %016llx %s %s: paths %s; %u queue pairs each%s, %u slots, writes up to %u KiB; set "
             "up in %llu us, with %s",
             (unsigned long long)c->id, c->ops->direction, c->peer, paths, c->qps,
             c->shares < c->qps ? " in turn" : "", c->slots, c->chunk_bytes >> 10,
             (unsigned long long)((now_ns - setup->started_ns) / DT_NS_PER_US), cost);
}

struct dt_connection *dt_setup_finish(struct dt_setup *setup, bool keep, uint64_t now_ns)
{
    struct dt_connection *c = setup->connection;
    char agreement[1280];

    DT_CHECK(dt_list_is_empty(&setup->node));                   /* no call finds it any more */
    DT_CHECK(!keep || (setup->is_agreed && !setup->step->run)); /* every step is done */
    dt_connection_choose_path(c);
    /* before the device thread has the connection, since it changes the members described here */
    describe_agreement(setup, now_ns, agreement, sizeof agreement);
    keep = keep && dt_service_add(c, now_ns) == DT_OK;
    if (keep) {
        dt_info("connected", "%s", agreement);
    } else {
        if (c->session->channel.stream && *setup->why && !setup->is_rejected)
            dt_listener_reject(&c->session->channel, setup->why);
        dt_channel_close(&c->session->channel);
        dt_closing_dispose(c);
    }
    free(setup);
    return keep ? c : NULL;
}

void dt_setups_abandon(struct dt_net *net, uint64_t now_ns)
{
    if (now_ns != DT_NEVER_NS && now_ns - net->abandoned_ns < ABANDON_EVERY_NS)
        return;
    net->abandoned_ns = now_ns;
    dt_list_for_each(node, &net->setups)
    {
        struct dt_setup *setup = dt_container_of(node, struct dt_setup, node);

        if (setup->is_running || now_ns < dt_deadline_ns(setup->deadline_ns, ABANDON_WAIT_NS))
            continue;
        dt_info("connect-abandoned", "an attempt to %s %s was abandoned by NCCL",
                setup->listen ? "accept on" : "connect from", setup->connection->nic->name);
        DT_CHECK((setup->cookie != 0) == (setup->listen == NULL));
        if (setup->listen) {
            DT_CHECK(setup->listen->setup == setup);
            setup->listen->setup = NULL;
            snprintf(setup->why, sizeof setup->why, "the listening rank abandoned its accept");
        }
        dt_list_remove(&setup->node);
        dt_setup_finish(setup, false, now_ns);
    }
}
