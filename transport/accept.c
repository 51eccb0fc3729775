/* SPDX-License-Identifier: Apache-2.0 */
/* The listening end: the receiver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/net.h"
#include "transport/net_state.h"
#include "transport/session/session.h"
#include "transport/setup.h"

/* ------------------------------------------------------------------------------------------------------------
 * Steps
 */

/* The newest protocol version that both ends speak; 0: none. */
static uint16_t common_version(const struct dt_hello *hello)
{
    uint16_t version =
        hello->version_max < DT_PROTOCOL_VERSION_MAX ? hello->version_max : DT_PROTOCOL_VERSION_MAX;

    return version >= hello->version_min && version >= DT_PROTOCOL_VERSION_MIN ? version : 0;
}

static enum dt_status step_answer(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_connection *c = setup->connection;
    struct dt_terms wishes = dt_setup_wishes(c->nic);
    struct dt_answer answer = {
        .version = common_version(&setup->hello),
        .agreed = dt_terms_agree(&setup->hello.wanted, &wishes),
        .pid = c->environment->pid,
    };

    (void)now_ns;
    if (answer.version == 0) {
        snprintf(setup->why, sizeof setup->why,
                 "no common protocol version: %u to %u at the connecting end, %u to %u at the listening end",
                 setup->hello.version_min, setup->hello.version_max, DT_PROTOCOL_VERSION_MIN,
                 DT_PROTOCOL_VERSION_MAX);
        return DT_PROTOCOL;
    }
    memcpy(answer.host, c->environment->host, sizeof answer.host);
    memcpy(answer.device, c->nic->name, sizeof answer.device);
    answer.agreed.paths = dt_backup_make_pairs(&setup->hello.devices, &c->nic->service->backup_offer,
                                               answer.agreed.paths, answer.path);
    DT_CHECK(answer.agreed.paths >= 1 && answer.path[0].receiver == 0); /* path 0 is NCCL's device */
    dt_answer_encode(&answer, &c->session->channel.out);
    dt_setup_take_answer(setup, &answer, setup->hello.spread);
    return DT_OK;
}

static const struct dt_step accept_steps[] = {
    {step_answer, NULL},
    {dt_step_flush, "room to answer in"},
    {NULL, NULL},
};

/* ------------------------------------------------------------------------------------------------------------
 * listen
 */
enum dt_status dt_net_listen(struct dt_net *net, size_t device, uint8_t handle[DT_HANDLE_BYTES],
                             uint64_t now_ns, struct dt_listen **out)
{
    struct dt_listen *listen = calloc(1, sizeof *listen);
    struct dt_handle content = {.version_min = DT_PROTOCOL_VERSION_MIN,
                                .version_max = DT_PROTOCOL_VERSION_MAX};
    enum dt_status status;

    if (!listen)
        return DT_NO_MEMORY;
    DT_CHECK(device < net->nic_count);
    listen->net = net;
    listen->nic = &net->nic[device];
    listen->id = dt_environment_random(&net->environment);
    listen->nonce = dt_environment_random(&net->environment);
    pthread_mutex_lock(&net->mutex);
    dt_setups_abandon(net, now_ns);
    status = dt_net_open_listener(net);
    if (status == DT_OK)
        dt_listener_add(net->session_host.listener, listen);
    content.address = net->address;
    pthread_mutex_unlock(&net->mutex);
    if (status != DT_OK) {
        free(listen);
        return status;
    }
    content.listen_id = listen->id;
    content.nonce = listen->nonce;
    dt_handle_encode(&content, handle);
    *out = listen;
    return DT_OK;
}

void dt_net_close_listen(struct dt_listen *listen)
{
    struct dt_net *net = listen->net;

    pthread_mutex_lock(&net->mutex);
    dt_listener_remove(net->session_host.listener, listen);
    if (listen->setup)
        dt_list_remove(&listen->setup->node);
    pthread_mutex_unlock(&net->mutex);
    if (listen->incoming) {
        dt_listener_reject(listen->incoming, "the listening rank closed its listener");
        free(listen->incoming);
    }
    if (listen->setup) { /* no call of accept is under way */
        snprintf(listen->setup->why, sizeof listen->setup->why, "the listening rank closed its listener");
        dt_setup_finish(listen->setup, false, 0);
    }
    free(listen);
}

/* ------------------------------------------------------------------------------------------------------------
 * accept
 */

/* A peer has sent HELLO: the set-up begins. */
static enum dt_status begin(struct dt_listen *listen, uint64_t now_ns)
{
    struct dt_setup *setup = dt_setup_create(listen->nic, false, accept_steps, now_ns, listen->deadline_ns);
    struct dt_address incoming;
    struct dt_connection *c;

    DT_CHECK(!listen->setup && listen->incoming); /* one set-up, of one peer */
    if (!setup)
        return DT_NO_MEMORY;
    c = setup->connection;
    setup->hello = listen->hello;
    c->id = listen->hello.connection_id;
    snprintf(c->peer, sizeof c->peer, "%s:%u", listen->hello.host, listen->hello.pid);
    c->session->endpoint.nonce = listen->nonce;
    c->session->peer_address = dt_address_on_link_of(&listen->net->address, &listen->hello.listener);
    listen->incoming->stream->ops->peer(listen->incoming->stream, &incoming);
    c->session->peer_address.process = incoming.process;
    dt_channel_move(&c->session->channel, listen->incoming);
    free(listen->incoming);
    listen->incoming = NULL;
    listen->setup = setup;
    setup->listen = listen;
    dt_list_push_back(&listen->net->setups, &setup->node);
    return DT_OK;
}

/* Progresses the listener until the set-up exists, which is this thread's then. DT_AGAIN: no peer has come
 * for this listen yet. */
static enum dt_status await_peer(struct dt_listen *listen, uint64_t now_ns)
{
    struct dt_net *net = listen->net;
    enum dt_status status = DT_AGAIN;

    pthread_mutex_lock(&net->mutex);
    if (listen->deadline_ns == 0)
        listen->deadline_ns =
            dt_deadline_ns(now_ns, net->environment.params.connect_timeout_ms * DT_NS_PER_MS);
    /* The thread of the carriers serves the listener; only the time of silent peers is left to be enforced.
     */
    if (!listen->setup && (!dt_pairs_has_thread(net->pairs) || now_ns - net->tidied_ns >= DT_NS_PER_S)) {
        net->tidied_ns = now_ns;
        dt_listener_progress(net->session_host.listener, now_ns);
        dt_setups_abandon(net, now_ns);
    }
    if (listen->setup)
        status = DT_OK;
    else if (listen->incoming)
        status = begin(listen, now_ns);
    if (status == DT_OK)
        listen->setup->is_running = true;
    pthread_mutex_unlock(&net->mutex);
    if (status == DT_NO_MEMORY)
        dt_warn("accept-memory", "accept on %s: out of memory", listen->nic->name);
    if (status == DT_AGAIN && now_ns >= listen->deadline_ns) {
        dt_warn("accept-timeout",
                "accept on %s: gave up after %llu ms, waiting for the other rank to call connect",
                listen->nic->name, (unsigned long long)net->environment.params.connect_timeout_ms);
        return DT_TIMED_OUT;
    }
    return status;
}

enum dt_status dt_net_accept(struct dt_listen *listen, uint64_t now_ns, struct dt_connection **receiver)
{
    struct dt_net *net = listen->net;
    enum dt_status status = await_peer(listen, now_ns);
    struct dt_setup *setup;

    *receiver = NULL;
    if (status != DT_OK)
        return status == DT_AGAIN ? DT_OK : status;
    setup = listen->setup;
    DT_CHECK(!listen->incoming); /* the set-up has the peer's channel, and a second peer is rejected */
    status = dt_setup_run(setup, now_ns);
    pthread_mutex_lock(&net->mutex);
    setup->is_running = false;
    if (status != DT_AGAIN) {
        dt_list_remove(&setup->node);
        listen->setup = NULL;
    }
    pthread_mutex_unlock(&net->mutex);
    if (status == DT_AGAIN)
        return DT_OK;
    if (status != DT_OK)
        dt_warn("accept-failed", "accept on %s from %s: %s", listen->nic->name, setup->connection->peer,
                setup->why);
    *receiver = dt_setup_finish(setup, status == DT_OK, now_ns);
    return status == DT_OK && !*receiver ? DT_SYSTEM : status;
}
