/* SPDX-License-Identifier: Apache-2.0 */
/* The connecting end: the sender. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/net.h"
#include "transport/session/session.h"
#include "transport/setup.h"

#define REDIAL_NS_FIRST (5 * DT_NS_PER_MS)
#define REDIAL_NS_MAX   (500 * DT_NS_PER_MS)

/* ------------------------------------------------------------------------------------------------------------
 * Steps
 */
static const struct dt_step connect_steps[];

static enum dt_status step_dial(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_net *net = setup->connection->net;
    struct dt_stream *stream;
    enum dt_status status;

    if (now_ns < setup->redial_ns)
        return DT_AGAIN;
    status = net->environment.network->ops->dial(net->environment.network, &setup->handle.address, &stream);
    if (status != DT_OK) {
        snprintf(setup->why, sizeof setup->why, "cannot open a socket");
        return status;
    }
    DT_CHECK(!setup->connection->session->channel.stream); /* one attempt at a time */
    dt_channel_open(&setup->connection->session->channel, stream);
    return DT_OK;
}

/* Dials again, with exponential back-off. */
static enum dt_status redial(struct dt_setup *setup, uint64_t now_ns)
{
    dt_channel_close(&setup->connection->session->channel);
    setup->why[0] = '\0';
    setup->redial_delay_ns = setup->redial_delay_ns == 0
                                 ? REDIAL_NS_FIRST
                                 : dt_earlier_ns(2 * setup->redial_delay_ns, REDIAL_NS_MAX);
    DT_CHECK(setup->redial_delay_ns >= REDIAL_NS_FIRST && setup->redial_delay_ns <= REDIAL_NS_MAX);
    setup->redial_ns = now_ns + setup->redial_delay_ns;
    setup->step = connect_steps;
    return DT_AGAIN;
}

/* Refused: the process that made the handle has ended. Unreachable: the network may recover. */
static enum dt_status step_connected(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_stream *stream = setup->connection->session->channel.stream;
    enum dt_status status = stream->ops->state(stream);

    if (status == DT_OK || status == DT_AGAIN)
        return status;
    if (status == DT_TIMED_OUT)
        return redial(setup, now_ns);
    snprintf(setup->why, sizeof setup->why,
             status == DT_PEER_ERROR ? "connection refused: the process that listened there has ended"
                                     : "the connection failed");
    return status;
}

/* The sender's setting decides, for both ends. */
static enum dt_spread spread_of(const struct dt_setup *setup)
{
    return setup->connection->environment->params.split_data ? DT_SPREAD_SPLIT : DT_SPREAD_TURNS;
}

/* A listener of an earlier version refuses a HELLO that wants more queue pairs than such a version allows. */
static struct dt_terms wishes_of(const struct dt_setup *setup)
{
    struct dt_terms wishes = dt_setup_wishes(setup->connection->nic);

    if (setup->handle.version_max < DT_PROTOCOL_VERSION_QPS)
        wishes.qps = (uint32_t)dt_min_u64(wishes.qps, DT_QPS_IN_BAND_MAX);
    return wishes;
}

static enum dt_status step_hello(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_connection *c = setup->connection;
    struct dt_hello hello = {
        .version_min = DT_PROTOCOL_VERSION_MIN,
        .version_max = DT_PROTOCOL_VERSION_MAX,
        .listen_id = setup->handle.listen_id,
        .nonce = setup->handle.nonce,
        .connection_id = c->id,
        .wanted = wishes_of(setup),
        .pid = c->environment->pid,
        .devices = c->nic->service->backup_offer,
        .spread = spread_of(setup),
    };

    (void)now_ns;
    memcpy(hello.host, c->environment->host, sizeof hello.host);
    memcpy(hello.device, c->nic->name, sizeof hello.device);
    hello.listener = setup->listener;
    dt_hello_encode(&hello, &c->session->channel.out);
    return DT_OK;
}

/* The listener chooses among the versions and devices that it was offered, and path 0 is NCCL's. */
static bool are_ours(const struct dt_nic *nic, const struct dt_answer *answer)
{
    bool is_valid = answer->path[0].sender == 0 && answer->version >= DT_PROTOCOL_VERSION_MIN &&
                    answer->version <= DT_PROTOCOL_VERSION_MAX;

    for (uint32_t p = 0; p < answer->agreed.paths; p++)
        is_valid &= answer->path[p].sender < nic->service->backups.count;
    return is_valid;
}

/*
 * A crowded listener may have dropped this pending peer for a newer one before it read HELLO. A refusal comes
 * as REJECT, so an end without a frame means: dial again.
 */
static enum dt_status step_answer(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_connection *c = setup->connection;
    struct dt_frame frame;
    struct dt_answer answer;
    enum dt_status status = dt_channel_flush(&c->session->channel);

    if (status == DT_OK)
        status = dt_setup_expect(setup, DT_FRAME_ANSWER, &frame);
    if (status == DT_CLOSED || status == DT_TIMED_OUT || (status == DT_PEER_ERROR && !setup->is_rejected))
        return redial(setup, now_ns);
    if (status != DT_OK)
        return status;
    if (dt_answer_decode(frame.body, frame.bytes, &answer) != DT_OK || !are_ours(c->nic, &answer)) {
        snprintf(setup->why, sizeof setup->why, "the listener's answer is invalid");
        return DT_PROTOCOL;
    }
    snprintf(c->peer, sizeof c->peer, "%s:%u", answer.host, answer.pid);
    dt_setup_take_answer(setup, &answer, spread_of(setup));
    return DT_OK;
}

static const struct dt_step connect_steps[] = {
    {step_dial, "the pause before the next attempt"},
    {step_connected, "the listener's host to accept a TCP connection"},
    {step_hello, NULL},
    {step_answer, "the listener's answer: has the other rank called accept?"},
    {NULL, NULL},
};

/* ------------------------------------------------------------------------------------------------------------
 * connect
 */
static struct dt_setup *begin(struct dt_net *net, struct dt_nic *nic, const struct dt_handle *handle,
                              uint64_t now_ns)
{
    uint64_t deadline_ns = dt_deadline_ns(now_ns, net->environment.params.connect_timeout_ms * DT_NS_PER_MS);
    struct dt_setup *setup = dt_setup_create(nic, true, connect_steps, now_ns, deadline_ns);

    if (!setup)
        return NULL;
    setup->handle = *handle;
    setup->handle.address = dt_address_on_link_of(&net->address, &handle->address);
    setup->cookie = dt_environment_random(&net->environment);
    setup->connection->id = dt_environment_random(&net->environment);
    setup->connection->session->endpoint.nonce = handle->nonce;
    setup->connection->session->peer_address = setup->handle.address;
    if (dt_net_open_listener(net) == DT_OK) /* for the peer, should it lose the channel */
        setup->listener = net->address;
    dt_list_push_back(&net->setups, &setup->node);
    return setup;
}

/*
 * The list begins behind the attempt from then on. A caller polls its attempts in turn, so the next one is at
 * the front, and with thousands of attempts no call goes through all of them.
 */
static struct dt_setup *find(struct dt_net *net, uint64_t cookie)
{
    dt_list_for_each(node, &net->setups)
    {
        struct dt_setup *setup = dt_container_of(node, struct dt_setup, node);

        if (setup->cookie == cookie) {
            if (node->next != &net->setups) {
                struct dt_list *first = node->next;

                dt_list_remove(&net->setups);
                dt_list_push_back(first, &net->setups);
            }
            return setup;
        }
    }
    return NULL;
}

/* The attempt that the handle belongs to, or a new one. NULL: *status is the reason. Takes net->mutex. */
static struct dt_setup *attempt_of(struct dt_net *net, struct dt_nic *nic, uint8_t *bytes, uint64_t now_ns,
                                   enum dt_status *status)
{
    uint64_t cookie = dt_handle_cookie(bytes);
    struct dt_setup *setup = NULL;
    struct dt_handle handle;

    *status = dt_handle_decode(bytes, &handle);
    if (*status != DT_OK) {
        dt_warn("handle-foreign",
                "connect from %s: the handle is not one of Detour's: do both ends use the same plugin?",
                nic->name);
        return NULL;
    }
    pthread_mutex_lock(&net->mutex);
    setup = cookie ? find(net, cookie) : begin(net, nic, &handle, now_ns);
    if (setup && setup->is_running) {
        setup = NULL; /* another thread runs it */
        *status = DT_AGAIN;
    } else if (setup) {
        setup->is_running = true;
        dt_handle_set_cookie(bytes, setup->cookie);
    } else {
        *status = cookie ? DT_INVALID : DT_NO_MEMORY;
        dt_warn("connect-attempt", "connect from %s: %s", nic->name,
                cookie ? "the handle belongs to an attempt that has ended" : "out of memory");
    }
    dt_setups_abandon(net, now_ns);
    pthread_mutex_unlock(&net->mutex);
    return setup;
}

enum dt_status dt_net_connect(struct dt_net *net, size_t device, uint8_t handle[DT_HANDLE_BYTES],
                              uint64_t now_ns, struct dt_connection **sender)
{
    struct dt_nic *nic = &net->nic[device];
    char text[DT_ADDRESS_TEXT_BYTES];
    enum dt_status status;
    struct dt_setup *setup;

    DT_CHECK(device < net->nic_count);
    setup = attempt_of(net, nic, handle, now_ns, &status);
    *sender = NULL;
    if (!setup)
        return status == DT_AGAIN ? DT_OK : status;
    status = dt_setup_run(setup, now_ns);
    pthread_mutex_lock(&net->mutex);
    DT_CHECK(setup->is_running && !dt_list_is_empty(&setup->node)); /* this thread's until here */
    setup->is_running = false;
    if (status != DT_AGAIN)
        dt_list_remove(&setup->node);
    pthread_mutex_unlock(&net->mutex);
    if (status == DT_AGAIN)
        return DT_OK;
    if (status != DT_OK)
        dt_warn("connect-failed", "connect from %s to %s: %s", nic->name,
                dt_address_text(&setup->handle.address, text), setup->why);
    *sender = dt_setup_finish(setup, status == DT_OK, now_ns);
    return status == DT_OK && !*sender ? DT_SYSTEM : status;
}
